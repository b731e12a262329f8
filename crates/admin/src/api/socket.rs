//! `GET /api/socket`: commands, messages and live figures over one WebSocket.
//!
//! ```text
//! browser --{"id","run"}--> link --> worker        link --{"id","reply"}, {"push"}--> browser
//!         --{"id","runs"}-> batches --> link      batches --{"id","replies"}-------->
//!         --{"figures"}---> clock                  clock --{"figures"}-------------->
//!         --{"watch"}-----> traffic (MONITOR)      traffic --{"traffic"}------------>
//! ```
//!
//! Invariants
//! 1. One thing is done at a time: while the browser does not take a message, nothing more is read
//!    from anywhere, so a slow browser costs only what is in progress: the message it does not
//!    take, and what a worker lets a client leave unread.
//! 2. Waiting requests take much more memory than the text they came in: with more than
//!    [`MOST_WAITING_BYTES`] of it, no more are read.
//! 3. The caller is authenticated again with each message, and periodically without: when a session
//!    ends, its sockets end.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::access::Requester;
use crate::admin::{Admin, Peer};
use crate::answer::Refusal;
use crate::link::{Link, LinkEvent, Request};

use super::batch::Batches;
use super::figures::figures;
use super::traffic::Traffic;
use super::{most_bytes, parse};

/// With more pending requests than this, no more are read.
const MOST_PENDING: usize = 1_000;
/// With more bytes of pending or unsent requests than this, no more are read.
const MOST_WAITING_BYTES: usize = 256 << 10;
/// How often the browser and its session are checked.
const LOOK: Duration = Duration::from_secs(20);
/// The allowed interval of figures, in milliseconds.
const FIGURES_MS: std::ops::RangeInclusive<u64> = 250..=60_000;

