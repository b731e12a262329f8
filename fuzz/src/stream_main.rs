//! `fuzz_stream --seconds N --seed S`: a case is a run of random steps on a stream, its groups, and
//! the maps they are compared with.

#[path = "../../crates/values/tests/common/stream.rs"]
mod machine;

fn main() -> std::process::ExitCode {
    pantala_fuzz::run("fuzz_stream", machine::run)
}
