//! Many commands in one message: `{"id":7,"runs":[[...],...]}`, answered by
//! `{"id":7,"replies":[...]}`.
//!
//! A message costs a browser more than a command costs the server, and an analysis asks three
//! things about each of 200,000 keys.
//!
//! ```text
//! message --> waiting commands --some at a time, each admitted--> link --> worker
//!             replies so far <-------------------in order----------- link
//! ```
//!
//! Invariants
//! 1. One batch runs at a time; others wait. The server has at most [`MOST_SENT`] commands of it: a
//!    batch occupies a worker no longer than a client with that many pipelined commands, other
//!    commands of the same socket get in between, and waiting commands are dropped with the socket.
//! 2. Each command is admitted when it is sent, and runs as its user, as if sent alone.
//! 3. Replies are written in the order of the commands: the first of `order` is pending.
//!
//! Tests are below and in crates/server/tests/http.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::link::{Link, Request};
use crate::scan::REPLY_BYTES;

use super::parse;

/// The most commands of one batch.
pub(super) const MOST_COMMANDS: usize = 1_000;
/// How many commands of the running batch the server may have at once.
const MOST_SENT: usize = 64;

/// Decides whether a command may be sent: the name of its row, or an error.
pub(super) type Admit<'a> = &'a dyn Fn(&[Vec<u8>]) -> Result<String, String>;

/// The batches of one socket, the running one first.
#[derive(Default)]
pub(super) struct Batches(VecDeque<Batch>);

struct Batch {
    db: Option<u32>,
    /// The length of the message.
    bytes: usize,
    /// Commands that were not sent yet.
    waiting: VecDeque<Value>,
    /// A slot for each sent command whose reply is not in `replies` yet; `None`: the reply is
    /// pending.
    order: VecDeque<Option<String>>,
    /// How many replies are pending.
    sent: usize,
    /// The answer so far: JSON without its end.
    replies: String,
}

impl Batches {
    /// Takes a message of `bytes` bytes.
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

    /// The total length of the unanswered messages.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|batch| batch.bytes).sum()
    }

    /// Whether commands of the running batch could be sent.
    pub fn is_hungry(&self) -> bool {
        let is_hungry = |batch: &Batch| match batch.sent {
            0 => true,
            sent => sent < MOST_SENT / 2 && !batch.waiting.is_empty(),
        };
        self.0.front().is_some_and(is_hungry)
    }

    /// Sends what may be sent now. Returns the answer if that completes a batch, as when the rest
    /// is refused.
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

    /// Takes the reply to the first pending command. Returns the answer if that completes the
    /// batch.
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

    /// Writes the replies that are next in order. Above the limit of a reply only their lengths are
    /// written.
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
