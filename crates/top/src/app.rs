//! The state of the screen and the actions of keys: no terminal, no clock, no connection in here.

use std::collections::VecDeque;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::grid::{Cell, FamilyOf, Page, Row, rows, sort};
use crate::sample::{Sample, SampleOptions};

/// How many rates the curve keeps.
const HISTORY: usize = 512;

/// An action of a key that the screen cannot do by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// Quits.
    Quit,
    /// Kills the client with this id.
    Kill(u64),
    /// Starts or stops a session of HOTKEYS.
    HotKeys,
    /// Takes a sample at once.
    Look,
}

/// The view of a page.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The column to sort by.
    pub column: usize,
    /// Whether the largest come first.
    pub is_descending: bool,
    /// The selected row.
    pub selected: usize,
}

/// The state of `pantala top`: page, samples, and a pending confirmation.
pub struct App<'f> {
    /// The server's address, for the title.
    pub place: String,
    /// The page on screen.
    pub page: Page,
    views: [View; Page::ALL.len()],
    family_of: FamilyOf<'f>,
    /// The newest sample, and the one before.
    pub now: Option<Sample>,
    before: Option<Sample>,
    /// Commands per second, newest last.
    pub rates: VecDeque<u64>,
    /// The client to be killed after confirmation.
    pub to_kill: Option<u64>,
    /// The message in the last line.
    pub message: String,
    rows: Vec<Row>,
}

impl<'f> App<'f> {
    /// The state before the first sample.
    pub fn new(place: String, family_of: FamilyOf<'f>) -> Self {
        let view = |page: Page| View {
            column: page.first_sort(),
            is_descending: page.begins_descending(),
            selected: 0,
        };
        App {
            place,
            page: Page::Families,
            views: Page::ALL.map(view),
            family_of,
            now: None,
            before: None,
            rates: VecDeque::new(),
            to_kill: None,
            message: String::new(),
            rows: Vec::new(),
        }
    }

    /// What the current page needs beside INFO.
    pub fn asked(&self) -> SampleOptions {
        SampleOptions { clients: self.page == Page::Clients, hot_keys: self.page == Page::HotKeys }
    }

    /// Takes a new sample.
    pub fn update(&mut self, sample: Sample) {
        self.before = self.now.replace(sample);
        if let Some(rate) = self.rate() {
            if self.rates.len() == HISTORY {
                self.rates.pop_front();
            }
            self.rates.push_back(rate.round() as u64);
        }
        self.arrange();
    }

    /// Reports a failed sample: the last one stays, and ages.
    pub fn fail(&mut self, why: &str) {
        self.message = format!("{why}; trying again");
        self.before = None;
    }

    fn rate(&self) -> Option<f64> {
        self.per_second("total_commands_processed")
    }

    /// The growth per second of a counter of INFO.
    pub fn per_second(&self, name: &str) -> Option<f64> {
        let (now, before) = (self.now.as_ref()?, self.before.as_ref()?);
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
        Some((now.number(name) - before.number(name)).max(0.0) / seconds)
    }

    /// The view of the current page.
    pub fn view(&self) -> View {
        self.views[self.page as usize]
    }

    fn view_mut(&mut self) -> &mut View {
        &mut self.views[self.page as usize]
    }

