//! DEBUG DIGEST and DIGEST-VALUE: a digest of all data, or of one value, in twenty bytes. For equal
//! data it equals Valkey's, whatever the order in memory.
//!
//! ```text
//! digest XOR sha1(bytes)               where the order does not matter: members, fields, keys
//! sha1(digest XOR sha1(bytes))         where it does: elements of a list, key before value
//! ```
//!
//! Not here: one moment for all of it. Partitions are read one after the other, so if data changes
//! meanwhile the digest is that of no moment. Tests: compat/transcripts/server/digest.txt (against
//! a real server).

use pantala_base::UnixMs;
use pantala_base::number::push_f64;
use pantala_base::sha1::{self, DIGEST_BYTES};
use pantala_commands::{Call, CommandResult};
use pantala_keyspace::{DbIndex, Scope};
use pantala_table::{IntText, RecordPlace, StrRef, Table, ValueRef, is_expired};
use pantala_values::stream::StreamId;
use pantala_values::{Object, Type};

use super::with_key;

/// A digest being computed.
#[derive(Clone, Copy, Default)]
struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    /// Adds bytes whose order does not matter.
    fn add(&mut self, bytes: &[u8]) {
        for (mine, theirs) in self.0.iter_mut().zip(sha1::digest(bytes)) {
            *mine ^= theirs;
        }
    }

    /// Adds bytes whose order matters.
    fn append(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = sha1::digest(&self.0);
    }

    fn append_text(&mut self, text: StrRef<'_>) {
        self.append(text.bytes(&mut IntText::new()));
    }

    /// Adds the value of a record.
    fn append_value(&mut self, table: &Table<Object>, place: RecordPlace, now: UnixMs) {
        let tag = table.type_tag(place);
        let number = Type::from_tag(tag).map_or(u32::from(tag), |kind| kind as u32);
        self.append(&number.to_be_bytes());
        match table.value(place) {
            ValueRef::Str(text) => self.append_text(text),
            ValueRef::Object(object) => self.append_object(object, now),
        }
        if table.deadline(place).is_some() {
            self.add(b"!!expire!!");
        }
    }

    fn append_object(&mut self, object: &Object, now: UnixMs) {
        match object {
            Object::List(list) => list.visit_chunks(0, |view| {
                view.iter().for_each(|(_, element)| self.append_text(element.into()));
                true
            }),
            Object::Set(set) => {
                let mut scratch = IntText::new();
                for member in set.view().iter(now) {
                    self.add(StrRef::from(member).bytes(&mut scratch));
                }
            }
            Object::SortedSet(set) => {
                // In the fewest digits, as in Valkey; Redis writes seventeen.
                let mut text = Vec::new();
                for (member, score) in set.view().iter() {
                    text.clear();
                    push_f64(&mut text, score);
                    self.add_pair(member, StrRef::Bytes(&text));
                }
            }
            Object::Hash(hash) => {
                hash.view().for_each(now, |field, value| self.add_pair(field, value));
            }
            Object::Stream(stream) => {
                for entry in stream.range(StreamId::MIN, StreamId::MAX) {
                    self.append(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    for (name, value) in entry.fields() {
                        self.append_text(name.into());
                        self.append_text(value.into());
                    }
                }
            }
        }
    }

    /// Adds a pair of texts.
    fn add_pair(&mut self, first: StrRef<'_>, second: StrRef<'_>) {
        let mut pair = Digest::default();
        pair.append_text(first);
        pair.append_text(second);
        self.add(&pair.0);
    }

    fn text(self) -> String {
        sha1::text(&self.0).iter().map(|&digit| char::from(digit)).collect()
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
                of_key.append_value(table, place, now);
                digest.add(&of_key.0);
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
                digest.append_value(table, place, now);
            }
            digest
        })?;
        texts.push(digest.text());
    }
    call.reply.array(texts.len());
    texts.iter().for_each(|text| call.reply.simple(text));
    Ok(())
}
