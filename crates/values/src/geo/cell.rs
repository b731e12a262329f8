//! Cells: the world halved repeatedly, in longitude and latitude by turns.

use super::{Position, SCORE_STEP};

/// An interval of degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub min: f64,
    pub max: f64,
}

/// All longitudes.
pub(super) const LONGITUDES: Span = Span { min: -180.0, max: 180.0 };
/// The latitudes of web maps, where the world is a square.
pub(super) const LATITUDES: Span = Span { min: -85.05112878, max: 85.05112878 };

/// The bits of the latitude; the others are the longitude's.
const EVEN: u64 = 0x5555_5555_5555_5555;
const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;

impl Span {
    pub fn holds(self, degrees: f64) -> bool {
        (self.min..=self.max).contains(&degrees)
    }

    /// The index of the part that contains `degrees`, of 2^step equal parts.
    fn part(self, degrees: f64, step: u32) -> u32 {
        let offset = (degrees - self.min) / (self.max - self.min);
        (offset * (1_u64 << step) as f64) as u32
    }

    /// The part with this index.
    fn of_part(self, part: u32, step: u32) -> Span {
        let (scale, parts) = (self.max - self.min, (1_u64 << step) as f64);
        let edge = |number: u32| self.min + f64::from(number) / parts * scale;
        Span { min: edge(part), max: edge(part.wrapping_add(1)) }
    }

    fn middle(self) -> f64 {
        (self.min + self.max) / 2.0
    }

    fn clamp(self, degrees: f64) -> f64 {
        degrees.min(self.max).max(self.min)
    }
}

/// A half-open range of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreSpan {
    /// The first score.
    pub first: u64,
    /// One after the last.
    pub end: u64,
}

/// One of 4^step parts of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    bits: u64,
    /// The number of halvings, 1 to 26.
    step: u32,
}

/// A cell's edges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges {
    pub longitude: Span,
    pub latitude: Span,
}

impl Cell {
    pub fn new(bits: u64, step: u32) -> Cell {
        Cell { bits, step }
    }

    /// The cell that contains a position; `latitudes` is the span that is halved.
    pub fn of(position: Position, step: u32, latitudes: Span) -> Cell {
        let (x, y) =
            (latitudes.part(position.latitude, step), LONGITUDES.part(position.longitude, step));
        Cell { bits: spread(x) | spread(y) << 1, step }
    }

    pub fn bits(self) -> u64 {
        self.bits
    }

    pub fn edges(self) -> Edges {
        Edges {
            longitude: LONGITUDES.of_part(gather(self.bits >> 1), self.step),
            latitude: LATITUDES.of_part(gather(self.bits), self.step),
        }
    }

    pub fn middle(self) -> Position {
        let Edges { longitude, latitude } = self.edges();
        Position {
            longitude: LONGITUDES.clamp(longitude.middle()),
            latitude: LATITUDES.clamp(latitude.middle()),
        }
    }

    /// The scores of all full-depth cells inside.
    pub fn scores(self) -> ScoreSpan {
        let shift = 2 * (SCORE_STEP - self.step);
        ScoreSpan { first: self.bits << shift, end: (self.bits + 1) << shift }
    }

    /// The neighbour `east` cells to the east and `north` to the north, each -1 to 1. It wraps
    /// around: the first cell follows the last.
    pub fn neighbour(self, east: i32, north: i32) -> Cell {
        let all = u64::MAX >> (64 - 2 * self.step);
        let longitude = turn(self.bits & ODD, ODD & all, EVEN & all, east);
        let latitude = turn(self.bits & EVEN, EVEN & all, ODD & all, north);
        Cell { bits: longitude | latitude, step: self.step }
    }
}

/// Adds -1 or 1 to every other bit, letting the bits between carry over. The very edge of the world
/// has one bit more than fits, which stays where nothing is moved.
fn turn(bits: u64, own: u64, between: u64, by: i32) -> u64 {
    match by {
        1.. => bits.wrapping_add(between + 1) & own,
        0 => bits,
        _ => (bits | between).wrapping_sub(between + 1) & own,
    }
}

/// Inserts a zero before each bit.
fn spread(half: u32) -> u64 {
    let mut x = u64::from(half);
    x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    x = (x | x << 2) & 0x3333_3333_3333_3333;
    (x | x << 1) & EVEN
}

/// Extracts the even bits, side by side.
fn gather(bits: u64) -> u32 {
    let mut x = bits & EVEN;
    x = (x | x >> 1) & 0x3333_3333_3333_3333;
    x = (x | x >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    x = (x | x >> 4) & 0x00ff_00ff_00ff_00ff;
    x = (x | x >> 8) & 0x0000_ffff_0000_ffff;
    (x | x >> 16) as u32
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::*;

    #[test]
    fn halves_are_interleaved() {
        let mut rng = Rng::from_seed(12);
        for _ in 0..1000 {
            let half = rng.next_u64() as u32;
            let expected = (0..32).fold(0, |x, i| x | (u64::from(half >> i & 1)) << (2 * i));
            assert_eq!(spread(half), expected);
            assert_eq!(gather(expected), half);
            assert_eq!(gather(expected | ODD), half);
        }
    }

    #[test]
    fn neighbours_are_next_to_each_other_and_go_round() {
        let mut rng = Rng::from_seed(13);
        for _ in 0..2000 {
            let step = rng.below(26) as u32 + 1;
            let all = u64::MAX >> (64 - 2 * step);
            let cell = Cell::new(rng.next_u64() & all, step);
            let side = 1_u32 << step;
            for (east, north) in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, -1), (-1, 1), (1, 1)] {
                let next = cell.neighbour(east, north);
                let moved = |half: u32, by: i32| half.wrapping_add_signed(by) % side;
                assert_eq!(gather(next.bits >> 1), moved(gather(cell.bits >> 1), east));
                assert_eq!(gather(next.bits), moved(gather(cell.bits), north));
            }
        }
    }
}
