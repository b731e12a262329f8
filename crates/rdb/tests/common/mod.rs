//! Random values of every type and size, and everything that can be read of a value.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use pantala_base::{Rng, UnixMs};
use pantala_rdb::file::{
    Content, FileItem, FoundSection, HEAD_BYTES, RdbDamage, RdbEntries, RdbReader, RdbVersion,
    RdbWriter, ReadOptions, Section, write_entry,
};
use pantala_rdb::payload::Versions;
use pantala_rdb::{RdbLimits, RdbValue, Strings, Text};
use pantala_table::ValueRef;
use pantala_values::hash::{HashLimits, Lifetime};
use pantala_values::list::{End, Fill, ListEnd};
use pantala_values::packed::Element;
use pantala_values::set::SetLimits;
use pantala_values::sorted_set::SortedSetLimits;
use pantala_values::stream::{BlockLimits, Counters, Group, PendingEntry, StreamId};
use pantala_values::{Hash, List, Object, Set, SortedSet, Stream, Variant};

/// The current time in all tests: the year 2096, so that for other servers nothing has expired.
pub const NOW: UnixMs = UnixMs(4_000_000_000_000);

/// Low limits, so that also small values exceed them.
pub fn limits() -> RdbLimits {
    RdbLimits {
        text_bytes: 1 << 20,
        hash: HashLimits { entries: 8, value_bytes: 20 },
        list: Fill::new(5).compressing(1),
        set: SetLimits { ints: 12, entries: 8, value_bytes: 20 },
        sorted_set: SortedSetLimits { entries: 8, value_bytes: 20 },
        stream: BlockLimits { bytes: 300, entries: 5 },
    }
}

/// A random text: a number, a short text, or a long one.
pub fn text(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => Vec::new(),
        1..3 => (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
        3 => vec![b'x'; rng.below(200) as usize],
        4 if rng.below(8) == 0 => vec![b'y'; rng.below(20_000) as usize],
        _ => (0..rng.below(24)).map(|_| rng.next_u64() as u8).collect(),
    }
}

fn count(rng: &mut Rng) -> u64 {
    let most = 1 << rng.below(9);
    1 + rng.below(most)
}

fn deadline(rng: &mut Rng) -> Option<UnixMs> {
    match rng.below(3) {
        0 => Some(UnixMs(NOW.0 - 1 - rng.below(1000) as i64)),
        1 => Some(UnixMs(NOW.0 + rng.below(1000) as i64)),
        _ => None,
    }
}

/// A random value of any type.
pub fn value(rng: &mut Rng) -> RdbValue<'static> {
    RdbValue::Object(match rng.below(7) {
        0 => return RdbValue::String(Text::Made(text(rng))),
        1 => return RdbValue::String(Text::Int(rng.next_u64() as i64 >> rng.below(64))),
        2 => list(rng).into_object(),
        3 => set(rng).into_object(),
        4 => sorted_set(rng).into_object(),
        5 => hash(rng).into_object(),
        _ => stream(rng).into_object(),
    })
}

fn list(rng: &mut Rng) -> List {
    let mut list = List::large(limits().list);
    for _ in 0..count(rng) {
        list.push(End::Tail, Element::of(&text(rng)));
    }
    list.settle(limits().list);
    list
}

