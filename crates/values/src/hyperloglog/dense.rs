//! Packed registers: six bits each, four in three bytes, low bits first.

use pantala_base::simd::registers::merge_max;

use super::REGISTERS;

/// The value of one register.
pub fn get(packed: &[u8], register: usize) -> u8 {
    let (byte, shift) = (register * 6 / 8, register * 6 % 8);
    // The last register ends with the last byte.
    let high = packed.get(byte + 1).copied().unwrap_or(0);
    let pair = u16::from_le_bytes([packed[byte], high]);
    (pair >> shift & 63) as u8
}

/// Raises one register to `rank`, which is below 64; returns whether it was lower.
pub fn raise(packed: &mut [u8], register: usize, rank: u8) -> bool {
    let old = get(packed, register);
    if rank <= old {
        return false;
    }
    let (byte, shift) = (register * 6 / 8, register * 6 % 8);
    let change = (u16::from(old ^ rank) << shift).to_le_bytes();
    packed[byte] ^= change[0];
    if let Some(high) = packed.get_mut(byte + 1) {
        *high ^= change[1];
    }
    true
}

/// Raises each element of `max` to its packed register.
pub fn merge(max: &mut [u8; REGISTERS], packed: &[u8]) {
    merge_max(max, packed);
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::*;

    #[test]
    fn registers_do_not_touch_each_other() {
        let mut rng = Rng::from_seed(8);
        let (mut packed, mut model) = (vec![0; REGISTERS * 6 / 8], [0; REGISTERS]);
        for round in 0..40_000 {
            let register = match round % 5 {
                0 => REGISTERS - 1 - rng.below(4) as usize,
                _ => rng.below(REGISTERS as u64) as usize,
            };
            let rank = rng.below(64) as u8;
            assert_eq!(raise(&mut packed, register, rank), rank > model[register]);
            model[register] = rank.max(model[register]);
        }
        assert!((0..REGISTERS).all(|register| get(&packed, register) == model[register]));
        let mut all = [0; REGISTERS];
        merge(&mut all, &packed);
        assert_eq!(all, model);
    }
}
