//! Commands of several elements, such as `RPUSH key a b c`.

use pantala_journal::resp::{push_array, push_bulk, push_command};

/// The most elements of one command, as in Redis.
const MOST_ELEMENTS: usize = 64;
/// The approximate byte limit of a command with more than one element.
const MOST_BYTES: usize = 1 << 20;

/// Collects elements into commands of bounded size.
pub struct Batch<'b> {
    /// The arguments at the front of each command.
    head: &'b [&'b [u8]],
    /// Finished commands are appended here.
    out: &'b mut Vec<u8>,
    /// The elements of the open command, encoded; then how many elements and arguments they are.
    open: Vec<u8>,
    elements: usize,
    args: usize,
    /// Commands that follow the open one.
    after: Vec<u8>,
}

impl<'b> Batch<'b> {
    /// An empty batch.
    pub fn new(head: &'b [&'b [u8]], out: &'b mut Vec<u8>) -> Batch<'b> {
        Batch { head, out, open: Vec::new(), elements: 0, args: 0, after: Vec::new() }
    }

    /// Adds an element.
    pub fn push(&mut self, args: &[&[u8]]) {
        args.iter().for_each(|arg| push_bulk(&mut self.open, arg));
        self.args += args.len();
        self.elements += 1;
        if self.elements >= MOST_ELEMENTS || self.open.len() >= MOST_BYTES {
            self.end_command();
        }
    }

    /// Adds an element, and a command that follows the element's command.
    pub fn push_with(&mut self, args: &[&[u8]], after: &[&[u8]]) {
        push_command(&mut self.after, after);
        self.push(args);
    }

    /// Bytes of the output and the open command, including those before the batch.
    pub fn bytes(&self) -> usize {
        self.out.len() + self.open.len() + self.after.len()
    }

    fn end_command(&mut self) {
        debug_assert!(
            self.elements <= MOST_ELEMENTS && self.elements <= self.args,
            "each has words"
        );
        debug_assert_eq!(self.open.is_empty(), self.elements == 0, "the words of elements");
        if self.elements > 0 {
            push_array(self.out, self.head.len() + self.args);
            self.head.iter().for_each(|arg| push_bulk(self.out, arg));
            self.out.append(&mut self.open);
        }
        self.out.append(&mut self.after);
        (self.elements, self.args) = (0, 0);
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.end_command();
    }
}
