//! DEBUG HTSTATS, HTSTATS-KEY and LISTPACK: how many entries a table has, and whether a value is
//! packed. Tests: the transcript of DEBUG.

use pantala_base::number::parse_i64;
use pantala_commands::{Call, ClientError, CommandResult, error};
use pantala_keyspace::DbIndex;
use pantala_table::ValueRef;

use super::with_key;

/// The tables of a database: entries, and the bytes of the index.
pub(super) fn of_database(call: &mut Call<'_, '_>) -> CommandResult {
    const OUT_OF_RANGE: ClientError = ClientError::text("ERR Out of range database");
    let number = parse_i64(call.args[2]).ok_or(error::NOT_INTEGER)?;
    let space = call.space();
    let db = u32::try_from(number).ok().filter(|&number| number < space.database_count());
    let db = DbIndex(db.ok_or(OUT_OF_RANGE)?);
    let (keys, deadlines) =
        space.sizes(db).map_or((0, 0), |sizes| (sizes.keys(), sizes.with_deadline()));
    let keys = entries(keys, &format!(" index bytes: {}\n", space.index_bytes(db)));
    let deadlines = entries(deadlines, "");
    let text = format!("[Dictionary HT]\n{keys}[Expires HT]\n{deadlines}");
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// One table in Valkey's words; empty if it has no entries.
fn entries(count: u64, more: &str) -> String {
    match count {
        0 => String::new(),
        _ => format!("Hash table 0 stats (main hash table):\n number of entries: {count}\n{more}"),
    }
}

/// The table of a large collection.
pub(super) fn of_key(call: &mut Call<'_, '_>) -> CommandResult {
    const NO_TABLE: ClientError = ClientError::text(
        "ERR The value stored at the specified key is not represented using an hash table",
    );
    let (encoding, count) = kept_as(call)?;
    if !matches!(encoding, "hashtable" | "skiplist") {
        return Err(NO_TABLE.into());
    }
    call.reply.verbatim(b"txt", entries(count, "").as_bytes());
    Ok(())
}

/// Logs how many entries a packed value has.
pub(super) fn packed(call: &mut Call<'_, '_>) -> CommandResult {
    let (encoding, count) = kept_as(call)?;
    if encoding != "listpack" {
        return Err(ClientError::text("ERR Not a listpack encoded object.").into());
    }
    tracing::info!(entries = count, "DEBUG LISTPACK");
    call.reply.simple("Listpack structure printed on stdout");
    Ok(())
}

/// The encoding of a key's collection and the number of its elements; empty and 0 for a string.
fn kept_as(call: &mut Call<'_, '_>) -> Result<(&'static str, u64), pantala_commands::Stop> {
    let found = with_key(call.keys, call.args[2], |locked, key| {
        let opened = locked.peek(key);
        let (table, place) = opened.record()?;
        Some(match table.value(place) {
            ValueRef::Object(object) => (object.encoding(), object.element_count()),
            ValueRef::Str(_) => ("", 0),
        })
    })?;
    found.ok_or_else(|| error::NO_SUCH_KEY.into())
}
