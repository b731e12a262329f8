//! Several keys in one command.

use pantala_keyspace::Expiry;

use super::options::{Condition, SetOptions, Words};
use super::put;
use crate::call::{Call, Done, reply_string};
use crate::error;

pub(super) fn mget(call: &mut Call<'_, '_>) -> Done {
    let count = call.args.len() - 1;
    call.reply.array(count);
    for nth in 0..count {
        let key = call.nth_key(1 + nth, nth);
        match call.keys.read(key).string() {
            Ok(Some(value)) => reply_string(&mut call.reply, value),
            // Another type counts as missing.
            Ok(None) | Err(_) => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn mset(call: &mut Call<'_, '_>) -> Done {
    let count = pair_count(call)?;
    set_pairs(call, 1, count, Expiry::Never);
    call.reply.ok();
    Ok(())
}

pub(super) fn msetnx(call: &mut Call<'_, '_>) -> Done {
    let count = pair_count(call)?;
    let is_set = holds(call, 1, count, Condition::Missing);
    if is_set {
        set_pairs(call, 1, count, Expiry::Never);
    }
    call.reply.int(i64::from(is_set));
    Ok(())
}

pub(super) fn msetex(call: &mut Call<'_, '_>) -> Done {
    let count = call.int(1).ok().filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = count.ok_or(error::KEY_COUNT)? as usize;
    let words = call.args.get(2 + 2 * count..).ok_or(error::SYNTAX)?;
    let options = SetOptions::parse(words, Words::MSETEX)?;
    let expiry = options.expiry(call)?;
    let is_set = holds(call, 2, count, options.condition);
    if is_set {
        set_pairs(call, 2, count, expiry);
    }
    call.reply.int(i64::from(is_set));
    Ok(())
}

fn pair_count(call: &Call<'_, '_>) -> Result<usize, error::ClientError> {
    let behind_name = call.args.len() - 1;
    match behind_name % 2 {
        0 => Ok(behind_name / 2),
        _ => Err(error::wrong_arity(call.command.name)),
    }
}

/// Whether the condition holds for all keys of the pairs from argument `first` on.
fn holds(call: &mut Call<'_, '_>, first: usize, count: usize, condition: Condition<'_>) -> bool {
    let wanted = match condition {
        Condition::Missing => false,
        Condition::Present => true,
        Condition::Always | Condition::Compares(_) => return true,
    };
    (0..count).all(|nth| {
        let key = call.nth_key(first + 2 * nth, nth);
        call.keys.peek(key).exists() == wanted
    })
}

/// Sets the keys of the pairs from argument `first` on.
fn set_pairs(call: &mut Call<'_, '_>, first: usize, count: usize, expiry: Expiry) {
    let now = call.now();
    for nth in 0..count {
        let position = first + 2 * nth;
        let key = call.nth_key(position, nth);
        put(&mut call.keys.open(key), call.args[position + 1], expiry, now);
    }
}
