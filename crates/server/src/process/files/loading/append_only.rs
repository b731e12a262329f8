//! Loading an append-only file: its base, then the steps that follow.

use std::io::Read;

use pantala_base::UnixMs;
use pantala_base::clock::monotonic_us;
use pantala_engine::lane::LANE_SLOTS;
use pantala_persistence::aof::files::part_files;
use pantala_persistence::aof::load::{self, LoadSnapshot};
use pantala_persistence::aof::replay::replay_on;
use pantala_persistence::aof::{Layout, Manifest};
use pantala_persistence::disk::RealDisk;

use super::{Source, load_here};
use crate::replication::moment::Place;
use crate::shared::Shared;

/// Loads the base of an append-only file, including expired keys: the steps that follow say when
/// they are gone.
struct Bases<'s>(&'s Shared);

impl LoadSnapshot for Bases<'_> {
    fn load(&mut self, file: &mut dyn Read, file_bytes: u64) -> Result<u64, String> {
        let source = Source::file(file, file_bytes);
        let loaded = load_here(self.0, source, (false, UnixMs(i64::MIN)));
        loaded.map(|(_, bytes)| bytes).map_err(|fault| fault.to_string())
    }
}

/// Loads the files of an append-only file.
///
/// # Errors
/// A text for the operator.
pub fn load_steps(shared: &Shared, layout: &Layout, manifest: &Manifest) -> Result<(), String> {
    let began_us = monotonic_us();
    let files = part_files(&RealDisk, layout, manifest).map_err(|error| error.to_string())?;
    shared.loading.begin(files.iter().map(|file| file.bytes).sum());
    let cuts = shared.engine.settings.current().aof_load_truncated;
    let mut progress = |bytes| shared.loading.set_loaded(bytes);
    let (loaded, outcome) = replay_on(shared, LANE_SLOTS - 1, |replay| {
        let loaded = load::load(&RealDisk, &files, replay, &mut Bases(shared), cuts, &mut progress);
        (loaded, replay.outcome().clone())
    });
    shared.replication.failures.note_file(&outcome);
    let loaded = loaded.map_err(|error| error.to_string())?;
    if let Some((path, torn)) = &loaded.cut {
        tracing::warn!("{}: {torn}; it was cut off", path.display());
    }
    // The place in its base is outdated.
    shared.loading.set_place(loaded.last_annotation.as_deref().and_then(Place::of_annotation));
    shared.saves.loaded(shared.changes());
    let took_ms = monotonic_us().saturating_sub(began_us) / 1000;
    tracing::info!(
        steps = loaded.steps,
        bytes = loaded.bytes,
        took_ms,
        "DB loaded from append only file"
    );
    Ok(())
}
