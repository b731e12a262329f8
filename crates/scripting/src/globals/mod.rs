//! The environment of a script: the globals, and `redis.*`.
//!
//! | file | what |
//! |---|---|
//! | `sandbox` | the globals, and their protection |
//! | `api` | `redis.*`, also `server.*` |
//! | `loading` | `register_function`, for a library being loaded |
//!
//! Not here: the effect of `redis.call` (`ScriptHost`); libraries (`libs`).

pub(crate) mod api;
pub(crate) mod loading;
pub(crate) mod sandbox;
