//! The cells that a shape reaches into: the cell of its middle and up to eight neighbours, of a
//! size at which these are enough.

use smallvec::SmallVec;

use super::SCORE_STEP;
use super::cell::{Cell, LATITUDES, ScoreSpan};
use super::shape::{Bounds, Shape};

/// Half of the Earth's circumference on a web map, in metres.
const HALF_WORLD: f64 = 20_037_726.37;

/// Ranges of scores, in the order in which results are returned.
pub type Cover = SmallVec<[ScoreSpan; 9]>;

/// The scores of everything that may be inside a shape. They include positions outside it.
pub fn cover(shape: &Shape) -> Cover {
    let (bounds, middle) = (shape.bounds(), shape.middle());
    let mut step = step_for(shape.reach(&bounds), middle.latitude);
    if step > 1 && is_too_small(Cell::of(middle, step, LATITUDES), &bounds) {
        step -= 1;
    }
    let cell = Cell::of(middle, step, LATITUDES);
    let needs = if step >= 2 { OpenSides::of(cell, &bounds) } else { OpenSides::EVERYTHING };
    let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
    let mut spans = Cover::new();
    // Around the whole world neighbours may be the same cell. The first is never compared with, as
    // in the reference.
    let mut last = None;
    for (number, (east, north)) in around.into_iter().enumerate() {
        if !needs.has(east, north) {
            continue;
        }
        let next = cell.neighbour(east, north);
        if last == Some(next) {
            continue;
        }
        spans.push(next.scores());
        if number > 0 {
            last = Some(next);
        }
    }
    spans
}

/// The number of halvings at which a cell is not smaller than a circle of this many metres, minus
/// two, as the circle need not lie in the middle of its cell. Near the poles cells are narrower.
fn step_for(metres: f64, latitude: f64) -> u32 {
    if metres == 0.0 {
        return SCORE_STEP;
    }
    let (mut step, mut metres) = (1_i32, metres);
    // A tiny radius doubles a thousand times at most.
    while metres < HALF_WORLD {
        metres *= 2.0;
        step += 1;
    }
    step -= 2 + i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    step.clamp(1, SCORE_STEP as i32).cast_unsigned()
}

/// Whether the shape reaches beyond the neighbours of the cell.
fn is_too_small(cell: Cell, bounds: &Bounds) -> bool {
    cell.neighbour(0, 1).edges().latitude.max < bounds.north
        || cell.neighbour(0, -1).edges().latitude.min > bounds.south
        || cell.neighbour(1, 0).edges().longitude.max < bounds.east
        || cell.neighbour(-1, 0).edges().longitude.min > bounds.west
}

/// The sides on which the shape leaves its cell.
#[derive(Clone, Copy)]
struct OpenSides {
    north: bool,
    south: bool,
    east: bool,
    west: bool,
}

impl OpenSides {
    const EVERYTHING: OpenSides = OpenSides { north: true, south: true, east: true, west: true };

    /// Compares a cell with the bounds; a bound that is NaN counts as needed.
    fn of(cell: Cell, bounds: &Bounds) -> OpenSides {
        let edges = cell.edges();
        let is_behind = |edge: f64, bound: f64| edge > bound;
        OpenSides {
            south: !is_behind(bounds.south, edges.latitude.min),
            north: !is_behind(edges.latitude.max, bounds.north),
            west: !is_behind(bounds.west, edges.longitude.min),
            east: !is_behind(edges.longitude.max, bounds.east),
        }
    }

    fn has(self, east: i32, north: i32) -> bool {
        let beside = match east {
            1 => self.east,
            -1 => self.west,
            _ => true,
        };
        beside
            && match north {
                1 => self.north,
                -1 => self.south,
                _ => true,
            }
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::super::{Outline, Position};
    use super::*;

    #[test]
    fn steps() {
        assert_eq!(step_for(0.0, 0.0), 26);
        assert_eq!(step_for(f64::INFINITY, 0.0), 1);
        assert_eq!(step_for(1e-300, 0.0), 26);
        assert_eq!(step_for(5000.0, 0.0), step_for(5000.0, 70.0) + 1);
        assert_eq!(step_for(5000.0, 0.0), step_for(5000.0, -81.0) + 2);
    }

    /// Away from poles and the far side of the world nothing inside is missed.
    #[test]
    fn everything_inside_is_covered() {
        let mut rng = Rng::from_seed(14);
        for _ in 0..20_000 {
            let mut degrees = |most: f64| (rng.unit_f64() * 2.0 - 1.0) * most;
            let middle = Position { longitude: degrees(100.0), latitude: degrees(60.0) };
            let (x, y, size) = (degrees(2.0), degrees(2.0), degrees(150_000.0).abs());
            let outline = match rng.below(2) {
                0 => Outline::Circle { radius: size },
                _ => Outline::Box { width: size, height: size / 2.0 },
            };
            let shape = Shape::around(middle, outline, 1.0);
            let other = Position { longitude: middle.longitude + x, latitude: middle.latitude + y };
            let found = Position::of_score(other.score());
            if shape.distance_inside(found).is_some() {
                let score = other.score() as u64;
                let spans = cover(&shape);
                let is_in = |span: &ScoreSpan| (span.first..span.end).contains(&score);
                assert!(spans.iter().any(is_in), "{middle:?} {other:?} {size}");
            }
        }
    }
}
