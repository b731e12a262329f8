//! Circles, boxes and polygons, and distances on a ball.

use super::Position;

/// The Earth's mean radius in metres, as Redis has it.
const EARTH_RADIUS: f64 = 6_372_797.560_856;
const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;
/// Longitudes count as equal if half their difference has a sine below this: some nanometres.
const SAME_LONGITUDE: f64 = 1e-15;

pub(super) fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

pub(super) fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

fn latitude_distance(a: f64, b: f64) -> f64 {
    EARTH_RADIUS * (radians(b) - radians(a)).abs()
}

/// The distance between two positions in metres, by the haversine formula.
pub fn distance(a: Position, b: Position) -> f64 {
    Origin::new(a).distance(b)
}

/// The middle of a shape, with the values that all distances from it share.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Origin {
    position: Position,
    cosine: f64,
}

impl Origin {
    fn new(position: Position) -> Origin {
        Origin { position, cosine: radians(position.latitude).cos() }
    }

    /// The squared sine of half the central angle to `there`; `None` on the same longitude.
    #[inline]
    fn chord(&self, there: Position) -> Option<f64> {
        let here = self.position;
        let v = ((radians(there.longitude) - radians(here.longitude)) / 2.0).sin();
        if v.abs() <= SAME_LONGITUDE {
            return None;
        }
        let (from, to) = (radians(here.latitude), radians(there.latitude));
        let u = ((to - from) / 2.0).sin();
        Some(u * u + self.cosine * to.cos() * v * v)
    }

    fn distance(&self, there: Position) -> f64 {
        match self.chord(there) {
            Some(chord) => 2.0 * EARTH_RADIUS * chord.sqrt().asin(),
            None => latitude_distance(self.position.latitude, there.latitude),
        }
    }
}

/// The outline of a shape. Lengths are in units of the shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Outline {
    /// A circle.
    Circle {
        /// The radius.
        radius: f64,
    },
    /// A box whose edges follow longitudes and latitudes.
    Box {
        /// The extent from west to east.
        width: f64,
        /// The extent from south to north.
        height: f64,
    },
    /// Corners, at least three, in a plane of longitudes and latitudes.
    Polygon(Vec<Position>),
}

/// A region of the Earth: an outline around a middle.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    middle: Position,
    origin: Origin,
    outline: Outline,
    /// Metres of one unit.
    unit: f64,
    /// A position with a longer chord is certainly outside.
    most_chord: f64,
}

/// The degrees over which a shape extends. Where it goes around the world or over a pole, they lie
/// beyond the limits or are NaN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub west: f64,
    pub south: f64,
    pub east: f64,
    pub north: f64,
}

impl Shape {
    /// A circle or box around a position, with lengths in units of this many metres.
    pub fn around(middle: Position, outline: Outline, unit: f64) -> Shape {
        let most_chord = match outline {
            Outline::Circle { radius } => most_chord(radius * unit),
            _ => f64::INFINITY,
        };
        Shape { middle, origin: Origin::new(middle), outline, unit, most_chord }
    }

