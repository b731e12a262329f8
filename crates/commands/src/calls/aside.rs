//! Records of commands that not all readers know, in a form that the others ignore.
//!
//! ```text
//! only Pantala   ZPEXPIREAT z ...   REPLCONF ACK PANTALA [""] ZPEXPIREAT z ...
//! some           HPEXPIREAT h ...   EVAL "redis.pcall(unpack(ARGV))" 1 h HPEXPIREAT h ...
//! ```
//!
//! A command that a server does not know would cost it the whole transaction (EXECABORT), and an
//! append-only file with it would not load. REPLCONF ACK is for primaries: replicas of Redis and
//! Valkey accept it, also in their files, and do nothing. The script runs the command where it is
//! known, as in Valkey 9 and Redis 7.4, and does nothing in Redis 7.0.
//!
//! So everything recorded is known to Redis 7.0, whichever server reads it, and only what that
//! cannot have (deadlines of elements, Memcached's flags, the mark of STICK) is in such a form.
//!
//! Invariants
//! 1. The command is the end of the arguments, so [`meant`] takes nothing apart.
//! 2. Only a trusted stream, or a file, is read so: a client's REPLCONF and EVAL mean what they
//!    say.
//!
//! Tests: at the foot; the server's `tests/recorded_forms.rs`; `compat/replication`
//! (`commands_of_our_own`).

use crate::options::is_word;

/// Precedes a command that only Pantala knows.
const OURS: [&[u8]; 3] = [b"REPLCONF", b"ACK", b"PANTALA"];
/// Makes the number of REPLCONF's arguments odd, as required.
const FILLER: &[u8] = b"";
/// Runs its arguments as a command, and ignores an error.
const ATTEMPT: &[u8] = b"redis.pcall(unpack(ARGV))";
/// The number of words before the command in such a script's call.
const BEFORE_ATTEMPT: usize = 4;

/// Passes `record` the words for a command that only Pantala knows.
pub fn for_ours(args: &[&[u8]], record: impl FnOnce(&[&[u8]])) {
    let filler: &[&[u8]] = if args.len().is_multiple_of(2) { &[] } else { &[FILLER] };
    record(&[&OURS, filler, args].concat());
}

/// Passes `record` the words for a command about this key that Redis 7.0 does not know.
pub fn for_some(key: &[u8], args: &[&[u8]], record: impl FnOnce(&[&[u8]])) {
    record(&[&[b"EVAL", ATTEMPT, b"1", key], args].concat());
}

/// The command that recorded words mean.
#[inline]
pub fn meant<'a, 'b>(args: &'a [&'b [u8]]) -> &'a [&'b [u8]] {
    match args.first() {
        Some(name) if matches!(name.len(), 4 | 8) => told_aside(args).unwrap_or(args),
        _ => args,
    }
}

fn told_aside<'a, 'b>(args: &'a [&'b [u8]]) -> Option<&'a [&'b [u8]]> {
    match args {
        [name, ack, whose, command @ ..] if is_word(name, "REPLCONF") => {
            let is_ours = is_word(ack, "ACK") && *whose == OURS[2];
            let command = match command {
                [b"", command @ ..] => command,
                command => command,
            };
            (is_ours && !command.is_empty()).then_some(command)
        }
        [name, script, ..] if is_word(name, "EVAL") && *script == ATTEMPT => {
            args.get(BEFORE_ATTEMPT..).filter(|command| !command.is_empty())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Words = Vec<Vec<u8>>;

    fn words(text: &str) -> Words {
        text.split(' ').map(|word| word.trim_matches('"').as_bytes().to_vec()).collect()
    }

    fn borrowed(words: &Words) -> Vec<&[u8]> {
        words.iter().map(Vec::as_slice).collect()
    }

    #[test]
    fn what_is_told_aside_is_meant() {
        for command in ["STICK a", "STICK a b", "HPEXPIREAT h 5 FIELDS 1 f", "ZCOLLECT"] {
            let command = words(command);
            let command = borrowed(&command);
            for_ours(&command, |told| {
                assert!(!told.len().is_multiple_of(2), "else it is a syntax error: {told:?}");
                assert_eq!(meant(told), command);
            });
            for_some(b"k", &command, |told| assert_eq!(meant(told), command));
        }
    }

    #[test]
    fn what_is_not_told_aside_is_what_it_is() {
        for text in [
            "GET k",
            "REPLCONF GETACK *",
            "REPLCONF ACK 5",
            "REPLCONF ACK PANTALA",
            "REPLCONF ACK OTHERS STICK a",
            "EVAL return 1 k",
            "EVAL",
            "ECHO",
            "REPLCONF",
        ] {
            let words = words(text);
            let args = borrowed(&words);
            assert_eq!(meant(&args), args, "{text}");
        }
    }
}
