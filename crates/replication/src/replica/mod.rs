//! This server as a replica: which server it follows, and how it begins and ends to.
//!
//! ```text
//! REPLICAOF host port   writes refused --> the stream's end is known --> a thread follows (link)
//! link                  connect, PSYNC --> full copy (copy) --> steps applied (apply)
//! REPLICAOF NO ONE      the link ends between two steps --> a new history --> writes again
//! ```
//!
//! Invariants
//! 1. The role changes with `changing` held, between two steps: between two batches of steps.
//! 2. A link whose number is not in force any more does nothing to data and stream: it checks after
//!    it has taken `applying`.
//! 3. A change of a replica's role does not wait for a script for ever: `haste`.
//! 4. On a replica nothing expires or is evicted by itself: the primary's stream says so.
//!
//! Not here: the protocol with the primary (`pantala_psync::link`). Tests:
//! compat/replication, crates/simulator.

mod apply;
mod client;
mod copy;
mod haste;
mod link;
pub mod socket;
mod told;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use pantala_base::clock::monotonic_us;
use pantala_engine::condition::redirection::Target;
use pantala_engine::condition::states::States;
use pantala_keyspace::HideReason;
use pantala_psync::{History, RoleState};
use pantala_settings::Settings;
use parking_lot::{Condvar, Mutex, MutexGuard};

use self::client::LinkClient;
use self::haste::PromotionHaste;
use self::socket::{End, Network, Tcp};
use crate::Replication;
use crate::primary;
use pantala_durability::journaling;
use pantala_engine::Message;

pub use client::{kill, line};
pub use told::{LinkReport, told};

/// A primary's address, as it was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Host name or IP address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// The phase of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkPhase {
    /// It is about to connect.
    #[default]
    Connect,
    /// It connects.
    Connecting,
    /// The handshake is under way.
    Handshake,
    /// The snapshot is being received.
    Sync,
    /// The stream is being followed.
    Connected,
}

impl Primary {
    /// The value of the setting `replicaof`.
    fn setting(&self) -> String {
        format!("{} {}", self.host, self.port)
    }
}

impl LinkPhase {
    /// The word in ROLE.
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
pub struct FollowState {
    /// Held while the role changes.
    changing: Mutex<()>,
    /// Primary or replica, and the lock between two steps.
    pub role: Arc<RoleState>,
    /// The number of the link in force.
    number: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    is_connected: AtomicBool,
    /// When bytes came last (monotonic, microseconds).
    heard_us: AtomicU64,
    /// Since when there is no link (monotonic, microseconds); 0: there was none yet.
    down_us: AtomicU64,
    /// No link is begun and nothing applied before this time (monotonic, microseconds): DEBUG
    /// SLEEP.
    asleep_until_us: AtomicU64,
    /// Bytes of the stream that were received and are held back by a pause.
    unapplied_bytes: AtomicU64,
    /// Steps were skipped or shortened: the server stops, changes its role in haste, or one has
    /// failed.
    is_cut_short: AtomicBool,
    /// A step has failed, and the link is to end for that.
    must_stop: AtomicBool,
    /// The role changes, and scripts in the way are ended.
    hastens: AtomicBool,
    /// It still cannot change: waiting steps are skipped.
    gives_up: AtomicBool,
    copying: CopyProgress,
    /// How primaries are reached, in tests.
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

/// The progress of the snapshot.
#[derive(Default)]
struct CopyProgress {
    /// Its bytes; 0: unknown.
    total: AtomicU64,
    bytes: AtomicU64,
}

impl FollowState {
    /// The state of a server that follows none.
    pub fn new(role: Arc<RoleState>) -> FollowState {
        FollowState { role, ..FollowState::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Notes that steps are skipped or shortened: the data is at no position of the stream.
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

    /// Notes a failed step; `stops`: the link is to end for that.
    fn step_failed(&self, stops: bool) {
        if stops {
            self.must_stop.store(true, Ordering::Release);
        }
        // In haste its script may have been ended.
        if stops || self.hastens.load(Ordering::Acquire) {
            self.cut_short();
        }
    }

    /// Whether the link with this number has ended for good, until REPLICAOF begins another one.
    fn stands_still(&self, number: u64) -> bool {
        let mut state = self.state();
        let stands_still = self.must_stop() && self.is_in_force(number);
        state.lacks_link |= stands_still;
        stands_still
    }

    /// Forgets that steps were skipped: that concerns a link that is gone. With `applying` held.
    fn begin_anew(&self) {
        self.is_cut_short.store(false, Ordering::Release);
        self.must_stop.store(false, Ordering::Release);
    }

    /// Whether this server is a replica.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.role.is_replica()
    }

    /// Whether it follows its primary's stream at present.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Acquire)
    }

