//! Copies the data: until the new server has it and follows the old one.

use std::time::Duration;

use crate::options::ImportOptions;
use crate::server::{CommandClient, MoveParties};

/// The interval of checks.
const LOOK: Duration = Duration::from_millis(200);
/// The interval of progress reports.
const TELL: Duration = Duration::from_secs(2);
/// How long the new server may be without a link, before the copy and after it.
const MOST_UNLINKED: Duration = Duration::from_secs(60);

/// Makes the new server follow the old one; returns when it does.
///
/// # Errors
/// A text for the operator.
pub fn follow(
    MoveParties { old, new, options, clock, say }: &mut MoveParties<'_>,
) -> Result<(), String> {
    let (host, port) = options.way_to_old()?;
    old.offset("master_repl_offset")?;
    if !follows(*new, &host, port)? {
        refuse_data(*new, options)?;
        set_login(*new, options)?;
        new.ask(&["REPLICAOF", &host, &port.to_string()])?;
        say(format!("{} copies from {host}:{port}", options.new.place()));
    }
    let (mut linked, mut told) = (clock.now(), clock.now());
    loop {
        let fields = new.info("replication")?;
        let field = |name: &str| fields.get(name).map_or("", String::as_str);
        if field("role") != "slave" {
            return Err("the new server was told to follow nobody".into());
        }
        if field("master_link_status") == "up" {
            break;
        }
        let now = clock.now();
        if field("master_sync_in_progress") == "1" {
            linked = now;
        }
        if now - linked > MOST_UNLINKED {
            return Err(format!("the new server does not reach {host}:{port}: see its log"));
        }
        if now - told >= TELL {
            told = now;
            say(match field("master_sync_in_progress") {
                "1" => format!("copying, {} read", read_so_far(&field)),
                _ => "the new server has no link yet".into(),
            });
        }
        clock.pause(LOOK);
    }
    let (end, has) = (old.offset("master_repl_offset")?, new.offset("slave_repl_offset")?);
    say(format!("the copy is whole; {} bytes behind", end.saturating_sub(has)));
    Ok(())
}

/// The progress of the copy: a fraction, if its length is known.
fn read_so_far<'f>(field: &dyn Fn(&str) -> &'f str) -> String {
    match field("master_sync_total_bytes") {
        "" | "0" => format!("{} bytes", field("master_sync_read_bytes")),
        _ => format!("{} %", field("master_sync_perc")),
    }
}

/// Whether it follows already.
fn follows(new: &mut dyn CommandClient, host: &str, port: u16) -> Result<bool, String> {
    let fields = new.info("replication")?;
    let is = |name: &str, wanted: &str| fields.get(name).is_some_and(|value| value == wanted);
    match is("role", "slave") {
        false => Ok(false),
        true if is("master_host", host) && is("master_port", &port.to_string()) => Ok(true),
        true => Err("the new server follows another one: REPLICAOF NO ONE first".into()),
    }
}

/// Refuses to replace data of the new server, unless that is permitted.
fn refuse_data(new: &mut dyn CommandClient, options: &ImportOptions) -> Result<(), String> {
    let databases = new.info("keyspace")?;
    if databases.keys().any(|name| name.starts_with("db")) && !options.replaces {
        return Err("the new server has data, which would go: --replace allows it".into());
    }
    Ok(())
}

/// Sets the credentials that the new server needs.
fn set_login(new: &mut dyn CommandClient, options: &ImportOptions) -> Result<(), String> {
    let old = &options.old;
    if let Some(password) = &old.password {
        new.ask(&["CONFIG", "SET", "primaryauth", password])?;
        new.ask(&["CONFIG", "SET", "primaryuser", old.user.as_deref().unwrap_or_default()])?;
    }
    if old.tls {
        new.ask(&["CONFIG", "SET", "tls-replication", "yes"])?;
    }
    Ok(())
}
