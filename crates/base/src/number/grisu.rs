//! Digits of a double that read back as the same double: Grisu2 (Florian Loitsch, "Printing
//! floating-point numbers quickly and accurately with integers", PLDI 2010). Nearly always the
//! fewest digits; a few times in a thousand it gives a digit more than needed, or not the closest
//! of several. Valkey's texts have exactly those cases, so an exact algorithm would not do here.
//!
//! 1. A `Float` is `significand` x 2^`exponent`.
//! 2. Scaled by its cached power of ten, the upper bound has an exponent in
//!    `SCALED_MIN..=SCALED_MAX`.
//!
//! Tests: `number::double` (all ways back), tests/numbers.rs (the server's digits).

/// Most digits that `shortest` writes.
pub const DIGITS_MAX: usize = 18;

const SCALED_MIN: i32 = -60;
const SCALED_MAX: i32 = -32;

#[derive(Clone, Copy)]
struct Float {
    significand: u64,
    exponent: i32,
}

impl Float {
    fn normalized(self) -> Float {
        let shift = self.significand.leading_zeros();
        Float { significand: self.significand << shift, exponent: self.exponent - shift as i32 }
    }

    /// The upper half of the product, rounded.
    fn times(self, other: Float) -> Float {
        let product = u128::from(self.significand) * u128::from(other.significand) + (1 << 63);
        Float { significand: (product >> 64) as u64, exponent: self.exponent + other.exponent + 64 }
    }
}

/// Writes the digits of `value`, which must be finite and above zero. Returns how many, and the
/// power of ten by which the number they form must be multiplied.
pub fn shortest(value: f64, out: &mut [u8; DIGITS_MAX]) -> (usize, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let biased = (bits >> 52) as i32 & 0x7ff;
    let exact = match biased {
        0 => Float { significand: fraction, exponent: -1074 },
        _ => Float { significand: fraction | 1 << 52, exponent: biased - 1075 },
    };
    // Half way to the neighbours; the one below is nearer at a power of two.
    let upper = Float { significand: (exact.significand << 1) + 1, exponent: exact.exponent - 1 }
        .normalized();
    let near = u32::from(fraction == 0 && biased > 1) + 1;
    let lower_exponent = exact.exponent - near as i32;
    let lower = Float {
        significand: ((exact.significand << near) - 1) << (lower_exponent - upper.exponent),
        exponent: upper.exponent,
    };

    let (power, decimal) = cached_power(upper.exponent);
    let exact = exact.normalized().times(power);
    let upper = upper.times(power);
    let lower = lower.times(power);
    // One unit inwards: the products are off by less than that.
    let top = Float { significand: upper.significand - 1, exponent: upper.exponent };
    let room = top.significand - (lower.significand + 1);
    let (len, dropped) = digits(top, room, top.significand - exact.significand, out);
    (len, dropped - decimal)
}

/// Digits of `top`, as few as stay within `room` of it, then lowered towards the number that lies
/// `target` below `top`. Returns how many, and the decimal places left out.
fn digits(top: Float, mut room: u64, target: u64, out: &mut [u8; DIGITS_MAX]) -> (usize, i32) {
    let shift = -top.exponent as u32;
    let one = 1u64 << shift;
    // Below 2^32, because of invariant 2.
    let mut whole = (top.significand >> shift) as u32;
    let mut fraction = top.significand & (one - 1);
    let mut len = 0;

    let mut places = super::digit_count(u64::from(whole)) as i32;
    let mut unit = 10u32.pow(places as u32 - 1);
    while places > 0 {
        out[len] = b'0' + (whole / unit) as u8;
        len += 1;
        whole %= unit;
        places -= 1;
        let rest = (u64::from(whole) << shift) + fraction;
        if rest <= room {
            lower_last(&mut out[..len], room, rest, u64::from(unit) << shift, target);
            return (len, places);
        }
        unit /= 10;
    }
    let mut scale = 1u64;
    loop {
        fraction *= 10;
        room *= 10;
        scale = scale.wrapping_mul(10);
        places -= 1;
        let digit = fraction >> shift;
        out[len] = b'0' + digit as u8;
        len += 1;
        fraction &= one - 1;
        if fraction < room {
            lower_last(&mut out[..len], room, fraction, one, target.wrapping_mul(scale));
            return (len, places);
        }
    }
}

/// Lowers the last digit while that brings the number nearer to its target and stays within the
/// room.
fn lower_last(digits: &mut [u8], room: u64, mut rest: u64, unit: u64, target: u64) {
    let Some(last) = digits.last_mut() else { return };
    while rest < target
        && room - rest >= unit
        && (rest + unit < target || target - rest > rest + unit - target)
    {
        *last -= 1;
        rest += unit;
    }
}

const FIRST_POWER: i32 = -348;
const POWER_STEP: i32 = 8;

