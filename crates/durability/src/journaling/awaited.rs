//! Requests that wait until everything has arrived that was handed over before they were made.
//!
//! They do not wait until nothing more arrives: under load there is always more.

use pantala_journal::Stamp;

/// The requests of one kind.
pub(super) struct WaiterList<T>(Vec<(Option<Stamp>, T)>);

impl<T> Default for WaiterList<T> {
    fn default() -> Self {
        WaiterList(Vec::new())
    }
}

impl<T> WaiterList<T> {
    /// Adds a request, before the next round gathers.
    pub fn push(&mut self, one: T) {
        self.0.push((None, one));
    }

    /// After a round: removes and returns the requests that are due. Everything before `until` has
    /// arrived; `gathered` is the largest stamp that was handed over.
    pub fn take_due(&mut self, until: Stamp, gathered: Stamp) -> Vec<T> {
        let (mut due, before) = (Vec::new(), self.0.len());
        for (last, one) in std::mem::take(&mut self.0) {
            match last.unwrap_or(gathered) {
                last if last < until => due.push(one),
                last => self.0.push((Some(last), one)),
            }
        }
        debug_assert_eq!(due.len() + self.0.len(), before, "nobody is forgotten");
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_waits_for_what_was_there_and_for_nothing_later() {
        let mut awaited = WaiterList::default();
        let stamp = Stamp::first_of;
        awaited.push('a');
        assert!(awaited.take_due(stamp(5), stamp(7)).is_empty());
        awaited.push('b');
        assert!(awaited.take_due(stamp(7), stamp(9)).is_empty(), "up to it, and not with it");
        assert_eq!(awaited.take_due(stamp(8), stamp(20)), ['a']);
        assert_eq!(awaited.take_due(stamp(10), stamp(30)), ['b']);
        assert!(awaited.take_due(stamp(99), stamp(99)).is_empty());
    }
}
