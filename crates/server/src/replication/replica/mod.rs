//! This server as a replica: whom it follows, and how it begins and ends to.
//!
//! ```text
//! REPLICAOF host port   writes refused --> the stream's end is known --> a thread follows (link)
//! link                  connect, PSYNC --> full copy (copy) --> steps applied (apply)
//! REPLICAOF NO ONE      the link ends between two steps --> a new history --> writes again
//! ```
//!
//! Invariants
//! 1. The role changes under `changing`, and under `applying`: between two batches of steps.
//! 2. A link whose number is not in force any more does nothing to data and stream: it looks after
//!    it has taken `applying`.
//! 3. Whoever changes the role of a replica waits for no script for ever: `haste`.
//! 4. While this is a replica nothing expires or is evicted by itself: the primary says it.
//!
//! Not here: what is said to a primary (`pantala_replication::link`). Tests: compat/replication,
//! `replication/simulator`.

mod apply;
mod client;
mod copy;
mod haste;
mod link;
pub(super) mod socket;
mod told;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use pantala_base::clock::monotonic_us;
use pantala_engine::condition::redirection::Target;
use pantala_engine::condition::states::States;
use pantala_keyspace::HideReason;
use pantala_replication::History;
use pantala_settings::Settings;

use self::client::LinkClient;
use self::haste::Haste;
use self::socket::{End, Network, Tcp};
use crate::process::files::journaling;
use crate::replication::primary;
use crate::shared::Shared;
use crate::workers::inbox::Message;

pub use client::{kill, line};
pub use told::{Told, told};

/// A primary's address, as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Name or number.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// How far the link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkPhase {
    /// It is to connect.
    #[default]
    Connect,
    /// It connects.
    Connecting,
    /// It says who it is.
    Handshake,
    /// The snapshot comes.
    Sync,
    /// The stream is followed.
    Connected,
}

impl Primary {
    /// As the setting names it.
    fn setting(&self) -> String {
        format!("{} {}", self.host, self.port)
    }
}

impl LinkPhase {
    /// As ROLE says it.
    pub fn word(self) -> &'static str {
        match self {
            LinkPhase::Connect => "connect",
            LinkPhase::Connecting => "connecting",
            LinkPhase::Handshake => "handshake",
            LinkPhase::Sync => "sync",
            LinkPhase::Connected => "connected",
        }
    }
}

/// This server's side as a replica: the link in force, and the locks under which the role changes.
#[derive(Default)]
pub struct Following {
    /// Held by whoever changes the role.
    changing: Mutex<()>,
    /// Held while steps are applied, or the data is replaced: who takes it finds data and stream at
    /// one moment.
    pub applying: Mutex<()>,
    /// The link in force.
    number: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    is_replica: AtomicBool,
    is_connected: AtomicBool,
    /// The database that the stream has selected.
    db: AtomicU32,
    /// When something came last (monotonic, microseconds).
    heard_us: AtomicU64,
    /// Since when there is no link, likewise; 0: there was none.
    down_us: AtomicU64,
    /// Steps were left out or cut: the server stops, or changes its role in haste, or one failed.
    is_cut_short: AtomicBool,
    /// A step has failed, and the link is to end for that.
    must_stop: AtomicBool,
    /// The role changes, and scripts that stand in the way are ended.
    hastens: AtomicBool,
    /// It still can not: steps that wait are left out.
    gives_up: AtomicBool,
    copying: Copying,
    /// How primaries are reached in tests.
    network: OnceLock<Arc<dyn Network>>,
}

#[derive(Default)]
struct State {
    primary: Option<Primary>,
    phase: LinkPhase,
    end: Option<Box<dyn End>>,
    client: Option<LinkClient>,
    thread: Option<JoinHandle<()>>,
    /// The system had no thread for the link.
    lacks_link: bool,
}

/// How far the snapshot is.
#[derive(Default)]
struct Copying {
    /// Its bytes; 0: not known.
    total: AtomicU64,
    bytes: AtomicU64,
}

