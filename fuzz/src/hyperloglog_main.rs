//! `fuzz_hyperloglog --seconds N --seed S`: see the library's module of that name.

fn main() -> std::process::ExitCode {
    pantala_fuzz::run("fuzz_hyperloglog", pantala_fuzz::hyperloglog::case)
}
