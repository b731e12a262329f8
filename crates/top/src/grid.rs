//! The tables: rows of sortable cells, one table per page.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::sample::{Counts, HotKeys, Sample};

/// A page of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Families of commands.
    Families,
    /// Commands.
    Commands,
    /// Clients.
    Clients,
    /// Workers.
    Workers,
    /// Hot keys.
    HotKeys,
}

impl Page {
    /// All pages, in order.
    pub const ALL: [Page; 5] =
        [Page::Families, Page::Commands, Page::Clients, Page::Workers, Page::HotKeys];

    /// The title.
    pub fn title(self) -> &'static str {
        match self {
            Page::Families => "Families",
            Page::Commands => "Commands",
            Page::Clients => "Clients",
            Page::Workers => "Workers",
            Page::HotKeys => "Hot keys",
        }
    }

    /// The names of its columns.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Page::Families => &["family", "per s", "us", "p50 us", "p99 us", "failed/s", "share %"],
            Page::Commands => {
                &["command", "per s", "us", "p50 us", "p99 us", "failed/s", "share %"]
            }
            Page::Clients => &["id", "address", "name", "db", "age", "idle", "output", "command"],
            Page::Workers => &["worker", "connections", "load %"],
            Page::HotKeys => &["key", "us", "bytes"],
        }
    }

    /// The column that it is sorted by at first.
    pub fn first_sort(self) -> usize {
        match self {
            Page::Families | Page::Commands | Page::HotKeys => 1,
            Page::Clients | Page::Workers => 0,
        }
    }

    /// Whether a column is sorted descending at first.
    pub fn begins_descending(self) -> bool {
        !matches!(self, Page::Clients | Page::Workers)
    }
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A number with this many decimal places.
    Number(f64, usize),
    /// Unknown.
    Empty,
}

impl Cell {
    /// The text of the cell.
    pub fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(number, digits) => format!("{number:.digits$}"),
            Cell::Empty => String::new(),
        }
    }

    fn compare(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Number(one, _), Cell::Number(two, _)) => one.total_cmp(two),
            (Cell::Text(one), Cell::Text(two)) => one.cmp(two),
            (Cell::Empty, Cell::Empty) => Ordering::Equal,
            (Cell::Empty, _) => Ordering::Less,
            (_, Cell::Empty) => Ordering::Greater,
            (Cell::Number(..), Cell::Text(_)) => Ordering::Less,
            (Cell::Text(_), Cell::Number(..)) => Ordering::Greater,
        }
    }
}

/// A row.
pub type Row = Vec<Cell>;

/// Sorts rows by a column, equal ones by the first column.
pub fn sort(rows: &mut [Row], column: usize, is_descending: bool) {
    rows.sort_by(|one, two| {
        let order = one[column].compare(&two[column]);
        let order = if is_descending { order.reverse() } else { order };
        order.then_with(|| one[0].compare(&two[0]))
    });
}

/// Maps a command to its family.
pub type FamilyOf<'f> = &'f dyn Fn(&str) -> Option<&'static str>;

/// The rows of a page, from the current and the previous sample.
pub fn rows(
    page: Page,
    now: &Sample,
    before: Option<&Sample>,
    family_of: FamilyOf<'_>,
) -> Vec<Row> {
    match page {
        Page::Families => {
            command_rows(families(since(now, before), family_of), passed(now, before))
        }
        Page::Commands => command_rows(since(now, before), passed(now, before)),
        Page::Clients => now.clients.iter().map(client_row).collect(),
        Page::Workers => {
            let row = |(name, connections, load): (String, u64, f64)| {
                vec![Cell::Text(name), Cell::Number(connections as f64, 0), Cell::Number(load, 1)]
            };
            now.workers().into_iter().map(row).collect()
        }
        Page::HotKeys => hot_key_rows(&now.hot_keys),
    }
}

/// Seconds between two samples; for the first, since the server's counters started.
fn passed(now: &Sample, before: Option<&Sample>) -> f64 {
    match before {
        Some(before) => now.at.duration_since(before.at).as_secs_f64().max(0.001),
        None => now.number("uptime_in_seconds").max(1.0),
    }
}

fn since(now: &Sample, before: Option<&Sample>) -> BTreeMap<String, Counts> {
    let before_of = |name: &str| before.and_then(|before| before.commands.get(name));
    let each = now.commands.iter();
    each.map(|(name, counts)| (name.clone(), counts.since(before_of(name))))
        .filter(|(_, counts)| counts.calls + counts.failed > 0)
        .collect()
}

fn families(
    commands: BTreeMap<String, Counts>,
    family_of: FamilyOf<'_>,
) -> BTreeMap<String, Counts> {
    let mut families = BTreeMap::<String, Counts>::new();
    for (name, counts) in commands {
        let family = family_of(&name).unwrap_or("other");
        families.entry(family.to_owned()).or_default().add(&counts);
    }
    families
}

