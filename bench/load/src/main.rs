//! `pantala-load fill|run`: see the library's documentation; the flags are in `args`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use pantala_load::args::{Job, help, parse};
use pantala_load::fill::{Filled, fill};
use pantala_load::run::{Outcome, run};
use pantala_load::{Fault, args::Target, told};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    told("pantala-load", answer(&arguments))
}

fn answer(arguments: &[String]) -> Result<String, Fault> {
    match parse(arguments)? {
        Job::Help => Ok(help()),
        Job::Fill(job) => Ok(told_fill(&job.target, fill(&job)?)),
        Job::Run(job) => Ok(told_run(&job.target, &run(&job)?)),
    }
}

fn told_fill(target: &Target, filled: Filled) -> String {
    let keys_per_s = filled.keys as f64 / filled.seconds.max(1e-9);
    if target.json {
        let Filled { keys, seconds } = filled;
        return format!(
            "{{\"keys\":{keys},\"seconds\":{seconds:.6},\"keys_per_s\":{keys_per_s:.1}}}"
        );
    }
    format!("{} keys in {:.2} s: {keys_per_s:.0} keys/s", filled.keys, filled.seconds)
}

fn told_run(target: &Target, outcome: &Outcome) -> String {
    let per_s = outcome.requests as f64 / outcome.seconds.max(1e-9);
    let ms = |ns: u64| ns as f64 / 1e6;
    let latency = &outcome.latency;
    let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|p| ms(latency.percentile_ns(p)));
    let (mean, max) = (ms(latency.mean_ns()), ms(latency.max_ns()));
    let Outcome { requests, misses, seconds, .. } = outcome;
    if target.json {
        return format!(
            "{{\"requests\":{requests},\"misses\":{misses},\"seconds\":{seconds:.6},\
             \"requests_per_s\":{per_s:.1},\"mean_ms\":{mean:.6},\"p50_ms\":{p50:.6},\
             \"p99_ms\":{p99:.6},\"p999_ms\":{p999:.6},\"max_ms\":{max:.6}}}"
        );
    }
    format!(
        "{requests} requests in {seconds:.2} s: {per_s:.0} requests/s, {misses} misses\n\
         latency in ms: mean {mean:.3}  p50 {p50:.3}  p99 {p99:.3}  p99.9 {p999:.3}  max {max:.3}"
    )
}