    /// A polygon. Distances are measured from the middle of its corners, computed in space.
    pub fn polygon(corners: Vec<Position>) -> Shape {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for corner in &corners {
            let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let middle = Position {
            longitude: degrees(y.atan2(x)),
            latitude: degrees(z.atan2((x * x + y * y).sqrt())),
        };
        Shape::around(middle, Outline::Polygon(corners), 1.0)
    }

    /// The point from which distances are measured.
    pub fn middle(&self) -> Position {
        self.middle
    }

    /// The distance in metres from the middle to a position inside; `None` for one outside.
    pub fn distance_inside(&self, position: Position) -> Option<f64> {
        match &self.outline {
            Outline::Circle { radius } => {
                let radius = radius * self.unit;
                // No path is shorter than straight north or south. The margin is far above the
                // rounding error.
                let least = latitude_distance(self.middle.latitude, position.latitude);
                if least > radius * (1.0 + 1e-9) + 1e-6 {
                    return None;
                }
                // Most positions outside need no arcsine.
                let distance = match self.origin.chord(position) {
                    Some(chord) if chord > self.most_chord => return None,
                    Some(chord) => 2.0 * EARTH_RADIUS * chord.sqrt().asin(),
                    None => least,
                };
                // On the far side of the world rounding may give NaN: that counts as inside.
                if distance > radius { None } else { Some(distance) }
            }
            Outline::Box { width, height } => {
                let (width, height) = (width * self.unit, height * self.unit);
                let upwards = latitude_distance(position.latitude, self.middle.latitude);
                if upwards > height / 2.0 {
                    return None;
                }
                let beside = Position { latitude: position.latitude, ..self.middle };
                if distance(position, beside) > width / 2.0 {
                    return None;
                }
                Some(self.origin.distance(position))
            }
            Outline::Polygon(corners) => {
                is_within(corners, position).then(|| self.origin.distance(position))
            }
        }
    }

    /// The approximate distance in metres from the middle to the furthest point.
    pub(super) fn reach(&self, bounds: &Bounds) -> f64 {
        let furthest = match &self.outline {
            Outline::Circle { radius } => *radius,
            Outline::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
            Outline::Polygon(_) => {
                let Bounds { west, south, east, north } = *bounds;
                let corners = [(west, north), (east, north), (west, south), (east, south)];
                let distances = corners.map(|(longitude, latitude)| {
                    distance(self.middle, Position { longitude, latitude })
                });
                distances.into_iter().fold(0.0, f64::max)
            }
        };
        furthest * self.unit
    }

    pub(super) fn bounds(&self) -> Bounds {
        let (width, height) = match &self.outline {
            Outline::Circle { radius } => (self.unit * radius, self.unit * radius),
            Outline::Box { width, height } => (self.unit * width / 2.0, self.unit * height / 2.0),
            Outline::Polygon(corners) => return bounds_of(corners),
        };
        let Position { longitude, latitude } = self.middle;
        let up = degrees(height / EARTH_RADIUS);
        let sideways = |latitude: f64| degrees(width / EARTH_RADIUS / radians(latitude).cos());
        // The edge nearer to a pole spans more degrees.
        let wide = if latitude < 0.0 { sideways(latitude - up) } else { sideways(latitude + up) };
        Bounds {
            west: longitude - wide,
            south: latitude - up,
            east: longitude + wide,
            north: latitude + up,
        }
    }
}

/// The chord of a distance, with a margin far above the rounding error.
fn most_chord(metres: f64) -> f64 {
    let half_angle = metres / (2.0 * EARTH_RADIUS);
    if half_angle >= 1.5 {
        return f64::INFINITY;
    }
    half_angle.sin().powi(2) * (1.0 + 1e-9) + 1e-18
}

fn bounds_of(corners: &[Position]) -> Bounds {
    let start = Bounds { west: 180.0, south: 90.0, east: -180.0, north: -90.0 };
    corners.iter().fold(start, |bounds, corner| Bounds {
        west: bounds.west.min(corner.longitude),
        south: bounds.south.min(corner.latitude),
        east: bounds.east.max(corner.longitude),
        north: bounds.north.max(corner.latitude),
    })
}

/// Whether a ray from the point to the east crosses an odd number of edges (W. R. Franklin, "PNPOLY
/// - Point Inclusion in Polygon Test").
fn is_within(corners: &[Position], point: Position) -> bool {
    let Some(last) = corners.last() else { return false };
    let (mut before, mut is_inside) = (last, false);
    for corner in corners {
        let crosses = (corner.latitude > point.latitude) != (before.latitude > point.latitude);
        let edge = |latitude: f64| {
            (before.longitude - corner.longitude) * (latitude - corner.latitude)
                / (before.latitude - corner.latitude)
                + corner.longitude
        };
        is_inside ^= crosses && point.longitude < edge(point.latitude);
        before = corner;
    }
    is_inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(longitude: f64, latitude: f64) -> Position {
        Position { longitude, latitude }
    }

    #[test]
    fn distances() {
        let (palermo, catania) = (at(13.361389, 38.115556), at(15.087269, 37.502669));
        assert!((distance(palermo, catania) - 166_274.15).abs() < 1.0);
        assert_eq!(distance(palermo, palermo), 0.0);
        assert!((distance(at(0.0, 0.0), at(0.0, 1.0)) - 111_226.3).abs() < 0.1);
        assert!((distance(at(0.0, 0.0), at(180.0, 0.0)) - 20_020_741.0).abs() < 1000.0);
    }

    #[test]
    fn circles_and_boxes() {
        let circle = Shape::around(at(15.0, 37.0), Outline::Circle { radius: 100.0 }, 1000.0);
        assert!(circle.distance_inside(at(15.087269, 37.502669)).is_some());
        assert_eq!(circle.distance_inside(at(13.361389, 38.115556)), None);
        let outline = Outline::Box { width: 400.0, height: 200.0 };
        let area = Shape::around(at(15.0, 37.0), outline, 1000.0);
        assert!(area.distance_inside(at(17.2, 37.0)).is_some());
        assert_eq!(area.distance_inside(at(15.0, 38.0)), None);
    }

    #[test]
    fn polygons() {
        // An L.
        let corners = [(0, 0), (10, 0), (10, 5), (5, 5), (5, 10), (0, 10)];
        let corners = corners.map(|(x, y)| at(f64::from(x), f64::from(y)));
        let shape = Shape::polygon(corners.to_vec());
        let is_inside = |x, y| shape.distance_inside(at(x, y)).is_some();
        assert!(is_inside(1.0, 1.0) && is_inside(9.0, 1.0) && is_inside(1.0, 9.0));
        assert!(!is_inside(9.0, 9.0) && !is_inside(-1.0, 1.0) && !is_inside(11.0, 1.0));
        assert!(!is_within(&[], at(0.0, 0.0)));
    }
}