fn set(rng: &mut Rng) -> Set {
    let (mut set, kind) = (Set::default(), rng.below(3));
    for _ in 0..count(rng) {
        let number = (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes();
        let member = if kind == 0 { number } else { text(rng) };
        match deadline(rng) {
            Some(deadline) if kind == 2 => set.add_until(&member, deadline, false, UnixMs(0)),
            _ => set.add(&member, limits().set, UnixMs(0)),
        };
    }
    // A member without a deadline.
    set.add(b"-1", limits().set, UnixMs(0));
    set.set_member_deadline(b"-1", None, UnixMs(0));
    set
}

fn score(rng: &mut Rng) -> f64 {
    match rng.below(6) {
        0 => rng.below(10) as f64,
        1 => rng.next_u64() as i64 as f64,
        2 => f64::from_bits(rng.next_u64()),
        3 => [f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0][rng.below(4) as usize],
        _ => rng.below(1000) as f64 / 7.0,
    }
}

fn sorted_set(rng: &mut Rng) -> SortedSet {
    let (mut set, has_deadlines) = (SortedSet::default(), rng.below(3) == 0);
    for _ in 0..count(rng) {
        let (member, score) = (text(rng), score(rng));
        if score.is_nan() {
            continue;
        }
        set.set(&member, score, limits().sorted_set);
        if has_deadlines && let Some(deadline) = deadline(rng) {
            set.set_deadline(&member, deadline);
        }
    }
    set.remove(b"stays");
    set.set(b"stays", 1.0, limits().sorted_set);
    set
}

fn hash(rng: &mut Rng) -> Hash {
    let (mut hash, has_deadlines) = (Hash::default(), rng.below(2) == 0);
    for _ in 0..count(rng) {
        let until = deadline(rng).filter(|_| has_deadlines);
        let lifetime = until.map_or(Lifetime::Forever, Lifetime::Until);
        hash.set(&text(rng), &text(rng), lifetime, limits().hash, UnixMs(0));
    }
    hash.set(b"stays", b"there", Lifetime::Forever, limits().hash, UnixMs(0));
    hash
}

fn stream(rng: &mut Rng) -> Stream {
    let mut stream = Stream::default();
    let mut ids = Vec::new();
    for _ in 0..count(rng) - 1 {
        let last = stream.last_id();
        let id = match rng.below(3) {
            0 => StreamId::new(last.ms + 1 + rng.below(100_000), rng.below(3)),
            _ => StreamId::new(last.ms, last.seq + 1 + rng.below(3)),
        };
        let mut pairs = vec![b"name".to_vec(), text(rng), b"7".to_vec(), text(rng)];
        if rng.below(4) == 0 {
            pairs = (0..2 * (1 + rng.below(4))).map(|_| text(rng)).collect();
        }
        let pairs: Vec<&[u8]> = pairs.iter().map(Vec::as_slice).collect();
        stream.append(id, &pairs, limits().stream);
        ids.push(id);
    }
    for id in &ids {
        if rng.below(5) == 0 {
            stream.delete(*id);
        }
    }
    if rng.below(3) == 0 {
        let last_id = StreamId::new(stream.last_id().ms, u64::MAX);
        let entries_added = Some(stream.entries_added() + rng.below(10));
        stream.set_counters(Counters { last_id, entries_added, max_deleted_id: None });
    }
    for number in 0..rng.below(3) {
        let group = group(rng, &ids);
        stream.add_group(format!("g{number}").as_bytes(), group);
    }
    stream
}

fn group(rng: &mut Rng, ids: &[StreamId]) -> Group {
    let last_id = ids.last().copied().unwrap_or_default();
    let entries_read = (rng.below(2) == 0).then(|| rng.below(100) as i64);
    let mut group = Group::new(last_id, entries_read);
    for number in 0..rng.below(4) {
        let name = format!("{number}").into_bytes();
        let (consumer, _) = group.consumer_or_new(&name, NOW);
        if let Some(found) = group.consumer_mut(consumer) {
            found.active_at = [None, Some(NOW), Some(UnixMs(5))][rng.below(3) as usize];
        }
        for &id in ids {
            if rng.below(4) == 0 {
                let count = rng.below(1 << 20);
                group.hold(PendingEntry { id, consumer, delivered_at: NOW, count });
            }
        }
    }
    group
}

/// The contents of a file, by database and key.
#[derive(Debug, Default, PartialEq)]
pub struct FileContents {
    pub keys: BTreeMap<(u32, Vec<u8>), String>,
    pub functions: Vec<Vec<u8>>,
    pub aux: Vec<(Vec<u8>, Vec<u8>)>,
    /// The modules that have values or other data in the file.
    pub modules: Vec<String>,
    /// The database selected last.
    pub database: u32,
}

/// A file of random values, and its contents.
pub fn file(rng: &mut Rng, keys: u64) -> (Vec<u8>, FileContents) {
    let strings = [Strings::Plain, Strings::Compressed][rng.below(2) as usize];
    let (mut out, mut expected) = (Vec::new(), FileContents::default());
    let mut writer = RdbWriter::begin(0, rng.below(4) > 0, &mut out);
    for name in ["redis-ver", "ctime"] {
        let value = text(rng);
        writer.aux(name.as_bytes(), &value, &mut out);
        expected.aux.push((name.into(), value));
    }
    let code = text(rng);
    writer.function(&code, strings, &mut out);
    expected.functions.push(code);
    for number in 0..keys {
        let value = value(rng);
        let (key, database) = (format!("key{number}").into_bytes(), rng.below(3) as u32);
        expected.database = database;
        let deadline = (rng.below(3) == 0).then(|| UnixMs(rng.next_u64() as i64));
        writer.database(database, &mut out);
        let begin = out.len();
        let version = write_entry(&key, deadline, &value.view(), NOW, strings, &mut out);
        writer.entries(&out[begin..], version);
        let all = format!("{deadline:?} {:?}", contents(&value.view()));
        expected.keys.insert((database, key), all);
    }
    if let Some(head) = writer.end(&mut out) {
        out[..HEAD_BYTES].copy_from_slice(&head);
    }
    (out, expected)
}

/// Reads a file that is fed in windows. Each window is by up to `most` bytes longer than the rest
/// of the previous one.
pub fn read_file(bytes: &[u8], most: u64, rng: &mut Rng) -> Result<FileContents, RdbDamage> {
    let options = ReadOptions { versions: Versions::Known, checks: true, file_bytes: None };
    let (mut reader, mut found) = (RdbReader::new(options), FileContents::default());
    let mut version = None;
    let (mut begin, mut end) = (0, 0);
    loop {
        let section = match reader.next(&bytes[begin..end], end == bytes.len())? {
            FileItem::More(least) => {
                assert!(end < bytes.len(), "all is there");
                let more = (least as u64).max(1 + rng.below(most));
                end = end.saturating_add(more as usize).min(bytes.len());
                continue;
            }
            FileItem::Section(section) => section,
        };
        assert_eq!(section.offset, begin as u64);
        begin += section.bytes.len();
        match section.section {
            Section::Head(head) => version = Some(head),
            Section::End => return Ok(found),
            _ => found.put(section, version.expect("the head comes first"))?,
        }
    }
}

impl FileContents {
    fn put(&mut self, found: FoundSection<'_>, version: RdbVersion) -> Result<(), RdbDamage> {
        let bytes_of = |text: &Text<'_>| text.view().to_vec();
        match found.section {
            Section::Aux(name, value) => self.aux.push((bytes_of(&name), bytes_of(&value))),
            Section::Function(code) => self.functions.push(bytes_of(&code)),
            Section::Database(number) => self.database = number,
            Section::ModuleAux(module) => self.modules.push(module.to_string()),
            Section::Entry(kind) => {
                let limits = limits();
                let mut entries = RdbEntries::new(found.bytes, found.offset, version, &limits);
                let entry = entries.next().expect("there is one")?;
                assert_eq!((entry.kind, entry.offset), (kind, found.offset));
                assert!(entries.next().is_none());
                let content = match &entry.content {
                    Content::Value(value) => format!("{:?}", contents(&value.view())),
                    Content::Module(module) => module.to_string(),
                    Content::Nothing => "nothing".into(),
                };
                let all = format!("{:?} {content}", entry.deadline);
                self.keys.insert((self.database, bytes_of(&entry.key)), all);
            }
            Section::Compressed(sections) => {
                let (mut reader, mut at) = (RdbReader::within(version, found.offset), 0);
                while let FileItem::Section(found) = reader.next(&sections[at..], true)?
                    && !matches!(found.section, Section::End)
                {
                    at += found.bytes.len();
                    self.put(found, version)?;
                }
            }
            Section::Sizes(_) | Section::Slots | Section::Head(_) | Section::End => {}
        }
        Ok(())
    }
}

/// Everything that can be read of a value and has not expired, sorted.
pub fn contents(value: &ValueRef<'_, Object>) -> BTreeMap<Vec<u8>, String> {
    let mut all = BTreeMap::new();
    let mut put = |key: Vec<u8>, what: String| {
        assert!(all.insert(key, what).is_none(), "a double");
    };
    match value {
        ValueRef::Str(text) => put(text.to_vec(), String::new()),
        ValueRef::Object(Object::List(list)) => {
            let mut index = 0_u64;
            list.visit(0, ListEnd::Forward, |element| {
                put(index.to_be_bytes().to_vec(), format!("{:?}", element.to_vec()));
                index += 1;
                ControlFlow::Continue(())
            });
        }
        ValueRef::Object(Object::Set(set)) => {
            for member in set.view().iter(NOW) {
                let member = member.to_vec();
                let deadline = set.view().member_deadline(&member, NOW);
                put(member, format!("{deadline:?}"));
            }
        }
        ValueRef::Object(Object::SortedSet(set)) => {
            let is_live = |member: &[u8]| set.deadline(member).is_none_or(|at| at >= NOW);
            let all = set.view().iter().map(|(member, score)| (member.to_vec(), score));
            for (rank, (member, score)) in all.filter(|(m, _)| is_live(m)).enumerate() {
                let deadline = set.deadline(&member);
                // The small form has no negative zero, in the reference server neither.
                let score = score + 0.0;
                put(member, format!("{rank} {score:?} {deadline:?}"));
            }
        }
        ValueRef::Object(Object::Hash(hash)) => hash.view().for_each(NOW, |field, value| {
            let field = field.to_vec();
            let deadline = hash.view().get(&field, NOW).map(|found| found.deadline);
            put(field, format!("{:?} {deadline:?}", value.to_vec()));
        }),
        ValueRef::Object(Object::Stream(stream)) => put(Vec::new(), stream_contents(stream)),
    }
    all
}

fn stream_contents(stream: &Stream) -> String {
    let mut all = format!(
        "{} {:?} {:?} {}\n",
        stream.len(),
        stream.last_id(),
        stream.max_deleted_id(),
        stream.entries_added()
    );
    for entry in stream.range(StreamId::MIN, StreamId::MAX) {
        let fields: Vec<_> =
            entry.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        all.push_str(&format!("{:?} {fields:?}\n", entry.id));
    }
    for (name, group) in stream.groups() {
        all.push_str(&format!("{name:?} {:?} {:?}\n", group.last_id, group.entries_read));
        for pending in group.pending().iter() {
            let owner = group.consumer(pending.consumer).map(|found| found.name.clone());
            let PendingEntry { id, delivered_at, count, .. } = pending;
            all.push_str(&format!("{id:?} {owner:?} {delivered_at:?} {count}\n"));
        }
        for found in group.consumers() {
            let pending: Vec<_> = found.pending_from(StreamId::MIN).collect();
            let times = (found.seen_at, found.active_at);
            all.push_str(&format!("{:?} {times:?} {pending:?}\n", found.name));
        }
    }
    all
}