    /// The database selected in the stream.
    pub fn stream_db(&self) -> u32 {
        self.role.stream_db()
    }

    /// The server that it follows.
    pub fn primary(&self) -> Option<Primary> {
        self.state().primary.clone()
    }

    /// Whether it follows this server, or tries to.
    pub fn follows(&self, primary: &Primary) -> bool {
        let state = self.state();
        state.primary.as_ref() == Some(primary) && !state.lacks_link
    }

    /// Whether the link with this number is in force.
    fn is_in_force(&self, number: u64) -> bool {
        self.number.load(Ordering::Acquire) == number
    }

    /// Puts the link out of force: it ends as soon as it can. Returns the number of the next one.
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

    /// The current time, as links see it.
    pub fn now(&self) -> Instant {
        self.network.get().map_or_else(Instant::now, |network| network.now())
    }

    /// Notes the socket of the link with this number; whether that link is in force.
    fn set_socket(
        &self,
        replication: &Replication,
        number: u64,
        end: Option<Box<dyn End>>,
    ) -> bool {
        let mut state = self.state();
        let is_in_force = self.is_in_force(number);
        if is_in_force {
            state.client = end.as_ref().map(|end| LinkClient::new(replication, &**end));
            state.end = end;
        }
        is_in_force
    }

    /// Waits for `most`, or until the link with this number is not in force any more.
    fn rest(&self, number: u64, most: Duration) {
        let is_in_force = |_: &mut State| self.is_in_force(number);
        let _timed_out = self.changed.wait_while_for(&mut self.state(), is_in_force, most);
    }

    /// Begins no link and applies nothing for this long: DEBUG SLEEP.
    pub fn sleep_for(&self, time: Duration) {
        let until_us = monotonic_us().saturating_add(time.as_micros() as u64);
        self.asleep_until_us.fetch_max(until_us, Ordering::Relaxed);
    }

    fn is_asleep(&self) -> bool {
        let until_us = self.asleep_until_us.load(Ordering::Relaxed);
        until_us > 0 && until_us > monotonic_us()
    }

    fn note_unapplied(&self, bytes: usize) {
        self.unapplied_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Waits until the link with this number may begin, or is not in force any more.
    fn sleep_out(&self, number: u64) {
        let until_us = self.asleep_until_us.load(Ordering::Relaxed);
        if until_us > 0 && until_us > monotonic_us() {
            self.rest(number, Duration::from_micros(until_us.saturating_sub(monotonic_us())));
        }
    }

    /// Sets the network by which primaries are reached, in tests.
    pub fn simulate(&self, network: Arc<dyn Network>) {
        assert!(self.network.set(network).is_ok(), "before the first link");
    }

    /// Takes the handle of the link's thread, to wait for it.
    pub fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.state().thread.take()
    }

