//! Memcached's `flush_all` with a delay.
//!
//! There is at most one such flush: a later request, with a delay or without, replaces it. The
//! thread that waits for it exists only meanwhile; what it then does is a job of the slow lane,
//! like the flush that a client asks for at once. CLIENT PAUSE delays the flush further, as the
//! data must stay as they are.
//!
//! Tests: the server's `tests/memcached.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pantala_base::clock::monotonic_us;
use pantala_commands::families::memcached::{NO_REPLY, Verb};
use pantala_commands::{Locking, OwnedArgs, Session};
use pantala_engine::clients::presence::WaitingCommand;
use pantala_engine::condition::pause::PauseScope;
use pantala_engine::engine::slots_cell::WritePermit;
use pantala_engine::lane::Job;
use pantala_engine::{Mailbox, Message};
use parking_lot::{Condvar, Mutex};

use crate::Operator;

/// How often is checked whether clients are still paused.
const PAUSE_LOOK: Duration = Duration::from_millis(20);

/// The flush that Memcached's `flush_all` with a delay has asked for, if any.
#[derive(Default)]
pub struct DelayedFlush {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    at: Option<Instant>,
    has_thread: bool,
}

impl DelayedFlush {
    /// Cancels the flush.
    pub fn cancel(&self) {
        self.state.lock().at = None;
        self.changed.notify_all();
    }
}

/// Empties database 0 after this time.
///
/// # Errors
/// The system has no thread for it.
pub fn flush_in(operator: &Operator, delay: Duration) -> std::io::Result<()> {
    let Some(at) = Instant::now().checked_add(delay) else { return Ok(()) };
    let Some(owned) = operator.arc() else { return Ok(()) };
    let mut state = operator.delayed_flush.state.lock();
    state.at = Some(at);
    operator.delayed_flush.changed.notify_all();
    if !state.has_thread {
        std::thread::Builder::new().name("flush".into()).spawn(move || wait_and_flush(&owned))?;
        state.has_thread = true;
    }
    Ok(())
}

/// The main loop of the thread.
fn wait_and_flush(operator: &Operator) {
    let DelayedFlush { state, changed } = &operator.delayed_flush;
    let mut state = state.lock();
    while let Some(at) = state.at {
        let mut left = at.saturating_duration_since(Instant::now());
        if left.is_zero()
            && operator.engine.condition.pause.state(monotonic_us()) != PauseScope::Nothing
        {
            left = PAUSE_LOOK;
        }
        if left.is_zero() {
            state.at = None;
            submit(operator);
            break;
        }
        let _timed_out = changed.wait_for(&mut state, left);
    }
    state.has_thread = false;
}

fn submit(operator: &Operator) {
    let found = operator.context.verbs.row(Verb::FlushAll);
    operator.engine.lane.submit(Job {
        args: OwnedArgs::of(&[Verb::FlushAll.name().as_bytes(), b"0", NO_REPLY]),
        found,
        session: Box::new(Session::new(0)),
        inbox: Arc::new(NoRequester),
        connection: 0,
        parking: 0,
        locking: Locking::Upfront,
        tries: 0,
        has_begun: false,
        permit: WritePermit::default(),
        answer: None,
        waited: None,
        applicant: WaitingCommand { presence: Arc::default(), since_us: monotonic_us() },
    });
}

/// The client that asked does not wait for the answer.
struct NoRequester;

impl pantala_keyspace::Inbox for NoRequester {
    fn unpark(&self, _connection: u64, _parking: u32) {}

    fn wake(&self) {}
}

impl Mailbox for NoRequester {
    fn leave(&self, _message: Message) {}
}
