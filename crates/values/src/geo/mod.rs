//! Positions on the Earth as scores of a sorted set, and searches within a shape.
//!
//! A score is a *cell*: longitude and latitude, each halved 26 times, their bits interleaved (the
//! latitude's are the even ones). Cells near each other have scores near each other, so an area is
//! a few ranges of scores.
//!
//! | file | what |
//! |---|---|
//! | here | positions, scores, geohash texts |
//! | `cell` | cells of any size, their neighbours and edges |
//! | `shape` | circles, boxes and polygons: containment, distance from the middle |
//! | `cover` | the cells that a shape reaches into |
//!
//! Invariants
//! 1. Formulas and their order are Redis's and Valkey's, in `f64`: scores, coordinates and
//!    distances are equal to the last digit, and results without a requested order come in the same
//!    order.
//! 2. Any number may be a score: a cell outside the world gives a position on its edge.
//!
//! Not here: units' names, options, replies. Tests: at the foot of each file.

mod cell;
mod cover;
mod shape;

use cell::{Cell, LATITUDES, LONGITUDES, Span};

pub use cell::ScoreSpan;
pub use cover::{Cover, cover};
pub use shape::{Outline, Shape, distance};

/// How often a score's cell is halved: about half a metre remains.
pub const SCORE_STEP: u32 = 26;

/// 2^64.
const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;

/// A position on the Earth, in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Degrees east of Greenwich, -180 to 180.
    pub longitude: f64,
    /// Degrees north of the equator, within web maps: -85.05112878 to 85.05112878.
    pub latitude: f64,
}

impl Position {
    /// A position, if it is within the limits.
    pub fn new(longitude: f64, latitude: f64) -> Option<Position> {
        let is_inside = LONGITUDES.holds(longitude) && LATITUDES.holds(latitude);
        is_inside.then_some(Position { longitude, latitude })
    }

    /// The score of the cell that contains it.
    pub fn score(self) -> f64 {
        Cell::of(self, SCORE_STEP, LATITUDES).bits() as f64
    }

    /// The middle of a score's cell.
    pub fn of_score(score: f64) -> Position {
        // As C's conversion on most machines: negative numbers wrap around, too large ones become
        // 0.
        let bits = match score {
            _ if score < 0.0 => (score as i64).cast_unsigned(),
            _ if score < TOO_LARGE => score as u64,
            _ => 0,
        };
        Cell::new(bits, SCORE_STEP).middle()
    }

    /// The standard geohash, eleven letters, of which the last carries nothing: 52 bits are not
    /// enough for it.
    pub fn geohash(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        // The standard halves the latitudes from pole to pole.
        let bits = Cell::of(self, SCORE_STEP, Span { min: -90.0, max: 90.0 }).bits();
        std::array::from_fn(|at| match at {
            10 => LETTERS[0],
            _ => LETTERS[(bits >> (47 - at * 5) & 31) as usize],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_back() {
        let palermo = Position::new(13.361389, 38.115556).expect("inside");
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        let found = Position::of_score(palermo.score());
        assert_eq!(found.longitude, 13.361_389_338_970_184);
        assert_eq!(found.latitude, 38.115_556_395_496_3);
        assert_eq!(&found.geohash(), b"sqc8b49rny0");
        assert_eq!(Position::new(180.1, 0.0), None);
        assert_eq!(Position::new(0.0, -85.06), None);
        assert_eq!(Position::new(f64::NAN, 0.0), None);
    }

    #[test]
    fn any_score_is_somewhere() {
        for score in [f64::NEG_INFINITY, -1.0, -0.5, 0.0, 1e300, f64::INFINITY, 4503599627370496.0]
        {
            let Position { longitude, latitude } = Position::of_score(score);
            assert!(Position::new(longitude, latitude).is_some(), "{score}");
        }
        for (longitude, latitude) in [(180.0, 85.05112878), (-180.0, -85.05112878), (0.0, 0.0)] {
            let edge = Position::new(longitude, latitude).expect("on the edge");
            let back = Position::of_score(edge.score());
            assert!(Position::new(back.longitude, back.latitude).is_some());
        }
    }
}
