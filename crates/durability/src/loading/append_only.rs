//! Loading an append-only file: its base, then the steps that follow.
//!
//! What the log tells of it, Redis and Valkey tell in the same words.

use std::io::Read;
use std::path::Path;

use pantala_base::UnixMs;
use pantala_base::clock::monotonic_us;
use pantala_commands::Server;
use pantala_engine::lane::LANE_SLOTS;
use pantala_persistence::aof::files::{PartFile, part_files};
use pantala_persistence::aof::load::{self, LoadSnapshot};
use pantala_persistence::aof::reader::TornTail;
use pantala_persistence::aof::replay::replay_on;
use pantala_persistence::aof::{AofLayout, Manifest};
use pantala_persistence::disk::RealDisk;

use super::{Source, load_here, seconds};
use crate::Durability;
use crate::snapshots::place::SnapshotPlace;

/// Loads the base of an append-only file, including expired keys: the steps that follow say when
/// they are gone.
struct Bases<'s> {
    durability: &'s Durability,
    /// When loading of the present file began (monotonic, microseconds).
    began_us: u64,
}

impl LoadSnapshot for Bases<'_> {
    fn load(&mut self, file: &mut dyn Read, file_bytes: u64) -> Result<u64, String> {
        tracing::info!("Reading RDB base file on AOF loading...");
        let source = Source::file(file, file_bytes);
        let loaded = load_here(self.durability, source, (false, UnixMs(i64::MIN)));
        loaded.map(|(_, bytes)| bytes).map_err(|fault| fault.to_string())
    }

    fn loaded(&mut self, file: &PartFile) {
        let (now_us, bytes) = (monotonic_us(), file.bytes);
        let took = seconds(now_us.saturating_sub(self.began_us));
        let kind = if file.is_base { "base" } else { "incr" };
        let name = file.path.file_name().unwrap_or_default().display();
        tracing::info!(bytes, "DB loaded from {kind} file {name}: {took} seconds");
        self.began_us = now_us;
    }
}

/// What was torn is cut off, in the words of those whose operators look for them.
fn tell_cut(path: &Path, torn: &TornTail) {
    let (offset, bytes, what) = (torn.offset, torn.bytes, torn.what);
    let path = path.display();
    if torn.is_in_transaction() {
        tracing::warn!("Revert incomplete MULTI/EXEC transaction in AOF file {path}");
    }
    tracing::warn!(
        offset,
        bytes,
        what,
        "!!! Warning: short read while loading the AOF file {path}!!!"
    );
    tracing::warn!("!!! Truncating the AOF {path} at offset {offset} !!!");
    tracing::warn!("AOF {path} loaded anyway because aof-load-truncated is enabled");
}

/// Loads the files of an append-only file: `server` runs the commands.
///
/// # Errors
/// A text for the operator.
pub fn load_steps(
    durability: &Durability,
    server: &dyn Server,
    (layout, manifest): (&AofLayout, &Manifest),
) -> Result<(), String> {
    let began_us = monotonic_us();
    let files = part_files(&RealDisk, layout, manifest).map_err(|error| error.to_string())?;
    if let Some(doubt) = layout.doubt(&RealDisk, manifest) {
        tracing::warn!("{doubt}");
    }
    if let Some(number) = manifest.skipped() {
        let path = layout.manifest_path();
        tracing::warn!(
            "{}: the manifest has no increment of number {number}, but later ones: a line of the \
             manifest may be lost, and with it the changes in that file",
            path.display()
        );
    }
    durability.loading.begin(files.iter().map(|file| file.bytes).sum());
    let cuts = durability.engine.settings.current().aof_load_truncated;
    let mut progress = |bytes| durability.loading.set_loaded(bytes);
    let (loaded, outcome) = replay_on(server, LANE_SLOTS - 1, |replay| {
        let mut bases = Bases { durability, began_us };
        let loaded = load::load(&RealDisk, &files, replay, &mut bases, cuts, &mut progress);
        (loaded, replay.outcome().clone())
    });
    durability.failures.note_file(&outcome);
    let loaded = loaded.map_err(|error| error.to_string())?;
    if let Some((path, torn)) = &loaded.cut {
        tell_cut(path, torn);
    }
    // The place in its base is outdated.
    durability
        .loading
        .set_place(loaded.last_annotation.as_deref().and_then(SnapshotPlace::of_annotation));
    durability.saves.loaded(durability.changes());
    let took = seconds(monotonic_us().saturating_sub(began_us));
    let load::Loaded { steps, bytes, .. } = loaded;
    tracing::info!(steps, bytes, "DB loaded from append only file: {took} seconds");
    Ok(())
}
