//! Is a server strictly serialisable? See `pantala_compat::serial`, and README.md.
#![forbid(unsafe_code)]

use pantala_compat::client::Server;
use pantala_compat::serial::play::{Counts, Players};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
serial --spawn 'COMMAND with {port}, {dir} and {threads}' [--threads 1,2,16] [--seconds N]
       [--seed S] [--clients N]
    plays rounds of random commands from several clients, N seconds for each number of threads,
    and looks for an order of each round's commands that explains all answers";

struct Arguments {
    spawn: String,
    threads: Vec<String>,
    seconds: u64,
    seed: u64,
    clients: usize,
}

fn parse(args: &[String]) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        spawn: String::new(),
        threads: ["1", "2", "16"].map(String::from).to_vec(),
        seconds: 10,
        seed: 1,
        clients: 5,
    };
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or(USAGE)?;
        let number = || value.parse::<u64>().map_err(|_| format!("{flag} {value}: not a number"));
        match flag.as_str() {
            "--spawn" => parsed.spawn = value.clone(),
            "--threads" => parsed.threads = value.split(',').map(String::from).collect(),
            "--seconds" => parsed.seconds = number()?,
            "--seed" => parsed.seed = number()?,
            "--clients" => {
                parsed.clients = usize::try_from(number()?).unwrap_or(usize::MAX).min(16)
            }
            _ => return Err(USAGE.to_string()),
        }
    }
    if parsed.spawn.is_empty() {
        return Err(USAGE.to_string());
    }
    if !parsed.spawn.contains("{threads}") {
        parsed.threads.truncate(1);
    }
    Ok(parsed)
}

/// Plays until the time is over, or something is found.
fn play(arguments: &Arguments, threads: &str) -> Result<Result<Counts, String>, String> {
    let server = Server::start(&arguments.spawn.replace("{threads}", threads), "")?;
    let fault = |fault| format!("{threads} threads: {fault:?}");
    let mut players =
        Players::new(&server.address, arguments.clients, arguments.seed).map_err(fault)?;
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    while Instant::now() < end {
        if let Some(history) = players.round().map_err(fault)? {
            return Ok(Err(format!("round {}: {history}", players.counts.rounds)));
        }
    }
    Ok(Ok(players.counts))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match parse(&args) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    for threads in &arguments.threads {
        match play(&arguments, threads) {
            Ok(Ok(counts)) => {
                let Counts { rounds, commands, overlaps, undecided } = counts;
                println!(
                    "{threads} threads: serial. {rounds} rounds, {commands} commands, \
                     {overlaps} overlapping pairs, {undecided} rounds undecided"
                );
            }
            Ok(Err(history)) => {
                println!("{threads} threads, seed {}: {history}", arguments.seed);
                return ExitCode::FAILURE;
            }
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
