//! What is given to be run, without Lua: texts, what they say about themselves, what is kept.
//!
//! | file | what |
//! |---|---|
//! | `script` | a script: its text, its name, its shebang line |
//! | `library` | libraries of functions, and all there are |
//! | `flags` | the flags that both may have |
//! | `compiled` | the scripts that one interpreter has compiled |
//!
//! Not here: running them (`vm`); what they see (`globals`).

pub(crate) mod compiled;
pub(crate) mod flags;
pub(crate) mod library;
pub(crate) mod script;
