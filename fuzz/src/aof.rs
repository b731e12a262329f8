//! `fuzz_aof --seconds N --seed S`: append-only files and manifests, whole and damaged.
//!
//! A case is a file of random steps. Read in windows of any size it gives the same steps; damaged
//! or cut it gives a prefix of them up to the reported offset, and never a panic. An accepted
//! manifest is written and read back unchanged.

use std::io::Read;
use std::process::ExitCode;

use pantala_base::Rng;
use pantala_persistence::aof::lengths;
use pantala_persistence::aof::manifest::Closed;
use pantala_persistence::aof::reader::{ReadError, StepRead, StepReader};
use pantala_persistence::aof::{Manifest, Part};

const DAMAGES: u64 = 20;

fn main() -> ExitCode {
    pantala_fuzz::run("fuzz_aof", case)
}

fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let (file, ends) = steps(&mut rng);
    let whole = read(&file, &mut rng);
    assert_eq!(whole, (ends.clone(), Outcome::Whole));
    for _ in 0..DAMAGES {
        let mut damaged = file.clone();
        let place = damage(&mut rng, &mut damaged);
        let (found, outcome) = read(&damaged, &mut rng);
        let (again, same) = read(&damaged, &mut rng);
        assert_eq!((&found, &outcome), (&again, &same), "windows make no difference");
        let sound = ends.iter().take_while(|&&end| end <= place).count();
        assert!(found.len() >= sound, "steps before the damage are found");
        if let Outcome::Torn(offset) = outcome {
            assert_eq!(offset, found.last().copied().unwrap_or(0), "cut where a step ends");
        }
    }
    manifests(&mut rng);
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Whole,
    Torn(u64),
    Damaged(u64),
}

/// A file, and the ends of its steps.
fn steps(rng: &mut Rng) -> (Vec<u8>, Vec<u64>) {
    let (mut file, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..rng.below(12) {
        match rng.below(5) {
            0 => file.extend_from_slice(b"#TS:1700000000\r\n"),
            1 => {
                command(&[b"MULTI"], &mut file);
                (0..rng.below(4)).for_each(|_| random_command(rng, &mut file));
                command(&[b"EXEC"], &mut file);
                ends.push(file.len() as u64);
            }
            _ => {
                random_command(rng, &mut file);
                ends.push(file.len() as u64);
            }
        }
    }
    (file, ends)
}

fn command(args: &[&[u8]], file: &mut Vec<u8>) {
    file.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        file.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        file.extend_from_slice(arg);
        file.extend_from_slice(b"\r\n");
    }
}

fn random_command(rng: &mut Rng, file: &mut Vec<u8>) {
    let args: Vec<Vec<u8>> = (0..rng.below(4))
        .map(|_| {
            let longest = if rng.below(20) == 0 { 300_000 } else { 40 };
            let mut arg = vec![0; rng.below(longest) as usize];
            rng.bytes(&mut arg);
            arg
        })
        .collect();
    let mut all: Vec<&[u8]> = vec![b"SET"];
    all.extend(args.iter().map(Vec::as_slice));
    command(&all, file);
}

/// Damages the file; returns the offset of the first changed byte.
fn damage(rng: &mut Rng, file: &mut Vec<u8>) -> u64 {
    let place = rng.below(file.len() as u64 + 1);
    let at = place as usize;
    match rng.below(4) {
        0 => file.truncate(at),
        1 => file[at..].fill(0),
        2 => file.insert(at, b"*$\r\n0129#"[rng.below(9) as usize]),
        _ => {
            if let Some(byte) = file.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
    }
    place
}

/// The ends of the steps, and how the file ends. Windows are of random sizes.
fn read(file: &[u8], rng: &mut Rng) -> (Vec<u64>, Outcome) {
    let ahead = file[..rng.below(file.len() as u64 + 1) as usize].to_vec();
    let rest = Pieces { bytes: file[ahead.len()..].to_vec(), at: 0, rng: rng.clone() };
    let mut reader = StepReader::new(Box::new(rest), ahead, 0, file.len() as u64);
    let mut ends = Vec::new();
    loop {
        match reader.next() {
            Ok(StepRead::Step) => ends.push(reader.offset()),
            Ok(StepRead::Annotation) => {}
            Ok(StepRead::End) => return (ends, Outcome::Whole),
            // Annotations are between steps: a cut after one is as good.
            Ok(StepRead::Torn(torn)) => {
                let last = ends.last().copied().unwrap_or(0);
                assert!(torn.offset >= last && torn.offset <= file.len() as u64);
                return (ends, Outcome::Torn(last));
            }
            Err(ReadError::Damage(damage)) => return (ends, Outcome::Damaged(damage.offset)),
            Err(ReadError::Disk(error)) => panic!("nothing fails here: {error}"),
        }
    }
}

struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    rng: Rng,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let left = &self.bytes[self.at..];
        let most = left.len().min(out.len());
        let len = if most == 0 { 0 } else { 1 + self.rng.below(most as u64) as usize };
        out[..len].copy_from_slice(&left[..len]);
        self.at += len;
        Ok(len)
    }
}

fn manifests(rng: &mut Rng) {
    let part = |rng: &mut Rng, seq| {
        let name: String = (0..1 + rng.below(8))
            .map(|_| ['a', '.', ' ', '"', '\\', '\n', 'é', '\'', '\u{7}'][rng.below(9) as usize])
            .collect();
        let base = (rng.below(2) == 0).then(|| 1 + rng.below(9));
        let closed =
            (rng.below(2) == 0).then(|| Closed { bytes: rng.below(9), next: 1 + rng.below(9) });
        let head = (rng.below(2) == 0).then(|| rng.below(u64::MAX));
        Part { name: format!("x{name}"), seq, base, closed, head }
    };
    let base = (rng.below(2) == 0).then(|| part(rng, 1));
    let history = (0..rng.below(3)).map(|seq| part(rng, seq + 1)).collect();
    let increments = (0..rng.below(3)).map(|seq| part(rng, seq + 1)).collect();
    let manifest = Manifest { base, history, increments, missing: None };
    // For any numbers.
    let _either = manifest.gap();
    let text = manifest.text();
    let plain = without_lengths(manifest.clone());
    assert_eq!(Manifest::parse(text.as_bytes()), Ok(plain.clone()));
    let mut known = plain.clone();
    let stored = lengths::text(&manifest);
    let head = manifest.base.as_ref().and_then(|base| base.head);
    assert_eq!(lengths::add(&mut known, stored.as_bytes(), |_, _| head), Ok(()));
    assert_eq!(known, manifest_with(&plain.history, &manifest));
    let mut damaged = stored.into_bytes();
    damage(rng, &mut damaged);
    let _either = lengths::add(&mut known, &damaged, |_, _| head);
    let mut damaged = text.into_bytes();
    for _ in 0..DAMAGES {
        damage(rng, &mut damaged);
        if let Ok(taken) = Manifest::parse(&damaged)
            && taken != Manifest::default()
        {
            assert_eq!(Manifest::parse(taken.text().as_bytes()), Ok(without_lengths(taken)));
        }
    }
}

/// What other servers know of it.
fn without_lengths(mut manifest: Manifest) -> Manifest {
    let bases = manifest.base.iter_mut().chain(&mut manifest.history);
    for part in bases.chain(&mut manifest.increments) {
        (part.base, part.closed, part.head) = (None, None, None);
    }
    manifest
}

/// A manifest with this history: of it no lengths are stored.
fn manifest_with(history: &[Part], manifest: &Manifest) -> Manifest {
    Manifest { history: history.to_vec(), ..manifest.clone() }
}
