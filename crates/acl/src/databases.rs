//! Rules about databases.

use pantala_base::number::parse_i64;

use crate::error::RuleError;
use crate::request::Database;

/// What a selector says of databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseRules {
    all: bool,
    /// Ascending, without doubles.
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

    /// Whether every database may be used.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// What stands after `db=`: these and no others.
    pub fn set(&mut self, list: &[u8]) -> Result<(), RuleError> {
        let mut some = Vec::new();
        for number in list.split(|byte| *byte == b',') {
            let number = parse_i64(number).ok_or(RuleError::Syntax)?;
            let in_range = (0..i64::from(i32::MAX)).contains(&number);
            let number = u32::try_from(number).ok().filter(|_| in_range);
            some.push(number.ok_or(RuleError::DatabaseRange)?);
        }
        some.sort_unstable();
        some.dedup();
        *self = DatabaseRules { all: false, some };
        Ok(())
    }

    /// Whether it may be used.
    #[inline]
    pub fn allow(&self, database: Database) -> bool {
        match database {
            _ if self.all => true,
            Database::One(number) => self.some.contains(&number),
            Database::All => false,
        }
    }

    /// The rules as text: `alldbs`, `db=0,1` or `resetdbs`.
    pub fn describe(&self, to: &mut Vec<u8>) {
        if self.all {
            return to.extend(b"alldbs");
        }
        if self.some.is_empty() {
            return to.extend(b"resetdbs");
        }
        for (at, number) in self.some.iter().enumerate() {
            to.extend(if at == 0 { &b"db="[..] } else { b"," });
            to.extend(number.to_string().as_bytes());
        }
    }
}