fn relock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Following {
    fn state(&self) -> MutexGuard<'_, State> {
        relock(&self.state)
    }

    /// Steps are not applied, or not whole: nobody knows where the data is.
    fn cut_short(&self) {
        self.is_cut_short.store(true, Ordering::Release);
    }

    fn is_cut_short(&self) -> bool {
        self.is_cut_short.load(Ordering::Acquire)
    }

    fn must_stop(&self) -> bool {
        self.must_stop.load(Ordering::Acquire)
    }

    fn gives_up(&self) -> bool {
        self.gives_up.load(Ordering::Acquire)
    }

    /// A step has failed; whether the link is to end for that.
    fn step_failed(&self, stops: bool) {
        if stops {
            self.must_stop.store(true, Ordering::Release);
        }
        // In haste its script may be one that was ended.
        if stops || self.hastens.load(Ordering::Acquire) {
            self.cut_short();
        }
    }

    /// Whether the link of this number has ended for good. REPLICAOF begins another one.
    fn stands_still(&self, number: u64) -> bool {
        let mut state = self.state();
        let stands_still = self.must_stop() && self.is_in_force(number);
        state.lacks_link |= stands_still;
        stands_still
    }

    /// What was left out belongs to a link that is no more. With `applying` held.
    fn begin_anew(&self) {
        self.is_cut_short.store(false, Ordering::Release);
        self.must_stop.store(false, Ordering::Release);
    }

    /// Whether this server is a replica.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Acquire)
    }

    /// Whether it follows its primary's stream.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Acquire)
    }

    /// The database that the stream has selected.
    pub fn stream_db(&self) -> u32 {
        self.db.load(Ordering::Acquire)
    }

    /// Whom it follows.
    pub fn primary(&self) -> Option<Primary> {
        self.state().primary.clone()
    }

    /// Whether it follows this one, or tries to.
    pub fn follows(&self, primary: &Primary) -> bool {
        let state = self.state();
        state.primary.as_ref() == Some(primary) && !state.lacks_link
    }

    /// Whether the link of this number is the one in force.
    fn is_in_force(&self, number: u64) -> bool {
        self.number.load(Ordering::Acquire) == number
    }

    /// The link in force is so no more: it ends as soon as it can. The number of the next one.
    fn interrupt(&self) -> u64 {
        let number = self.number.fetch_add(1, Ordering::AcqRel) + 1;
        let state = self.state();
        if let Some(end) = &state.end {
            end.shut();
        }
        drop(state);
        self.changed.notify_all();
        number
    }

    /// How primaries are reached, with these settings.
    fn network(&self, settings: &Settings) -> Arc<dyn Network> {
        let tcp = || Arc::new(Tcp { source: settings.bind_source_addr.clone() });
        self.network.get().map_or_else(|| tcp() as Arc<dyn Network>, Arc::clone)
    }

    /// Now, as it passes for links.
    pub fn now(&self) -> Instant {
        self.network.get().map_or_else(Instant::now, |network| network.now())
    }

    /// The link of this number has this socket now; whether it is in force.
    fn set_socket(&self, shared: &Shared, number: u64, end: Option<Box<dyn End>>) -> bool {
        let mut state = self.state();
        let is_in_force = self.is_in_force(number);
        if is_in_force {
            state.client = end.as_ref().map(|end| LinkClient::new(shared, &**end));
            state.end = end;
        }
        is_in_force
    }

    /// Waits so long, or until the link of this number is no more in force.
    fn rest(&self, number: u64, most: Duration) {
        let is_in_force = |_: &mut State| self.is_in_force(number);
        let waited = self.changed.wait_timeout_while(self.state(), most, is_in_force);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Primaries are reached by this network.
    #[cfg(test)]
    pub fn simulate(&self, network: Arc<dyn Network>) {
        assert!(self.network.set(network).is_ok(), "before the first link");
    }

    /// The link's thread, for whoever waits for it.
    #[cfg(test)]
    pub fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.state().thread.take()
    }

    fn heard(&self) {
        self.heard_us.store(monotonic_us(), Ordering::Relaxed);
    }
}

