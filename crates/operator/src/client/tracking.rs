//! CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO: client-side caching.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pantala_base::number::parse_i64;
use pantala_commands::client_line::redirect;
use pantala_commands::options::is_word;
use pantala_commands::{Call, ClientError, Command, CommandResult, Lane, Stop, Tracking, error};

use super::{OWN, sub, switch};
use crate::Operator;

/// A client with more prefixes changes them on the slow lane, as all are compared.
const WORKER_PREFIXES: usize = 1024;

const ONE_REDIRECT: ClientError =
    ClientError::text("ERR A client can only redirect to a single other client");
const NO_SUCH_CLIENT: ClientError =
    ClientError::text("ERR The client ID you want redirect to does not exist");
const PREFIX_NEEDS_BCAST: ClientError =
    ClientError::text("ERR PREFIX option requires BCAST mode to be enabled");
const BCAST_STAYS: ClientError = ClientError::text(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
     re-enabling it with a different mode.",
);
const NO_OPT_WITH_BCAST: ClientError =
    ClientError::text("ERR OPTIN and OPTOUT are not compatible with BCAST");
const IN_OR_OUT: ClientError =
    ClientError::text("ERR You can't specify both OPTIN mode and OPTOUT mode");
const OPT_STAYS: ClientError = ClientError::text(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
     re-enabling it with a different mode.",
);
const CACHING_NEEDS_TRACKING: ClientError = ClientError::text(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
     OPTOUT mode enabled",
);
const YES_NEEDS_OPTIN: ClientError = ClientError::text(
    "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
);
const NO_NEEDS_OPTOUT: ClientError = ClientError::text(
    "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
);

pub(super) const CLIENT_TRACKING: Command = sub("TRACKING", tracking)
    .arity(-3)
    .since("6.0.0")
    .syntax(
        "(status: ON | OFF) [REDIRECT client-id:int] [PREFIX prefix [PREFIX prefix ...]] \
         [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
    )
    .summary("Whether the client is told when keys it has read change.");

fn tracking(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    let old = call.session.tracking.as_deref();
    let before = old.map_or(&[][..], |old| old.prefixes.as_slice());
    if call.lane == Lane::Worker && before.len() > WORKER_PREFIXES {
        return Err(Stop::Lane);
    }
    let mut options = parse(operator, &call.args[3..])?;
    let client = call.session.id;
    if switch(call.args[2])? {
        check_modes(&options, old)?;
        if options.is_broadcast {
            options.prefixes = Arc::new(with_prefixes(before, &options.prefixes)?);
            options.prefix_bytes = prefix_bytes(&options.prefixes);
        }
        operator.engine.track(client, &options);
        call.session.tracking = Some(Box::new(options));
    } else {
        operator.engine.end_tracking(client);
        call.session.tracking = None;
    }
    call.reply.ok();
    Ok(())
}

fn parse(operator: &Operator, args: &[&[u8]]) -> Result<Tracking, ClientError> {
    let mut options = Tracking::default();
    let mut rest = args;
    loop {
        rest = match *rest {
            [] => return Ok(options),
            [word, id, ref rest @ ..] if is_word(word, "REDIRECT") => {
                if options.redirect != 0 {
                    return Err(ONE_REDIRECT);
                }
                options.redirect = parse_i64(id).ok_or(error::NOT_INTEGER)?.cast_unsigned();
                if !operator.engine.notices.directory.has(options.redirect) {
                    return Err(NO_SUCH_CLIENT);
                }
                rest
            }
            [word, prefix, ref rest @ ..] if is_word(word, "PREFIX") => {
                Arc::make_mut(&mut options.prefixes).push(prefix.to_vec());
                rest
            }
            [word, ref rest @ ..] => {
                match word {
                    _ if is_word(word, "BCAST") => options.is_broadcast = true,
                    _ if is_word(word, "OPTIN") => options.opt_in = true,
                    _ if is_word(word, "OPTOUT") => options.opt_out = true,
                    _ if is_word(word, "NOLOOP") => options.no_loop = true,
                    _ => return Err(error::SYNTAX),
                }
                rest
            }
        };
    }
}

fn check_modes(options: &Tracking, before: Option<&Tracking>) -> Result<(), ClientError> {
    let is_other = |of: fn(&Tracking) -> bool, than: fn(&Tracking) -> bool| {
        of(options) && before.is_some_and(than)
    };
    if !options.is_broadcast && !options.prefixes.is_empty() {
        return Err(PREFIX_NEEDS_BCAST);
    }
    if before.is_some_and(|before| before.is_broadcast != options.is_broadcast) {
        return Err(BCAST_STAYS);
    }
    if options.is_broadcast && (options.opt_in || options.opt_out) {
        return Err(NO_OPT_WITH_BCAST);
    }
    if options.opt_in && options.opt_out {
        return Err(IN_OR_OUT);
    }
    if is_other(|one| one.opt_in, |one| one.opt_out)
        || is_other(|one| one.opt_out, |one| one.opt_in)
    {
        return Err(OPT_STAYS);
    }
    Ok(())
}

