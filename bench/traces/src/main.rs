//! `pantala-traces play|limits`: see the library's documentation; the flags are in `args`. Prints
//! JSON.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use pantala_load::{Fault, told};
use pantala_traces::args::{Job, help, parse};
use pantala_traces::limits::{Rules, lru, optimum};
use pantala_traces::play::{Manner, play};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    told("pantala-traces", answer(&arguments))
}

fn answer(arguments: &[String]) -> Result<String, Fault> {
    match parse(arguments)? {
        Job::Help => Ok(help()),
        Job::Play(source, manner) => {
            let trace = source.trace()?;
            let warm_up = source.warm_up(manner.warm_up, trace.len());
            let played = play(&trace, &Manner { warm_up, ..manner })?;
            Ok(format!(
                "{{\"requests\":{},\"hit_percent\":{:.4},\"refused\":{},\"seconds\":{:.3}}}",
                played.score.requests,
                played.score.percent(),
                played.refused,
                played.seconds
            ))
        }
        Job::Limits(source, rules) => {
            let trace = source.trace()?;
            let told = rules.into_iter().map(|rules| {
                let warm_up = source.warm_up(rules.warm_up, trace.len());
                let rules = Rules { warm_up, ..rules };
                let (lru, best) = (lru(&trace, rules), optimum(&trace, rules));
                format!(
                    "{{\"items\":{},\"lru_percent\":{:.4},\"optimum_percent\":{:.4}}}",
                    rules.items,
                    lru.percent(),
                    best.percent()
                )
            });
            Ok(format!("[{}]", told.collect::<Vec<_>>().join(",")))
        }
    }
}
