//! The arguments of a command that outlives its bytes: in two allocations, however many they are.

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct OwnedArgs {
    bytes: Vec<u8>,
    /// Where each argument ends in `bytes`.
    ends: Vec<usize>,
}

impl OwnedArgs {
    /// A copy of these.
    pub fn of<A: AsRef<[u8]>>(args: &[A]) -> OwnedArgs {
        let total = args.iter().map(|arg| arg.as_ref().len()).sum();
        let mut owned =
            OwnedArgs { bytes: Vec::with_capacity(total), ends: Vec::with_capacity(args.len()) };
        for arg in args {
            owned.bytes.extend_from_slice(arg.as_ref());
            owned.ends.push(owned.bytes.len());
        }
        owned
    }

    /// The memory they take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// As a handler reads them.
    pub fn slices(&self) -> Vec<&[u8]> {
        let mut begin = 0;
        let slice = |&end: &usize| {
            let arg = &self.bytes[begin..end];
            begin = end;
            arg
        };
        self.ends.iter().map(slice).collect()
    }

    /// As a client would send them.
    pub fn to_request(&self) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", self.ends.len()).into_bytes();
        for arg in self.slices() {
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
        assert_eq!(owned.to_request(), b"*4\r\n$5\r\nBLPOP\r\n$0\r\n\r\n$1\r\nk\r\n$0\r\n\r\n");
    }
}
