//! The file of lengths beside a manifest: facts about the files that the manifest names which Redis
//! and Valkey do not write there.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b bytes 89 next 3 head 0f29c41d55e7a880
//! file appendonly.aof.3.incr.aof seq 3 type i base 2 bytes 70 next 4
//! file appendonly.aof.4.incr.aof seq 4 type i base 2
//! # crc64 8d1c5f0a62b3e974
//! ```
//!
//! It is written after the manifest, so after a crash it may be that of the manifest before.
//! Another server that goes on with the files does not write it, and a copy may lack it. So it is
//! only used as far as it must still hold:
//!
//! | base in the manifest | means | |
//! |---|---|---|
//! | the same | the manifest may name more increments since, and none less | used |
//! | none, and there was one | its line is lost | used |
//! | another | the files were rewritten since | not used |
//! | the same, but its file begins differently | another server has begun anew | not used |
//!
//! Invariants
//! 1. What it says holds for each file that it shares with a manifest of the same base: closed
//!    files do not change, and an increment is dropped only for a new base.
//!
//! Not here: where it lies (`layout`). Tests: at the foot; on disk in `layout` and `writer`.

use pantala_base::crc::crc64;

use super::manifest::{Gap, HEAD_BYTES, Manifest, Part};

/// The beginning of the last line, before the checksum of all lines above.
const CHECKSUM: &str = "# crc64 ";

/// Why what a file of lengths says is not used, if that may be a sign of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Its checksum is wrong.
    Damaged,
    /// The base in the manifest is older than the one in it.
    OlderBase,
    /// The base has the number of the one in it, but is another.
    OtherBase,
}

impl Doubt {
    /// The reason, as an end of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Doubt::Damaged => "it is damaged",
            Doubt::OlderBase => "it is of a later base than the manifest",
            Doubt::OtherBase => "the base begins differently than the one that it is of",
        }
    }
}

/// The text to be stored.
pub fn text(manifest: &Manifest) -> String {
    let lines = manifest.text_of_lengths();
    let checksum = crc64(0, lines.as_bytes());
    format!("{lines}{CHECKSUM}{checksum:016x}\n")
}

/// The files that a stored text describes.
fn parse(text: &[u8]) -> Option<Manifest> {
    let text = std::str::from_utf8(text).ok()?;
    let (lines, checksum) = text.strip_suffix('\n')?.rsplit_once(CHECKSUM)?;
    let is_whole = checksum == format!("{:016x}", crc64(0, lines.as_bytes()));
    is_whole.then(|| Manifest::parse(text.as_bytes()).ok()).flatten()
}

/// Adds to a manifest what a stored text says of its files. A file that belongs to them and is not
/// named becomes [`Manifest::missing`]. `head_of` gives the checksum of a file's beginning, if it
/// has so many bytes.
pub fn add(
    manifest: &mut Manifest,
    text: &[u8],
    head_of: impl FnOnce(&Part, u64) -> Option<u64>,
) -> Result<(), Doubt> {
    let known = parse(text).ok_or(Doubt::Damaged)?;
    match (&mut manifest.base, &known.base) {
        (None, None) => {}
        (None, Some(lost)) => manifest.missing = Some(Gap::Base(lost.seq)),
        (Some(base), Some(known)) if is_same(base, known) => {
            if let (Some(head), Some(closed)) = (known.head, known.closed)
                && head_of(base, closed.bytes.min(HEAD_BYTES)) != Some(head)
            {
                return Err(Doubt::OtherBase);
            }
            complete(base, known);
        }
        (Some(base), Some(known)) if base.seq < known.seq => return Err(Doubt::OlderBase),
        (Some(_), _) => return Ok(()),
    }
    for known in &known.increments {
        match manifest.increments.iter_mut().find(|part| is_same(part, known)) {
            Some(part) => complete(part, known),
            None => manifest.missing = manifest.missing.or(Some(Gap::Increment(known.seq))),
        }
    }
    Ok(())
}

fn is_same(one: &Part, other: &Part) -> bool {
    (&one.name, one.seq) == (&other.name, other.seq)
}