/// A power of ten that brings a number with this binary exponent into the window, and its decimal
/// exponent.
fn cached_power(exponent: i32) -> (Float, i32) {
    const LOG10_OF_2: f64 = 0.301_029_995_663_981_14;
    let guess = (-f64::from(exponent + POWERS.len() as i32) * LOG10_OF_2) as i32;
    let mut index = (guess - FIRST_POWER) / POWER_STEP;
    loop {
        let decimal = FIRST_POWER + index * POWER_STEP;
        // floor(log2(10^decimal)) - 63, exact over this table.
        let binary = ((decimal * 217_706) >> 16) - 63;
        let scaled = exponent + binary + 64;
        if scaled < SCALED_MIN {
            index += 1;
        } else if scaled > SCALED_MAX {
            index -= 1;
        } else {
            return (Float { significand: POWERS[index as usize], exponent: binary }, decimal);
        }
    }
}

/// 10^-348, 10^-340, ... 10^340: the top 64 bits, rounded to nearest.
static POWERS: [u64; 87] = [
    0xfa8f_d5a0_081c_0288,
    0xbaae_e17f_a23e_bf76,
    0x8b16_fb20_3055_ac76,
    0xcf42_894a_5dce_35ea,
    0x9a6b_b0aa_5565_3b2d,
    0xe61a_cf03_3d1a_45df,
    0xab70_fe17_c79a_c6ca,
    0xff77_b1fc_bebc_dc4f,
    0xbe56_91ef_416b_d60c,
    0x8dd0_1fad_907f_fc3c,
    0xd351_5c28_3155_9a83,
    0x9d71_ac8f_ada6_c9b5,
    0xea9c_2277_23ee_8bcb,
    0xaecc_4991_4078_536d,
    0x823c_1279_5db6_ce57,
    0xc210_9436_4dfb_5637,
    0x9096_ea6f_3848_984f,
    0xd774_85cb_2582_3ac7,
    0xa086_cfcd_97bf_97f4,
    0xef34_0a98_172a_ace5,
    0xb238_67fb_2a35_b28e,
    0x84c8_d4df_d2c6_3f3b,
    0xc5dd_4427_1ad3_cdba,
    0x936b_9fce_bb25_c996,
    0xdbac_6c24_7d62_a584,
    0xa3ab_6658_0d5f_daf6,
    0xf3e2_f893_dec3_f126,
    0xb5b5_ada8_aaff_80b8,
    0x8762_5f05_6c7c_4a8b,
    0xc9bc_ff60_34c1_3053,
    0x964e_858c_91ba_2655,
    0xdff9_7724_7029_7ebd,
    0xa6df_bd9f_b8e5_b88f,
    0xf8a9_5fcf_8874_7d94,
    0xb944_7093_8fa8_9bcf,
    0x8a08_f0f8_bf0f_156b,
    0xcdb0_2555_6531_31b6,
    0x993f_e2c6_d07b_7fac,
    0xe45c_10c4_2a2b_3b06,
    0xaa24_2499_6973_92d3,
    0xfd87_b5f2_8300_ca0e,
    0xbce5_0864_9211_1aeb,
    0x8cbc_cc09_6f50_88cc,
    0xd1b7_1758_e219_652c,
    0x9c40_0000_0000_0000,
    0xe8d4_a510_0000_0000,
    0xad78_ebc5_ac62_0000,
    0x813f_3978_f894_0984,
    0xc097_ce7b_c907_15b3,
    0x8f7e_32ce_7bea_5c70,
    0xd5d2_38a4_abe9_8068,
    0x9f4f_2726_179a_2245,
    0xed63_a231_d4c4_fb27,
    0xb0de_6538_8cc8_ada8,
    0x83c7_088e_1aab_65db,
    0xc45d_1df9_4271_1d9a,
    0x924d_692c_a61b_e758,
    0xda01_ee64_1a70_8dea,
    0xa26d_a399_9aef_774a,
    0xf209_787b_b47d_6b85,
    0xb454_e4a1_79dd_1877,
    0x865b_8692_5b9b_c5c2,
    0xc835_53c5_c896_5d3d,
    0x952a_b45c_fa97_a0b3,
    0xde46_9fbd_99a0_5fe3,
    0xa59b_c234_db39_8c25,
    0xf6c6_9a72_a398_9f5c,
    0xb7dc_bf53_54e9_bece,
    0x88fc_f317_f222_41e2,
    0xcc20_ce9b_d35c_78a5,
    0x9816_5af3_7b21_53df,
    0xe2a0_b5dc_971f_303a,
    0xa8d9_d153_5ce3_b396,
    0xfb9b_7cd9_a4a7_443c,
    0xbb76_4c4c_a7a4_4410,
    0x8bab_8eef_b640_9c1a,
    0xd01f_ef10_a657_842c,
    0x9b10_a4e5_e991_3129,
    0xe710_9bfb_a19c_0c9d,
    0xac28_20d9_623b_f429,
    0x8044_4b5e_7aa7_cf85,
    0xbf21_e440_03ac_dd2d,
    0x8e67_9c2f_5e44_ff8f,
    0xd433_179d_9c8c_b841,
    0x9e19_db92_b4e3_1ba9,
    0xeb96_bf6e_badf_77d9,
    0xaf87_023b_9bf0_ee6b,
];
