//! The arguments of a command that outlives the bytes it was read from: copied into two
//! allocations, however many they are, or left in the request they came with, which is then owned.

use pantala_protocol::whole_request;

/// The arguments of a command, owned: copied into two allocations, or left in the request that they
/// came with.
#[derive(Clone, Debug)]
pub struct OwnedArgs(ArgsStorage);

#[derive(Clone, Debug)]
enum ArgsStorage {
    /// One after the other, and the end of each.
    Copied { bytes: Vec<u8>, ends: Vec<usize> },
    /// A whole multibulk request begins at `start`.
    Received { bytes: Vec<u8>, start: usize },
}

impl Default for OwnedArgs {
    fn default() -> OwnedArgs {
        OwnedArgs(ArgsStorage::Copied { bytes: Vec::new(), ends: Vec::new() })
    }
}

impl OwnedArgs {
    /// A copy of these arguments.
    pub fn of<A: AsRef<[u8]>>(args: &[A]) -> OwnedArgs {
        let total = args.iter().map(|arg| arg.as_ref().len()).sum();
        let (mut bytes, mut ends) = (Vec::with_capacity(total), Vec::with_capacity(args.len()));
        for arg in args {
            bytes.extend_from_slice(arg.as_ref());
            ends.push(bytes.len());
        }
        OwnedArgs(ArgsStorage::Copied { bytes, ends })
    }

    /// The multibulk command that begins at `start` and that the parser has found complete: nothing
    /// is copied, or parsed before [`OwnedArgs::slices`].
    pub fn received(bytes: Vec<u8>, start: usize) -> OwnedArgs {
        OwnedArgs(ArgsStorage::Received { bytes, start })
    }

    /// The memory they take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            ArgsStorage::Copied { bytes, ends } => {
                bytes.capacity() + ends.capacity() * size_of::<usize>()
            }
            ArgsStorage::Received { bytes, .. } => bytes.capacity(),
        }
    }

    /// The arguments, as a handler reads them.
    pub fn slices(&self) -> Vec<&[u8]> {
        match &self.0 {
            ArgsStorage::Copied { bytes, ends } => {
                let mut begin = 0;
                let slice = |&end: &usize| {
                    let arg = &bytes[begin..end];
                    begin = end;
                    arg
                };
                ends.iter().map(slice).collect()
            }
            ArgsStorage::Received { bytes, start } => whole_request(&bytes[*start..]),
        }
    }

    /// The command in RESP, as a client would send it.
    pub fn to_request(&self) -> Vec<u8> {
        let args = self.slices();
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            bytes.extend_from_slice(arg);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back_as_they_were() {
        let args: [&[u8]; 4] = [b"BLPOP", b"", b"k", b""];
        let owned = OwnedArgs::of(&args);
        assert_eq!(owned.slices(), args);
        let request = owned.to_request();
        let received = OwnedArgs::received([b"PING\r\n", &*request, b"*1\r\n$4"].concat(), 6);
        assert_eq!(received.slices(), args);
        assert_eq!(received.to_request(), request);
        assert_eq!(request, b"*4\r\n$5\r\nBLPOP\r\n$0\r\n\r\n$1\r\nk\r\n$0\r\n\r\n");
    }
}
