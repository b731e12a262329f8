//! What a script sees: the globals, and `redis.*`.
//!
//! | file | what |
//! |---|---|
//! | `sandbox` | which globals there are, and that nobody changes them |
//! | `api` | `redis.*`, which is `server.*`, too |
//! | `loading` | `register_function`, for a library that loads |
//!
//! Not here: what `redis.call` does (`Host`); libraries that come with Lua (`libs`).

pub(crate) mod api;
pub(crate) mod loading;
pub(crate) mod sandbox;