/// `GET /api/socket`.
pub(super) async fn open(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    Extension(stops): Extension<watch::Receiver<bool>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Refusal> {
    let asker = Requester::needed(&admin, &peer, &headers)?;
    let login = Some(asker.login.clone());
    let link = Link::open(&*admin.host, &peer, login, None).map_err(Refusal::busy)?;
    let most_bytes = most_bytes(&asker);
    let (batches, traffic, figures) = (Batches::default(), None, None);
    let conversation =
        Conversation { admin, peer, headers, asker, link, batches, traffic, figures };
    let upgrade = upgrade.max_message_size(most_bytes).max_frame_size(most_bytes);
    Ok(upgrade.on_upgrade(move |socket| conversation.go_on(socket, stops)))
}

/// The state of one socket.
struct Conversation {
    admin: Arc<Admin>,
    peer: Arc<Peer>,
    headers: HeaderMap,
    asker: Requester,
    link: Link,
    batches: Batches,
    traffic: Option<Traffic>,
    figures: Option<Interval>,
}

/// The next event.
enum Event {
    /// A message from the browser.
    Said(Message),
    /// A message from the server.
    Heard(LinkEvent),
    /// Commands of a batch can be sent to the server.
    Feed,
    /// A line of the watched traffic.
    Traffic(String),
    /// The watched traffic has ended.
    TrafficEnded,
    /// Figures are due.
    Figures,
    /// The session must be checked.
    Look,
    /// One of the two ends is gone.
    End(&'static str),
}

impl Conversation {
    async fn go_on(mut self, mut socket: WebSocket, mut stops: watch::Receiver<bool>) {
        let mut looks = interval(LOOK);
        loop {
            let event = self.next(&mut socket, &mut looks, &mut stops).await;
            let (message, goes_on) = self.answer(event);
            if let Some(message) = message
                && socket.send(message).await.is_err()
            {
                return;
            }
            if !goes_on {
                // It may be gone already.
                let _ = socket.send(Message::Close(None)).await;
                return;
            }
        }
    }

    async fn next(
        &mut self,
        socket: &mut WebSocket,
        looks: &mut Interval,
        stops: &mut watch::Receiver<bool>,
    ) -> Event {
        if self.batches.is_hungry() {
            return Event::Feed;
        }
        let has_room = self.link.pending() + self.batches.waiting() < MOST_PENDING
            && self.link.unsent_bytes() + self.batches.bytes() < MOST_WAITING_BYTES;
        let (traffic, figures) = (&mut self.traffic, &mut self.figures);
        tokio::select! {
            said = socket.recv(), if has_room => match said {
                Some(Ok(message)) => Event::Said(message),
                Some(Err(_)) | None => Event::End(""),
            },
            heard = self.link.next() => match heard {
                Ok(Some(heard)) => Event::Heard(heard),
                Ok(None) | Err(_) => Event::End("the server has ended this client"),
            },
            line = next_of(traffic) => line.map_or(Event::TrafficEnded, Event::Traffic),
            () = tick_of(figures) => Event::Figures,
            _ = looks.tick() => Event::Look,
            _ = stops.wait_for(|stops| *stops) => Event::End("the server stops"),
        }
    }

    /// The message for the browser, and whether the conversation continues.
    fn answer(&mut self, event: Event) -> (Option<Message>, bool) {
        let text = |text: String| Some(Message::Text(text.into()));
        match event {
            Event::Heard(LinkEvent::Reply(id, reply)) if id.is_empty() => {
                (self.batches.reply(reply).and_then(text), true)
            }
            Event::Heard(LinkEvent::Reply(id, reply)) => {
                (text(format!("{{\"id\":{id},\"reply\":{reply}}}")), true)
            }
            Event::Heard(LinkEvent::Push(push)) => (text(format!("{{\"push\":{push}}}")), true),
            Event::Traffic(message) => (text(message), true),
            Event::TrafficEnded => {
                self.traffic = None;
                (None, true)
            }
            Event::End("") => (None, false),
            Event::End(why) => (text(json!({ "error": why }).to_string()), false),
            Event::Said(_) | Event::Look | Event::Figures | Event::Feed
                if !self.is_still_here() =>
            {
                (text(json!({ "error": "the session has ended" }).to_string()), false)
            }
            Event::Feed => (self.feed().and_then(text), true),
            Event::Look => (Some(Message::Ping(Vec::new().into())), true),
            Event::Figures => (text(self.tell_figures().to_string()), true),
            Event::Said(Message::Text(said)) => match self.hear(&said) {
                Ok(answer) => (answer.and_then(text), true),
                Err(why) => (text(json!({ "error": why }).to_string()), true),
            },
            Event::Said(Message::Ping(_) | Message::Pong(_)) => (None, true),
            Event::Said(Message::Binary(_) | Message::Close(_)) => (None, false),
        }
    }

    /// Whether the session of this socket still exists. Also updates the permissions.
    fn is_still_here(&mut self) -> bool {
        let Some(now) = Requester::of(&self.admin, &self.peer, &self.headers) else { return false };
        let id = |asker: &Requester| asker.login.user().map(|user| user.id());
        let is_here = id(&now) == id(&self.asker) && now.may_write == self.asker.may_write;
        if is_here {
            self.asker = now;
        }
        is_here
    }

    /// The figures that are due, or why there are no more.
    fn tell_figures(&mut self) -> Value {
        match self.asker.must_run(self.admin.host.engine(), "info") {
            Ok(()) => json!({ "figures": figures(&*self.admin.host) }),
            Err(refusal) => {
                self.figures = None;
                json!({ "error": refusal.why })
            }
        }
    }

    /// Handles a message from the browser; returns an immediate answer, if any.
    ///
    /// # Errors
    /// A text for the user.
    fn hear(&mut self, said: &str) -> Result<Option<String>, String> {
        let value: Value = serde_json::from_str(said).map_err(|_| "this is no JSON")?;
        if value.get("run").is_some() {
            return self.run(&value);
        }
        if value.get("runs").is_some() {
            let id = id_of(&value)?;
            let taken = self.batches.take(&id, value, said.len()).err();
            return Ok(taken.map(|why| format!("{{\"id\":{id},\"error\":{}}}", json!(why))));
        }
        if let Some(every_ms) = value.get("figures") {
            return self.set_figures(every_ms.as_u64()).map(|()| None);
        }
        match value.get("watch") {
            Some(Value::Null) => self.traffic = None,
            Some(watched) => self.watch(watched)?,
            None => return Err("one of run, runs, figures and watch is to be said".into()),
        }
        Ok(None)
    }

    fn run(&mut self, value: &Value) -> Result<Option<String>, String> {
        let id = id_of(value)?;
        let refused = |why: String| {
            let error = json!({ "error": why });
            Ok(Some(format!("{{\"id\":{id},\"reply\":{error}}}")))
        };
        let parse::Command { args, db } = match parse::command(value) {
            Ok(command) => command,
            Err(why) => return refused(format!("ERR {why}")),
        };
        match self.asker.admit(self.admin.host.engine(), &args) {
            Ok(name) => {
                self.link.ask(Request { id, args, db, name });
                Ok(None)
            }
            Err(error) => refused(error),
        }
    }

    fn feed(&mut self) -> Option<String> {
        let Conversation { admin, asker, link, batches, .. } = self;
        batches.feed(link, &|args| asker.admit(admin.host.engine(), args))
    }

    fn set_figures(&mut self, every_ms: Option<u64>) -> Result<(), String> {
        let every_ms = every_ms.ok_or("figures is to be a number of milliseconds")?;
        if every_ms == 0 {
            self.figures = None;
            return Ok(());
        }
        if !FIGURES_MS.contains(&every_ms) {
            let (least, most) = (FIGURES_MS.start(), FIGURES_MS.end());
            return Err(format!("figures is to be 0, or {least} to {most} milliseconds"));
        }
        let may = self.asker.must_run(self.admin.host.engine(), "info");
        may.map_err(|refusal| refusal.why)?;
        let mut figures = interval(Duration::from_millis(every_ms));
        figures.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.figures = Some(figures);
        Ok(())
    }

    fn watch(&mut self, watched: &Value) -> Result<(), String> {
        if !self.asker.may_write {
            return Err("log in first: to watch clients is not only to read".into());
        }
        let client = watched.get("client");
        let number = client.and_then(|client| match client {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        });
        let number = number.ok_or("client is to be the number of a client, or 0 for all")?;
        let login = self.asker.login.clone();
        self.traffic = Some(Traffic::begin(&*self.admin.host, &self.peer, login, number)?);
        Ok(())
    }
}

/// The id of a request, as JSON.
///
/// # Errors
/// A text for the user.
fn id_of(value: &Value) -> Result<String, String> {
    match value.get("id") {
        Some(id @ (Value::Number(_) | Value::String(_))) => Ok(id.to_string()),
        _ => Err("id is to be a number or text".into()),
    }
}

async fn next_of(traffic: &mut Option<Traffic>) -> Option<String> {
    match traffic {
        Some(traffic) => traffic.next().await,
        None => pending().await,
    }
}

async fn tick_of(figures: &mut Option<Interval>) {
    match figures {
        Some(figures) => drop(figures.tick().await),
        None => pending().await,
    }
}
