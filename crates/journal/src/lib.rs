//! The journal: what changed, in one order, as commands in RESP.
//!
//! ```text
//! handler --record--> Recorder (one a thread) --end of a turn--> Outbox --> Merger --> runs
//!                        | step ends with its partitions held:              by (time, thread)
//!                        +--> Stamp, left in those partitions                up to the watermark
//! ```
//!
//! A *step* is a command, a transaction or a script, with all its effects. No reader sees a part of
//! a step. There is no shared counter. A step takes a *stamp* that is larger than the stamps of the
//! steps it has seen, and not smaller than the time at which its turn began (a hybrid of Lamport's
//! clock and a real one). So if two steps held the same partition, or one was sent after the other
//! was answered, the earlier step has the smaller stamp. See `stamp`.
//!
//! | file | what |
//! |---|---|
//! | `stamp` | the order of two steps |
//! | `journal` | the state that recorders and the reader share |
//! | `order` | how far the stream is complete |
//! | `reader` | gathers chunks of all threads and takes complete runs of steps |
//! | `recorder` | what one thread records |
//! | `chunk` | finished steps of one thread, on their way |
//! | `merger` | all threads' steps as one stream |
//! | `rings` | recorded steps in memory that outlives the process |
//! | `resp` | commands as bytes |
//!
//! Invariants
//! 1. A step is in the journal as a whole or not at all, and its commands are contiguous.
//! 2. Of two steps that held the same partition, the earlier holder comes first.
//! 3. A command sent after an answer was received comes after everything that the answer could have
//!    seen: a prefix of the journal is a state that clients could have met (`stamp`).
//!
//! Not here: keys and partitions (the keyspace calls `Recorder::end_step` and keeps stamps), files.
//! Tests: at the foot of each file.

#![forbid(unsafe_code)]

mod chunk;
mod journal;
mod merger;
mod order;
mod primitives;
mod reader;
mod recorder;
pub mod resp;
mod rings;
mod stamp;

pub use chunk::{Audience, Chunk, Frame, JournalPiece};
pub use journal::{Buffers, Cut, Journal};
pub use merger::{JournalRun, Merger};
pub use reader::{Item, JournalReader};
pub use recorder::Recorder;
pub use rings::{
    AREA_WORDS, Area, AreaMemory, AreaSource, ConfirmedBytes, HEAD_WORDS, Identity, MOST_AREAS,
    RingRemains, Rings, Unread,
};
pub use stamp::{MOST_THREADS, Stamp};
