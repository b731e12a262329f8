//! Draws the screen: heading, curve, pages, keys.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell as Shown, Paragraph, Row, Sparkline, Table};
use ratatui::widgets::{TableState, Tabs};

use crate::app::App;
use crate::grid::{Cell, Page};
use crate::sample::{HotKeys, Sample};

/// Lines of the curve.
const CURVE: u16 = 4;
/// With fewer lines than this, the table takes the curve's lines.
const ENOUGH_FOR_CURVE: u16 = 18;

const QUIET: Style = Style::new().fg(Color::DarkGray);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws everything.
pub fn draw(app: &App<'_>, frame: &mut Frame<'_>) {
    let curve = if frame.area().height >= ENOUGH_FOR_CURVE { CURVE } else { 0 };
    let parts = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(curve),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [heading, curve, tabs, table, foot] = parts.areas(frame.area());
    draw_heading(app, frame, heading);
    draw_curve(app, frame, curve);
    let titles =
        Page::ALL.iter().enumerate().map(|(at, page)| format!("{} {}", at + 1, page.title()));
    let shown = Tabs::new(titles).select(app.page as usize).highlight_style(STRONG.reversed());
    frame.render_widget(shown, tabs);
    draw_table(app, frame, table);
    draw_foot(app, frame, foot);
}