    /// The sorted rows of the current page.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn arrange(&mut self) {
        let Some(now) = &self.now else { return };
        let view = self.view();
        self.rows = rows(self.page, now, self.before.as_ref(), self.family_of);
        sort(&mut self.rows, view.column, view.is_descending);
        let last = self.rows.len().saturating_sub(1);
        let selected = &mut self.view_mut().selected;
        *selected = (*selected).min(last);
    }

    /// Handles a key.
    pub fn press(&mut self, key: KeyEvent) -> Action {
        let is_interrupt =
            key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        if is_interrupt {
            return Action::Quit;
        }
        if let Some(id) = self.to_kill.take() {
            self.message.clear();
            return if key.code == KeyCode::Char('y') { Action::Kill(id) } else { Action::None };
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Right | KeyCode::Tab => return self.turn(1),
            KeyCode::Left | KeyCode::BackTab => return self.turn(Page::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => {
                return self.open(Page::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Up => self.select(|at, _| at.saturating_sub(1)),
            KeyCode::Down => self.select(|at, last| (at + 1).min(last)),
            KeyCode::PageUp => self.select(|at, _| at.saturating_sub(20)),
            KeyCode::PageDown => self.select(|at, last| (at + 20).min(last)),
            KeyCode::Home => self.select(|_, _| 0),
            KeyCode::End => self.select(|_, last| last),
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('r') => {
                let view = self.view_mut();
                view.is_descending = !view.is_descending;
                self.arrange();
            }
            KeyCode::Char('k') if self.page == Page::Clients => self.ask_to_kill(),
            KeyCode::Char('h') if self.page == Page::HotKeys => return Action::HotKeys,
            KeyCode::Char(' ') => return Action::Look,
            _ => {}
        }
        Action::None
    }

    fn turn(&mut self, by: usize) -> Action {
        self.open(Page::ALL[(self.page as usize + by) % Page::ALL.len()])
    }

    fn open(&mut self, page: Page) -> Action {
        self.page = page;
        self.message.clear();
        self.arrange();
        Action::Look
    }

    fn select(&mut self, next: impl Fn(usize, usize) -> usize) {
        let last = self.rows.len().saturating_sub(1);
        let view = self.view_mut();
        view.selected = next(view.selected, last);
    }

    fn sort_by_next(&mut self) {
        let count = self.page.columns().len();
        let view = self.view_mut();
        view.column = (view.column + 1) % count;
        self.arrange();
    }

    fn ask_to_kill(&mut self) {
        let Some(row) = self.rows.get(self.view().selected) else { return };
        let Cell::Number(id, _) = row[0] else { return };
        self.to_kill = Some(id as u64);
        self.message = format!("Kill client {id} at {}? y or n", row[1].text());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn press(app: &mut App<'_>, code: KeyCode) -> Action {
        app.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn clients(ids: &[u64]) -> Sample {
        let mut sample = Sample::of_info("total_commands_processed:10\r\n");
        let client = |id: &u64| BTreeMap::from([("id".to_owned(), id.to_string())]);
        sample.clients = ids.iter().map(client).collect();
        sample
    }

    #[test]
    fn a_client_is_killed_only_when_that_is_confirmed() {
        let mut app = App::new("here".into(), &|_| None);
        assert_eq!(press(&mut app, KeyCode::Char('k')), Action::None);
        assert_eq!(press(&mut app, KeyCode::Char('3')), Action::Look);
        app.update(clients(&[4, 7]));
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Char('k'));
        assert!(app.message.starts_with("Kill client 7"), "{}", app.message);
        assert_eq!(press(&mut app, KeyCode::Char('n')), Action::None);
        assert_eq!(press(&mut app, KeyCode::Char('y')), Action::None);
        press(&mut app, KeyCode::Char('k'));
        assert_eq!(press(&mut app, KeyCode::Char('y')), Action::Kill(7));
        // Rows below the selected one disappear: it stays within.
        app.update(clients(&[4]));
        assert_eq!(app.view().selected, 0);
    }

    #[test]
    fn pages_are_turned_and_sorted() {
        let mut app = App::new("here".into(), &|_| None);
        assert_eq!(press(&mut app, KeyCode::Left), Action::Look);
        assert_eq!((app.page, app.asked().hot_keys), (Page::HotKeys, true));
        assert_eq!(press(&mut app, KeyCode::Char('h')), Action::HotKeys);
        press(&mut app, KeyCode::Tab);
        assert_eq!((app.page, app.view().column), (Page::Families, 1));
        press(&mut app, KeyCode::Char('s'));
        press(&mut app, KeyCode::Char('r'));
        assert_eq!((app.view().column, app.view().is_descending), (2, false));
        assert_eq!(press(&mut app, KeyCode::Esc), Action::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.press(interrupt), Action::Quit);
    }

    #[test]
    fn a_lost_connection_is_told_and_leaves_no_false_rate() {
        let mut app = App::new("here".into(), &|_| None);
        app.update(clients(&[]));
        app.update(clients(&[]));
        assert_eq!(app.rates.len(), 1);
        app.fail("it is gone");
        assert!(app.message.contains("it is gone") && app.per_second("x").is_none());
        app.update(clients(&[]));
        assert_eq!(app.rates.len(), 2);
    }
}
