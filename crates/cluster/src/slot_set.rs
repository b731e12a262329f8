//! A set of slots.

use pantala_base::crc::SLOT_COUNT;

use crate::slots::SlotRange;

const WORDS: usize = SLOT_COUNT as usize / 64;

/// A set of slots, one bit each.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u64; WORDS]>);

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet(Box::new([0; WORDS]))
    }
}

/// The word and the bit of a slot.
fn place(slot: u16) -> (usize, u64) {
    debug_assert!(slot < SLOT_COUNT, "there is such a slot");
    (usize::from(slot) / 64 % WORDS, 1 << (slot % 64))
}

impl SlotSet {
    /// Whether the slot is in the set.
    pub fn contains(&self, slot: u16) -> bool {
        let (word, bit) = place(slot);
        self.0[word] & bit != 0
    }

    /// Adds a slot; false if it was in the set.
    pub fn insert(&mut self, slot: u16) -> bool {
        let (word, bit) = place(slot);
        let was_there = self.0[word] & bit != 0;
        self.0[word] |= bit;
        !was_there
    }

    /// Removes a slot; false if it was not in the set.
    pub fn remove(&mut self, slot: u16) -> bool {
        let (word, bit) = place(slot);
        let was_there = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        was_there
    }

    /// How many slots it has.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has no slot.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Its slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let rest = std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
            let first = (at * 64) as u16;
            rest.take_while(|rest| *rest != 0).map(move |rest| first + rest.trailing_zeros() as u16)
        })
    }

    /// Its slots as the fewest ranges, ascending.
    pub fn ranges(&self) -> Vec<SlotRange> {
        let mut ranges: Vec<SlotRange> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some(range) if range.last + 1 == slot => range.last = slot,
                _ => ranges.push(SlotRange { first: slot, last: slot }),
            }
        }
        ranges
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> SlotSet {
        let mut set = SlotSet::default();
        set.extend(slots);
        set
    }
}

impl Extend<u16> for SlotSet {
    fn extend<I: IntoIterator<Item = u16>>(&mut self, slots: I) {
        for slot in slots {
            self.insert(slot);
        }
    }
}

impl std::fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_told_as_the_fewest_ranges() {
        let mut set: SlotSet = [5, 6, 7, 63, 64, 65, SLOT_COUNT - 1].into_iter().collect();
        let told = |set: &SlotSet| -> Vec<String> {
            set.ranges().iter().map(ToString::to_string).collect()
        };
        assert_eq!(told(&set), ["5-7", "63-65", "16383"]);
        assert!(set.remove(6) && !set.remove(6) && set.insert(8) && !set.insert(8));
        assert_eq!(told(&set), ["5", "7-8", "63-65", "16383"]);
        assert_eq!((set.count(), set.is_empty(), set.contains(64)), (7, false, true));
        assert!(SlotSet::default().is_empty());
    }
}
