//! Meta commands: they become commands with the same words, and keys in base64 are decoded.

use pantala_commands::families::memcached::Verb;
use pantala_memcached::arithmetic::Direction;
use pantala_memcached::meta::{Action, Count, Key, KeyRoom, Request};
use pantala_protocol::Arena;

/// Appends the arguments of a command for this request; returns its verb.
#[inline]
pub fn push_words<'t>(request: Request<'t>, arena: &'t Arena, args: &mut Vec<&'t [u8]>) -> Verb {
    let verb = match request.action {
        Action::Get(get) if get.exptime_s.is_none() && get.vivify_exptime_s.is_none() => {
            Verb::MetaGet
        }
        Action::Get(get) if get.vivify_exptime_s.is_none() => Verb::MetaGetAndTouch,
        Action::Get(_) => Verb::MetaGetOrMake,
        Action::Store(store) if store.storing.is_beside() => Verb::MetaAppend,
        Action::Store(_) => Verb::MetaSet,
        Action::Delete(_) => Verb::MetaDelete,
        Action::Count(Count { direction: Direction::Down, .. }) => Verb::MetaCountDown,
        Action::Count(_) => Verb::MetaCount,
        Action::Describe => Verb::MetaDescribe,
    };
    args.extend_from_slice(&[verb.name().as_bytes(), key(request.key, arena)]);
    if let Action::Store(store) = request.action {
        args.push(store.data);
    }
    args.push(request.flags.bytes());
    verb
}

/// The bytes of a key, decoded if it came in base64.
pub fn key<'t>(key: Key<'t>, arena: &'t Arena) -> &'t [u8] {
    match key {
        Key::Plain(bytes) | Key::Decoded(bytes) => bytes,
        Key::Base64(_) => {
            let mut room: KeyRoom = [0; size_of::<KeyRoom>()];
            arena.keep(key.bytes(&mut room).to_vec())
        }
    }
}
