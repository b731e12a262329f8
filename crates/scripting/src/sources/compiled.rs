//! The scripts that one VM has compiled: a cache, accounted apart from the memory of scripts.
//!
//! 1. The cache is bounded by a count and by bytes; the oldest scripts leave. A script that left is
//!    compiled again when it is called, so clients do not notice.
//! 2. The newest stays, however large it is.
//!
//! Not here: which scripts the server remembers (engine, `scripts/store`). Tests: at the foot, and
//! tests/limits.rs.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use mlua::Function;

use crate::SHA_HEX_BYTES;

type Sha = [u8; SHA_HEX_BYTES];

/// Compiled scripts of one VM, by SHA-1, oldest first out.
pub struct Compiled {
    by_sha: HashMap<Sha, (Function, usize), BuildHasherDefault<Digest>>,
    oldest_first: VecDeque<Sha>,
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

impl Compiled {
    /// A cache of at most this many scripts and bytes.
    pub fn new(most: usize, most_bytes: usize) -> Compiled {
        let (by_sha, oldest_first) = (HashMap::default(), VecDeque::new());
        Compiled { by_sha, oldest_first, bytes: 0, most, most_bytes }
    }

    /// The function with this digest.
    #[inline]
    pub fn get(&self, sha: &Sha) -> Option<&Function> {
        self.by_sha.get(sha).map(|(function, _)| function)
    }

    /// Keeps a function that takes this many bytes, and drops the excess.
    pub fn keep(&mut self, sha: Sha, function: Function, bytes: usize) {
        self.by_sha.insert(sha, (function, bytes));
        self.oldest_first.push_back(sha);
        self.bytes += bytes;
        while self.oldest_first.len() > 1
            && (self.oldest_first.len() > self.most || self.bytes > self.most_bytes)
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.oldest_first.pop_front();
        if let Some((_, bytes)) = oldest.and_then(|oldest| self.by_sha.remove(&oldest)) {
            self.bytes -= bytes;
        }
    }

    /// Drops all functions.
    pub fn clear(&mut self) {
        *self = Compiled::new(self.most, self.most_bytes);
    }

    /// The bytes that they take in the VM.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Digests serve as their own hash. Only their authors can make scripts that collide, by brute
/// force, and there are at most `VmLimits::scripts` of them.
#[derive(Default)]
struct Digest(u64);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        // Sixteen digits, each with four bits that differ; the length comes as a write of its own.
        let (first, second) = bytes.split_at(8.min(bytes.len()));
        if let (Some(first), Some(second)) = (first.first_chunk(), second.first_chunk()) {
            let (first, second) = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
            self.0 = (first ^ second.rotate_left(4)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_by_count_and_by_bytes() {
        let lua = mlua::Lua::new();
        let function = || lua.create_function(|_, ()| Ok(())).expect("memory");
        let sha = |number: u8| [number; SHA_HEX_BYTES];
        let mut compiled = Compiled::new(3, 100);
        for number in 0..4 {
            compiled.keep(sha(number), function(), 10);
        }
        let here = |compiled: &Compiled| -> Vec<u8> {
            (0..10).filter(|number| compiled.get(&sha(*number)).is_some()).collect()
        };
        assert_eq!((here(&compiled), compiled.bytes()), (vec![1, 2, 3], 30));
        compiled.keep(sha(4), function(), 85);
        assert_eq!((here(&compiled), compiled.bytes()), (vec![3, 4], 95));
        compiled.keep(sha(5), function(), 500);
        assert_eq!((here(&compiled), compiled.bytes()), (vec![5], 500));
        compiled.clear();
        assert_eq!((here(&compiled), compiled.bytes()), (vec![], 0));
    }
}
