//! The command line of the transcripts' runners; `compat help` shows it.
#![forbid(unsafe_code)]

use pantala_compat::inside::Inside;
use pantala_compat::lockstep::Pair;
use pantala_compat::parse::{self, TargetServer, Transcript};
use pantala_compat::pattern::Resp;
use pantala_compat::run::{self, Options, Summary};
use pantala_compat::target::Tcp;
use pantala_compat::{differ, events, oracle, record, records};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
compat run [PATH] [--resp 2|3|both] [--filter TEXT] [--lacks NAME,..] [--as pantala|reference]
           [--inside multi|lua|lua-keys|reload]
           (--address HOST:PORT | --spawn 'COMMAND with {port} and {dir}')
    plays transcripts and shows the first mismatch of each case; with --inside multi, lua or
    lua-keys each command in a transaction or a script, with reload each after DEBUG RELOAD, and
    valkey-server beside it
compat record FILE.. [--spawn COMMAND]
    fills in the replies; without --spawn from valkey-server
compat oracle [PATH] [--resp ..] [--filter TEXT] [--inside ..]
    plays transcripts against the installed valkey-server
compat events [PATH..] --spawn COMMAND [--filter TEXT] [--lacks NAME,..]
    plays transcripts on valkey-server and another and compares their keyspace events
compat records [PATH..] [--spawn COMMAND] [--filter TEXT] [--lacks NAME,..]
    plays transcripts on valkey-server and another (without --spawn: it, too), both with
    append-only files, compares what they record, and plays it again
compat differ [--a COMMAND] [--b COMMAND] [--seconds N] [--seed N] [--skip NAME,..] [--only NAME,..]
    sends random commands to two servers (valkey-server when not told) until they differ";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((verb, rest)) = args.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = Arguments::parse(rest).and_then(|arguments| match verb.as_str() {
        "run" => run(&arguments),
        "record" => record(&arguments),
        "differ" => differ(&arguments),
        "events" => events(&arguments),
        "records" => records(&arguments),
        "oracle" => run(&Arguments {
            whose: TargetServer::Reference,
            spawn: Some(oracle::valkey_command()?),
            ..arguments
        }),
        _ => Err(USAGE.to_string()),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

struct Arguments {
    paths: Vec<PathBuf>,
    versions: Vec<Resp>,
    filter: String,
    lacks: Vec<String>,
    whose: TargetServer,
    address: Option<String>,
    spawn: Option<String>,
    sides: [Option<String>; 2],
    seconds: u64,
    seed: u64,
    skip: Vec<String>,
    only: Vec<String>,
    inside: Option<Inside>,
}

impl Arguments {
    fn parse(args: &[String]) -> Result<Arguments, String> {
        let mut parsed = Arguments {
            paths: Vec::new(),
            versions: vec![Resp::Two, Resp::Three],
            filter: String::new(),
            lacks: Vec::new(),
            whose: TargetServer::Pantala,
            address: None,
            spawn: None,
            sides: [None, None],
            seconds: 10,
            seed: 1,
            skip: Vec::new(),
            only: Vec::new(),
            inside: None,
        };
        let mut args = args.iter();
        while let Some(name) = args.next() {
            if !name.starts_with("--") {
                parsed.paths.push(PathBuf::from(name));
                continue;
            }
            let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
            parsed.option(name, value)?;
        }
        Ok(parsed)
    }

    fn option(&mut self, name: &str, value: &str) -> Result<(), String> {
        let list = |names: &str| names.split(',').map(str::to_string).collect();
        match (name, value) {
            ("--resp", "2") => self.versions = vec![Resp::Two],
            ("--resp", "3") => self.versions = vec![Resp::Three],
            ("--resp", "both") => {}
            ("--filter", text) => self.filter = text.to_string(),
            ("--lacks", names) => self.lacks = list(names),
            ("--skip", names) => self.skip = list(names),
            ("--only", names) => self.only = list(names),
            ("--a", command) => self.sides[0] = Some(command.to_string()),
            ("--b", command) => self.sides[1] = Some(command.to_string()),
            ("--seconds", n) => self.seconds = n.parse().map_err(|_| "--seconds N")?,
            ("--seed", n) => self.seed = n.parse().map_err(|_| "--seed N")?,
            ("--as", "pantala") => self.whose = TargetServer::Pantala,
            ("--as", "reference") => self.whose = TargetServer::Reference,
            ("--address", address) => self.address = Some(address.to_string()),
            ("--inside", name) => {
                self.inside =
                    Some(Inside::named(name).ok_or("--inside multi|lua|lua-keys|reload")?);
            }
            ("--spawn", command) => self.spawn = Some(command.to_string()),
            _ => return Err(format!("{name} {value}: no such option\n{USAGE}")),
        }
        Ok(())
    }

