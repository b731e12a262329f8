//! Libraries of functions, without Lua: what FUNCTION LOAD is given, and all libraries there are.
//!
//! ```text
//! code --header--> name            code --Vm::load_library--> what it registers
//!          '------------- Library::new ------------'
//!                             |
//!             Libraries (one state of all) --with, without, merged--> the next state
//! ```
//!
//! 1. A `Library` never changes; its `Arc` is its identity in the VMs' caches.
//! 2. A state of all libraries never changes, either: a function that runs keeps the state it began
//!    with.
//! 3. Names of libraries tell case apart, names of functions do not, and no two functions have one
//!    name, whatever their libraries.
//!
//! Not here: running code (`vm`), which state is the current one (engine, `functions/store`),
//! DUMP's bytes (`pantala_rdb::functions`). Tests: at the foot of the files,
//! compat/transcripts/functions.

mod header;
mod libraries;

use std::collections::HashSet;

use crate::{ErrorText, Flags};

pub use header::Header;
pub use libraries::Libraries;

/// The engine, as FUNCTION LIST and STATS name it. There is no other.
pub const ENGINE: &str = "LUA";

/// A library that was loaded: what FUNCTION LIST shows.
#[derive(Debug)]
pub struct Library {
    /// Its name, from the shebang line.
    pub name: Vec<u8>,
    /// The whole text, shebang line included.
    pub code: Vec<u8>,
    /// What it registered, in order.
    pub functions: Vec<Registered>,
}

/// A function that a library registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// By which FCALL calls it.
    pub name: Vec<u8>,
    /// What it says about itself.
    pub description: Option<Vec<u8>>,
    /// From `flags = {...}`.
    pub flags: Flags,
}

impl Registered {
    /// What its texts take.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.description.as_ref().map_or(0, Vec::len)
    }
}

impl Library {
    /// A library of this code, which registered these functions.
    ///
    /// # Errors
    /// The text of an error reply: there are no functions, or their names will not do.
    pub fn new(
        header: Header,
        code: &[u8],
        functions: Vec<Registered>,
    ) -> Result<Library, ErrorText> {
        let mut names = HashSet::new();
        for function in &functions {
            if !header::is_name(&function.name) {
                return Err(text(&[b"Function", header::NAME_RULE]));
            }
            if !names.insert(function.name.as_slice()) {
                return Err(text(&[b"Function already exists in the library"]));
            }
        }
        if functions.is_empty() {
            return Err(text(&[b"No functions registered"]));
        }
        Ok(Library { name: header.name, code: code.to_vec(), functions })
    }
}

impl Library {
    /// What it takes, beside what is compiled of it.
    pub fn bytes(&self) -> usize {
        let texts = |function: &Registered| {
            function.name.len() + function.description.as_ref().map_or(0, Vec::len)
        };
        let functions = self.functions.iter().map(|one| size_of::<Registered>() + texts(one));
        size_of::<Library>() + self.name.len() + self.code.len() + functions.sum::<usize>()
    }
}

/// `ERR` and these parts.
fn text(parts: &[&[u8]]) -> ErrorText {
    [b"ERR ", parts.concat().as_slice()].concat()
}
