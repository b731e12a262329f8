//! The last points of one step, oldest first, and their JSON: one column for each figure.
//!
//! Points lie in blocks, so that a young server takes little and one that runs for long makes no
//! copies. A whole block goes when all its points are older than the series is long.
//!
//! Tests: `history`, and at the foot.

use std::collections::VecDeque;
use std::fmt::Write;

use super::point::{Counters, FAMILIES, LEVELS, Point, QUANTILES, RATES};

/// The points of a block.
const BLOCK_POINTS: usize = 360;

/// The last points of one step, oldest first.
pub(super) struct Series {
    step_s: u32,
    most_points: usize,
    /// All but the last are full.
    blocks: VecDeque<Vec<Point>>,
    /// The moment of the last point.
    last: Option<Counters>,
    /// The names of the families that were ever called.
    names: [Option<&'static str>; FAMILIES],
}

impl Series {
    /// An empty series, which takes the room of a block.
    pub fn new(step_s: u32, most_points: usize) -> Series {
        let blocks = VecDeque::from([Vec::with_capacity(BLOCK_POINTS)]);
        Series { step_s, most_points, blocks, last: None, names: [None; FAMILIES] }
    }

    /// What a series of so many points takes at most, in bytes.
    #[cfg(test)]
    pub fn most_bytes(most_points: usize) -> usize {
        (most_points.div_ceil(BLOCK_POINTS) + 1) * BLOCK_POINTS * size_of::<Point>()
    }

    /// Adds a point, if a step has passed since the last one.
    pub fn note(&mut self, now: &Counters) {
        let step_ms = i64::from(self.step_s) * 1_000;
        // Ticks come a little early or late.
        let due_ms = step_ms - step_ms / 20;
        match &self.last {
            Some(before) if (0..due_ms).contains(&(now.at_ms - before.at_ms)) => return,
            // The first moment, or the clock went back.
            Some(before) if now.at_ms > before.at_ms => {
                let point = Point::between(before, now);
                self.push(point);
            }
            _ => {}
        }
        for (name, now) in self.names.iter_mut().zip(now.names) {
            *name = name.or(now);
        }
        self.last = Some(now.clone());
    }

    fn push(&mut self, point: Point) {
        if self.blocks.back().is_none_or(|block| block.len() == BLOCK_POINTS) {
            self.blocks.push_back(Vec::with_capacity(BLOCK_POINTS));
        }
        if let Some(block) = self.blocks.back_mut() {
            block.push(point);
        }
        while self.blocks.len() > 1 && self.point_count() >= self.most_points + BLOCK_POINTS {
            self.blocks.pop_front();
        }
    }

    fn point_count(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// The points of the span. They are fewer than `most_points` where the server was idle.
    fn points(&self) -> impl Iterator<Item = &Point> + Clone {
        let extra = self.point_count().saturating_sub(self.most_points);
        let last_s = self.last.as_ref().map_or(0, |last| last.at_ms / 1_000);
        let begins_s = last_s - i64::from(self.step_s) * self.most_points as i64;
        let points = self.blocks.iter().flatten().skip(extra);
        points.filter(move |point| i64::from(point.at_s) > begins_s)
    }

    /// The series as JSON: `stepS`, `atMs`, a column for each figure, `families` with one for each
    /// family, and `load` with the loads of the workers for each point.
    pub fn json(&self) -> String {
        let mut text = format!("{{\"stepS\":{},", self.step_s);
        self.column(&mut text, "atMs", |point| f64::from(point.at_s) * 1e3);
        for (at, (name, _)) in QUANTILES.iter().enumerate() {
            self.column(&mut text, name, |point| point.quantiles[at].get());
        }
        for (at, name) in LEVELS.iter().enumerate() {
            self.column(&mut text, name, |point| f64::from(point.levels[at]));
        }
        for (at, name) in RATES.iter().enumerate() {
            self.column(&mut text, name, |point| point.rates[at].get());
        }
        text.push_str("\"load\":[");
        self.each(&mut text, |text, point| {
            let loads = point.loads.iter().take(usize::from(point.load_count));
            let shares: Vec<String> = loads.map(|load| load_share(*load).to_string()).collect();
            let _ = write!(text, "[{}]", shares.join(","));
        });
        text.push_str("],\"families\":{");
        for (at, name) in self.names.iter().enumerate() {
            if let Some(name) = name {
                self.column(&mut text, name, |point| point.families[at].get());
            }
        }
        if text.ends_with(',') {
            text.pop();
        }
        text.push_str("}}");
        text
    }

    /// Writes a list with an item for each point.
    fn each(&self, text: &mut String, mut item: impl FnMut(&mut String, &Point)) {
        for (number, point) in self.points().enumerate() {
            if number > 0 {
                text.push(',');
            }
            item(text, point);
        }
    }

    fn column(&self, text: &mut String, name: &str, figure: impl Fn(&Point) -> f64) {
        let _ = write!(text, "\"{name}\":[");
        self.each(text, |text, point| match figure(point) {
            figure if figure.is_finite() => {
                let _ = write!(text, "{}", rounded(figure));
            }
            _ => text.push_str("null"),
        });
        text.push_str("],");
    }
}

fn load_share(load: u8) -> f64 {
    (f64::from(load) / 2.55).round() / 100.0
}

/// A figure with no more digits than are kept of it; whole where it is large.
fn rounded(figure: f64) -> f64 {
    match figure.abs() {
        large if large >= 1_000.0 => figure.round(),
        small if small >= 1.0 => (figure * 100.0).round() / 100.0,
        _ => (figure * 10_000.0).round() / 10_000.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Counters {
        Counters { at_ms: second * 1_000, ..Counters::default() }
    }

    #[test]
    fn old_points_go_and_little_more_is_kept() {
        let mut series = Series::new(1, 1_000);
        (0..5_000).for_each(|second| series.note(&at(second)));
        let kept: Vec<u32> = series.points().map(|point| point.at_s).collect();
        assert_eq!((kept.len(), kept[0], kept[999]), (1_000, 4_000, 4_999));
        assert!(series.point_count() < 1_000 + BLOCK_POINTS);
        assert!(
            series.blocks.len() * BLOCK_POINTS * size_of::<Point>() <= Series::most_bytes(1_000)
        );
    }

    #[test]
    fn points_before_the_span_are_not_shown() {
        let mut series = Series::new(1, 10);
        for second in [1, 2, 3, 11, 12] {
            series.note(&at(second));
        }
        let shown: Vec<u32> = series.points().map(|point| point.at_s).collect();
        assert_eq!(shown, [3, 11, 12]);
    }

    #[test]
    fn a_clock_that_goes_back_begins_anew() {
        let mut series = Series::new(1, 10);
        for second in [100, 101, 50, 51] {
            series.note(&at(second));
        }
        let kept: Vec<u32> = series.points().map(|point| point.at_s).collect();
        assert_eq!(kept, [101, 51]);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let mut series = Series::new(1, 10);
        series.note(&at(1));
        series.note(&at(2));
        let json: serde_json::Value = serde_json::from_str(&series.json()).unwrap();
        assert_eq!(json["p99"], serde_json::json!([null]));
        assert_eq!(json["used"], serde_json::json!([0]));
        assert_eq!(json["load"], serde_json::json!([[]]));
    }
}
