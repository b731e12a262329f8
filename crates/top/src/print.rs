//! Renders a screen as text, for `--once` and for tests.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::app::App;
use crate::screen::draw;

/// The lines of a screen of this size, without trailing blanks.
pub fn text_of(app: &App<'_>, width: u16, height: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(drawn) = terminal.draw(|frame| draw(app, frame));
    let mut text = String::new();
    for y in 0..height {
        let cells = (0..width).filter_map(|x| drawn.buffer.cell((x, y)));
        let line: String = cells.map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