fn command_rows(counts: BTreeMap<String, Counts>, seconds: f64) -> Vec<Row> {
    let all_us: u64 = counts.values().map(|counts| counts.us).sum();
    let bound = |us: Option<u64>| us.map_or(Cell::Empty, |us| Cell::Number(us as f64, 0));
    let row = |(name, counts): (String, Counts)| {
        vec![
            Cell::Text(name),
            Cell::Number(counts.calls as f64 / seconds, 0),
            Cell::Number(counts.us as f64 / counts.calls.max(1) as f64, 2),
            bound(counts.percentile_us(50.0)),
            bound(counts.percentile_us(99.0)),
            Cell::Number(counts.failed as f64 / seconds, 0),
            Cell::Number(100.0 * counts.us as f64 / all_us.max(1) as f64, 1),
        ]
    };
    counts.into_iter().map(row).collect()
}

fn client_row(fields: &BTreeMap<String, String>) -> Row {
    let text = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let number = |name: &str| match text(name).parse() {
        Ok(number) => Cell::Number(number, 0),
        Err(_) => Cell::Empty,
    };
    vec![
        number("id"),
        Cell::Text(text("addr")),
        Cell::Text(text("name")),
        number("db"),
        number("age"),
        number("idle"),
        number("tot-net-out"),
        Cell::Text(text("cmd")),
    ]
}

fn hot_key_rows(hot_keys: &HotKeys) -> Vec<Row> {
    let HotKeys::Told(_, keys) = hot_keys else { return Vec::new() };
    let row = |key: &crate::sample::HotKey| {
        let text = key.key.replace(['\r', '\n'], "?");
        vec![Cell::Text(text), Cell::Number(key.us as f64, 0), Cell::Number(key.bytes as f64, 0)]
    };
    keys.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn family_of(name: &str) -> Option<&'static str> {
        match name {
            "get" | "set" => Some("string"),
            "hget" => Some("hash"),
            _ => None,
        }
    }

    fn sample(calls: [u64; 4]) -> Sample {
        let [get, set, hget, odd] = calls;
        Sample::of_info(&format!(
            "cmdstat_get:calls={get},usec={get}\r\ncmdstat_set:calls={set},usec={set}\r\n\
             cmdstat_hget:calls={hget},usec={hget}\r\ncmdstat_odd:calls={odd},usec={odd}\r\n"
        ))
    }

    fn texts(rows: &[Row], columns: usize) -> Vec<Vec<String>> {
        rows.iter().map(|row| row[..columns].iter().map(Cell::text).collect()).collect()
    }

    #[test]
    fn families_are_what_their_commands_are_together() {
        let (before, mut now) = (sample([10, 0, 5, 1]), sample([30, 20, 5, 2]));
        now.at = before.at + Duration::from_secs(2);
        let mut found = rows(Page::Families, &now, Some(&before), &family_of);
        sort(&mut found, 1, true);
        assert_eq!(texts(&found, 3), [["string", "20", "1.00"], ["other", "0", "1.00"]]);
        let found = rows(Page::Commands, &now, Some(&before), &family_of);
        assert_eq!(texts(&found, 2), [["get", "10"], ["odd", "0"], ["set", "10"]]);
    }

    #[test]
    fn rows_are_sorted_by_number_and_text() {
        let row = |name: &str, cell| vec![Cell::Text(name.into()), cell];
        let mut rows = vec![
            row("b", Cell::Number(9.0, 0)),
            row("a", Cell::Number(10.0, 0)),
            row("c", Cell::Empty),
        ];
        sort(&mut rows, 1, true);
        assert_eq!(texts(&rows, 1), [["a"], ["b"], ["c"]]);
        sort(&mut rows, 1, false);
        assert_eq!(texts(&rows, 1), [["c"], ["b"], ["a"]]);
        sort(&mut rows, 0, true);
        assert_eq!(texts(&rows, 1), [["c"], ["b"], ["a"]]);
    }

    #[test]
    fn every_page_has_cells_for_its_columns() {
        let mut now = sample([1, 1, 1, 1]);
        now.info.insert("worker_0".into(), "connections=1,load_percent=3".into());
        now.clients = vec![BTreeMap::from([("id".to_owned(), "7".to_owned())])];
        let key = crate::sample::HotKey { key: "a\nb".into(), us: 1, bytes: 2 };
        now.hot_keys = HotKeys::Told(true, vec![key]);
        for page in Page::ALL {
            let found = rows(page, &now, None, &family_of);
            assert!(!found.is_empty());
            assert!(found.iter().all(|row| row.len() == page.columns().len()), "{page:?}");
            assert!(page.first_sort() < page.columns().len());
        }
    }
}
