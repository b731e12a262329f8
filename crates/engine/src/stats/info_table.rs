//! The figures of INFO as a table: sections of named values. INFO prints it, metrics and the
//! console's interface read it.
//!
//! Invariant: a value prints as INFO shows it, so that no reader has to parse a line.
//!
//! Not here: what the figures are (`pantala_operator::info`). Tests: at the foot.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

/// The name of a section, a field, or a part of a field.
pub type InfoName = Cow<'static, str>;

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum InfoValue {
    /// A word, a name, a path.
    Text(InfoName),
    /// A count or a size.
    Whole(u64),
    /// A number that may be below zero.
    Signed(i64),
    /// A number with this many decimals.
    Real(f64, usize),
    /// A share in percent, with two decimals and the sign.
    Percent(f64),
    /// Named values in one field: `keys=1,expires=0`.
    Parts(Vec<(InfoName, InfoValue)>),
}

impl InfoValue {
    /// A field of several named values.
    pub fn parts<const N: usize>(parts: [(&'static str, InfoValue); N]) -> InfoValue {
        InfoValue::Parts(parts.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// The value as a number; `ok` and `up` are 1, `err` and `down` 0, other words are none.
    pub fn number(&self) -> Option<f64> {
        match self {
            InfoValue::Whole(number) => Some(*number as f64),
            InfoValue::Signed(number) => Some(*number as f64),
            InfoValue::Real(number, _) | InfoValue::Percent(number) => Some(*number),
            InfoValue::Parts(_) => None,
            InfoValue::Text(word) => match &**word {
                "ok" | "up" => Some(1.0),
                "err" | "down" => Some(0.0),
                _ => None,
            },
        }
    }

    /// The value as a count; zero for what is none.
    pub fn count(&self) -> u64 {
        match self {
            InfoValue::Whole(number) => *number,
            InfoValue::Signed(number) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        }
    }

    /// The part with this name.
    pub fn part(&self, name: &str) -> Option<&InfoValue> {
        let InfoValue::Parts(parts) = self else { return None };
        parts.iter().find(|(part, _)| part == name).map(|(_, value)| value)
    }
}

impl Display for InfoValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            InfoValue::Text(text) => f.write_str(text),
            InfoValue::Whole(number) => number.fmt(f),
            InfoValue::Signed(number) => number.fmt(f),
            InfoValue::Real(number, decimals) => write!(f, "{number:.decimals$}"),
            InfoValue::Percent(share) => write!(f, "{share:.2}%"),
            InfoValue::Parts(parts) => {
                for (at, (name, value)) in parts.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                Ok(())
            }
        }
    }
}

impl From<&'static str> for InfoValue {
    fn from(text: &'static str) -> Self {
        InfoValue::Text(text.into())
    }
}

impl From<String> for InfoValue {
    fn from(text: String) -> Self {
        InfoValue::Text(text.into())
    }
}

impl From<bool> for InfoValue {
    fn from(is: bool) -> Self {
        InfoValue::Whole(is.into())
    }
}

macro_rules! whole {
    ($($type:ty),*) => { $(
        impl From<$type> for InfoValue {
            fn from(number: $type) -> Self {
                InfoValue::Whole(number as u64)
            }
        }
    )* };
}

whole!(u8, u16, u32, u64, usize);

impl From<i64> for InfoValue {
    fn from(number: i64) -> Self {
        InfoValue::Signed(number)
    }
}

/// Literals.
impl From<i32> for InfoValue {
    fn from(number: i32) -> Self {
        InfoValue::Signed(number.into())
    }
}

/// A section: a title, and fields.
#[derive(Clone, Debug)]
struct InfoSection {
    title: InfoName,
    fields: Vec<(InfoName, InfoValue)>,
}

/// Sections of named values, in the order of INFO.
#[derive(Clone, Debug, Default)]
pub struct InfoTable {
    sections: Vec<InfoSection>,
}

impl InfoTable {
    /// Begins a section.
    pub fn begin_section(&mut self, title: impl Into<InfoName>) {
        self.sections.push(InfoSection { title: title.into(), fields: Vec::new() });
    }

    /// Adds a field to the section that was begun last.
    pub fn add(&mut self, name: impl Into<InfoName>, value: impl Into<InfoValue>) {
        let Some(section) = self.sections.last_mut() else {
            debug_assert!(false, "a field belongs to a section");
            return;
        };
        section.fields.push((name.into(), value.into()));
    }

    /// The field with this name.
    pub fn get(&self, name: &str) -> Option<&InfoValue> {
        self.fields().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// All fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &InfoValue)> {
        let fields = self.sections.iter().flat_map(|section| &section.fields);
        fields.map(|(name, value)| (&**name, value))
    }

    /// The fields whose names begin with this prefix: the rest of their names, and their values.
    pub fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, &InfoValue)> {
        self.fields().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
    }

    /// The bytes that the fields take, roughly: texts are not counted.
    pub fn bytes(&self) -> usize {
        let fields = self.sections.iter().map(|section| section.fields.capacity());
        fields.sum::<usize>() * size_of::<(InfoName, InfoValue)>()
    }
}

/// The text of INFO.
impl Display for InfoTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, section) in self.sections.iter().enumerate() {
            let blank = if at == 0 { "" } else { "\r\n" };
            write!(f, "{blank}# {}\r\n", section.title)?;
            for (name, value) in &section.fields {
                write!(f, "{name}:{value}\r\n")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> InfoTable {
        let mut table = InfoTable::default();
        table.begin_section("Server");
        table.add("hz", 10);
        table.add("link", "up");
        table.add("share", InfoValue::Percent(12.345));
        table.begin_section("Keyspace");
        table.add(
            format!("db{}", 3),
            InfoValue::parts([("keys", 7u64.into()), ("ttl", InfoValue::Real(0.5, 3))]),
        );
        table
    }

    #[test]
    fn a_table_prints_as_info_does() {
        let text = "# Server\r\nhz:10\r\nlink:up\r\nshare:12.35%\r\n\
                    \r\n# Keyspace\r\ndb3:keys=7,ttl=0.500\r\n";
        assert_eq!(table().to_string(), text);
    }

    #[test]
    fn fields_are_found_with_their_types() {
        let table = table();
        let number = |name: &str| table.get(name).and_then(InfoValue::number);
        assert_eq!(number("hz"), Some(10.0));
        assert_eq!(number("link"), Some(1.0));
        assert_eq!(number("db3"), None);
        assert_eq!(number("none"), None);
        let (rest, value) = table.with_prefix("db").next().expect("there is one");
        assert_eq!((rest, value.part("keys").map(InfoValue::count)), ("3", Some(7)));
        assert_eq!(value.part("expires"), None);
        assert_eq!(InfoValue::from(-1).count(), 0);
    }
}