fn complete(part: &mut Part, known: &Part) {
    part.base = part.base.or(known.base);
    part.closed = part.closed.or(known.closed);
    part.head = part.head.or(known.head);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "file b.2 seq 2 type b bytes 7 next 4\n\
                        file i.4 seq 4 type i base 2 bytes 5 next 5\n\
                        file i.5 seq 5 type i base 2\n";

    fn manifest(text: &str) -> Manifest {
        Manifest::parse(text.as_bytes()).expect("it is one")
    }

    /// A manifest with what the lengths of another say of its files.
    fn with_lengths_of(lines: &str, plain: &str) -> (Manifest, Result<(), Doubt>) {
        let mut found = manifest(plain);
        let added = add(&mut found, text(&manifest(lines)).as_bytes(), |_, bytes| Some(bytes));
        (found, added)
    }

    #[test]
    fn a_manifest_gets_back_what_was_known_of_its_files() {
        let all = manifest(LONG);
        let (found, added) = with_lengths_of(LONG, &all.text());
        assert_eq!((found, added), (all, Ok(())));
    }

    #[test]
    fn a_lost_line_is_missed() {
        let all = manifest(LONG);
        let plain = all.text();
        let lines: Vec<&str> = plain.split_inclusive('\n').collect();
        for (lost, gap) in [(0, Gap::Base(2)), (1, Gap::Increment(4)), (2, Gap::Increment(5))] {
            let mut rest = lines.clone();
            rest.remove(lost);
            let (found, added) = with_lengths_of(LONG, &rest.concat());
            assert_eq!((found.gap(), added), (Some(gap), Ok(())), "{lost}");
        }
        let (found, _) = with_lengths_of(LONG, "file b.2 seq 2 type b\nfile i.6 seq 6 type i\n");
        assert_eq!(found.gap(), Some(Gap::Increment(4)), "whatever was added since");
    }

    #[test]
    fn increments_may_be_added_by_others_or_just_before_a_crash() {
        let plain = manifest(LONG).text() + "file i.6 seq 6 type i\n";
        let (found, added) = with_lengths_of(LONG, &plain);
        assert_eq!((found.gap(), added), (None, Ok(())));
        assert_eq!(found.text_of_lengths(), LONG.to_owned() + "file i.6 seq 6 type i\n");
    }

    #[test]
    fn after_a_rewrite_nothing_old_is_used() {
        let plain = "file b.3 seq 3 type b\nfile i.5 seq 5 type i\n";
        let (found, added) = with_lengths_of(LONG, plain);
        assert_eq!((found.text_of_lengths(), found.gap(), added), (plain.into(), None, Ok(())));
        let (found, added) = with_lengths_of("file i.1 seq 1 type i bytes 9 next 2\n", plain);
        assert_eq!((found.text_of_lengths(), found.gap(), added), (plain.into(), None, Ok(())));
    }

    #[test]
    fn damage_and_an_older_base_are_told() {
        let plain = "file b.1 seq 1 type b\nfile i.1 seq 1 type i\n";
        let (found, added) = with_lengths_of(LONG, plain);
        assert_eq!((found, added), (manifest(plain), Err(Doubt::OlderBase)));
        let whole = text(&manifest(LONG));
        let mut found = manifest(plain);
        for damaged in ["", LONG, &whole[1..], &whole[..whole.len() - 1], &whole.replace('7', "8")]
        {
            let added = add(&mut found, damaged.as_bytes(), |_, _| None);
            assert_eq!(added, Err(Doubt::Damaged), "{damaged}");
        }
        assert_eq!(found, manifest(plain));
    }

    #[test]
    fn another_base_of_the_same_number_is_told() {
        let with_head = |head: u64| LONG.replacen("next 4", &format!("next 4 head {head:016x}"), 1);
        let plain = "file b.2 seq 2 type b\nfile i.4 seq 4 type i\n";
        // Its first seven bytes are those it was written of.
        let (found, added) = with_lengths_of(&with_head(7), plain);
        assert_eq!((found.gap(), added), (Some(Gap::Increment(5)), Ok(())));
        let (found, added) = with_lengths_of(&with_head(8), plain);
        assert_eq!((found, added), (manifest(plain), Err(Doubt::OtherBase)));
    }

    #[test]
    fn there_may_be_no_file_yet() {
        let (found, added) = with_lengths_of("# nothing\n", LONG);
        assert_eq!((found, added), (manifest(LONG), Ok(())));
    }
}
