//! The kinds of settings: each converts the text of a person into the one canonical text that
//! CONFIG GET answers, or refuses it in the words that Redis clients know.
//!
//! Invariants
//! 1. `canonical(canonical(x)) == canonical(x)`: a canonical text is accepted and unchanged.
//! 2. The typed fields read canonical text only (see `field`), so no text is validated twice.
//!
//! Not here: the kind of each setting (`active`, `inert`), kinds with a grammar of their own
//! (`shapes`). Tests: at the foot.

use crate::shapes;
use pantala_base::size::parse_bytes;
use std::borrow::Cow;

/// Why a value was refused, worded as Redis clients know it, without the setting's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueRefusal(pub Cow<'static, str>);

impl ValueRefusal {
    pub(crate) const fn of(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    fn between(min: impl std::fmt::Display, max: impl std::fmt::Display) -> Self {
        Self(Cow::Owned(format!("argument must be between {min} and {max} inclusive")))
    }
}

/// How strictly words for yes and no are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoolStyle {
    /// As CONFIG SET of Redis reads: `yes` and `no` only.
    Strict,
    /// As flags and files are read: also true, false, on, off, 1, 0.
    Lenient,
}

/// A grammar of its own: its check gets the new text and the present value.
pub type Check = fn(text: &str, present: &str) -> Result<String, ValueRefusal>;

