//! The keeper: the journal's thread, which takes recorded steps in order and handles orders.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use pantala_engine::condition::states::States;
use pantala_journal::{Item, JournalReader, Stamp};
use pantala_settings::Settings;
use pantala_settings::field::AppendSync;

use super::awaited::WaiterList;
use super::feed::Feed;
use super::file::File;
use crate::Durability;
use crate::appending::Order;
use crate::snapshots::place::SnapshotPlace;
use pantala_engine::Message;

/// The pause between two rounds that had something to write, so that what is recorded meanwhile is
/// written together and no thread has to wake this one.
const NAP: Duration = Duration::from_millis(2);
/// That pause while nobody waits for what is written: no replica follows, and what is acknowledged
/// is in rings.
const LONG_NAP: Duration = Duration::from_millis(5);
/// Between two rounds while a client waits for replicas (WAIT).
const SHORT_NAP: Duration = Duration::from_micros(200);
/// How often a file that is not synced, or cannot be written, is checked.
const LOOK: Duration = Duration::from_millis(100);

/// The journal's thread: its reader, the orders it gets, the append-only file and the stream.
pub struct Keeper {
    durability: Arc<Durability>,
    reader: JournalReader,
    orders: Receiver<Order>,
    file: Option<File>,
    feed: Feed,
    /// Requests to be told when everything recorded is on disk.
    flushes: WaiterList<Sender<()>>,
    /// Requests to be told when everything recorded is on disk and the file is closed.
    closings: WaiterList<Sender<()>>,
    is_ending: bool,
}

impl Keeper {
    /// A keeper that takes these orders.
    pub fn new(durability: Arc<Durability>, orders: Receiver<Order>) -> Keeper {
        let reader = JournalReader::new(Arc::clone(&durability.engine.journal), 0);
        let feed = Feed::new(Arc::clone(&durability));
        let (flushes, closings) = (WaiterList::default(), WaiterList::default());
        Keeper { durability, reader, orders, file: None, feed, flushes, closings, is_ending: false }
    }

    /// The main loop of the thread.
    pub fn run(mut self) {
        self.reader.begin_here();
        loop {
            let (had_some, has_more) = self.turn();
            if !self.is_ending {
                self.rest(had_some);
            } else if !has_more {
                break;
            }
        }
        // A replica's stream is not fed here.
        let has_all = self.feed.is_on() || self.durability.role.is_replica();
        if let Some(file) = self.file.as_mut().filter(|_| has_all)
            && let Some(place) = SnapshotPlace::at_the_end(&self.durability)
        {
            file.end_at(place);
        }
        self.close_file();
        pantala_memory::release_seat();
    }

    /// Does what is due; whether anything was written, and whether there is more.
    pub fn turn(&mut self) -> (bool, bool) {
        self.take_orders();
        let (had_some, until) = self.round();
        self.answer(until);
        if let Some(file) = &mut self.file {
            file.go_on(self.is_ending);
        }
        self.feed.go_on();
        (had_some, had_some || self.reader.has_more())
    }

    fn settings(&self) -> Arc<Settings> {
        self.durability.engine.settings.current()
    }

    /// Writes what is complete; whether there was anything, and the stamp before which it is
    /// complete.
    fn round(&mut self) -> (bool, Stamp) {
        let until = self.reader.gather();
        let Keeper { reader, file, feed, .. } = self;
        let mut had_some = false;
        if let Some(file) = file {
            file.begin_round();
        }
        reader.take(until, &mut |item| {
            had_some = true;
            match item {
                Item::Run(run) => {
                    if let Some(file) = file {
                        file.run(run);
                    }
                    if run.audience.has_replicas() {
                        feed.run(run.bytes);
                    }
                }
                Item::Cut(cut) => {
                    if !feed.cut(cut)
                        && let Some(file) = file
                    {
                        file.cut(cut);
                    }
                }
            }
        });
        if let Some(file) = file {
            file.end_round(until);
        }
        feed.end_round(until, reader.gathered());
        self.reader.done();
        if self.durability.engine.journal.calls_held_back() {
            self.durability.engine.workers.post_all(&|| Message::PauseChanged);
        }
        (had_some, until)
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            debug_assert!(!self.is_ending, "nothing is ordered after the end");
            match order {
                Order::Open(writer) => {
                    self.close_file();
                    match File::open(Arc::clone(&self.durability), *writer) {
                        Ok(file) => self.file = Some(file),
                        Err(error) => {
                            tracing::error!("the append-only file cannot be opened: {error}");
                            self.durability.engine.condition.lasting.begin(States::UNWRITTEN);
                        }
                    }
                }
                Order::Close(closed) => self.closings.push(closed),
                Order::Flush(flushed) => self.flushes.push(flushed),
                Order::EndFeed(ended) => self.feed.end(ended),
                Order::Position(asked) => self.feed.ask_position(asked),
                Order::AskReplicas => self.feed.ask(),
                Order::End => self.is_ending = true,
                Order::Rewritten(_) | Order::Removed(_) | Order::RemoveHistory(_) => {
                    if let Some(file) = &mut self.file {
                        file.take(order);
                    }
                }
            }
        }
    }

    /// Answers the requests for which everything handed over before has been written.
    fn answer(&mut self, until: Stamp) {
        let gathered = self.reader.gathered();
        let flushes = self.flushes.take_due(until, gathered);
        if !flushes.is_empty()
            && let Some(file) = &mut self.file
        {
            file.sync();
        }
        // The receiver may have gone.
        flushes.into_iter().for_each(|flushed| _ = flushed.send(()));
        let closings = self.closings.take_due(until, gathered);
        if !closings.is_empty() {
            if let Some(file) = &mut self.file {
                file.is_unwanted();
            }
            self.close_file();
            // A fault of a file that is turned off does not matter any more.
            self.durability.engine.condition.lasting.end(States::UNWRITTEN);
            closings.into_iter().for_each(|closed| _ = closed.send(()));
        }
    }

    fn close_file(&mut self) {
        if let Some(mut file) = self.file.take() {
            file.close();
            // Waiting for the last sync may have consumed the signal that there is work.
            self.durability.engine.journal.wake_reader();
        }
    }

    fn rest(&self, had_some: bool) {
        let is_always = self.settings().appendfsync == AppendSync::Always && self.file.is_some();
        let nap = match &self.file {
            _ if self.feed.is_awaited() => SHORT_NAP,
            Some(file) if file.has_rings() && !self.feed.is_on() => LONG_NAP,
            _ => NAP,
        };
        if !is_always && had_some {
            return std::thread::sleep(nap);
        }
        let has_to_look = self.file.as_ref().is_some_and(File::has_to_look);
        let looks = [has_to_look.then_some(LOOK), self.feed.look_in()];
        let at_most = match self.reader.has_more() {
            true => Some(nap),
            false => looks.into_iter().flatten().min(),
        };
        self.reader.wait(at_most);
    }
}
