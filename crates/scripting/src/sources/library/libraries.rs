//! All libraries at one moment, immutable: a change makes the next version, which shares unchanged
//! libraries with this one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Library, LibraryFunction, text};
use crate::ErrorText;

/// The loaded libraries and their functions; `T` is what the caller keeps for each function.
#[derive(Clone, Debug)]
pub struct Libraries<T> {
    by_name: BTreeMap<Vec<u8>, Arc<Library>>,
    /// By name in lower case.
    functions: HashMap<Box<[u8]>, T>,
}

impl<T> Default for Libraries<T> {
    fn default() -> Self {
        Libraries { by_name: BTreeMap::new(), functions: HashMap::new() }
    }
}

/// Names up to this length are looked up without an allocation.
const SHORT_NAME_BYTES: usize = 64;

impl<T> Libraries<T> {
    /// A library by its name.
    pub fn library(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    /// The value kept for a function, by its name in any case.
    pub fn function(&self, name: &[u8]) -> Option<&T> {
        let mut short = [0; SHORT_NAME_BYTES];
        match short.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name);
                lower.make_ascii_lowercase();
                self.functions.get(&*lower)
            }
            None => self.functions.get(name.to_ascii_lowercase().as_slice()),
        }
    }

    /// Whether a library with this name could be loaded without REPLACE.
    ///
    /// # Errors
    /// The text of an error reply.
    pub fn check_absent(&self, name: &[u8]) -> Result<(), ErrorText> {
        match self.by_name.contains_key(name) {
            true => Err(text(&[b"Library '", name, b"' already exists"])),
            false => Ok(()),
        }
    }

    /// All libraries, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// How many libraries there are.
    pub fn library_count(&self) -> usize {
        self.by_name.len()
    }

    /// How many functions there are.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }
}

impl<T: Clone> Libraries<T> {
    /// A copy with one more library, in place of one with its name if it may `replace` it. `keep`
    /// makes the value kept for a function.
    ///
    /// # Errors
    /// The text of an error reply: the library exists, or a function of another library has the
    /// name of one of its functions.
    pub fn with(
        &self,
        library: &Arc<Library>,
        replace: bool,
        keep: impl Fn(&Arc<Library>, &LibraryFunction) -> T,
    ) -> Result<Self, ErrorText> {
        let mut next = self.clone();
        next.add(library, replace, &keep)?;
        Ok(next)
    }

    /// A copy with these libraries, all of them or an error.
    ///
    /// # Errors
    /// As [`Libraries::with`].
    pub fn merged(
        &self,
        libraries: &[Arc<Library>],
        replace: bool,
        keep: impl Fn(&Arc<Library>, &LibraryFunction) -> T,
    ) -> Result<Self, ErrorText> {
        let mut next = self.clone();
        for library in libraries {
            // Replaced libraries are removed first: a function may move from one to another.
            match next.by_name.contains_key(&library.name) {
                true if !replace => {
                    return Err(text(&[b"Library ", &library.name, b" already exists"]));
                }
                true => next.remove(&library.name),
                false => {}
            }
        }
        for library in libraries {
            next.add(library, false, &keep)?;
        }
        Ok(next)
    }

    /// A copy without a library; `None` if it does not exist.
    pub fn without(&self, name: &[u8]) -> Option<Self> {
        self.by_name.get(name)?;
        let mut next = self.clone();
        next.remove(name);
        Some(next)
    }

    fn add(
        &mut self,
        library: &Arc<Library>,
        replace: bool,
        keep: &impl Fn(&Arc<Library>, &LibraryFunction) -> T,
    ) -> Result<(), ErrorText> {
        if replace {
            self.remove(&library.name);
        } else {
            self.check_absent(&library.name)?;
        }
        for function in &library.functions {
            let name = function.name.to_ascii_lowercase().into_boxed_slice();
            if self.functions.insert(name, keep(library, function)).is_some() {
                return Err(text(&[b"Function ", &function.name, b" already exists"]));
            }
        }
        self.by_name.insert(library.name.clone(), Arc::clone(library));
        Ok(())
    }

