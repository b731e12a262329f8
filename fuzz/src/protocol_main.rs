//! `fuzz_protocol --seconds N --seed S`: see the library's module of that name.

fn main() -> std::process::ExitCode {
    pantala_fuzz::run("fuzz_protocol", pantala_fuzz::protocol::case)
}