/// The link of this number is so far.
fn set_phase(shared: &Shared, number: u64, phase: LinkPhase) {
    let following = &shared.replication.following;
    let mut state = following.state();
    if !following.is_in_force(number) {
        return;
    }
    let was_connected = state.phase == LinkPhase::Connected;
    state.phase = phase;
    let is_connected = phase == LinkPhase::Connected;
    following.is_connected.store(is_connected, Ordering::Release);
    if was_connected && !is_connected {
        following.down_us.store(monotonic_us(), Ordering::Relaxed);
    }
    apply_states(shared, &shared.engine.settings.current());
}

/// The states of a replica, by the settings and the link. With the state locked, or the role fixed.
fn apply_states(shared: &Shared, settings: &Settings) {
    let following = &shared.replication.following;
    let lasting = &shared.engine.condition.lasting;
    let is_replica = following.is_replica();
    let is_stale = !settings.replica_serve_stale_data && !following.is_connected();
    // While the role is handed over all writes wait: nobody is refused who may go on in the end.
    let is_read_only = settings.replica_read_only && !shared.replication.failover.is_under_way();
    shared.engine.condition.redirection.set(match is_replica {
        false => Target::Here,
        true if shared.replication.failover.is_under_way() => Target::Soon,
        true => Target::There(settings.replicaof.replace(' ', ":").into()),
    });
    for (state, is_so) in [
        (States::READ_ONLY, is_read_only),
        (States::STALE, is_stale),
        (States::UNLIMITED, settings.replica_ignore_maxmemory),
    ] {
        match is_replica && is_so {
            true => lasting.begin(state),
            false => lasting.end(state),
        }
    }
}

/// CONFIG SET has changed something.
pub fn settings_changed(shared: &Shared, now: &Settings) {
    let _state = shared.replication.following.state();
    apply_states(shared, now);
}

/// Follows this primary from now on; false: it does so already. Only on a thread that may wait,
/// outside the gate.
///
/// # Errors
/// A text for the operator.
pub fn follow(shared: &Arc<Shared>, primary: &Primary) -> Result<bool, String> {
    let following = &shared.replication.following;
    let _changing = relock(&following.changing);
    if following.follows(primary) {
        return Ok(false);
    }
    follow_now(shared, primary, &|| {}).map(|()| true)
}

/// Follows a primary that hands its role over to this replica. `wait` is called once nothing is
/// added to the stream any more.
///
/// # Errors
/// A text for the operator.
pub fn hand_over(shared: &Arc<Shared>, primary: &Primary, wait: &dyn Fn()) -> Result<(), String> {
    let _changing = relock(&shared.replication.following.changing);
    if shared.replication.is_replica() {
        return Err("this server follows another one".into());
    }
    follow_now(shared, primary, wait)
}

/// With `changing` held.
fn follow_now(shared: &Arc<Shared>, primary: &Primary, wait: &dyn Fn()) -> Result<(), String> {
    let following = &shared.replication.following;
    let number = following.interrupt();
    let haste = following.is_replica().then(|| Haste::begin(shared)).flatten();
    let _between_steps = relock(&following.applying);
    // The next link applies its steps in peace.
    drop(haste);
    following.begin_anew();
    become_replica(shared, primary, wait).inspect_err(|_| follow_anew(shared))?;
    tracing::info!(host = primary.host, port = primary.port, "this server becomes a replica");
    start_link(shared, number)
}

/// Of this one, without a link yet.
fn become_replica(shared: &Shared, primary: &Primary, wait: &dyn Fn()) -> Result<(), String> {
    let following = &shared.replication.following;
    set_setting(shared, &primary.setting())?;
    if !following.is_replica() {
        end_as_primary(shared)?;
        wait();
    }
    let mut state = following.state();
    state.primary = Some(primary.clone());
    begin_phases(shared, &mut state);
    Ok(())
}