    fn target(&self) -> Result<Tcp, String> {
        match (&self.address, &self.spawn) {
            (Some(address), _) => Ok(Tcp::at(address)),
            (None, Some(command)) => Tcp::spawned(command),
            (None, None) => Err("one of --address and --spawn is needed".into()),
        }
    }
}

/// The transcripts beside this program's source, unless a path is given.
fn default_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

fn transcripts(arguments: &Arguments) -> Result<Vec<Transcript>, String> {
    let mut transcripts = Vec::new();
    let default = vec![default_path()];
    let paths = if arguments.paths.is_empty() { &default } else { &arguments.paths };
    for path in paths {
        transcripts.extend(parse::tree(path)?);
    }
    Ok(transcripts)
}

fn events(arguments: &Arguments) -> Result<bool, String> {
    let transcripts = transcripts(arguments)?;
    let command = arguments.spawn.clone().ok_or("--spawn is needed")?;
    let commands = [oracle::valkey_command()?, command];
    let lacks = arguments.lacks.clone();
    let options = Options { whose: TargetServer::Pantala, lacks, starts_servers: false };
    let mut tell = |text: &str| println!("{text}");
    let filter = &arguments.filter;
    let compared = events::compare(&transcripts, filter, &commands, &options, &mut tell)?;
    let events::Compared { same, different, events } = compared;
    println!("{events} events; {same} cases tell the same, {different} do not");
    Ok(different == 0 && events > 0)
}

fn records(arguments: &Arguments) -> Result<bool, String> {
    let transcripts = transcripts(arguments)?;
    let valkey = oracle::valkey_command()?;
    let command = arguments.spawn.clone().unwrap_or_else(|| valkey.clone());
    let mut again = vec![("valkey-server", valkey.clone())];
    again.extend(oracle::redis_command().map(|command| ("redis-server", command)));
    again.extend(arguments.spawn.clone().map(|command| ("the server itself", command)));
    let plan = records::Plan {
        transcripts: &transcripts,
        filter: &arguments.filter,
        commands: [valkey, command],
        again,
        options: Options {
            whose: TargetServer::Pantala,
            lacks: arguments.lacks.clone(),
            starts_servers: false,
        },
    };
    let compared = records::compare(&plan, &mut |text| println!("{text}"))?;
    let records::Compared { same, different, records, unknown } = compared;
    for (name, cases) in unknown {
        println!("{cases} cases with records that {name} does not know");
    }
    println!("{records} records; {same} cases are as they should be, {different} are not");
    Ok(different == 0 && records > 0)
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let transcripts = transcripts(arguments)?;
    let mut target = arguments.target()?;
    let options = Options {
        whose: arguments.whose,
        lacks: arguments.lacks.clone(),
        starts_servers: target.starts_servers(),
    };
    let mut tell = |text: &str| println!("{text}\n");
    let versions = &arguments.versions;
    let filter = &arguments.filter;
    let summary = match arguments.inside {
        None => run::all(&transcripts, versions, filter, &mut target, &options, &mut tell),
        Some(inside) => {
            let mut pair = Pair::new(inside, &oracle::valkey_command()?, target)?;
            pair.all(&transcripts, versions, filter, &options, &mut tell)
        }
    };
    print_summary(&summary);
    Ok(summary.failed == 0)
}

fn print_summary(summary: &Summary) {
    for (reason, count) in &summary.skipped {
        println!("{count} skipped: {reason}");
    }
    println!("{} passed, {} failed", summary.passed, summary.failed);
}

fn differ(arguments: &Arguments) -> Result<bool, String> {
    let side = |side: &Option<String>| side.clone().map_or_else(oracle::valkey_command, Ok);
    let options = differ::Options {
        time: Duration::from_secs(arguments.seconds),
        seed: arguments.seed,
        commands: [side(&arguments.sides[0])?, side(&arguments.sides[1])?],
        skip: arguments.skip.clone(),
        only: arguments.only.clone(),
    };
    match differ::search(&options, &mut |text| println!("{text}"))? {
        Ok(sent) => println!("{sent} commands, no difference"),
        Err(report) => {
            println!("{report}");
            return Ok(false);
        }
    }
    Ok(true)
}

fn record(arguments: &Arguments) -> Result<bool, String> {
    let command = match &arguments.spawn {
        Some(command) => command.clone(),
        None => oracle::valkey_command()?,
    };
    let mut target = Tcp::spawned(&command)?;
    let mut told = 0;
    for path in &arguments.paths {
        for transcript in parse::tree(path)? {
            let path = transcript.path.clone();
            let mut tell = |text: &str| {
                told += 1;
                println!("{}: {text}\n", path.display());
            };
            let text = record::text(&transcript, &mut target, true, &mut tell);
            std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(told == 0)
}
