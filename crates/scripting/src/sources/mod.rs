//! Scripts and libraries without Lua: texts, declared flags, caches.
//!
//! | file | what |
//! |---|---|
//! | `script` | a script: its text, its name, its shebang line |
//! | `library` | libraries of functions, and the set of all |
//! | `flags` | the flags that both may have |
//! | `compiled` | the compiled scripts of one interpreter |
//!
//! Not here: running them (`vm`); their environment (`globals`).

pub(crate) mod compiled;
pub(crate) mod flags;
pub(crate) mod library;
pub(crate) mod script;
