//! Many commands in one message: `{"id":7,"runs":[[...],...]}`, told as `{"id":7,"replies":[...]}`.
//!
//! A message costs a browser more than a command costs the server, and an analysis asks three
//! things about each of 200,000 keys.
//!
//! ```text
//! message --> commands that wait --some at a time, each admitted--> link --> worker
//!             replies so far <-------------------in order----------- link
//! ```
//!
//! Invariants
//! 1. One batch is under way; others wait behind it. The server has at most [`MOST_SENT`] commands
//!    of it: a batch is no longer in a worker's way than a client that sends so many, a command of
//!    the same socket comes in between, and what waits ends with its socket.
//! 2. Each command is admitted when it is sent, and runs as its user, as if it were alone.
//! 3. Replies are written in the order of the commands: the first of `order` is still to come.
//!
//! Tests are below and in crates/server/tests/http.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::link::{Link, Request};
use crate::scan::REPLY_BYTES;

use super::parse;

/// Commands of one batch.
pub(super) const MOST_COMMANDS: usize = 1_000;
/// Commands of the batch under way that the server has.
const MOST_SENT: usize = 64;

/// What decides whether a command may be sent: the name of its row, or an error.
pub(super) type Admit<'a> = &'a dyn Fn(&[Vec<u8>]) -> Result<String, String>;

/// The batches of one socket, the one under way first.
#[derive(Default)]
pub(super) struct Batches(VecDeque<Batch>);

struct Batch {
    db: Option<u32>,
    /// How long the message was.
    bytes: usize,
    /// Not sent yet.
    waiting: VecDeque<Value>,
    /// A reply for each command that was sent and is not in `replies`; `None`: it is still to come.
    order: VecDeque<Option<String>>,
    /// How many of them are still to come.
    sent: usize,
    /// What will be told, as far as it is known: JSON without its end.
    replies: String,
}

impl Batches {
    /// Takes a message of so many bytes.
    ///
    /// # Errors
    /// A text for the user.
    pub fn take(&mut self, id: &str, mut said: Value, bytes: usize) -> Result<(), String> {
        let db = parse::database(&said)?;
        let Some(Value::Array(commands)) = said.get_mut("runs").map(Value::take) else {
            return Err("runs is to be a list of commands".into());
        };
        if commands.len() > MOST_COMMANDS {
            return Err(format!("at most {MOST_COMMANDS} commands are a batch"));
        }
        let replies = format!("{{\"id\":{id},\"replies\":[");
        let (waiting, order) = (commands.into(), VecDeque::new());
        self.0.push_back(Batch { db, bytes, waiting, order, sent: 0, replies });
        Ok(())
    }

    /// How many commands have not been sent.
    pub fn waiting(&self) -> usize {
        self.0.iter().map(|batch| batch.waiting.len().max(1)).sum()
    }

    /// How long the messages were that have not been answered.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|batch| batch.bytes).sum()
    }

    /// Whether some of the batch under way could be sent.
    pub fn is_hungry(&self) -> bool {
        let is_hungry = |batch: &Batch| match batch.sent {
            0 => true,
            sent => sent < MOST_SENT / 2 && !batch.waiting.is_empty(),
        };
        self.0.front().is_some_and(is_hungry)
    }

    /// Sends what may be sent now. What is told if a batch ends by it, as one of refused commands
    /// does.
    pub fn feed(&mut self, link: &mut Link, admit: Admit) -> Option<String> {
        let batch = self.0.front_mut()?;
        while batch.sent < MOST_SENT
            && let Some(words) = batch.waiting.pop_front()
        {
            batch.send(&words, link, admit);
        }
        batch.write();
        self.ended()
    }

    /// The reply to the first command that has none. What is told if its batch ends with it.
    pub fn reply(&mut self, reply: String) -> Option<String> {
        let batch = self.0.front_mut()?;
        if let Some(awaited) = batch.order.front_mut() {
            *awaited = Some(reply);
            batch.sent -= 1;
        }
        batch.write();
        self.ended()
    }

    fn ended(&mut self) -> Option<String> {
        let batch = self.0.pop_front_if(|batch| batch.waiting.is_empty() && batch.sent == 0)?;
        let mut replies = batch.replies;
        replies.push_str("]}");
        Some(replies)
    }
}

impl Batch {
    fn send(&mut self, words: &Value, link: &mut Link, admit: Admit) {
        let command = parse::words(words).map_err(|why| format!("ERR {why}"));
        let admitted = command.and_then(|args| admit(&args).map(|name| (args, name)));
        match admitted {
            Ok((args, name)) => {
                link.ask(Request { id: String::new(), args, db: self.db, name });
                self.order.push_back(None);
                self.sent += 1;
            }
            Err(why) => self.order.push_back(Some(json!({ "error": why }).to_string())),
        }
    }

    /// Writes the replies whose turn it is. Beyond what one reply may have only their lengths are.
    fn write(&mut self) {
        while let Some(Some(reply)) = self.order.pop_front_if(|reply| reply.is_some()) {
            if !self.replies.ends_with('[') {
                self.replies.push(',');
            }
            if self.replies.len() + reply.len() <= REPLY_BYTES {
                self.replies.push_str(&reply);
            } else {
                self.replies.push_str(&format!("{{\"tooLarge\":{}}}", reply.len()));
            }
        }
    }
}
