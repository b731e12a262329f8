//! A full copy that is sent while it is made: bytes of unknown length between two marks.

use std::path::PathBuf;
use std::sync::Arc;

use pantala_keyspace::Aborted;
use pantala_persistence::snapshot::{Fault, Form, NoPieces, SnapshotFacts, SnapshotQueue, write};
use pantala_psync::ReplicationId;

use super::recipients::Recipients;
use super::sink::Sink;
use crate::Replication;
use pantala_durability::saving::{self, SaveFailure};
use pantala_durability::snapshots::Turn;
use pantala_durability::snapshots::cut::{self, FileTarget};
use pantala_durability::snapshots::moment::Moment;
use pantala_durability::snapshots::place::note;

/// The plan of a copy that is sent while it is made.
fn plan(replication: &Replication, recipients: &Recipients) -> write::Plan {
    let settings = replication.engine.settings.current();
    let plan = saving::plan_at(&settings, PathBuf::new(), Form::Rdb);
    write::Plan { fixed_version: Some(recipients.version()), syncs_in_steps: false, ..plan }
}

/// The mark at whose repetition a copy without a length ends.
struct Mark(ReplicationId);

impl Mark {
    /// Announces the copy on the links.
    fn begin(replication: &Replication, recipients: &Recipients) -> Mark {
        let mark = Mark(ReplicationId::random());
        recipients.has_begun();
        recipients.put(replication, format!("$EOF:{}\r\n", mark.0).as_bytes());
        mark
    }

    /// Sends the mark that ends the copy.
    fn end(&self, replication: &Replication, recipients: &Recipients) {
        recipients.finish_with(replication, self.0.as_str().as_bytes());
    }
}

/// Sends a copy of all the data; returns the stream's position at the cut.
pub(super) fn make(
    replication: &Arc<Replication>,
    recipients: &Arc<Recipients>,
    turn: Turn,
) -> Result<u64, SaveFailure> {
    let moment = Moment::for_replicas(&replication.durability);
    let mut cut = turn.cut(recipients.purpose(moment))?;
    recipients.begin(replication, cut.note_place()?)?;
    let mark = Mark::begin(replication, recipients);
    let (disk, plan) = (sink(replication, recipients, cut.queue()), plan(replication, recipients));
    let bytes = cut.write(&mut FileTarget { disk: &disk, plan })?;
    mark.end(replication, recipients);
    Ok(bytes)
}

/// The links of these recipients, as a disk to write to.
fn sink(
    replication: &Arc<Replication>,
    recipients: &Arc<Recipients>,
    source: &Arc<SnapshotQueue>,
) -> Sink {
    let (replication, recipients, source) =
        (Arc::clone(replication), Arc::clone(recipients), Arc::clone(source));
    Sink { replication, recipients, source }
}

/// Sends a copy without keys, with functions if there are any.
pub(super) fn make_without_keys(
    replication: &Arc<Replication>,
    recipients: &Arc<Recipients>,
) -> Result<u64, SaveFailure> {
    let mut moment = Moment::for_replicas(&replication.durability);
    let made = replication.engine.space.at_one_moment(|stamp| moment.is_now(stamp));
    made.map_err(|Aborted(_)| SaveFailure::Held)?;
    let mut facts = cut::facts("0");
    if recipients.way.filter.is_some_and(|filter| filter.functions) {
        let libraries = replication.engine.functions.current();
        facts.functions = libraries.iter().map(|library| library.code.clone()).collect();
    }
    let place = moment.place().map_err(SaveFailure::Failed)?;
    place.into_iter().for_each(|place| note(&mut facts, place));
    recipients.begin(replication, place)?;
    let bytes = send_without_keys(replication, recipients, &facts);
    bytes.map_err(|fault| SaveFailure::Failed(fault.to_string()))
}

/// Sends everything except keys, between the marks, which end the copy.
pub(super) fn send_without_keys(
    replication: &Arc<Replication>,
    recipients: &Arc<Recipients>,
    facts: &SnapshotFacts,
) -> Result<u64, Fault> {
    let mark = Mark::begin(replication, recipients);
    let nothing = Arc::default();
    let (disk, plan) = (sink(replication, recipients, &nothing), plan(replication, recipients));
    let bytes = write::write(&disk, &plan, facts, &NoPieces)?;
    mark.end(replication, recipients);
    Ok(bytes)
}
