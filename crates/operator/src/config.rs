//! CONFIG: reading, changing and saving the settings.
//!
//! The values and error texts of a setting are the settings' own business; here are the reactions
//! to a change.

use std::fs::read_to_string;
use std::io;
use std::path::Path;
use std::sync::Arc;

use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, Lane, Stop, error, help,
};
use pantala_settings::{Caller, OnChange, Row, SavedUser, Settings, find};

use super::{acl, is_local};
use crate::Operator;
use crate::parts::process::ProcessControl;
use pantala_durability::journaling;
use pantala_durability::place;
use pantala_durability::whole_file;
use pantala_engine::Engine;
use pantala_engine::Message;
use pantala_engine::condition::states::States;
use pantala_replication::{primary, replica};

const ADMIN: Flags = Flags::ADMIN.union(Flags::LOADING).union(Flags::NOSCRIPT).union(Flags::STALE);
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::container("CONFIG", Group::Server, SUBCOMMANDS)
    .since("2.0.0")
    .complexity("Depends on the subcommand.")
    .summary("Settings of the running server.")];

const SUBCOMMANDS: &[Command] = &[
    Command::new("GET", get, Group::Server)
        .of("CONFIG")
        .arity(-3)
        .flags(ADMIN)
        .since("2.0.0")
        .complexity("O(N) for N patterns")
        .syntax("parameter [parameter ...]")
        .summary("Tells the settings whose names match any of the patterns."),
    Command::new("SET", set, Group::Server)
        .of("CONFIG")
        .arity(-4)
        .flags(ADMIN)
        .tips(ALL_NODES)
        .secrets(is_secret)
        .since("2.0.0")
        .complexity("O(N) for N settings")
        .syntax("parameter value [parameter value ...]")
        .summary("Changes settings: all of those named, or none."),
    Command::new("RESETSTAT", reset_statistics, Group::Server)
        .of("CONFIG")
        .arity(2)
        .flags(ADMIN)
        .tips(ALL_NODES)
        .since("2.0.0")
        .summary("Lets the counts that INFO shows begin again at zero."),
    Command::new("REWRITE", rewrite, Group::Server)
        .of("CONFIG")
        .arity(2)
        .flags(ADMIN.union(Flags::LANE).union(Flags::OPERATOR))
        .tips(ALL_NODES)
        .since("2.8.0")
        .summary("Writes the settings in force to the configuration file."),
    Command::new("HELP", help, Group::Server)
        .of("CONFIG")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .since("5.0.0")
        .summary("Tells what the subcommands do."),
];

/// The row of the setting with this name.
fn named(name: &[u8]) -> Option<&'static Row> {
    std::str::from_utf8(name).ok().and_then(find)
}

fn is_secret(args: &[&[u8]], at: usize) -> bool {
    let is_value = at >= 3 && at % 2 == 1;
    is_value && named(args[at - 1]).is_some_and(|row| row.secret)
}

