//! A full copy that is sent while it is made: bytes of unknown length between two marks.

use std::path::PathBuf;
use std::sync::Arc;

use pantala_keyspace::Aborted;
use pantala_keyspace::snapshot::CutInfo;
use pantala_persistence::disk::Disk;
use pantala_persistence::snapshot::{Form, SnapshotQueue, write};
use pantala_psync::ReplicationId;

use super::recipients::Recipients;
use super::sink::Sink;
use crate::Replication;
use pantala_durability::moment::Moment;
use pantala_durability::saving::{self, SaveFailure};
use pantala_durability::snapshots::Turn;

/// The plan of a copy that is sent while it is made.
pub(super) fn plan(replication: &Replication, recipients: &Recipients) -> write::Plan {
    let settings = replication.engine.settings.current();
    let plan = saving::plan_at(&settings, PathBuf::new(), Form::Rdb);
    write::Plan { fixed_version: Some(recipients.version()), syncs_in_steps: false, ..plan }
}

/// The mark at whose repetition a copy without a length ends.
pub(super) struct Mark(ReplicationId);

impl Mark {
    /// Announces the copy on the links.
    pub(super) fn begin(replication: &Replication, recipients: &Recipients) -> Mark {
        let mark = Mark(ReplicationId::random());
        recipients.has_begun();
        recipients.put(replication, format!("$EOF:{}\r\n", mark.0).as_bytes());
        mark
    }

    /// Sends the mark that ends the copy.
    pub(super) fn end(&self, replication: &Replication, recipients: &Recipients) {
        recipients.finish_with(replication, self.0.as_str().as_bytes());
    }
}

/// Sends a copy of all the data; returns the stream's position at the cut.
pub(super) fn make(
    replication: &Arc<Replication>,
    recipients: &Arc<Recipients>,
    turn: &Turn<'_>,
) -> Result<u64, SaveFailure> {
    let moment = std::cell::RefCell::new(Moment::for_replicas(&replication.durability));
    let mut at_cut = |cut: &CutInfo| moment.borrow_mut().is_now(cut.stamp);
    let purpose = recipients.purpose(&mut at_cut);
    let mut mark = None;
    let bytes = saving::write_snapshot(&replication.durability, turn, purpose, |facts, source| {
        recipients.begin(replication, &moment.borrow(), facts)?;
        mark = Some(Mark::begin(replication, recipients));
        Ok((sink(replication, recipients, source), plan(replication, recipients)))
    })?;
    if let Some(mark) = mark {
        mark.end(replication, recipients);
    }
    Ok(bytes)
}

/// The links of these recipients, as a disk to write to.
pub(super) fn sink(
    replication: &Arc<Replication>,
    recipients: &Arc<Recipients>,
    source: &Arc<SnapshotQueue>,
) -> Box<dyn Disk> {
    let (replication, recipients, source) =
        (Arc::clone(replication), Arc::clone(recipients), Arc::clone(source));
    Box::new(Sink { replication, recipients, source })
}

/// Sends a copy without keys, with functions if there are any.
pub(super) fn make_without_keys(
    replication: &Arc<Replication>,
    recipients: &Arc<Recipients>,
) -> Result<u64, SaveFailure> {
    let mut moment = Moment::for_replicas(&replication.durability);
    let cut = replication.engine.space.at_one_moment(|stamp| moment.is_now(stamp));
    cut.map_err(|Aborted(_)| SaveFailure::Held)?;
    let mut facts = saving::facts("0");
    if recipients.way.filter.is_some_and(|filter| filter.functions) {
        let libraries = replication.engine.functions.current();
        facts.functions = libraries.iter().map(|library| library.code.clone()).collect();
    }
    recipients.begin(replication, &moment, &mut facts).map_err(SaveFailure::Failed)?;
    let mark = Mark::begin(replication, recipients);
    let source = Arc::new(SnapshotQueue::default());
    source.complete();
    let (disk, plan) = (sink(replication, recipients, &source), plan(replication, recipients));
    let version = || recipients.version();
    let bytes = write::write(&*disk, &plan, &facts, &source, &version, &|_, _| true);
    let bytes = bytes.map_err(|fault| SaveFailure::Failed(fault.to_string()))?;
    mark.end(replication, recipients);
    Ok(bytes)
}
