//! A stream compared with a map from ids to fields, and its groups with maps from ids to consumers.
//! Random steps are applied to both, with small blocks. `tests/stream.rs` runs it, and so does the
//! fuzz target `fuzz_stream`, without an end.

use std::collections::BTreeMap;

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_values::stream::{
    BlockLimits, Bound, Entry, Group, PendingEntry, References, StreamId, Trim,
};
use pantala_values::{Collection, Stream};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;
/// Pending entries, with the consumer that each was delivered to.
type Held = BTreeMap<StreamId, Vec<u8>>;

/// A stream and its models.
struct Pair {
    stream: Stream,
    entries: BTreeMap<StreamId, Fields>,
    /// For each group: the id up to which it has read, and its pending entries.
    groups: BTreeMap<Vec<u8>, (StreamId, Held)>,
    limits: BlockLimits,
}

fn text(random: &mut Rng) -> Vec<u8> {
    match random.below(8) {
        0 => (random.next_u64() as i64 >> random.below(64)).to_string().into_bytes(),
        1 => vec![b'x'; random.below(300) as usize],
        2 => vec![b'y'; random.below(5000) as usize],
        3 => random.below(100).to_string().into_bytes(),
        4 => format!("0{}", random.below(100)).into_bytes(),
        _ => vec![b'z'; random.below(12) as usize],
    }
}

fn fields(random: &mut Rng) -> Fields {
    let names: &[&[u8]] = match random.below(4) {
        0 => &[b"a", b"b"],
        1 => &[b"7"],
        _ => &[b"name", b"age", b"7", b""],
    };
    names.iter().map(|name| (name.to_vec(), text(random))).collect()
}

fn read(entry: &Entry<'_>) -> (StreamId, Fields) {
    let fields = entry.fields().map(|(name, value)| (name.to_vec(), value.to_vec()));
    (entry.id, fields.collect())
}

impl Pair {
    fn new(random: &mut Rng) -> Pair {
        let bytes = [0, 60, 400, 4096][random.below(4) as usize];
        let entries = [0, 1, 3, 100][random.below(4) as usize];
        Pair {
            stream: Stream::default(),
            entries: BTreeMap::new(),
            groups: BTreeMap::new(),
            limits: BlockLimits { bytes, entries },
        }
    }

    /// The id of an entry, or one near it.
    fn some_id(&self, random: &mut Rng) -> StreamId {
        let index = random.below(self.entries.len() as u64 + 1) as usize;
        let id = self.entries.keys().nth(index).copied().unwrap_or(self.stream.last_id());
        match random.below(8) {
            0 => id.next().unwrap_or(id),
            1 => id.previous().unwrap_or(id),
            2 => StreamId::MIN,
            3 => StreamId::MAX,
            _ => id,
        }
    }

    fn append(&mut self, random: &mut Rng) {
        let last = self.stream.last_id();
        let id = match random.below(6) {
            0 => StreamId::new(last.ms + 1 + (random.next_u64() >> (34 + random.below(30))), 0),
            1 => StreamId::new(last.ms + 1, random.next_u64() >> random.below(64)),
            2 => StreamId::new(last.ms, last.seq.saturating_add(random.below(1000) + 1)),
            _ => last.next().expect("times stay small"),
        };
        let id = if id > last { id } else { StreamId::new(last.ms + 1, 0) };
        let fields = fields(random);
        let pairs: Vec<&[u8]> =
            fields.iter().flat_map(|(name, value)| [name.as_slice(), value.as_slice()]).collect();
        self.stream.append(id, &pairs, self.limits);
        self.entries.insert(id, fields);
    }

    fn delete(&mut self, random: &mut Rng) {
        let id = self.some_id(random);
        assert_eq!(self.stream.delete(id), self.entries.remove(&id).is_some());
    }

    fn is_referenced(&self, id: StreamId) -> bool {
        let mut groups = self.groups.values();
        groups.any(|(last_id, pending)| id > *last_id || pending.contains_key(&id))
    }

    fn trim(&mut self, random: &mut Rng) {
        let bound = match random.below(2) {
            0 => Bound::Length(random.below(self.entries.len() as u64 + 3)),
            _ => Bound::Id(self.some_id(random)),
        };
        let references = match random.below(4) {
            0 => References::Drop,
            1 => References::Acknowledged,
            _ => References::Keep,
        };
        let (approximate, limit) = (random.below(2) == 0, random.below(3) * random.below(20));
        let limit = if approximate { limit } else { 0 };
        let before = self.entries.clone();
        let deleted = self.stream.trim(Trim { bound, approximate, limit, references });
        let mut wanted = Vec::new();
        for id in before.keys() {
            let is_enough = match bound {
                Bound::Length(length) => (before.len() - wanted.len()) as u64 <= length,
                Bound::Id(bound) => *id >= bound,
            };
            if is_enough {
                break;
            }
            if references == References::Acknowledged && self.is_referenced(*id) {
                continue;
            }
            wanted.push(*id);
        }
        if approximate {
            assert!(deleted <= wanted.len() as u64 && (limit == 0 || deleted <= limit));
        } else {
            assert_eq!(deleted, wanted.len() as u64);
        }
        for id in wanted.iter().take(deleted as usize) {
            self.entries.remove(id);
            if references == References::Drop {
                self.groups.values_mut().for_each(|(_, pending)| _ = pending.remove(id));
            }
        }
    }

