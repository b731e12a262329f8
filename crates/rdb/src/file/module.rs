//! Module types in files: a number that names the module of a value.

use std::fmt;

/// The name of a module's type, and the version of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleType(pub u64);

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NAME_LETTERS: u32 = 9;
const LETTER_BITS: u32 = 6;
const VERSION_BITS: u32 = 10;

impl ModuleType {
    /// The version of the encoding.
    pub fn version(self) -> u64 {
        self.0 & ((1 << VERSION_BITS) - 1)
    }
}

impl fmt::Display for ModuleType {
    /// The name, nine letters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for nth in (0..NAME_LETTERS).rev() {
            let letter = self.0 >> (VERSION_BITS + nth * LETTER_BITS) & 0x3f;
            write!(f, "{}", char::from(LETTERS[letter as usize]))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name() {
        let number = b"ReJSON-RL".iter().fold(0, |number, letter| {
            let index = LETTERS.iter().position(|known| known == letter).expect("a letter");
            number << LETTER_BITS | index as u64
        });
        let found = ModuleType(number << VERSION_BITS | 3);
        assert_eq!((found.to_string().as_str(), found.version()), ("ReJSON-RL", 3));
    }
}
