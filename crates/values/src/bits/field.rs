//! Numbers of 1 to 64 bits at any offset of a string, highest bit first.

/// How a change that leaves the range of its field is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Keeps only the low bits.
    #[default]
    Wrap,
    /// Takes the nearest end of the range.
    Saturate,
    /// Changes nothing.
    Fail,
}

/// The type of a number in a bit field: width and sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    is_signed: bool,
    /// 1 to 63, or 64 if it is signed: every value is an `i64`.
    width: u32,
}

impl Field {
    /// Parses `i5` or `u8`.
    pub fn parse(text: &[u8]) -> Option<Field> {
        let (&letter, digits) = text.split_first()?;
        let is_signed = match letter {
            b'i' => true,
            b'u' => false,
            _ => return None,
        };
        let most = 63 + i64::from(is_signed);
        let width = pantala_base::number::parse_i64(digits)?;
        (1..=most).contains(&width).then_some(Field { is_signed, width: width as u32 })
    }

    /// The width in bits.
    pub fn width(self) -> usize {
        self.width as usize
    }

    fn range(self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1 << (self.width - 1)), (1 << (self.width - 1)) - 1),
            false => (0, (1 << self.width) - 1),
        }
    }

    /// The number at an offset; bits beyond the end are zero.
    pub fn read(self, bytes: &[u8], offset: usize) -> i64 {
        let rest = bytes.get(offset / 8..).unwrap_or_default();
        let known = rest.len().min(16);
        let mut window = [0; 16];
        window[..known].copy_from_slice(&rest[..known]);
        let from_top = u128::from_be_bytes(window) << (offset % 8);
        let shift = 128 - self.width;
        match self.is_signed {
            true => (from_top.cast_signed() >> shift) as i64,
            false => (from_top >> shift) as i64,
        }
    }

    /// Writes the low bits of a number at an offset; the field must lie inside the string.
    pub fn write(self, bytes: &mut [u8], offset: usize, value: i64) {
        let rest = &mut bytes[offset / 8..];
        let known = rest.len().min(16);
        let mut window = [0; 16];
        window[..known].copy_from_slice(&rest[..known]);
        let shift = 128 - self.width - (offset % 8) as u32;
        let mask = (1_u128 << self.width) - 1;
        let value = (value as u128 & mask) << shift;
        let new = u128::from_be_bytes(window) & !(mask << shift) | value;
        rest[..known].copy_from_slice(&new.to_be_bytes()[..known]);
    }

    /// `value + step` in this field; `None` if it overflows and the policy is to fail. Both may lie
    /// outside the field's range.
    pub fn add(self, value: i64, step: i64, overflow: Overflow) -> Option<i64> {
        let (least, most) = self.range();
        let sum = i128::from(value) + i128::from(step);
        if (least..=most).contains(&sum) {
            return Some(sum as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.wrap(sum)),
            Overflow::Saturate => Some(sum.clamp(least, most) as i64),
            Overflow::Fail => None,
        }
    }

    /// Fits a number into the field. As in the reference, a negative number is above every unsigned
    /// range.
    pub fn fit(self, value: i64, overflow: Overflow) -> Option<i64> {
        match overflow {
            Overflow::Saturate if !self.is_signed && value < 0 => Some(self.range().1 as i64),
            _ => self.add(value, 0, overflow),
        }
    }

    fn wrap(self, sum: i128) -> i64 {
        let from_top = sum << (128 - self.width);
        match self.is_signed {
            true => (from_top >> (128 - self.width)) as i64,
            false => (from_top.cast_unsigned() >> (128 - self.width)) as i64,
        }
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::super::{bit, set_bit};
    use super::*;

    fn field(text: &str) -> Field {
        Field::parse(text.as_bytes()).expect("a field")
    }

    #[test]
    fn parses_types() {
        for bad in ["", "i", "u", "u0", "i0", "u64", "i65", "x8", "I8", "u-1", "u08", "u8 "] {
            assert_eq!(Field::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!((field("i64").width(), field("u63").width(), field("u1").width()), (64, 63, 1));
    }

    #[test]
    fn reads_and_writes_as_bit_by_bit() {
        let mut rng = Rng::from_seed(4);
        let mut bytes = vec![0; 40];
        for _ in 0..5000 {
            let is_signed = rng.below(2) == 1;
            let width = rng.below(63 + u64::from(is_signed)) as u32 + 1;
            let field = Field { is_signed, width };
            let offset = rng.below(40 * 8 - u64::from(width) + 1) as usize;
            let value = rng.next_u64() as i64;
            let mut expected = bytes.clone();
            for i in 0..width {
                let on = value >> (width - 1 - i) & 1 == 1;
                set_bit(&mut expected, offset + i as usize, on);
            }
            field.write(&mut bytes, offset, value);
            assert_eq!(bytes, expected, "{field:?} at {offset}");
            assert_eq!(field.read(&bytes, offset), field.wrap(i128::from(value)));
            let beyond = rng.below(400) as usize;
            let word = (0..field.width())
                .fold(0_i128, |word, i| word << 1 | i128::from(bit(&bytes, beyond + i)));
            assert_eq!(field.read(&bytes, beyond), field.wrap(word));
        }
    }

    #[test]
    fn overflows() {
        let check = |kind: &str, value, step, wrapped, saturated| {
            let field = field(kind);
            assert_eq!(field.add(value, step, Overflow::Wrap), Some(wrapped), "{kind}");
            assert_eq!(field.add(value, step, Overflow::Saturate), Some(saturated), "{kind}");
            let fails = wrapped != saturated;
            assert_eq!(field.add(value, step, Overflow::Fail).is_none(), fails, "{kind}");
        };
        check("u8", 250, 10, 4, 255);
        check("u8", 5, -10, 251, 0);
        check("u8", 5, 10, 15, 15);
        check("i8", 127, 1, -128, 127);
        check("i8", -128, -1, 127, -128);
        check("i64", i64::MAX, 1, i64::MIN, i64::MAX);
        check("i64", i64::MIN, -1, i64::MAX, i64::MIN);
        check("u63", i64::MAX, 1, 0, i64::MAX);
        check("i1", 0, 1, -1, 0);
        assert_eq!(field("u8").fit(-1, Overflow::Saturate), Some(255));
        assert_eq!(field("u8").fit(-1, Overflow::Wrap), Some(255));
        assert_eq!(field("u8").fit(-1, Overflow::Fail), None);
        assert_eq!(field("i8").fit(-200, Overflow::Saturate), Some(-128));
    }
}