fn get(call: &mut Call<'_, '_>) -> CommandResult {
    let patterns: Vec<_> = call.args[2..].iter().map(|arg| String::from_utf8_lossy(arg)).collect();
    let patterns: Vec<&str> = patterns.iter().map(|pattern| &**pattern).collect();
    let found = Engine::of(call).settings.current().get(&patterns);
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn set(call: &mut Call<'_, '_>) -> CommandResult {
    let words = &call.args[2..];
    if !words.len().is_multiple_of(2) {
        return Err(error::SYNTAX.into());
    }
    let pairs: Vec<(&[u8], &[u8])> = words.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    if call.lane == Lane::Worker && pairs.iter().any(|(name, _)| takes_long(name)) {
        // Starting threads and their event loops takes a while.
        return Err(Stop::Lane);
    }
    let caller = if is_local(call.session) { Caller::Local } else { Caller::Remote };
    apply(Operator::of(call), &pairs, caller)?;
    call.reply.ok();
    Ok(())
}

fn takes_long(name: &[u8]) -> bool {
    named(name).is_some_and(|row| row.on_change >= OnChange::AppendOnly)
}

/// Changes the settings and reacts to the change. If that fails they are put back.
pub(super) fn apply(
    operator: &Operator,
    pairs: &[(&[u8], &[u8])],
    caller: Caller,
) -> Result<(), ClientError> {
    refuse_while_loading(operator, pairs)?;
    let (mut reactions, mut old) = (Vec::new(), Vec::new());
    let now = operator.engine.settings.change(|before| {
        let next = before
            .set(pairs, caller)
            .map_err(|refused| ClientError::new(format!("ERR {refused}")))?;
        make_room_for_clients(operator, before, &next)?;
        check_directory(before, &next)?;
        let rows = pairs.iter().filter_map(|(name, _)| named(name));
        // A TLS file may have changed under the same name.
        let changes =
            |row: &&Row| before.value(row) != next.value(row) || row.on_change == OnChange::Tls;
        let changed = rows.filter(changes);
        for row in changed {
            reactions.push(row.on_change);
            old.push((row.name, before.value(row)));
        }
        Ok::<Settings, ClientError>(next)
    })?;
    reactions.sort_unstable();
    reactions.dedup();
    let done = reactions.iter().try_for_each(|reaction| {
        react(operator, &now, *reaction).map_err(|why| {
            let is_to_blame = |name: &str| find(name).is_some_and(|row| row.on_change == *reaction);
            let blamed = old.iter().map(|(name, _)| *name).find(|name| is_to_blame(name));
            match blamed {
                Some("bind") => failed("bind", FAILED_TO_BIND),
                _ => failed(blamed.unwrap_or_default(), &why),
            }
        })
    });
    if done.is_err() {
        put_back(operator, &old, &reactions);
    }
    // Sleeping workers have to see new timeouts.
    operator.engine.workers.post_all(&|| Message::LookUp);
    done
}

/// While data is loaded no append-only file may begin: it would lack what is still to be loaded.
/// Nor may the directory change from which it is loaded.
fn refuse_while_loading(operator: &Operator, pairs: &[(&[u8], &[u8])]) -> Result<(), ClientError> {
    let now = operator.engine.condition.lasting.now();
    let is_loading = now.intersects(States::LOADING) || now.intersects(States::LOADING_BESIDE);
    let is_about_files = |(name, _): &(&[u8], &[u8])| {
        named(name).is_some_and(|row| ["appendonly", "dir"].contains(&row.name))
    };
    match is_loading && pairs.iter().any(is_about_files) {
        true => Err(error::LOADING),
        false => Ok(()),
    }
}

/// Puts the settings of a failed change back.
fn put_back(operator: &Operator, old: &[(&str, String)], reactions: &[OnChange]) {
    let old = old.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let pairs: Vec<(&[u8], &[u8])> = old.collect();
    match operator.engine.settings.change(|now| now.set(&pairs, Caller::Local)) {
        Ok(before) => {
            // Reactions that succeeded with the old settings succeed again.
            let again =
                reactions.iter().try_for_each(|reaction| react(operator, &before, *reaction));
            drop(again);
        }
        Err(refused) => tracing::warn!("CONFIG SET: not put back: {refused}"),
    }
}

/// Reacts to a change.
///
/// # Errors
/// Why that failed.
fn react(operator: &Operator, now: &Settings, reaction: OnChange) -> Result<(), String> {
    match reaction {
        OnChange::Nothing => {}
        OnChange::LogLevel => process(operator)?.apply_log_settings(now),
        OnChange::Logs => operator.engine.apply_log_settings(),
        OnChange::Password => operator.engine.apply_password(now),
        OnChange::Scripts => operator.engine.apply_script_settings(),
        OnChange::Events => operator.engine.apply_event_settings(),
        OnChange::Expiry => operator.engine.apply_expiry_settings(),
        // Room is made without waiting for a command.
        OnChange::Memory => operator.engine.space.wake_sweeper(),
        OnChange::Policy => {
            operator.engine.space.policy_has_changed();
            operator.engine.space.wake_sweeper();
        }
        OnChange::Saving => {
            operator.durability.saves.apply(&operator.engine);
            operator.engine.condition.shutdown.wake();
        }
        OnChange::Replication => {
            primary::settings_changed(&operator.replication);
            replica::settings_changed(&operator.replication, now);
        }
        OnChange::Title => process(operator)?.show_title(),
        OnChange::OomScore => process(operator)?.apply_oom_score(now)?,
        OnChange::AppendOnly => journaling::settings_changed(&operator.durability, now)?,
        OnChange::Tls => {
            apply_tls(operator)?;
            // Files may have to be checked more often.
            operator.engine.condition.shutdown.wake();
        }
        OnChange::Listeners => listen_anew(operator, now)?,
        OnChange::Clients => process(operator)?.keep_descriptors(now),
        OnChange::Workers => {
            let process = process(operator)?;
            process.keep_descriptors(now);
            process.set_workers(now.worker_count())?;
        }
    }
    Ok(())
}

fn process(operator: &Operator) -> Result<Arc<dyn ProcessControl>, String> {
    operator.process().ok_or_else(|| "the server stops".to_owned())
}

fn apply_tls(operator: &Operator) -> Result<(), String> {
    let applied = operator.context.read_certificates();
    applied.map_err(|trouble| format!("Unable to update TLS configuration: {trouble}"))
}

const FAILED_TO_BIND: &str = "Failed to bind to specified addresses.";

/// Listens as these settings say. The first port with TLS needs certificates.
fn listen_anew(operator: &Operator, now: &Settings) -> Result<(), String> {
    if now.tls_port != 0 && operator.context.tls.acceptor().is_none() {
        apply_tls(operator)?;
    }
    let mut listening = operator.context.listening.lock();
    let followed = listening.follow(now, &operator.workers);
    followed.map_err(|trouble| {
        tracing::warn!("CONFIG SET: cannot listen anew: {trouble}");
        "Unable to listen on this port. Check server logs.".to_owned()
    })?;
    process(operator)?.show_title();
    Ok(())
}

/// Checks that files can be written in their new place.
fn check_directory(before: &Settings, next: &Settings) -> Result<(), ClientError> {
    let changes_kind = next.dir != before.dir || next.appendonly != before.appendonly;
    if changes_kind && let Err(why) = place::check_append_only(next) {
        let name = if next.appendonly == before.appendonly { "dir" } else { "appendonly" };
        return Err(failed(name, &why));
    }
    if next.dir == before.dir {
        return Ok(());
    }
    place::check(&next.dir).map_err(|why| failed("dir", place::os_words(&why)))
}

/// Raises the limit of open files when more clients are admitted.
fn make_room_for_clients(
    operator: &Operator,
    before: &Settings,
    next: &Settings,
) -> Result<(), ClientError> {
    if next.maxclients <= before.maxclients {
        return Ok(());
    }
    let own =
        process(operator).map_err(|why: String| failed("maxclients", &why))?.own_descriptors(next);
    let wanted = u64::from(next.maxclients) + own;
    let got = pantala_base::os::raise_fd_limit(wanted);
    if got >= wanted {
        return Ok(());
    }
    let possible = got.saturating_sub(own);
    Err(failed("maxclients", &format!("the system allows no more than {possible} clients")))
}

fn failed(name: &str, why: &str) -> ClientError {
    let text = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
    ClientError::new(text)
}

fn reset_statistics(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    operator.engine.stats.tallies.reset();
    operator.engine.stats.errors.reset();
    operator.engine.scripts.reset_evicted();
    operator.engine.condition.exceeded.reset();
    operator.replication.primary.counts.reset();
    call.reply.ok();
    Ok(())
}

fn rewrite(call: &mut Call<'_, '_>) -> CommandResult {
    rewrite_in(call, false)
}

/// Writes the file anew; with a line of every setting, if it is to say all.
pub(super) fn rewrite_in(call: &mut Call<'_, '_>, says_all: bool) -> CommandResult {
    let operator = Operator::of(call);
    let Some(file) = &operator.engine.settings.file else {
        let none = "ERR The server is running without a config file";
        return Err(ClientError::text(none).into());
    };
    let settings = operator.engine.settings.current();
    let users = acl::lines_to_keep(&operator.engine.acl.users(), &settings);
    rewrite_file(file, &settings, (&users, says_all)).map_err(|trouble| {
        tracing::warn!(%trouble, "CONFIG REWRITE failed");
        ClientError::new(format!("ERR Rewriting config file: {trouble}"))
    })?;
    call.reply.ok();
    Ok(())
}

/// Replaces the configuration file by its new text.
fn rewrite_file(
    file: &Path,
    settings: &Settings,
    (users, says_all): (&[SavedUser], bool),
) -> io::Result<()> {
    let old = match read_to_string(file) {
        Ok(text) => Some(text),
        Err(trouble) if trouble.kind() == io::ErrorKind::NotFound => None,
        Err(trouble) => return Err(trouble),
    };
    let text = match says_all {
        true => settings.rewrite_all(old.as_deref(), users),
        false => settings.rewrite(old.as_deref(), users),
    };
    whole_file::replace(file, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_passwords_are_secret() {
        let args: Vec<&[u8]> =
            vec![b"CONFIG", b"SET", b"timeout", b"1", b"RequirePass", b"x", b"MASTERAUTH", b"y"];
        let secret: Vec<usize> = (0..args.len()).filter(|&at| is_secret(&args, at)).collect();
        assert_eq!(secret, [5, 7]);
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let own = format!("pantala-rewrite-{}", std::process::id());
        let directory = std::env::temp_dir().join(own);
        std::fs::create_dir_all(&directory).expect("a directory for the test");
        let file = directory.join("x.conf");
        std::fs::write(&file, "# kept\ntimeout 5\n").expect("writable");
        let settings = Settings::defaults().with("timeout", "7").expect("allowed");
        rewrite_file(&file, &settings, (&[], false)).expect("replaced");
        assert_eq!(read_to_string(&file).expect("there"), "# kept\ntimeout 7\n");
        assert_eq!(std::fs::read_dir(&directory).expect("there").count(), 1, "no leftovers");
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