    fn remove(&mut self, name: &[u8]) {
        let Some(library) = self.by_name.remove(name) else { return };
        for function in &library.functions {
            self.functions.remove(function.name.to_ascii_lowercase().as_slice());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, Header};

    fn library(name: &str, functions: &[&str]) -> Arc<Library> {
        let header = Header { name: name.into() };
        let functions = functions.iter().map(|name| LibraryFunction {
            name: name.as_bytes().to_vec(),
            description: None,
            flags: Flags::empty(),
        });
        Arc::new(Library::new(header, name.as_bytes(), functions.collect()).expect("good names"))
    }

    fn keep(library: &Arc<Library>, function: &LibraryFunction) -> String {
        let part = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        format!("{}.{}", part(&library.name), part(&function.name))
    }

    fn loaded(libraries: &[(&str, &[&str])]) -> Libraries<String> {
        libraries.iter().fold(Libraries::default(), |state, (name, functions)| {
            state.with(&library(name, functions), false, keep).expect("no clash")
        })
    }

    fn error(result: Result<Libraries<String>, ErrorText>) -> String {
        String::from_utf8_lossy(&result.expect_err("a clash")).into_owned()
    }

    #[test]
    fn functions_are_found_in_any_case() {
        let long = "f".repeat(100);
        let state = loaded(&[("a", &["one", "Two", &long]), ("A", &["three"])]);
        assert_eq!(state.function(b"ONE").map(String::as_str), Some("a.one"));
        assert_eq!(state.function(b"two").map(String::as_str), Some("a.Two"));
        assert!(state.function(long.to_uppercase().as_bytes()).is_some());
        assert!(state.function(b"four").is_none() && state.function(b"").is_none());
        assert_eq!((state.library_count(), state.function_count()), (2, 4));
        assert_eq!(state.library(b"A").map(|one| one.functions.len()), Some(1));
    }

    #[test]
    fn a_change_leaves_the_state_before_as_it_was() {
        let before = loaded(&[("a", &["one", "two"]), ("b", &["three"])]);
        let after = before.with(&library("a", &["TWO", "four"]), true, keep).expect("no clash");
        assert!(after.function(b"one").is_none() && before.function(b"one").is_some());
        assert_eq!(after.function(b"two").map(String::as_str), Some("a.TWO"));
        let gone = after.without(b"a").expect("it is there");
        assert_eq!((gone.library_count(), gone.function_count()), (1, 1));
        assert!(gone.without(b"a").is_none());
        assert_eq!((before.library_count(), before.function_count()), (2, 3));
    }

    #[test]
    fn names_clash_across_libraries() {
        let state = loaded(&[("a", &["one"]), ("b", &["two"])]);
        let with = |name: &str, functions: &[&str], replace| {
            error(state.with(&library(name, functions), replace, keep))
        };
        assert_eq!(with("a", &["x"], false), "ERR Library 'a' already exists");
        assert_eq!(with("c", &["x", "TWO"], false), "ERR Function TWO already exists");
        assert_eq!(with("a", &["two"], true), "ERR Function two already exists");
        assert_eq!(with("c", &["x", "X"], false), "ERR Function X already exists");
    }

    #[test]
    fn all_of_a_payload_is_there_or_nothing() {
        let state = loaded(&[("a", &["one"]), ("b", &["two"])]);
        let merged = |libraries: &[Arc<Library>], replace| state.merged(libraries, replace, keep);
        let more = [library("c", &["three"]), library("a", &["four"])];
        assert_eq!(error(merged(&more, false)), "ERR Library a already exists");
        let both = merged(&more, true).expect("no clash");
        assert!(both.function(b"one").is_none() && both.function(b"four").is_some());
        let moved = [library("a", &["two"]), library("b", &["one"])];
        assert_eq!(merged(&moved, true).map(|state| state.function_count()), Ok(2));
        let clash = [library("c", &["two"])];
        assert_eq!(error(merged(&clash, true)), "ERR Function two already exists");
    }

    #[test]
    fn a_library_has_functions_with_good_names() {
        let of = |names: &[&str]| {
            let registered = names.iter().map(|name| LibraryFunction {
                name: name.as_bytes().to_vec(),
                description: None,
                flags: Flags::empty(),
            });
            let header = Header { name: b"a".to_vec() };
            Library::new(header, b"", registered.collect()).map(|library| library.functions.len())
        };
        assert_eq!(of(&["f", "F", "_1"]), Ok(3));
        assert_eq!(of(&[]), Err(b"ERR No functions registered".to_vec()));
        assert_eq!(of(&["f", "f"]), Err(b"ERR Function already exists in the library".to_vec()));
        for bad in ["", "a-b", "a\0", "é"] {
            let error = of(&[bad]).expect_err("a bad name");
            assert!(error.starts_with(b"ERR Function names can only contain"), "{bad}");
        }
    }
}