    fn heard(&self) {
        self.heard_us.store(monotonic_us(), Ordering::Relaxed);
    }
}

/// Sets the phase of the link with this number.
fn set_phase(replication: &Replication, number: u64, phase: LinkPhase) {
    let following = &replication.following;
    let mut state = following.state();
    if !following.is_in_force(number) {
        return;
    }
    debug_assert!(following.is_replica(), "a link in force is a replica's");
    debug_assert!(
        phase as u8 <= LinkPhase::Connecting as u8 || phase as u8 > state.phase as u8,
        "phases follow each other"
    );
    let was_connected = state.phase == LinkPhase::Connected;
    state.phase = phase;
    let is_connected = phase == LinkPhase::Connected;
    following.is_connected.store(is_connected, Ordering::Release);
    if was_connected && !is_connected {
        following.down_us.store(monotonic_us(), Ordering::Relaxed);
    }
    apply_states(replication, &replication.engine.settings.current());
}

/// Sets the states of a replica, by the settings and the link. With the state locked, or the role
/// fixed.
fn apply_states(replication: &Replication, settings: &Settings) {
    let following = &replication.following;
    let lasting = &replication.engine.condition.lasting;
    let is_replica = following.is_replica();
    let is_stale = !settings.replica_serve_stale_data && !following.is_connected();
    // While the role is handed over all writes wait; a client that may go on in the end is not
    // refused.
    let is_read_only = settings.replica_read_only && !replication.failover.is_under_way();
    replication.engine.condition.redirection.set(match is_replica {
        false => Target::Here,
        true if replication.failover.is_under_way() => Target::Soon,
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

/// Applies changed settings.
pub fn settings_changed(replication: &Replication, now: &Settings) {
    let _state = replication.following.state();
    apply_states(replication, now);
}

/// Follows this primary from now on; false if it does so already. Only on a thread that may wait,
/// outside the gate.
///
/// # Errors
/// A text for the operator.
pub fn follow(replication: &Arc<Replication>, primary: &Primary) -> Result<bool, String> {
    let following = &replication.following;
    let _changing = following.changing.lock();
    if following.follows(primary) {
        return Ok(false);
    }
    follow_now(replication, primary, &|| {}).map(|()| true)
}

/// Follows a primary that hands its role over to this replica. `wait` is called once nothing is
/// added to the stream any more.
///
/// # Errors
/// A text for the operator.
pub fn hand_over(
    replication: &Arc<Replication>,
    primary: &Primary,
    wait: &dyn Fn(),
) -> Result<(), String> {
    let _changing = replication.following.changing.lock();
    if replication.is_replica() {
        return Err("this server follows another one".into());
    }
    follow_now(replication, primary, wait)
}

/// Follows this primary. With `changing` held.
fn follow_now(
    replication: &Arc<Replication>,
    primary: &Primary,
    wait: &dyn Fn(),
) -> Result<(), String> {
    let following = &replication.following;
    let number = following.interrupt();
    let haste = following.is_replica().then(|| PromotionHaste::begin(replication)).flatten();
    let _between_steps = following.role.between_steps();
    // The next link applies its steps without haste.
    drop(haste);
    following.begin_anew();
    become_replica(replication, primary, wait).inspect_err(|_| follow_anew(replication))?;
    tracing::info!(host = primary.host, port = primary.port, "this server becomes a replica");
    start_link(replication, number)
}

/// Makes this server a replica of this primary, without a link yet.
fn become_replica(
    replication: &Replication,
    primary: &Primary,
    wait: &dyn Fn(),
) -> Result<(), String> {
    let following = &replication.following;
    set_setting(replication, &primary.setting())?;
    if !following.is_replica() {
        end_as_primary(replication)?;
        wait();
    }
    let mut state = following.state();
    state.primary = Some(primary.clone());
    begin_phases(replication, &mut state);
    replication.tell_role_changed();
    Ok(())
}

/// Resets the phase: there is no link yet.
fn begin_phases(replication: &Replication, state: &mut State) {
    let following = &replication.following;
    debug_assert!(following.is_replica(), "only a replica has a link");
    state.phase = LinkPhase::Connect;
    following.is_connected.store(false, Ordering::Release);
    following.down_us.store(0, Ordering::Relaxed);
    apply_states(replication, &replication.engine.settings.current());
}

/// Goes on to follow the previous primary: the role could not be changed, and the link was
/// interrupted for that.
fn follow_anew(replication: &Replication) {
    let following = &replication.following;
    let setting = following.primary().map(|primary| primary.setting()).unwrap_or_default();
    let mut begun = set_setting(replication, &setting);
    // Otherwise the server stops.
    if let Some(replication) = replication.arc().filter(|_| following.is_replica()) {
        begin_phases(&replication, &mut following.state());
        begun = begun.and(start_link(&replication, following.interrupt()));
    }
    if let Err(why) = begun {
        tracing::error!("cannot follow the primary again: {why}");
    }
}

/// Sets what CONFIG GET and CONFIG REWRITE show.
fn set_setting(replication: &Replication, text: &str) -> Result<(), String> {
    let changed = replication.engine.settings.change(|now| now.clone().with("replicaof", text));
    changed.map(drop).map_err(|refused| refused.to_string())
}

/// Ends writing by clients, and waits until all changes are in the stream.
fn end_as_primary(replication: &Replication) -> Result<(), String> {
    let (engine, following) = (&replication.engine, &replication.following);
    debug_assert!(!following.is_replica(), "it is a primary until now");
    following.role.set_replica(true);
    engine.space.hide_expired(HideReason::Replica, true);
    apply_states(replication, &engine.settings.current());
    // Turns that began before have ended after this.
    if engine.space.at_one_moment(|_| {}).is_err() {
        engine.space.hide_expired(HideReason::Replica, false);
        following.role.set_replica(false);
        apply_states(replication, &engine.settings.current());
        return Err("a script does not end".into());
    }
    if replication.durability.appending.is_fed() {
        journaling::stop_feeding(&replication.durability);
    }
    // A replica may be written to without replicas of its own.
    primary::count_good(replication);
    replication.engine.workers.post_all(&|| Message::RoleChanged);
    Ok(())
}

fn start_link(replication: &Arc<Replication>, number: u64) -> Result<(), String> {
    let of_thread = Arc::clone(replication);
    let life = move || {
        link::run(&of_thread, number);
        pantala_memory::release_seat();
    };
    let spawned = Builder::new().name("replica-link".into()).spawn(life);
    let mut state = replication.following.state();
    // A second request to follow the same server is then not told that this is the case already.
    state.lacks_link = spawned.is_err();
    // The thread of the link before ends by itself.
    state.thread = Some(spawned.map_err(|error| format!("cannot start a thread: {error}"))?);
    Ok(())
}

/// Makes this server a primary, with a history of its own. Only on a thread that may wait, outside
/// the gate.
///
/// # Errors
/// A text for the operator.
pub fn promote(replication: &Replication) -> Result<(), String> {
    let following = &replication.following;
    let _changing = following.changing.lock();
    if !following.is_replica() {
        return Ok(());
    }
    following.interrupt();
    let haste = replication.arc().and_then(|replication| PromotionHaste::begin(&replication));
    let _between_steps = following.role.between_steps();
    following.begin_anew();
    let prepared = prepare_as_primary(replication);
    drop(haste);
    prepared.inspect_err(|_| follow_anew(replication))?;
    // A replica that is sent some of the new history under the old one's id could go on nowhere.
    drop_replicas(replication);
    let id = {
        let mut state = following.state();
        let id = replication.downstream.stream.branch();
        (state.primary, state.end, state.client) = (None, None, None);
        following.is_connected.store(false, Ordering::Release);
        following.role.set_replica(false);
        // Before writes are allowed: there may be too few replicas for them.
        primary::count_good(replication);
        apply_states(replication, &replication.engine.settings.current());
        id
    };
    replication.engine.space.hide_expired(HideReason::Replica, false);
    // Replicas that have come meanwhile learn of it, too.
    drop_replicas(replication);
    replication.tell_role_changed();
    let position = replication.downstream.stream.end();
    tracing::info!(%id, position, "this server becomes a primary");
    Ok(())
}

/// Does what may fail, before anything has changed.
fn prepare_as_primary(replication: &Replication) -> Result<(), String> {
    set_setting(replication, "")?;
    // Before any client writes, so that its writes are in the stream.
    if replication.downstream.stream.history().is_kept {
        haste::insist(replication, || journaling::begin_to_feed(&replication.durability))?;
    }
    Ok(())
}

/// The role of this server and the history of its data: both from before a change of the role, or
/// both from after it.
pub fn role_and_history(replication: &Replication) -> (bool, History) {
    let _state = replication.following.state();
    (replication.is_replica(), replication.downstream.stream.history())
}

/// Closes the connections of all replicas: they connect again, and learn of the new history.
fn drop_replicas(replication: &Replication) {
    for replica in replication.downstream.replicas.all() {
        primary::close(replication, &replica);
    }
}

/// Ends the link: the server stops.
pub fn end(replication: &Replication) {
    let following = &replication.following;
    following.interrupt();
    let thread = following.state().thread.take();
    if let Some(thread) = thread {
        // A panic was logged already.
        let _ended = thread.join();
    }
}

/// Before there are clients: has writes refused if the settings name a primary.
pub fn prepare(replication: &Replication) {
    let settings = replication.engine.settings.current();
    if let Some(primary) = named(&settings.replicaof) {
        replication.following.state().primary = Some(primary);
        replication.following.role.set_replica(true);
        replication.engine.space.hide_expired(HideReason::Replica, true);
        apply_states(replication, &settings);
        // It was counted before this server was known to be a replica.
        primary::count_good(replication);
    }
}

/// After data was loaded from a file: a replica goes on at its position, and the replicas of a
/// primary may come back. They are sent the removal of keys that had expired by then.
///
/// # Errors
/// A text for the operator.
pub fn resume(replication: &Replication) -> Result<(), String> {
    let expired = replication.durability.loading.take_expired();
    let is_there = |db: u32| db < replication.engine.space.database_count();
    let place = replication.durability.loading.place();
    let place = place.filter(|place| !expired.is_cut && is_there(place.db));
    let Some(place) = place else { return Ok(()) };
    let (replication, is_primary) = (&replication, !replication.is_replica());
    replication.downstream.stream.resume(place.id, place.position, is_primary);
    replication.following.role.select(place.db);
    tracing::info!(id = %place.id, position = place.position, "the data belongs to this history");
    if is_primary {
        // Nothing was changed yet.
        journaling::begin_to_feed(&replication.durability)?;
        let (space, recorder) = (&replication.engine.space, replication.engine.journal.join());
        expired.keys.iter().for_each(|(db, name)| space.record_gone(*db, name, &recorder));
        primary::settings_changed(replication);
    }
    Ok(())
}

/// Begins in the role of the settings, once all data is loaded.
///
/// # Errors
/// A text for the operator.
pub fn begin(replication: &Arc<Replication>) -> Result<(), String> {
    let following = &replication.following;
    let _changing = following.changing.lock();
    let begins = following.is_replica() && following.state().thread.is_none();
    if begins { start_link(replication, following.interrupt()) } else { Ok(()) }
}

/// The primary in a value of the setting `replicaof`.
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
