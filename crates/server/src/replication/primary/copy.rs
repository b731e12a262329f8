//! One full copy: a snapshot, and the position of the stream at its moment.
//!
//! ```text
//! reserve -- cut, the stream is fed from here -- position -- +FULLRESYNC -- keys -- the stream
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use pantala_keyspace::Aborted;
use pantala_keyspace::snapshot::CutInfo;
use pantala_persistence::disk::Disk;
use pantala_persistence::snapshot::{Form, Queue, write};
use pantala_replication::ReplicationId;

use super::riders::Riders;
use super::sink::Sink;
use super::{file, name};
use crate::process::journaling;
use crate::process::saving::{self, Purpose, Unsaved};
use crate::replication::moment::{Moment, Place, note};
use crate::shared::Shared;

/// How soon it is tried again while another snapshot is being written.
const AGAIN: Duration = Duration::from_millis(20);

/// Makes one, on a thread of its own.
pub(super) fn begin(shared: &Arc<Shared>, riders: Arc<Riders>) {
    let (of_thread, of_riders) = (Arc::clone(shared), Arc::clone(&riders));
    let life = move || {
        pantala_base::os::yield_to_others();
        run(&of_thread, &of_riders);
        of_thread.replication.primary.end_copy();
        of_thread.replication.primary.wake();
        pantala_memory::release_seat();
    };
    let spawned = Builder::new().name("copy".into()).spawn(life);
    if let Err(error) = spawned {
        tracing::error!("no full copy is made: cannot start a thread: {error}");
        riders.break_off(shared);
        shared.replication.primary.end_copy();
    }
}

fn run(shared: &Arc<Shared>, riders: &Arc<Riders>) {
    let names: Vec<_> = riders.present().map(|rider| name(&rider.replica)).collect();
    let replicas = names.join(", ");
    tracing::info!(replicas, is_direct = riders.way.is_direct, "a full copy begins");
    match when_free(shared, riders) {
        Ok(bytes) => tracing::info!(replicas, bytes, "a full copy was made"),
        Err(why) => {
            tracing::error!(replicas, "a full copy could not be made: {why}");
            riders.break_off(shared);
        }
    }
}

/// Makes it after whoever else is writing a snapshot.
fn when_free(shared: &Arc<Shared>, riders: &Arc<Riders>) -> Result<u64, Unsaved> {
    journaling::prepare_to_feed(shared).map_err(Unsaved::Failed)?;
    let shutdown = &shared.engine.condition.shutdown;
    loop {
        riders.reserve(shared);
        match make(shared, riders) {
            Err(Unsaved::Busy) if !riders.save.is_cancelled() && !riders.are_gone() => {
                riders.wait_on();
                if shutdown.pause_for(AGAIN) {
                    return Err(Unsaved::Busy);
                }
            }
            ended => return ended,
        }
    }
}

fn make(shared: &Arc<Shared>, riders: &Arc<Riders>) -> Result<u64, Unsaved> {
    match riders.way.is_direct {
        true if riders.way.filter.is_some() => make_without_keys(shared, riders),
        true => make_directly(shared, riders),
        false => file::make(shared, riders),
    }
}

/// Where the copy is in the history; there is one once somebody is to follow.
pub(super) fn place(moment: &Moment<'_>) -> Result<Place, String> {
    moment.place()?.ok_or_else(|| "this server has no data of its primary".into())
}

/// The plan of a copy that is sent as it is made.
fn plan(shared: &Shared, riders: &Riders) -> write::Plan {
    let settings = shared.engine.settings.current();
    let plan = saving::plan_at(&settings, PathBuf::new(), Form::Rdb);
    write::Plan { fixed_version: Some(riders.version()), syncs_in_steps: false, ..plan }
}

/// The mark at whose repetition a copy without a length ends.
struct Mark(ReplicationId);

impl Mark {
    fn begin(shared: &Shared, riders: &Riders) -> Mark {
        let mark = Mark(ReplicationId::random());
        riders.has_begun();
        riders.put(shared, format!("$EOF:{}\r\n", mark.0).as_bytes());
        mark
    }

    fn end(&self, shared: &Shared, riders: &Riders) {
        riders.finish_with(shared, self.0.as_str().as_bytes());
    }
}

fn make_directly(shared: &Arc<Shared>, riders: &Arc<Riders>) -> Result<u64, Unsaved> {
    let moment = std::cell::RefCell::new(Moment::for_replicas(shared));
    let mut at_cut = |cut: &CutInfo| moment.borrow_mut().is_now(cut.stamp);
    let purpose =
        Purpose { is_base: "0", form: Form::Rdb, readers: riders.way.readers, at_cut: &mut at_cut };
    let mut mark = None;
    let bytes = saving::write_snapshot(shared, &riders.save, purpose, |facts, source| {
        let place = place(&moment.borrow())?;
        note(facts, place);
        riders.begin(shared, place.id, place.position);
        mark = Some(Mark::begin(shared, riders));
        Ok((sink(shared, riders, source), plan(shared, riders)))
    })?;
    if let Some(mark) = mark {
        mark.end(shared, riders);
    }
    Ok(bytes)
}

fn sink(shared: &Arc<Shared>, riders: &Arc<Riders>, source: &Arc<Queue>) -> Box<dyn Disk> {
    let (shared, riders, source) = (Arc::clone(shared), Arc::clone(riders), Arc::clone(source));
    Box::new(Sink { shared, riders, source })
}

/// A copy without data, perhaps with functions.
fn make_without_keys(shared: &Arc<Shared>, riders: &Arc<Riders>) -> Result<u64, Unsaved> {
    let mut moment = Moment::for_replicas(shared);
    let cut = shared.engine.space.at_one_moment(|stamp| moment.is_now(stamp));
    cut.map_err(|Aborted(_)| Unsaved::Held)?;
    let place = place(&moment).map_err(Unsaved::Failed)?;
    let mut facts = saving::facts("0");
    note(&mut facts, place);
    if riders.way.filter.is_some_and(|filter| filter.functions) {
        let libraries = shared.engine.functions.current();
        facts.functions = libraries.iter().map(|library| library.code.clone()).collect();
    }
    riders.begin(shared, place.id, place.position);
    let mark = Mark::begin(shared, riders);
    let source = Arc::new(Queue::default());
    source.complete();
    let (disk, plan) = (sink(shared, riders, &source), plan(shared, riders));
    let version = || riders.version();
    let bytes = write::write(&*disk, &plan, &facts, &source, &version, &|_, _| true);
    let bytes = bytes.map_err(|fault| Unsaved::Failed(fault.to_string()))?;
    mark.end(shared, riders);
    Ok(bytes)
}
