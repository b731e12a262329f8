//! The room for connections: limited by `maxclients`, and by the descriptors of the process, of
//! which files, listeners and event loops keep theirs.
//!
//! Invariants
//! 1. A connection takes one descriptor, and one more if its other end is in this process, too (a
//!    [`Link`], which HTTP uses). A connection beyond the limits is refused before it has any, or
//!    closed as soon as it was accepted.
//! 2. Connections never take the reserve of the process (`process/system/limits.rs`).
//!
//! Tests: at the foot; the bad days `sockets_leave_descriptors`, `few_descriptors`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count of connections and of the descriptors they take, with their limits.
pub struct Room {
    /// Connections, including those in transit between two workers.
    clients: AtomicUsize,
    /// Of these, those whose other end is in this process.
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
    /// Sets how many descriptors connections may have.
    pub fn set_descriptors(&self, most: u64) {
        self.descriptors.store(usize::try_from(most).unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// The number of connections.
    pub fn connection_count(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Whether there is room for one more connection.
    pub fn has_place(&self, maxclients: u32) -> bool {
        self.fits(1, maxclients)
    }

    /// Counts a new connection, wherever it will be served.
    pub fn came(&self) {
        self.clients.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that has ended.
    pub fn went(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes room for a connection of this process with itself; `None`: there is none. One of its
    /// ends is counted by the [`Link`], the other like any connection until `went`.
    pub fn take_link(self: &Arc<Room>, maxclients: u32) -> Option<Link> {
        // Counted before the check, so that of two at the same time none is overlooked.
        self.links.fetch_add(1, Ordering::Relaxed);
        let link = Link(Arc::clone(self));
        self.came();
        if self.fits(0, maxclients) {
            return Some(link);
        }
        self.went();
        None
    }

    /// Whether there is room for the counted connections, and `more`.
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