/// There is no link yet.
fn begin_phases(shared: &Shared, state: &mut State) {
    let following = &shared.replication.following;
    state.phase = LinkPhase::Connect;
    following.is_connected.store(false, Ordering::Release);
    following.down_us.store(0, Ordering::Relaxed);
    apply_states(shared, &shared.engine.settings.current());
}

/// The role could not be changed, and the link was interrupted for that: who follows goes on to
/// follow whom it did.
fn follow_anew(shared: &Shared) {
    let following = &shared.replication.following;
    let setting = following.primary().map(|primary| primary.setting()).unwrap_or_default();
    let mut begun = set_setting(shared, &setting);
    // Without this the server stops.
    if let Some(shared) = shared.arc().filter(|_| following.is_replica()) {
        begin_phases(&shared, &mut following.state());
        begun = begun.and(start_link(&shared, following.interrupt()));
    }
    if let Err(why) = begun {
        tracing::error!("the primary is not followed again: {why}");
    }
}

/// What CONFIG GET and CONFIG REWRITE say from now on.
fn set_setting(shared: &Shared, text: &str) -> Result<(), String> {
    let changed = shared.engine.settings.change(|now| now.clone().with("replicaof", text));
    changed.map(drop).map_err(|refused| refused.to_string())
}

/// No client changes anything any more, and all that was changed is in the stream.
fn end_as_primary(shared: &Shared) -> Result<(), String> {
    let (engine, following) = (&shared.engine, &shared.replication.following);
    following.is_replica.store(true, Ordering::Release);
    engine.space.hide_expired(HideReason::Replica, true);
    apply_states(shared, &engine.settings.current());
    // Turns that began before have ended after this.
    if engine.space.at_one_moment(|_| {}).is_err() {
        engine.space.hide_expired(HideReason::Replica, false);
        following.is_replica.store(false, Ordering::Release);
        apply_states(shared, &engine.settings.current());
        return Err("a script does not end".into());
    }
    if shared.appending.is_fed() {
        journaling::stop_feeding(shared);
    }
    // A replica needs no replicas to be written to.
    primary::count_good(shared);
    shared.workers.post_all(|| Message::RoleChanged);
    Ok(())
}

fn start_link(shared: &Arc<Shared>, number: u64) -> Result<(), String> {
    let of_thread = Arc::clone(shared);
    let life = move || {
        link::run(&of_thread, number);
        pantala_memory::release_seat();
    };
    let spawned = Builder::new().name("replica-link".into()).spawn(life);
    let mut state = shared.replication.following.state();
    // Who asks again to follow the same one is not told that this does so already.
    state.lacks_link = spawned.is_err();
    // The one before ends by itself.
    state.thread = Some(spawned.map_err(|error| format!("cannot start a thread: {error}"))?);
    Ok(())
}

/// Follows nobody from now on: the data goes its own way. Only on a thread that may wait, outside
/// the gate.
///
/// # Errors
/// A text for the operator.
pub fn promote(shared: &Shared) -> Result<(), String> {
    let following = &shared.replication.following;
    let _changing = relock(&following.changing);
    if !following.is_replica() {
        return Ok(());
    }
    following.interrupt();
    let haste = shared.arc().and_then(|shared| Haste::begin(&shared));
    let _between_steps = relock(&following.applying);
    following.begin_anew();
    let replication = &shared.replication;
    let prepared = prepare_as_primary(shared);
    drop(haste);
    prepared.inspect_err(|_| follow_anew(shared))?;
    // One that is sent some of the new history under the old one's name can go on nowhere.
    drop_replicas(shared);
    let id = {
        let mut state = following.state();
        let id = replication.stream.branch();
        (state.primary, state.end, state.client) = (None, None, None);
        following.is_connected.store(false, Ordering::Release);
        following.is_replica.store(false, Ordering::Release);
        // Before writes are allowed: too few may follow for them.
        primary::count_good(shared);
        apply_states(shared, &shared.engine.settings.current());
        id
    };
    shared.engine.space.hide_expired(HideReason::Replica, false);
    // Who has come meanwhile learns of it, too.
    drop_replicas(shared);
    tracing::info!(%id, position = replication.stream.end(), "this server becomes a primary");
    Ok(())
}

