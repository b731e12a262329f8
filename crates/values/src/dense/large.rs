//! Blocks for content too long for a bin, by number.
//!
//! A bin refers to a block by its number, because safe code cannot keep pointers in bytes. Freed
//! numbers are chained and used again. Slots lie in chunks, so adding slots moves none of the
//! existing ones.

use pantala_table::Renewal;

const CHUNK_SLOTS: usize = 64;
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
enum Slot {
    Used(Box<[u8]>),
    /// The next free number, or `NONE`.
    Free(u32),
}

/// Blocks for long content, by number.
#[derive(Clone, Debug)]
pub(super) struct LargeDense {
    chunks: Vec<Vec<Slot>>,
    free: u32,
    used: usize,
    bytes: usize,
}

impl Default for LargeDense {
    fn default() -> Self {
        LargeDense { chunks: Vec::new(), free: NONE, used: 0, bytes: 0 }
    }
}

impl LargeDense {
    /// Allocated bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes + self.chunks.len() * CHUNK_SLOTS * size_of::<Slot>()
    }

    /// Reallocates up to `most` blocks that lie in sparse pages, from number `from` on. Returns
    /// where to continue.
    pub fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        let end = from.saturating_add(most);
        let slots = self.chunks.iter().map(Vec::len).sum();
        for index in from..end.min(slots) {
            if let Slot::Used(content) = self.slot(index as u32) {
                renewal.renew(content.as_ptr(), content);
            }
        }
        (end < slots).then_some(end)
    }

    /// Stores a block and returns its number. There are never 2^32: each has over 512 bytes.
    pub fn put(&mut self, content: Box<[u8]>) -> u32 {
        self.used += 1;
        self.bytes += pantala_table::size_class(content.len());
        let index = self.free;
        if index != NONE {
            let slot = self.slot(index);
            if let Slot::Free(next) = *slot {
                *slot = Slot::Used(content);
                self.free = next;
            }
            return index;
        }
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK_SLOTS) {
            self.chunks.push(Vec::with_capacity(CHUNK_SLOTS));
        }
        let chunk = self.chunks.len() - 1;
        self.chunks[chunk].push(Slot::Used(content));
        (chunk * CHUNK_SLOTS + self.chunks[chunk].len() - 1) as u32
    }

    fn slot(&mut self, index: u32) -> &mut Slot {
        let index = index as usize;
        &mut self.chunks[index / CHUNK_SLOTS][index % CHUNK_SLOTS]
    }

    /// The block with this number, which is in use.
    pub fn get(&self, index: u32) -> &[u8] {
        let index = index as usize;
        match &self.chunks[index / CHUNK_SLOTS][index % CHUNK_SLOTS] {
            Slot::Used(content) => content,
            Slot::Free(_) => &[],
        }
    }

    /// Mutable access to the block with this number, which is in use.
    pub fn get_mut(&mut self, index: u32) -> &mut [u8] {
        match self.slot(index) {
            Slot::Used(content) => content,
            Slot::Free(_) => &mut [],
        }
    }

    /// Frees a block. All slots are freed when none is used any more.
    pub fn free(&mut self, index: u32) {
        let next = self.free;
        if let Slot::Used(content) = std::mem::replace(self.slot(index), Slot::Free(next)) {
            self.bytes -= pantala_table::size_class(content.len());
            self.free = index;
            self.used -= 1;
        }
        if self.used == 0 {
            *self = LargeDense::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_two_words() {
        assert_eq!(size_of::<Slot>(), 16);
    }

    #[test]
    fn numbers_are_used_again() {
        let mut large = LargeDense::default();
        let numbers: Vec<u32> =
            (0..200u8).map(|n| large.put(vec![n; 600].into_boxed_slice())).collect();
        assert_eq!(numbers, (0..200).collect::<Vec<u32>>());
        large.free(7);
        large.free(100);
        assert_eq!(large.put(vec![1; 700].into_boxed_slice()), 100);
        assert_eq!(large.put(vec![2; 700].into_boxed_slice()), 7);
        assert_eq!(large.get(7), [2; 700]);
        assert_eq!(large.get(150), [150; 600]);
        for number in numbers {
            large.free(number);
        }
        assert_eq!(large.heap_bytes(), 0);
    }
}