fn draw_heading(app: &App<'_>, frame: &mut Frame<'_>, area: Rect) {
    let Some(now) = &app.now else {
        return frame.render_widget(Paragraph::new(format!("{}: connecting", app.place)), area);
    };
    let lines = vec![
        Line::from(vec![
            Span::styled(name_of(now), STRONG),
            Span::raw(format!(" at {}, up {}", app.place, age(now.number("uptime_in_seconds")))),
        ]),
        Line::from(format!(
            "{} commands/s  {} clients, {} waiting  hits {}  in {}/s  out {}/s  CPU {}",
            whole(app.per_second("total_commands_processed")),
            now.text("connected_clients"),
            now.text("blocked_clients"),
            hits(app, now),
            bytes(app.per_second("total_net_input_bytes").unwrap_or(0.0)),
            bytes(app.per_second("total_net_output_bytes").unwrap_or(0.0)),
            cpu(app),
        )),
        Line::from(format!(
            "memory {} of {}, resident {}, fragmentation {}  evicted {}/s  expired {}/s",
            bytes(now.number("used_memory")),
            match now.number("maxmemory") {
                0.0 => "any".to_owned(),
                most => bytes(most),
            },
            bytes(now.number("used_memory_rss")),
            now.text("mem_fragmentation_ratio"),
            whole(app.per_second("evicted_keys")),
            whole(app.per_second("expired_keys")),
        )),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

/// The server's name and version: Pantala's, Valkey's, or Redis's.
fn name_of(now: &Sample) -> String {
    let name = match now.text("server_name") {
        "" => "redis",
        name => name,
    };
    let version = now.text(&format!("{name}_version"));
    format!("{name} {version}")
}

fn hits(app: &App<'_>, now: &Sample) -> String {
    let both = match (app.per_second("keyspace_hits"), app.per_second("keyspace_misses")) {
        (Some(hits), Some(misses)) if hits + misses > 0.0 => (hits, misses),
        _ => (now.number("keyspace_hits"), now.number("keyspace_misses")),
    };
    let (hits, misses) = both;
    match hits + misses {
        0.0 => "-".to_owned(),
        all => format!("{:.1} %", 100.0 * hits / all),
    }
}

fn cpu(app: &App<'_>) -> String {
    match (app.per_second("used_cpu_user"), app.per_second("used_cpu_sys")) {
        (Some(user), Some(system)) => format!("{:.0} %", 100.0 * (user + system)),
        _ => "-".to_owned(),
    }
}

fn draw_curve(app: &App<'_>, frame: &mut Frame<'_>, area: Rect) {
    if area.height == 0 {
        return;
    }
    let highest = app.rates.iter().max().copied().unwrap_or(0);
    let title = format!(" commands/s, at most {highest} ");
    let block = Block::default().borders(Borders::TOP).border_style(QUIET).title(title);
    let skipped = app.rates.len().saturating_sub(usize::from(area.width));
    let rates: Vec<u64> = app.rates.iter().skip(skipped).copied().collect();
    let curve = Sparkline::default().block(block).data(&rates).style(Style::new().fg(Color::Cyan));
    frame.render_widget(curve, area);
}

fn draw_table(app: &App<'_>, frame: &mut Frame<'_>, area: Rect) {
    let (columns, view) = (app.page.columns(), app.view());
    if app.rows().is_empty() {
        return frame.render_widget(Paragraph::new(why_empty(app)).style(QUIET), area);
    }
    let headings = columns.iter().enumerate().map(|(at, name)| {
        let mark = match (at == view.column, view.is_descending) {
            (false, _) => "",
            (true, true) => " v",
            (true, false) => " ^",
        };
        Shown::from(aligned(format!("{name}{mark}"), is_number(app, at)))
    });
    let rows = app.rows().iter().map(|row| {
        let cells = row.iter().enumerate();
        Row::new(cells.map(|(at, cell)| Shown::from(aligned(cell.text(), is_number(app, at)))))
    });
    let widths = (0..columns.len()).map(|at| match is_number(app, at) {
        true => Constraint::Length(12),
        false => Constraint::Min(12),
    });
    let table = Table::new(rows, widths)
        .header(Row::new(headings).style(STRONG))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(Some(view.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

fn is_number(app: &App<'_>, column: usize) -> bool {
    app.rows().iter().any(|row| matches!(row[column], Cell::Number(..)))
}

fn aligned(text: String, is_number: bool) -> Line<'static> {
    let line = Line::from(text);
    if is_number { line.alignment(Alignment::Right) } else { line }
}

fn why_empty(app: &App<'_>) -> String {
    let Some(now) = &app.now else { return String::new() };
    match (app.page, &now.hot_keys) {
        (Page::HotKeys, HotKeys::Unknown(why)) => format!("HOTKEYS: {why}"),
        (Page::HotKeys, HotKeys::Told(true, _)) => "Nothing was seen yet.".to_owned(),
        (Page::HotKeys, _) => "h begins to look for hot keys, for a minute.".to_owned(),
        (Page::Workers, _) => "This server does not tell of workers.".to_owned(),
        _ => "Nothing happens.".to_owned(),
    }
}

fn draw_foot(app: &App<'_>, frame: &mut Frame<'_>, area: Rect) {
    let (text, style) = match (app.message.as_str(), app.page) {
        ("", Page::Clients) => ("q end  arrows move  s r sort  k kill", QUIET),
        ("", Page::HotKeys) => ("q end  arrows move  s r sort  h begin or end", QUIET),
        ("", _) => ("q end  arrows move  s r sort  space look now", QUIET),
        (message, _) => (message, Style::new().fg(Color::Yellow)),
    };
    frame.render_widget(Paragraph::new(text).style(style), area);
}

fn whole(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.0}"))
}

/// A size in bytes, in a fitting unit.
fn bytes(bytes: f64) -> String {
    pantala_base::size::human(bytes.max(0.0) as u64)
}

/// A duration in days, hours and minutes.
fn age(seconds: f64) -> String {
    let minutes = (seconds / 60.0) as u64;
    match (minutes / 1440, minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::print::text_of;

    fn info(commands: u64) -> Sample {
        Sample::of_info(&format!(
            "server_name:valkey\r\nvalkey_version:9.1.2\r\nuptime_in_seconds:93600\r\n\
             connected_clients:3\r\nblocked_clients:1\r\ntotal_commands_processed:{commands}\r\n\
             used_memory:1048576\r\nmaxmemory:0\r\ncmdstat_get:calls={commands},usec=10\r\n"
        ))
    }

    fn app<'f>() -> App<'f> {
        let mut app = App::new("here:1".into(), &|_| Some("string"));
        let before = info(0);
        let mut now = info(200);
        now.at = before.at + Duration::from_secs(2);
        app.update(before);
        app.update(now);
        app
    }

    #[test]
    fn a_screen_says_what_happens() {
        let text = text_of(&app(), 100, 30);
        for part in [
            "valkey 9.1.2 at here:1, up 1 d 2 h",
            "100 commands/s  3 clients, 1 waiting",
            "memory 1.00M of any",
            "at most 100",
            "1 Families",
            "per s v",
            "string",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(text.ends_with("space look now\n"), "{text}");
    }

    #[test]
    fn every_page_fits_every_size() {
        let mut app = app();
        for page in ['1', '2', '3', '4', '5'] {
            app.press(KeyEvent::new(KeyCode::Char(page), KeyModifiers::NONE));
            for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
                assert_eq!(text_of(&app, width, height).lines().count(), usize::from(height));
            }
        }
        assert!(text_of(&app, 80, 24).contains("h begins to look"));
    }

    #[test]
    fn it_can_be_drawn_before_anything_is_known() {
        let mut app = App::new("here:1".into(), &|_| None);
        assert!(text_of(&app, 80, 24).starts_with("here:1: connecting"));
        app.fail("refused");
        assert!(text_of(&app, 80, 24).contains("refused; trying again"));
    }
}
