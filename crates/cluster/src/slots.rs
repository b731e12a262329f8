//! Ranges of slots.

use pantala_base::crc::SLOT_COUNT;

/// Slots from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotRange {
    /// The first slot.
    pub first: u16,
    /// The last slot; not before the first.
    pub last: u16,
}

impl SlotRange {
    /// Every slot.
    pub const ALL: SlotRange = SlotRange { first: 0, last: SLOT_COUNT - 1 };

    /// The range from `first` to `last`; `None` if that is no range of slots.
    pub fn new(first: u16, last: u16) -> Option<SlotRange> {
        (first <= last && last < SLOT_COUNT).then_some(SlotRange { first, last })
    }

    /// How many slots it has.
    pub fn count(self) -> usize {
        usize::from(self.last - self.first) + 1
    }

    /// Whether it has this slot.
    pub fn contains(self, slot: u16) -> bool {
        (self.first..=self.last).contains(&slot)
    }
}

impl std::fmt::Display for SlotRange {
    /// As CLUSTER NODES writes it: `7`, or `7-9`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_ends_and_what_is_between() {
        let range = SlotRange::new(3, 5).expect("it is one");
        assert_eq!((range.count(), range.to_string()), (3, "3-5".into()));
        let has: Vec<u16> = (0..9).filter(|&slot| range.contains(slot)).collect();
        assert_eq!(has, [3, 4, 5]);
        assert_eq!(SlotRange::new(4, 4).expect("it is one").to_string(), "4");
        assert_eq!(SlotRange::ALL.count(), usize::from(SLOT_COUNT));
        assert_eq!((SlotRange::new(5, 4), SlotRange::new(0, SLOT_COUNT)), (None, None));
    }
}
