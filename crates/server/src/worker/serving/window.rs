//! The commands at hand, parsed but not yet run.

use std::borrow::Cow;
use std::cell::Cell;
use std::mem::replace;

use pantala_base::clock::monotonic_us;
use pantala_commands::CommandRef;
use pantala_protocol::ProtocolError;

use super::chunk::Chunk;
use super::deferred::{Deferred, LONG_REQUEST_BYTES};

/// How far a chunk has got.
#[derive(Clone, Copy, Default)]
pub struct Progress {
    /// Bytes parsed.
    pub parsed: usize,
    /// Bytes of commands that have run.
    pub done: usize,
    /// The parser wants more bytes than there are.
    pub is_half: bool,
    /// At least so many more.
    pub wanted: usize,
    /// The parser has more to do without anything new arriving.
    pub is_busy: bool,
    /// Nothing more is to be parsed this turn.
    pub is_over: bool,
    /// The last of the commands counted as done is to be taken with its bytes.
    pub taken: Option<Taken>,
}

/// A command that is taken with its bytes, as soon as nothing of the window refers to them.
#[derive(Clone, Copy)]
pub struct Taken {
    pub found: CommandRef,
    /// Where it begins.
    pub begin: usize,
    pub goal: Goal,
}

/// Where it goes.
#[derive(Clone, Copy)]
pub enum Goal {
    Lane,
    /// To the commands between MULTI and EXEC, with so many arguments.
    Queue(usize),
}

/// What stands at one place of the window.
pub enum Item {
    Command {
        found: Option<CommandRef>,
        group_hash: Option<u64>,
    },
    /// A command of many arguments, of which only the first are at hand.
    Long {
        found: Option<CommandRef>,
        arg_count: usize,
    },
    Nothing,
    Broken(ProtocolError),
    /// What has its answer already, after which the connection may be closed.
    Answer {
        text: Cow<'static, [u8]>,
        closes: bool,
    },
}

/// One parsed command.
pub struct Parsed {
    pub item: Item,
    pub chunk: u32,
    pub first_arg: u32,
    pub arg_count: u32,
    /// Where the next command begins in the chunk.
    pub end: usize,
}

/// Memory that is used again each turn.
#[derive(Default)]
pub struct Scratch {
    pub args: Vec<&'static [u8]>,
    pub parsed: Vec<Parsed>,
    pub progress: Vec<Progress>,
}

/// The commands at hand, and how far each chunk has got.
pub struct Window<'t> {
    pub chunks: &'t [Chunk<'t>],
    /// See [`FrontEnd::TAKES_BYTES`](super::front_end::FrontEnd::TAKES_BYTES).
    pub takes_bytes: bool,
    pub progress: Vec<Progress>,
    pub args: Vec<&'t [u8]>,
    pub parsed: Vec<Parsed>,
    /// How many of the commands run scripts.
    pub scripts: usize,
    /// The chunk being parsed.
    pub at: usize,
    /// The command being run, and how long its connection's output was before, for the case that
    /// it panics.
    pub running: usize,
    pub replied_bytes: Cell<usize>,
    /// The time, as last read; 0 when something that may take long has run since.
    pub clock_us: Cell<u64>,
    /// What commands of the group at hand want done when no partition is held.
    pub deferred: Vec<(usize, Deferred)>,
}

impl<'t> Window<'t> {
    /// The time, as last read if that will do: a command is charged with the steady ones before
    /// it, which are nothing compared with what makes one slow.
    #[inline]
    pub fn clock_us(&self) -> u64 {
        if self.clock_us.get() == 0 { self.look_at_clock() } else { self.clock_us.get() }
    }

    /// The time, read anew.
    #[inline]
    pub fn look_at_clock(&self) -> u64 {
        self.clock_us.set(monotonic_us());
        self.clock_us.get()
    }

    pub fn args_of(&self, parsed: &Parsed) -> &[&'t [u8]] {
        &self.args[parsed.first_arg as usize..][..parsed.arg_count as usize]
    }

    /// Whether a command that has not run is to be taken with its bytes, once it is admitted.
    pub fn is_long(&self, parsed: &Parsed) -> bool {
        matches!(parsed.item, Item::Long { .. })
            || self.takes_bytes
                && parsed.end - self.progress[parsed.chunk as usize].done > LONG_REQUEST_BYTES
    }

    /// The command at a position counts as done, and is taken with its bytes.
    pub fn take(&mut self, position: usize, found: CommandRef, goal: Goal) {
        let parsed = &self.parsed[position];
        let progress = &mut self.progress[parsed.chunk as usize];
        let begin = replace(&mut progress.done, parsed.end);
        progress.taken = Some(Taken { found, begin, goal });
    }

    /// Has no share in the time of the groups.
    #[cold]
    pub fn not_in_group(&mut self, position: usize) {
        if let Item::Command { group_hash, .. } = &mut self.parsed[position].item {
            *group_hash = None;
        }
    }
}