/// The values a setting accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// A whole number within bounds, both included.
    Int(i64, i64),
    /// A whole number within bounds, or a word that stands for 0.
    IntOr(i64, i64, &'static str),
    /// Bytes, with units (`1k` = 1,000, `1kb` = 1,024, also m, mb, g, gb), within bounds.
    Memory(u64, u64),
    /// Bytes as `Memory`, or -1.
    MemoryOrMinusOne,
    /// Bytes as `Memory`, or a share of maxmemory such as `10%`.
    MemoryOrPercent,
    /// Permission bits in octal.
    Octal,
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Several words or numbers with a grammar of their own; the text says what is allowed.
    Shape(Check, &'static str),
    /// One text with a grammar of its own; the text says what is allowed.
    Checked(Check, &'static str),
}

/// A TCP port; 0 means none.
pub const PORT: Kind = Kind::Int(0, 65_535);
/// A whole number from 0 to 2,147,483,647.
pub const COUNT: Kind = Kind::Int(0, i32::MAX as i64);
/// A whole number from 0 to 9,223,372,036,854,775,807.
pub const LONG: Kind = Kind::Int(0, i64::MAX);
/// Bytes as Redis keeps them in a signed number.
pub const SIZE: Kind = Kind::Memory(0, i64::MAX as u64);
/// Any number of bytes.
pub const BYTES: Kind = Kind::Memory(0, u64::MAX);

/// Words for SHUTDOWN.
pub const SHUTDOWN: Kind = Kind::Shape(
    shapes::shutdown_words,
    "default, or some of save, nosave, now, force, safe, failover",
);

impl Kind {
    /// Canonical form of `text`; `present` is the setting's value now, which some shapes amend.
    pub fn canonical(
        &self,
        text: &str,
        present: &str,
        reading: BoolStyle,
    ) -> Result<String, ValueRefusal> {
        match *self {
            Self::Bool => yes_or_no(text, reading)
                .map(|yes| String::from(if yes { "yes" } else { "no" }))
                .ok_or(ValueRefusal::of("argument must be 'yes' or 'no'")),
            Self::Int(min, max) => whole(text, min, max).map(|n| n.to_string()),
            Self::IntOr(min, max, word) => match text {
                _ if text.eq_ignore_ascii_case(word) => Ok("0".into()),
                _ => whole(text, min, max).map(|n| n.to_string()),
            },
            Self::Memory(min, max) => {
                bytes_within(text, min, max, "argument must be a memory value")
            }
            Self::MemoryOrMinusOne => match text.parse::<i64>() {
                Ok(-1) => Ok("-1".into()),
                Ok(n) if n < 0 => Err(ValueRefusal::between(-1, i64::MAX)),
                _ => match parse_bytes(text.as_bytes()) {
                    Some(n) if n <= i64::MAX as u64 => Ok(n.to_string()),
                    Some(_) => Err(ValueRefusal::between(-1, i64::MAX)),
                    None => Err(ValueRefusal::of("argument must be a memory value")),
                },
            },
            Self::MemoryOrPercent => memory_or_percent(text),
            Self::Octal => octal(text),
            Self::Text => Ok(text.into()),
            Self::Word(words) => words
                .iter()
                .find(|word| word.eq_ignore_ascii_case(text))
                .map(|word| String::from(*word))
                .ok_or_else(|| one_of(words)),
            Self::Shape(check, _) | Self::Checked(check, _) => check(text, present),
        }
    }

    /// Whether a flag or a line of redis.conf may give this setting several arguments.
    pub fn takes_many(&self) -> bool {
        matches!(self, Self::Shape(..))
    }

    /// What is allowed, for people: `0 to 65535`, `yes or no`.
    pub fn allowed(&self) -> String {
        match *self {
            Self::Bool => "yes or no".into(),
            Self::Int(i64::MIN, i64::MAX) => "a whole number".into(),
            Self::Int(min, i64::MAX) => format!("{min} or more"),
            Self::Int(min, max) => format!("{min} to {max}"),
            Self::IntOr(min, max, word) => format!("{word}, or {min} to {max}"),
            Self::Memory(0, _) => "bytes, such as 100mb or 2gb".into(),
            Self::Memory(min, _) => format!("bytes, such as 100mb or 2gb, at least {min}"),
            Self::MemoryOrMinusOne => "bytes, such as 100mb or 2gb, or -1".into(),
            Self::MemoryOrPercent => "bytes, such as 100mb, or a percentage, such as 5%".into(),
            Self::Octal => "permission bits in octal, such as 700".into(),
            Self::Text => "text".into(),
            Self::Word(words) => words.join(", "),
            Self::Shape(_, allowed) | Self::Checked(_, allowed) => allowed.into(),
        }
    }
}

/// The refusal that lists the words there are.
pub(crate) fn one_of(words: &[&str]) -> ValueRefusal {
    let words = words.join(", ");
    ValueRefusal(Cow::Owned(format!("argument(s) must be one of the following: {words}")))
}

/// `yes` and `no` in any case; when lenient also the other usual words.
pub(crate) fn yes_or_no(text: &str, reading: BoolStyle) -> Option<bool> {
    match (text.to_ascii_lowercase().as_str(), reading) {
        ("yes", _) => Some(true),
        ("no", _) => Some(false),
        ("true" | "on" | "1", BoolStyle::Lenient) => Some(true),
        ("false" | "off" | "0", BoolStyle::Lenient) => Some(false),
        _ => None,
    }
}

/// A whole number as Redis writes one: no plus sign, no leading zeros, no spaces.
fn whole(text: &str, min: i64, max: i64) -> Result<i64, ValueRefusal> {
    let n: i64 = text
        .parse()
        .ok()
        .filter(|n: &i64| n.to_string() == text)
        .ok_or(ValueRefusal::of("argument couldn't be parsed into an integer"))?;
    if n < min || n > max { Err(ValueRefusal::between(min, max)) } else { Ok(n) }
}

fn bytes_within(
    text: &str,
    min: u64,
    max: u64,
    malformed: &'static str,
) -> Result<String, ValueRefusal> {
    let n = parse_bytes(text.as_bytes()).ok_or(ValueRefusal::of(malformed))?;
    if n < min || n > max { Err(ValueRefusal::between(min, max)) } else { Ok(n.to_string()) }
}

fn memory_or_percent(text: &str) -> Result<String, ValueRefusal> {
    const MALFORMED: &str = "argument must be a memory or percent value";
    let Some(percent) = text.strip_suffix('%') else {
        return bytes_within(text, 0, u64::MAX, MALFORMED);
    };
    match percent.parse::<u32>() {
        Ok(0) => Ok("0".into()),
        Ok(n) if n <= 100 && percent.starts_with(|c: char| c.is_ascii_digit()) => {
            Ok(format!("{n}%"))
        }
        Ok(n) if n > 100 => {
            Err(ValueRefusal::of("percentage argument must be less or equal to 100"))
        }
        _ => Err(ValueRefusal::of(MALFORMED)),
    }
}

fn octal(text: &str) -> Result<String, ValueRefusal> {
    match u32::from_str_radix(text, 8) {
        Ok(bits) if bits <= 0o777 && text.starts_with(|c: char| c.is_ascii_digit()) => {
            Ok(format!("{bits:o}"))
        }
        _ => Err(ValueRefusal::of("argument couldn't be parsed as an octal number")),
    }
}

/// Host names: letters, digits, hyphens and dots, at most 255 of them.
pub const HOST_NAME: Kind = Kind::Checked(shapes::host_name, "a host name");
/// An IPv4 address or nothing.
pub const IPV4: Kind = Kind::Checked(shapes::ipv4, "an IPv4 address");
/// An IPv6 address or nothing.
pub const IPV6: Kind = Kind::Checked(shapes::ipv6, "an IPv6 address");

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(kind: Kind, text: &str) -> Result<String, String> {
        kind.canonical(text, "", BoolStyle::Strict).map_err(|why| why.0.into_owned())
    }

    #[test]
    fn memory_has_units_of_two_families() {
        for (text, bytes) in [
            ("", "0"),
            ("1b", "1"),
            ("1k", "1000"),
            ("1KB", "1024"),
            ("1m", "1000000"),
            ("1mb", "1048576"),
            ("1g", "1000000000"),
            ("1Gb", "1073741824"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(strict(BYTES, text).as_deref(), Ok(bytes), "{text}");
        }
        for text in ["1 mb", " 1mb", "1.5mb", "0x10", "+5", "-5", "1tb", "1mbx"] {
            assert_eq!(
                strict(BYTES, text),
                Err("argument must be a memory value".into()),
                "{text}"
            );
        }
        assert!(strict(BYTES, "18446744073709551616").is_err());
        assert!(strict(BYTES, "99999999999gb").is_err(), "no wrapping");
    }

    #[test]
    fn whole_numbers_are_strict() {
        for text in ["+5", " 5", "5 ", "05", "0x5", "5.0", "", "1e3", "-0", "99999999999999999999"]
        {
            assert_eq!(
                strict(COUNT, text),
                Err("argument couldn't be parsed into an integer".into()),
                "{text}"
            );
        }
        assert_eq!(
            strict(PORT, "65536"),
            Err("argument must be between 0 and 65535 inclusive".into())
        );
    }

    #[test]
    fn a_share_is_at_most_the_whole() {
        for (text, want) in [("10%", "10%"), ("0%", "0"), ("100%", "100%"), ("5mb", "5242880")] {
            assert_eq!(strict(Kind::MemoryOrPercent, text).as_deref(), Ok(want));
        }
        assert!(strict(Kind::MemoryOrPercent, "101%").is_err());
        assert!(strict(Kind::MemoryOrPercent, "-1%").is_err());
        assert!(strict(Kind::MemoryOrPercent, "+1%").is_err());
        assert!(strict(Kind::MemoryOrPercent, "1.5%").is_err());
    }

    #[test]
    fn yes_has_more_words_at_start_than_later() {
        assert_eq!(strict(Kind::Bool, "YES").as_deref(), Ok("yes"));
        assert!(strict(Kind::Bool, "true").is_err());
        let lenient = |text| Kind::Bool.canonical(text, "", BoolStyle::Lenient).ok();
        assert_eq!(lenient("True").as_deref(), Some("yes"));
        assert_eq!(lenient("0").as_deref(), Some("no"));
        assert_eq!(lenient("2"), None);
    }

    #[test]
    fn octal_bits() {
        assert_eq!(strict(Kind::Octal, "0700").as_deref(), Ok("700"));
        for text in ["800", "1000", "-1", "+7", "", "rwx"] {
            assert!(strict(Kind::Octal, text).is_err(), "{text}");
        }
    }
}