/// About the bytes that prefixes take: in the client's own list, and in the server's.
fn prefix_bytes(prefixes: &[Vec<u8>]) -> usize {
    const BESIDE_THE_TEXT: usize = 64;
    prefixes.iter().map(|prefix| 2 * prefix.len() + BESIDE_THE_TEXT).sum()
}

/// The previous prefixes and these, none of which may be a prefix of another. If there is none: all
/// keys.
fn with_prefixes(before: &[Vec<u8>], new: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, ClientError> {
    if new.is_empty() {
        let mut all = before.to_vec();
        if !all.iter().any(Vec::is_empty) {
            all.push(Vec::new());
        }
        return Ok(all);
    }
    let count_before = before.len();
    let all = [before, new].concat();
    // In sorted order the extensions of a prefix directly follow it.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|left, right| all[*left].cmp(&all[*right]));
    let old = |number: &usize| *number < count_before;
    let collides = |pair: &&[usize]| {
        all[pair[1]].starts_with(&all[pair[0]]) && !(old(&pair[0]) && old(&pair[1]))
    };
    let Some(pair) = order.windows(2).find(collides) else { return Ok(all) };
    let (first, second) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
    let (mine, other, what) = match old(&first) {
        true => (second, first, "an existing prefix"),
        false => (first, second, "another provided prefix"),
    };
    let text = |number: usize| String::from_utf8_lossy(&all[number]).into_owned();
    Err(ClientError::new(format!(
        "ERR Prefix '{}' overlaps with {what} '{}'. Prefixes for a single client must not overlap.",
        text(mine),
        text(other)
    )))
}

pub(super) const CLIENT_CACHING: Command = sub("CACHING", caching)
    .arity(3)
    .flags(OWN)
    .since("6.0.0")
    .syntax("(mode: YES | NO)")
    .summary("Whether the keys of the next command are tracked.");

fn caching(call: &mut Call<'_, '_>) -> CommandResult {
    let Some(tracking) = &mut call.session.tracking else {
        return Err(CACHING_NEEDS_TRACKING.into());
    };
    match call.args[2] {
        word if is_word(word, "YES") && !tracking.opt_in => return Err(YES_NEEDS_OPTIN.into()),
        word if is_word(word, "NO") && !tracking.opt_out => return Err(NO_NEEDS_OPTOUT.into()),
        word if is_word(word, "YES") || is_word(word, "NO") => tracking.caching = true,
        _ => return Err(error::SYNTAX.into()),
    }
    call.reply.ok();
    Ok(())
}

pub(super) const CLIENT_GETREDIR: Command = sub("GETREDIR", getredir)
    .arity(2)
    .flags(OWN)
    .since("6.0.0")
    .summary("The connection that gets the messages of key tracking.");

fn getredir(call: &mut Call<'_, '_>) -> CommandResult {
    let redirect = redirect(call.session.tracking.as_deref());
    call.reply.int(redirect);
    Ok(())
}

pub(super) const CLIENT_TRACKINGINFO: Command = sub("TRACKINGINFO", trackinginfo)
    .arity(2)
    .since("6.2.0")
    .summary("How this connection tracks keys.");

fn trackinginfo(call: &mut Call<'_, '_>) -> CommandResult {
    let tracking = call.session.tracking.as_deref();
    let mut flags = Vec::new();
    match tracking {
        None => flags.push("off"),
        Some(tracking) => {
            let is_broken = tracking.is_broken.load(Ordering::Relaxed);
            let shown = [
                (true, "on"),
                (tracking.is_broadcast, "bcast"),
                (tracking.opt_in, "optin"),
                (tracking.opt_in && tracking.caching, "caching-yes"),
                (tracking.opt_out, "optout"),
                (tracking.opt_out && tracking.caching, "caching-no"),
                (tracking.no_loop, "noloop"),
                (is_broken, "broken_redirect"),
            ];
            flags.extend(shown.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word));
        }
    }
    let reply = &mut call.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(redirect(tracking));
    reply.bulk(b"prefixes");
    let prefixes = tracking.map_or(&[][..], |tracking| tracking.prefixes.as_slice());
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &[&str], new: &[&str], expected: Result<&[&str], &str>) {
        let bytes = |texts: &[&str]| -> Vec<Vec<u8>> {
            texts.iter().map(|text| text.as_bytes().to_vec()).collect()
        };
        let found = with_prefixes(&bytes(before), &bytes(new));
        let found = found.map_err(|error| String::from_utf8_lossy(&error.0).into_owned());
        assert_eq!(found, expected.map(bytes).map_err(|text| format!("ERR {text}")));
    }

    #[test]
    fn no_prefix_begins_another() {
        check(&[], &["b", "a"], Ok(&["b", "a"]));
        check(&["c"], &["b"], Ok(&["c", "b"]));
        check(&["c"], &[], Ok(&["c", ""]));
        check(
            &[],
            &["x", "foobar", "foo"],
            Err("Prefix 'foobar' overlaps with another provided prefix 'foo'. Prefixes for a \
                 single client must not overlap."),
        );
        check(
            &["foo"],
            &["f"],
            Err("Prefix 'f' overlaps with an existing prefix 'foo'. Prefixes for a single client \
                 must not overlap."),
        );
    }
}
