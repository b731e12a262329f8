//! Lists: consecutive listpacks, each as large as one of our own chunks.

use pantala_table::IntText;
use pantala_values::List;
use pantala_values::list::End;
use pantala_values::packed::{self, Element};

use crate::input::{Input, Malformed};
use crate::kind::RdbKind;
use crate::packed::{listpack, ziplist};
use crate::scalars::length;
use crate::scalars::text::{self, Text};
use crate::{Part, RdbLimits};

/// A single element follows.
const PLAIN: u64 = 1;
/// A listpack follows.
const PACKED: u64 = 2;

/// Appends a part of a list.
pub fn write_part(list: &List, part: Part, out: &mut Vec<u8>) -> Option<usize> {
    let (end, mut written) = (part.end(out), part.from);
    if part.from == 0 {
        length::write(list.chunk_count() as u64, out);
    }
    list.visit_chunks(part.from, |view| {
        length::write(PACKED, out);
        listpack::write(view, part.style, out);
        written += 1;
        out.len() < end
    });
    (written < list.chunk_count()).then_some(written)
}

/// Reads a list of some kind.
pub fn read(kind: RdbKind, input: &mut Input<'_>, limits: &RdbLimits) -> Result<List, Malformed> {
    let mut list = List::large(limits.list);
    match kind {
        RdbKind::LIST => {
            for _ in 0..length::read_count(input, 1)? {
                push_text(&mut list, &text::read(input, most_bytes(limits))?);
            }
        }
        RdbKind::LIST_ZIPLIST => list.push_packed(ziplist::read(input)?),
        RdbKind::LIST_QUICKLIST => {
            for _ in 0..length::read_count(input, 1)? {
                list.push_packed(ziplist::read(input)?);
            }
        }
        _ => {
            for _ in 0..length::read_count(input, 2)? {
                read_node(&mut list, input, limits)?;
            }
        }
    }
    list.settle(limits.list);
    Ok(list)
}

fn read_node(list: &mut List, input: &mut Input<'_>, limits: &RdbLimits) -> Result<(), Malformed> {
    match length::read(input)? {
        PLAIN => {
            let text = text::read(input, most_bytes(limits))?;
            if text.view().is_empty() {
                return Err(Malformed("an element by itself that is empty"));
            }
            push_text(list, &text);
        }
        // Servers have written parts without elements, and skip them.
        PACKED => list.push_packed(listpack::read(input)?),
        _ => return Err(Malformed("a part of a list of an unknown form")),
    }
    Ok(())
}

/// The longest element: its entry must fit a packed buffer.
fn most_bytes(limits: &RdbLimits) -> usize {
    limits.text_bytes.min(packed::MAX_BYTES / 2)
}

fn push_text(list: &mut List, text: &Text<'_>) {
    list.push(End::Tail, Element::of(text.bytes(&mut IntText::new())));
}
