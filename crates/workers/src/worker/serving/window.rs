//! A window: commands that are parsed and not yet run.

use std::borrow::Cow;
use std::cell::Cell;
use std::mem::replace;

use pantala_base::clock::monotonic_us;
use pantala_commands::{CommandRef, Park};
use pantala_engine::waiting::blocked::BlockedCommand;
use pantala_protocol::ProtocolError;

use super::chunk::Chunk;

/// Longer requests run on the slow lane, which gets their bytes as they are: copying a value would
/// take longer than other connections should wait. So do requests of very many arguments, which the
/// worker counts piecemeal and never has in its hands as a whole.
pub const LONG_REQUEST_BYTES: usize = 2 << 20;

/// What a command of a group needs done once no partition is held.
pub enum Deferred {
    Lane(CommandRef),
    /// To be queued for EXEC; it has this many arguments.
    Queue(CommandRef, usize),
    Park(Park),
    Block(BlockedCommand),
    Pause,
    /// It has run and may have to be logged: its duration in microseconds and the bytes of its
    /// reply.
    Log(CommandRef, u64, usize),
}

/// The progress in one chunk.
#[derive(Clone, Copy, Default)]
pub struct Progress {
    /// Bytes parsed.
    pub parsed: usize,
    /// Bytes of commands that have run.
    pub done: usize,
    /// The parser needs more bytes than there are,
    pub is_half: bool,
    /// at least this many more.
    pub wanted: usize,
    /// The parser can go on without new bytes.
    pub is_busy: bool,
    /// Nothing more of this chunk is parsed in this turn.
    pub is_over: bool,
    /// The last command counted as done must be moved out with its bytes.
    pub taken: Option<OwnedCommand>,
}

/// A command to be moved out of its chunk with its bytes, once the window does not refer to them.
#[derive(Clone, Copy)]
pub struct OwnedCommand {
    pub found: CommandRef,
    /// Where it begins in the chunk.
    pub begin: usize,
    pub goal: Goal,
}

/// The destination of such a command.
#[derive(Clone, Copy)]
pub enum Goal {
    Lane,
    /// The queue between MULTI and EXEC; it has this many arguments.
    Queue(usize),
}

/// One item of the window.
pub enum Item {
    Command {
        found: Option<CommandRef>,
        group_hash: Option<u64>,
    },
    /// A command of very many arguments, of which only the first are at hand.
    Long {
        found: Option<CommandRef>,
        arg_count: usize,
    },
    Nothing,
    Broken(ProtocolError),
    /// An answer that needs no command; the connection may be closed after it.
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

/// Allocations that are reused each turn.
#[derive(Default)]
pub struct Scratch {
    pub(crate) args: Vec<&'static [u8]>,
    pub(crate) parsed: Vec<Parsed>,
    pub(crate) progress: Vec<Progress>,
}

/// The commands of a window, and the progress in each chunk.
pub struct Window<'t> {
    pub chunks: &'t [Chunk<'t>],
    /// Whether a long command goes to the slow lane with its bytes: `FrontEnd::TAKES_BYTES`.
    pub takes_bytes: bool,
    pub progress: Vec<Progress>,
    pub args: Vec<&'t [u8]>,
    pub parsed: Vec<Parsed>,
    /// How many of the commands run scripts.
    pub scripts: usize,
    /// The chunk being parsed.
    pub at: usize,
    /// The command being run, and the length of its connection's output before it, in case it
    /// panics.
    pub running: usize,
    pub replied_bytes: Cell<usize>,
    /// The last clock reading (monotonic, microseconds); 0 after something that may have taken
    /// long.
    pub clock_us: Cell<u64>,
    /// What the commands of the current group need done once no partition is held.
    pub deferred: Vec<(usize, Deferred)>,
}

impl<'t> Window<'t> {
    /// The time as last read, if that is precise enough: a command is also charged with the quick
    /// ones before it, which are nothing beside what makes one slow.
    #[inline]
    pub fn clock_us(&self) -> u64 {
        if self.clock_us.get() == 0 { self.look_at_clock() } else { self.clock_us.get() }
    }

    /// Reads the clock.
    #[inline]
    pub fn look_at_clock(&self) -> u64 {
        self.clock_us.set(monotonic_us());
        self.clock_us.get()
    }

    pub fn args_of(&self, parsed: &Parsed) -> &[&'t [u8]] {
        &self.args[parsed.first_arg as usize..][..parsed.arg_count as usize]
    }

    /// The bytes of the command that runs now, or none if they are not RESP.
    #[inline]
    pub fn frame_of(&self, parsed: &Parsed) -> &'t [u8] {
        let (chunk, done) = (parsed.chunk as usize, self.progress[parsed.chunk as usize].done);
        let bytes = self.chunks[chunk].bytes().get(done..parsed.end);
        bytes.filter(|_| self.takes_bytes).unwrap_or_default()
    }

    /// Whether a command that has not run must be moved out with its bytes, once it is admitted.
    pub fn is_long(&self, parsed: &Parsed) -> bool {
        matches!(parsed.item, Item::Long { .. })
            || self.takes_bytes
                && parsed.end - self.progress[parsed.chunk as usize].done > LONG_REQUEST_BYTES
    }

    /// Counts the command at a position as done, and has it moved out with its bytes.
    pub fn take(&mut self, position: usize, found: CommandRef, goal: Goal) {
        let parsed = &self.parsed[position];
        let progress = &mut self.progress[parsed.chunk as usize];
        let begin = replace(&mut progress.done, parsed.end);
        progress.taken = Some(OwnedCommand { found, begin, goal });
    }

    /// Excludes a command from the time of the groups.
    #[cold]
    pub fn not_in_group(&mut self, position: usize) {
        if let Item::Command { group_hash, .. } = &mut self.parsed[position].item {
            *group_hash = None;
        }
    }
}
