//! Libraries of functions, without Lua: the input of FUNCTION LOAD, and the set of all libraries.
//!
//! ```text
//! code --header--> name            code --Vm::load_library--> what it registers
//!          '------------- Library::new ------------'
//!                             |
//!             Libraries (one state of all) --with, without, merged--> the next state
//! ```
//!
//! 1. A `Library` never changes; its `Arc` is its identity in the VMs' caches.
//! 2. A set of all libraries never changes, either: a running function keeps the set it started
//!    with.
//! 3. Names of libraries are case-sensitive, names of functions are not, and no two functions have
//!    the same name, even in different libraries.
//!
//! Not here: running code (`vm`), the current set (engine, `functions/store`), DUMP's format
//! (`pantala_rdb::functions`). Tests: at the foot of the files, compat/transcripts/functions.

mod header;
mod libraries;

use std::collections::HashSet;

use crate::{ErrorText, Flags};

pub use header::Header;
pub use libraries::Libraries;

/// The only engine, as FUNCTION LIST and STATS name it.
pub const ENGINE: &str = "LUA";

/// A loaded library, as FUNCTION LIST shows it.
#[derive(Debug)]
pub struct Library {
    /// Its name, from the shebang line.
    pub name: Vec<u8>,
    /// The whole text, shebang line included.
    pub code: Vec<u8>,
    /// The functions that it registered, in order.
    pub functions: Vec<LibraryFunction>,
}

/// A function that a library registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFunction {
    /// The name for FCALL.
    pub name: Vec<u8>,
    /// The description, if one was given.
    pub description: Option<Vec<u8>>,
    /// From `flags = {...}`.
    pub flags: Flags,
}

impl LibraryFunction {
    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.description.as_ref().map_or(0, Vec::len)
    }
}

impl Library {
    /// A library with this code, which registered these functions.
    ///
    /// # Errors
    /// The text of an error reply: there are no functions, or their names are invalid.
    pub fn new(
        header: Header,
        code: &[u8],
        functions: Vec<LibraryFunction>,
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
    /// Its bytes, without compiled code.
    pub fn bytes(&self) -> usize {
        let texts = |function: &LibraryFunction| {
            function.name.len() + function.description.as_ref().map_or(0, Vec::len)
        };
        let functions = self.functions.iter().map(|one| size_of::<LibraryFunction>() + texts(one));
        size_of::<Library>() + self.name.len() + self.code.len() + functions.sum::<usize>()
    }
}

/// `ERR` and these parts.
fn text(parts: &[&[u8]]) -> ErrorText {
    [b"ERR ", parts.concat().as_slice()].concat()
}