/// What may fail, before anything has changed.
fn prepare_as_primary(shared: &Shared) -> Result<(), String> {
    set_setting(shared, "")?;
    // Before anybody writes: what is written is in the stream.
    if shared.replication.stream.history().is_kept {
        haste::insist(shared, || journaling::begin_to_feed(shared))?;
    }
    Ok(())
}

/// Whether this server is a replica, and whose data it has: both before the role changes, or both
/// after it.
pub fn role_and_history(shared: &Shared) -> (bool, History) {
    let _state = shared.replication.following.state();
    (shared.replication.is_replica(), shared.replication.stream.history())
}

/// Closes the connections of all replicas: they come back, and learn of the new history.
fn drop_replicas(shared: &Shared) {
    for replica in shared.replication.replicas.all() {
        primary::close(shared, &replica);
    }
}

/// The server stops: the link ends.
pub fn end(shared: &Shared) {
    let following = &shared.replication.following;
    following.interrupt();
    let thread = following.state().thread.take();
    if let Some(thread) = thread {
        // One that panicked has said so.
        let _ended = thread.join();
    }
}

/// Before there is a client: writes are refused if the settings name a primary.
pub fn prepare(shared: &Shared) {
    let settings = shared.engine.settings.current();
    if let Some(primary) = named(&settings.replicaof) {
        shared.replication.following.state().primary = Some(primary);
        shared.replication.following.is_replica.store(true, Ordering::Release);
        shared.engine.space.hide_expired(HideReason::Replica, true);
        apply_states(shared, &settings);
        // It was counted when nobody knew that this is a replica.
        primary::count_good(shared);
    }
}

/// After the data was loaded from a file: a replica goes on where that was, and the replicas of a
/// primary may come back. They hear of keys that had expired by then.
///
/// # Errors
/// A text for the operator.
pub fn resume(shared: &Shared) -> Result<(), String> {
    let expired = shared.loading.take_expired();
    let Some(place) = shared.loading.place().filter(|_| !expired.is_cut) else { return Ok(()) };
    let (replication, is_primary) = (&shared.replication, !shared.replication.is_replica());
    replication.stream.resume(place.id, place.position, is_primary);
    replication.following.db.store(place.db, Ordering::Release);
    tracing::info!(id = %place.id, position = place.position, "the data is of this history");
    if is_primary {
        // Nobody has changed anything yet.
        journaling::begin_to_feed(shared)?;
        let (space, recorder) = (&shared.engine.space, shared.engine.journal.join());
        expired.keys.iter().for_each(|(db, name)| space.record_gone(*db, name, &recorder));
        primary::settings_changed(shared);
    }
    Ok(())
}

/// Begins as the settings say, once all is loaded.
///
/// # Errors
/// A text for the operator.
pub fn begin(shared: &Arc<Shared>) -> Result<(), String> {
    let following = &shared.replication.following;
    let _changing = relock(&following.changing);
    let begins = following.is_replica() && following.state().thread.is_none();
    if begins { start_link(shared, following.interrupt()) } else { Ok(()) }
}

/// The primary that the setting names.
pub fn named(text: &str) -> Option<Primary> {
    let (host, port) = text.rsplit_once(' ')?;
    Some(Primary { host: host.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_names_a_primary_or_none() {
        assert_eq!(named(""), None);
        assert_eq!(named("::1 7000"), Some(Primary { host: "::1".into(), port: 7000 }));
    }
}
