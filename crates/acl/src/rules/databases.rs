//! Rules about databases.

use super::request::Database;
use crate::error::RuleError;

/// The highest number in a rule, whatever databases exist.
const MOST: u32 = i32::MAX.unsigned_abs();

/// Parses a number as `strtol` does: leading spaces and a sign are allowed, nothing after it.
fn parse(text: &[u8]) -> Result<u32, RuleError> {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(RuleError::Syntax);
    }
    let add = |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    match digits.iter().fold(0, add) {
        0 => Ok(0),
        number if is_negative || number > MOST => Err(RuleError::DatabaseRange),
        number => Ok(number),
    }
}

/// A selector's rules for databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseRules {
    all: bool,
    /// Ascending, without duplicates.
    some: Vec<u32>,
}

impl Default for DatabaseRules {
    fn default() -> Self {
        DatabaseRules { all: true, some: Vec::new() }
    }
}

impl DatabaseRules {
    /// `alldbs`
    pub fn allow_all(&mut self) {
        *self = DatabaseRules::default();
    }

    /// `resetdbs`
    pub fn reset(&mut self) {
        *self = DatabaseRules { all: false, some: Vec::new() };
    }

    /// Whether every database is allowed.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Applies the list after `db=`: only these databases are allowed.
    pub fn set(&mut self, list: &[u8]) -> Result<(), RuleError> {
        let mut some = Vec::new();
        for number in list.split(|byte| *byte == b',') {
            some.push(parse(number)?);
        }
        some.sort_unstable();
        some.dedup();
        *self = DatabaseRules { all: false, some };
        Ok(())
    }

    /// Whether a database is allowed.
    #[inline]
    pub fn allow(&self, database: Database) -> bool {
        match database {
            _ if self.all => true,
            Database::One(number) => self.some.contains(&number),
            Database::All => false,
        }
    }

    /// The rule as text: `alldbs`, `db=0,1`, or empty for none.
    pub fn word(&self) -> Vec<u8> {
        if self.all {
            return b"alldbs".to_vec();
        }
        let numbers: Vec<String> = self.some.iter().map(u32::to_string).collect();
        if numbers.is_empty() { Vec::new() } else { format!("db={}", numbers.join(",")).into() }
    }
}