    fn check_ranges(&self, random: &mut Rng) {
        let (start, end) = (self.some_id(random), self.some_id(random));
        let found: Vec<_> = self.stream.range(start, end).map(|entry| read(&entry)).collect();
        let within = self.entries.iter().filter(|(id, _)| (start..=end).contains(*id));
        let expected: Vec<_> = within.map(|(id, fields)| (*id, fields.clone())).collect();
        assert_eq!(found, expected);
        let mut back: Vec<_> =
            self.stream.range_back(start, end).map(|entry| read(&entry)).collect();
        back.reverse();
        assert_eq!(back, expected);
        let found = self.stream.get(start).map(|entry| read(&entry).1);
        assert_eq!(found.as_ref(), self.entries.get(&start));
    }

    fn group_step(&mut self, random: &mut Rng) {
        let name = vec![b'g' + random.below(2) as u8];
        let id = self.some_id(random);
        let (last_id, pending) = match self.groups.get_mut(&name) {
            Some(model) if random.below(60) > 0 => (&mut model.0, &mut model.1),
            Some(_) => {
                self.groups.remove(&name);
                assert!(self.stream.remove_group(&name));
                return;
            }
            None => {
                assert!(self.stream.add_group(&name, Group::new(id, None)));
                self.groups.insert(name, (id, BTreeMap::new()));
                return;
            }
        };
        let consumer_name = vec![b'c' + random.below(3) as u8];
        let (group, entries) = self.stream.group_and_entries(&name).expect("the model has it");
        let now = UnixMs(random.below(1000) as i64);
        match random.below(5) {
            0 | 1 => {
                let (consumer, _) = group.consumer_or_new(&consumer_name, now);
                let Some(start) = group.last_id.next() else { return };
                for entry in entries.from(start).take(random.below(9) as usize) {
                    entries.advance(group, entry.id);
                    group.deliver(entry.id, consumer, now);
                    pending.insert(entry.id, consumer_name.clone());
                    *last_id = entry.id;
                }
            }
            2 => assert_eq!(group.acknowledge(id), pending.remove(&id).is_some()),
            3 => {
                let (consumer, _) = group.consumer_or_new(&consumer_name, now);
                group.hold(PendingEntry { id, consumer, delivered_at: now, count: 3 });
                pending.insert(id, consumer_name);
            }
            _ if random.below(20) == 0 => {
                let held = pending.values().filter(|name| **name == consumer_name).count();
                let found = group.remove_consumer(&consumer_name);
                assert_eq!(found.unwrap_or(0), held);
                pending.retain(|_, name| *name != consumer_name);
            }
            _ => {}
        }
        check_group(group, pending);
    }
}

fn check_group(group: &Group, pending: &Held) {
    let holder =
        |pending: &PendingEntry| group.consumer(pending.consumer).map(|it| it.name.to_vec());
    let all = group.pending().iter().map(|pending| (pending.id, holder(pending)));
    assert!(all.eq(pending.iter().map(|(id, name)| (*id, Some(name.clone())))));
    for consumer in group.consumers() {
        let own = pending.iter().filter(|(_, name)| ***name == *consumer.name);
        assert!(consumer.pending_from(StreamId::MIN).eq(own.map(|(id, _)| *id)));
    }
}

/// Some hundred random steps on a stream and its models; panics where they differ.
pub fn run(seed: u64) {
    let mut random = Rng::from_seed(seed);
    let mut pair = Pair::new(&mut random);
    for _ in 0..800 {
        match random.below(20) {
            0..=8 => pair.append(&mut random),
            9..=11 => pair.delete(&mut random),
            12 => pair.trim(&mut random),
            13 => pair.check_ranges(&mut random),
            _ => pair.group_step(&mut random),
        }
        assert_eq!(pair.stream.len(), pair.entries.len() as u64);
        let first = pair.entries.keys().next().copied().unwrap_or_default();
        assert_eq!(pair.stream.first_id(), first);
        let last = pair.stream.last_entry().map(|entry| entry.id);
        assert_eq!(last, pair.entries.keys().next_back().copied());
    }
    check_copy(&pair);
}

fn check_copy(pair: &Pair) {
    let copy = pair.stream.duplicate();
    let all = |stream: &Stream| {
        let entries = stream.range(StreamId::MIN, StreamId::MAX);
        entries.map(|entry| read(&entry)).collect::<Vec<_>>()
    };
    assert_eq!(all(&copy), all(&pair.stream));
    assert_eq!(copy.groups().len(), pair.groups.len());
    // A copy allocates only what it needs, the original somewhat more.
    assert!(copy.heap_bytes() <= pair.stream.heap_bytes());
}
