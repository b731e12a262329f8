//! Is a server strictly serialisable? See `pantala_compat::serial`, and README.md.
#![forbid(unsafe_code)]

use pantala_compat::client::Server;
use pantala_compat::serial::play::{Anomaly, Counts, Plan, Players};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
serial --spawn 'COMMAND with {port}, {dir} and {threads}' [--threads 1,2,16] [--seconds N]
       [--seed S] [--clients N] [--lacks lua,losses]
    plays rounds of random commands from several clients, N seconds for each number of threads,
    and looks for an order of each round's commands that explains all answers";

struct Arguments {
    spawn: String,
    threads: Vec<String>,
    seconds: u64,
    seed: u64,
    clients: usize,
    lacks: Vec<String>,
}

fn parse(args: &[String]) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        spawn: String::new(),
        threads: ["1", "2", "16"].map(String::from).to_vec(),
        seconds: 10,
        seed: 1,
        clients: 5,
        lacks: Vec::new(),
    };
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or(USAGE)?;
        let number = || value.parse::<u64>().map_err(|_| format!("{flag} {value}: not a number"));
        match flag.as_str() {
            "--spawn" => parsed.spawn = value.clone(),
            "--threads" => parsed.threads = value.split(',').map(String::from).collect(),
            "--seconds" => parsed.seconds = number()?,
            "--lacks" => parsed.lacks = value.split(',').map(String::from).collect(),
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

/// Plays until the time is over. After an anomaly it continues, to find a shorter one.
fn play(arguments: &Arguments, threads: &str) -> Result<(Counts, usize, Option<Anomaly>), String> {
    let server = Server::start(&arguments.spawn.replace("{threads}", threads), "")?;
    let fault = |fault| format!("{threads} threads, seed {}: {fault:?}", arguments.seed);
    let has = |what: &str| !arguments.lacks.iter().any(|lacking| lacking == what);
    let can_change = arguments.spawn.contains("{threads}");
    let plan = Plan {
        clients: arguments.clients,
        seed: arguments.seed,
        with_scripts: has("lua"),
        with_losses: has("losses"),
        most_workers: if can_change { threads.parse().unwrap_or(1) } else { 1 },
    };
    let mut players = Players::new(&server.address, plan).map_err(fault)?;
    let (mut found, mut shortest) = (0, None::<Anomaly>);
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    while Instant::now() < end && found < ENOUGH {
        if let Some(anomaly) = players.round().map_err(fault)? {
            found += 1;
            if shortest.as_ref().is_none_or(|shortest| anomaly.commands < shortest.commands) {
                shortest = Some(anomaly);
            }
        }
    }
    Ok((players.counts, found, shortest))
}

/// The run stops after this many anomalies.
const ENOUGH: usize = 20;

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
            Ok((counts, found, None)) => {
                assert_eq!(found, 0, "an anomaly has a text");
                let Counts { rounds, commands, overlaps, dropped, lost, undecided } = counts;
                println!(
                    "{threads} threads: serial. {rounds} rounds, {commands} commands, \
                     {overlaps} overlapping pairs, {dropped} transactions dropped, {lost} answers \
                     lost, {undecided} rounds undecided"
                );
            }
            Ok((_, found, Some(anomaly))) => {
                let (seed, round, text) = (arguments.seed, anomaly.round, anomaly.text);
                println!(
                    "{threads} threads, seed {seed}: {found} found; the shortest, in round \
                     {round}: {text}"
                );
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
