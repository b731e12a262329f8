//! Amounts of memory as people write and read them: the configuration file's "64mb" and INFO's
//! "1.34M".
//!
//! Tests: foot of the file; the accepted texts were read off valkey-server 9.1.2.

/// An amount as a configuration file writes it: digits, then nothing or one of b, k, kb, m, mb, g,
/// gb in any case. `k` is 1,000 and `kb` is 1,024. Without digits it is 0, as the servers read it.
/// `None` for anything else and for more than 64 bits (which the servers let wrap round).
pub fn parse_bytes(text: &[u8]) -> Option<u64> {
    let digit_count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = text.split_at(digit_count);
    let scale = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    digits
        .iter()
        .try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?
        .checked_mul(scale)
}

/// An amount as INFO shows it to people: "512B", "1.34M"; units of 1,024.
pub fn human(bytes: u64) -> String {
    const UNITS: [(u64, char); 5] =
        [(1 << 50, 'P'), (1 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    if bytes >> 60 > 0 {
        return format!("{bytes}B");
    }
    for (scale, name) in UNITS {
        if bytes >= scale {
            return format!("{:.2}{name}", bytes as f64 / scale as f64);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted() {
        for (text, bytes) in [
            ("0", 0),
            ("", 0),
            ("kb", 0),
            ("007", 7),
            ("1", 1),
            ("1b", 1),
            ("1B", 1),
            ("1k", 1_000),
            ("1K", 1_000),
            ("1kb", 1_024),
            ("1kB", 1_024),
            ("3m", 3_000_000),
            ("3mb", 3 << 20),
            ("2g", 2_000_000_000),
            ("2GB", 2 << 30),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text.as_bytes()), Some(bytes), "{text}");
        }
    }

    #[test]
    fn refused() {
        for text in [
            "-1",
            "+1",
            " 1",
            "1 ",
            "1 gb",
            "1.5gb",
            "1t",
            "1tb",
            "1kib",
            "0x10",
            "x",
            "18446744073709551616",
            "18014398509481984kb",
        ] {
            assert_eq!(parse_bytes(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn human_form() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_405_091, "1.34M"),
            (1 << 30, "1.00G"),
            (3 << 40, "3.00T"),
            (1 << 50, "1.00P"),
            (u64::MAX, "18446744073709551615B"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
