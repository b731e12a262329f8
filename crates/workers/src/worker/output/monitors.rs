//! MONITOR: the monitors of one worker, and the lines they are sent.

use std::sync::Arc;

use pantala_engine::clients::monitors::Lines;

use crate::worker::Worker;
use crate::worker::admission::limits::Judge;
use crate::worker::connection::{Connection, Life};

impl Worker {
    /// Makes a connection of this worker a monitor.
    pub fn begin_to_monitor(&mut self, index: u32) {
        self.lists.monitors.push(index);
        self.context.engine.notices.monitors.join(self.index);
    }

    /// A monitor leaves for another worker: the lines it misses in transit are kept for it.
    pub fn depart_as_monitor(&mut self, index: u32) {
        let engine = Arc::clone(&self.context.engine);
        let (Some(at), Some(client)) = (
            self.lists.monitors.iter().position(|one| *one == index),
            self.at(index).map(|connection| connection.session.id),
        ) else {
            return;
        };
        engine.notices.monitors.depart(self.index, client, || self.feed_monitors());
        self.lists.monitors.swap_remove(at);
    }

    /// A monitor has arrived from another worker, and gets the lines that were kept for it.
    pub fn arrive_as_monitor(&mut self, index: u32) {
        let engine = Arc::clone(&self.context.engine);
        let Some(client) = self.at(index).map(|connection| connection.session.id) else { return };
        let between = engine.notices.monitors.arrive(self.index, client, || self.feed_monitors());
        let Some(Lines { lines, is_torn, .. }) = between else {
            return self.begin_to_monitor(index);
        };
        self.lists.monitors.push(index);
        self.show_to(index, &lines, is_torn);
    }

    /// A connection of this worker is no monitor any more.
    pub fn end_monitoring(&mut self, index: u32) {
        if let Some(at) = self.lists.monitors.iter().position(|one| *one == index) {
            self.lists.monitors.swap_remove(at);
            self.context.engine.notices.monitors.leave(self.index);
        }
    }

    /// Whether this worker has lines for its monitors.
    #[inline]
    pub fn has_to_show(&self) -> bool {
        !self.lists.monitors.is_empty()
            && self.context.engine.notices.monitors.has_lines(self.index)
    }

    /// Sends the monitors of this worker the commands that have run.
    #[inline]
    pub fn feed_monitors(&mut self) {
        if self.has_to_show() {
            self.show_lines();
        }
    }

    #[cold]
    fn show_lines(&mut self) {
        let engine = Arc::clone(&self.context.engine);
        let feed = engine.notices.monitors.feed_of(self.index);
        let Lines { lines, is_torn, .. } = feed.take();
        // A monitor whose user was removed before a command ran does not see that command.
        self.look_at_users();
        for at in 0..self.lists.monitors.len() {
            self.show_to(self.lists.monitors[at], &lines, is_torn);
        }
        feed.keep(lines);
    }

    fn show_to(&mut self, index: u32, lines: &[u8], is_torn: bool) {
        let Some(connection) = self.connections[index as usize].as_deref_mut() else { return };
        let most_bytes = self.limited.most_unsent_bytes(connection);
        connection.tell(most_bytes, |out, _| out.extend_from_slice(lines));
        if is_torn {
            self.end_torn(index);
        }
        self.touch(index);
    }

    /// Closes a monitor that would miss a line.
    fn end_torn(&mut self, index: u32) {
        let is_open = |one: &&mut Connection| one.life == Life::Open && !one.session.closing;
        if let Some(connection) = self.at(index).filter(is_open) {
            connection.session.closing = true;
            self.tally.output_limit.add(1);
        }
    }
}
