//! How many connections there may be: by `maxclients`, and by the descriptors of the process, of
//! which files, listeners and event loops keep theirs.
//!
//! Invariants
//! 1. A connection is one descriptor, and one more where its other end is ours, too (a [`Link`],
//!    which HTTP speaks by). What would be one too many is refused before it has any, or closed as
//!    soon as it was accepted.
//! 2. The reserve of the process (`process/system/limits.rs`) is no connection's.
//!
//! Tests: at the foot; the bad days `sockets_leave_descriptors`, `few_descriptors`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count of connections and of the descriptors they take, with their limits.
pub struct Room {
    /// Connections, those on their way between two workers too.
    clients: AtomicUsize,
    /// Of these, whose other end is in this process.
    links: AtomicUsize,
    /// How many descriptors connections may have.
    descriptors: AtomicUsize,
}

impl Default for Room {
    fn default() -> Room {
        let [clients, links] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Room { clients, links, descriptors: AtomicUsize::new(usize::MAX) }
    }
}

/// The other end of a connection, which is in this process. Dropped when it is closed.
pub struct Link(Arc<Room>);

impl Drop for Link {
    fn drop(&mut self) {
        self.0.links.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Room {
    /// Connections may have so many descriptors from now on.
    pub fn set_descriptors(&self, most: u64) {
        self.descriptors.store(usize::try_from(most).unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// How many connections there are.
    pub fn connection_count(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Whether one more may come.
    pub fn has_place(&self, maxclients: u32) -> bool {
        self.fits(1, maxclients)
    }

    /// There is a connection more, wherever it will be served.
    pub fn came(&self) {
        self.clients.fetch_add(1, Ordering::Relaxed);
    }

    /// There is one less.
    pub fn went(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection of this process with itself is to come; `None`: there is no room for it. One of
    /// its ends is counted by the [`Link`], the other as any connection until it `went`.
    pub fn take_link(self: &Arc<Room>, maxclients: u32) -> Option<Link> {
        // Counted before it is looked: of two that come at once none is overlooked.
        self.links.fetch_add(1, Ordering::Relaxed);
        let link = Link(Arc::clone(self));
        self.came();
        if self.fits(0, maxclients) {
            return Some(link);
        }
        self.went();
        None
    }

    /// Whether there is room for those that are counted, and so many more.
    fn fits(&self, more: usize, maxclients: u32) -> bool {
        let clients = self.clients.load(Ordering::Relaxed) + more;
        let ends = clients + self.links.load(Ordering::Relaxed);
        clients <= maxclients as usize && ends <= self.descriptors.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_take_two_descriptors_and_give_them_back() {
        let room = Arc::new(Room::default());
        room.set_descriptors(5);
        assert!(room.has_place(1));
        room.came();
        assert!(!room.has_place(1) && room.has_place(2));
        let first = room.take_link(10).expect("there is room");
        let second = room.take_link(10).expect("there is room");
        assert_eq!(room.connection_count(), 3);
        assert!(!room.has_place(10) && room.take_link(10).is_none());
        assert_eq!(room.connection_count(), 3);
        drop(first);
        assert!(room.has_place(10) && room.take_link(10).is_none());
        room.went();
        assert!(room.take_link(10).is_some());
        assert!(room.take_link(2).is_none());
        drop(second);
    }
}
