//! The arguments of a command for a request.
//!
//! They are the words of the line, so that MONITOR and the slow log show what the client has sent;
//! but the data of a value come right after the key.
//!
//! ```text
//! get k          [get k]
//! get k l m      [get k +] [get l +] [get m END]      a command for each key
//! gat 10 k       [gat k 10]
//! set k 5 0 3    [set k data 5 0]      noreply, where it is said, is the last
//! ```

/// Further keys of the same `get` follow.
pub const MORE: &[u8] = b"+";
/// The last of several keys.
pub const LAST: &[u8] = b"END";
/// No reply is wanted.
pub const NO_REPLY: &[u8] = b"noreply";

/// Whether the command with these arguments has a reply of its own, at least for an error.
pub fn is_answered(args: &[&[u8]]) -> bool {
    // A key may have such a name, too.
    args.len() <= 2 || !args.last().is_some_and(|word| *word == MORE || *word == NO_REPLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_or_data_called_noreply_is_answered() {
        for (args, expected) in [
            (&["delete", "noreply"] as &[_], true),
            (&["delete", "k", "noreply"], false),
            (&["get", "+"], true),
            (&["get", "+", "+"], false),
            (&["get", "+", "END"], true),
            (&["set", "k", "noreply", "0", "0"], true),
            (&["set", "k", "noreply", "0", "0", "noreply"], false),
        ] {
            let args: Vec<&[u8]> = args.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(is_answered(&args), expected, "{args:?}");
        }
    }
}
