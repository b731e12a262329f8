//! `pantala top`: shows in the terminal what a server is doing; Pantala, Valkey or Redis.
//!
//! ```text
//! options --> connection --> sample --> app (grid) --> screen
//! ```
//!
//! | file | what |
//! |---|---|
//! | here | the loop: samples, keys, the terminal |
//! | `options` | the command line |
//! | `sample` | what a server reports at one moment |
//! | `grid` | the tables and their sorting |
//! | `app` | the actions of keys |
//! | `screen` | drawing |
//! | `print` | a screen as text |
//!
//! Each sample costs the server some tenths of a millisecond; hot keys are searched for only on
//! request.

#![forbid(unsafe_code)]

mod app;
mod grid;
pub mod options;
mod print;
mod sample;
mod screen;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use pantala_client::{Connection, Value};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use app::{Action, App};
pub use grid::FamilyOf;
use options::{TopOptions, help};
use sample::{HotKeys, Sample};

/// The length of a session of HOTKEYS, in seconds.
const HOT_KEYS_SECONDS: &str = "60";
/// The size of the screen that `--once` prints.
const PRINTED: (u16, u16) = (110, 40);

/// Runs with the words after `top` and the password of the environment.
///
/// # Errors
/// A text for the operator: invalid words, no server, or no terminal.
pub fn run(
    words: &[String],
    password: Option<String>,
    family_of: FamilyOf<'_>,
    output: &mut dyn Write,
) -> Result<(), String> {
    let options = TopOptions::parse(words, password)?;
    let say = |error: io::Error| error.to_string();
    if options.is_help {
        return output.write_all(help().as_bytes()).map_err(say);
    }
    let client = Connection::open(&options.address)?;
    let app = App::new(options.address.place(), family_of);
    let mut top = Top { app, client: Some(client), options };
    if top.options.is_once {
        let (width, height) = PRINTED;
        top.look_twice()?;
        let text = print::text_of(&top.app, width, height);
        return output.write_all(text.as_bytes()).map_err(say);
    }
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("this is no terminal: {error}"))?;
    let ended = top.watch(&mut terminal).map_err(say);
    ratatui::restore();
    ended
}

struct Top<'f> {
    app: App<'f>,
    /// The connection; `None`: must be opened again.
    client: Option<Connection>,
    options: TopOptions,
}

impl Top<'_> {
    fn watch(&mut self, terminal: &mut DefaultTerminal) -> io::Result<()> {
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                self.look();
                next = Instant::now() + self.options.interval;
            }
            terminal.draw(|frame| screen::draw(&self.app, frame))?;
            if !event::poll(next.saturating_duration_since(Instant::now()))? {
                continue;
            }
            // A new size only needs drawing.
            let Event::Key(key) = event::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match self.app.press(key) {
                Action::None => {}
                Action::Quit => return Ok(()),
                Action::Look => next = Instant::now(),
                Action::Kill(id) => {
                    let id = id.to_string();
                    self.app.message = match self.ask(&["CLIENT", "KILL", "ID", &id]) {
                        Ok(Value::Int(0)) => format!("client {id} has gone already"),
                        Ok(Value::Error(why)) => String::from_utf8_lossy(&why).into_owned(),
                        Ok(_) => format!("client {id} is killed"),
                        Err(why) => why,
                    };
                    next = Instant::now();
                }
                Action::HotKeys => {
                    self.turn_hot_keys();
                    next = Instant::now();
                }
            }
        }
    }

    /// Takes a sample, reconnecting if needed.
    fn look(&mut self) {
        if let Err(why) = self.try_to_look() {
            self.client = None;
            self.app.fail(&why);
        }
    }

    fn try_to_look(&mut self) -> Result<(), String> {
        let asked = self.app.asked();
        let client = match &mut self.client {
            Some(client) => client,
            empty => {
                let client = empty.insert(Connection::open(&self.options.address)?);
                self.app.message.clear();
                client
            }
        };
        let sample = Sample::take(client, asked)?;
        self.app.update(sample);
        Ok(())
    }

    /// Takes two samples, so that there are rates.
    fn look_twice(&mut self) -> Result<(), String> {
        self.try_to_look()?;
        std::thread::sleep(self.options.interval.min(Duration::from_secs(60)));
        self.try_to_look()
    }

    fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
        match &mut self.client {
            Some(client) => client.ask(words),
            None => Err("there is no connection".to_owned()),
        }
    }

    /// Starts or stops the search for hot keys.
    fn turn_hot_keys(&mut self) {
        let hot_keys = self.app.now.as_ref().map(|now| &now.hot_keys);
        let words: &[&str] = match hot_keys {
            Some(HotKeys::Told(true, _)) => &["HOTKEYS", "STOP"],
            _ => &[
                "HOTKEYS",
                "START",
                "METRICS",
                "2",
                "CPU",
                "NET",
                "COUNT",
                "64",
                "DURATION",
                HOT_KEYS_SECONDS,
            ],
        };
        self.app.message = match self.ask(words) {
            Ok(Value::Error(why)) => String::from_utf8_lossy(&why).into_owned(),
            Ok(_) => String::new(),
            Err(why) => why,
        };
    }
}
