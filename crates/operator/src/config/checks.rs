//! What must hold before settings change. A failed check changes nothing.

use pantala_commands::{ClientError, error};
use pantala_durability::place;
use pantala_engine::condition::states::States;
use pantala_settings::{Row, RowFlags, Settings};

use super::failed;
use super::reactions::process;
use crate::Operator;

/// Refuses a change of settings that are fixed while data is loaded. An append-only file that began
/// then would lack the data that is still to be loaded, and the directory is the one that is read.
pub(super) fn refuse_while_loading<'r>(
    operator: &Operator,
    mut rows: impl Iterator<Item = &'r Row>,
) -> Result<(), ClientError> {
    let now = operator.engine.condition.lasting.now();
    let is_loading = now.intersects(States::LOADING.union(States::LOADING_BESIDE));
    match is_loading && rows.any(|row| row.has(RowFlags::FIXED_WHILE_LOADING)) {
        true => Err(error::LOADING),
        false => Ok(()),
    }
}

/// Checks the next settings against the system: its limits and its files.
pub(super) fn check(
    operator: &Operator,
    before: &Settings,
    next: &Settings,
) -> Result<(), ClientError> {
    make_room_for_clients(operator, before, next)?;
    check_directory(before, next)
}

/// Checks that files can be written in their new place.
fn check_directory(before: &Settings, next: &Settings) -> Result<(), ClientError> {
    let changes_kind = next.dir != before.dir || next.appendonly != before.appendonly;
    if changes_kind && let Err(why) = place::check_append_only(next) {
        let name = if next.appendonly == before.appendonly { "dir" } else { "appendonly" };
        return Err(failed(name, &why));
    }
    if next.dir == before.dir {
        return Ok(());
    }
    place::check(&next.dir).map_err(|why| failed("dir", place::os_words(&why)))
}

/// Raises the limit of open files when more clients are admitted.
fn make_room_for_clients(
    operator: &Operator,
    before: &Settings,
    next: &Settings,
) -> Result<(), ClientError> {
    if next.maxclients <= before.maxclients {
        return Ok(());
    }
    let own =
        process(operator).map_err(|why: String| failed("maxclients", &why))?.own_descriptors(next);
    let wanted = u64::from(next.maxclients) + own;
    let got = pantala_base::os::raise_fd_limit(wanted);
    if got >= wanted {
        return Ok(());
    }
    let possible = got.saturating_sub(own);
    Err(failed("maxclients", &format!("the system allows no more than {possible} clients")))
}
