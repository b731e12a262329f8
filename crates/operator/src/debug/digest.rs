//! DEBUG DIGEST and DIGEST-VALUE: a digest of all data, or of one value.
//!
//! Not here: one moment for all of it. Partitions are read one after the other, so if data changes
//! meanwhile the digest is that of no moment. Tests: compat/transcripts/server/digest.txt (against
//! a real server).

use pantala_base::UnixMs;
use pantala_commands::{Call, CommandResult};
use pantala_keyspace::{DbIndex, Scope};
use pantala_table::{RecordPlace, Table, ValueRef, is_expired};
use pantala_values::digest::Digest;
use pantala_values::{Object, Type};

use super::with_key;

/// Adds the value of a record.
fn append_value(digest: &mut Digest, table: &Table<Object>, place: RecordPlace, now: UnixMs) {
    let tag = table.type_tag(place);
    let number = Type::from_tag(tag).map_or(u32::from(tag), |kind| kind as u32);
    digest.append(&number.to_be_bytes());
    match table.value(place) {
        ValueRef::Str(text) => digest.append_text(text),
        ValueRef::Object(object) => object.digest(now, digest),
    }
    if table.deadline(place).is_some() {
        digest.add(b"!!expire!!");
    }
}

pub(super) fn digest(call: &mut Call<'_, '_>) -> CommandResult {
    let (space, scope, now) = (call.space(), *call.keys.scope(), call.now());
    let mut digest = Digest::default();
    for db in (0..space.database_count()).map(DbIndex) {
        if space.sizes(db).is_none_or(|sizes| sizes.keys() == 0) {
            continue;
        }
        digest.append(&db.0.to_be_bytes());
        call.keys.set_scope(Scope { db, ..scope });
        let seen = call.keys.each_table(&mut |table| {
            table.for_each(&mut |place| {
                if table.deadline(place).is_some_and(|deadline| is_expired(deadline, now)) {
                    return;
                }
                let mut of_key = Digest::default();
                of_key.append(table.key(place));
                append_value(&mut of_key, table, place, now);
                digest.add_digest(of_key);
            });
        });
        call.keys.set_scope(scope);
        seen?;
    }
    call.reply.simple(&digest.text());
    Ok(())
}

pub(super) fn of_values(call: &mut Call<'_, '_>) -> CommandResult {
    let now = call.now();
    let mut texts = Vec::new();
    for key in &call.args[2..] {
        let digest = with_key(call.keys, key, |locked, key| {
            let opened = locked.peek(key);
            let mut digest = Digest::default();
            if let Some((table, place)) = opened.record() {
                append_value(&mut digest, table, place, now);
            }
            digest
        })?;
        texts.push(digest.text());
    }
    call.reply.array(texts.len());
    texts.iter().for_each(|text| call.reply.simple(text));
    Ok(())
}
