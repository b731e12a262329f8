//! Error replies to mistakes of clients: the exact text on the wire, without the leading minus.
//! Constants where the text is fixed.

use std::borrow::Cow;

use pantala_keyspace::WrongType;

/// An error reply. The text begins with its code: `ERR`, `WRONGTYPE`, ...
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError(pub Cow<'static, [u8]>);

impl ClientError {
    /// A fixed text.
    pub const fn text(text: &'static str) -> Self {
        ClientError(Cow::Borrowed(text.as_bytes()))
    }

    /// A text that is put together.
    pub fn new(text: impl Into<String>) -> Self {
        ClientError::bytes(text.into().into_bytes())
    }

    /// A text that quotes bytes of the client.
    pub fn bytes(text: Vec<u8>) -> Self {
        ClientError(Cow::Owned(text))
    }

    /// The first word, by which INFO counts errors.
    pub fn code(&self) -> &str {
        let word = self.0.split(|byte| *byte == b' ').next().unwrap_or_default();
        std::str::from_utf8(word).unwrap_or("ERR")
    }
}

impl From<WrongType> for ClientError {
    fn from(_: WrongType) -> Self {
        WRONG_TYPE
    }
}

macro_rules! errors {
    ($($name:ident = $text:literal;)+) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: ClientError = ClientError::text($text);
        )+
    };
}

errors! {
    WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";
    SYNTAX = "ERR syntax error";
    NOT_INTEGER = "ERR value is not an integer or out of range";
    NOT_FLOAT = "ERR value is not a valid float";
    ZERO_RATE = "ERR zero rates are not supported";
    NO_SUCH_KEY = "ERR no such key";
    OUT_OF_RANGE = "ERR value is out of range";
    OFFSET_OUT_OF_RANGE = "ERR offset is out of range";
    OVERFLOW = "ERR increment or decrement would overflow";
    DB_OUT_OF_RANGE = "ERR DB index is out of range";
    STRING_TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";
    NO_AUTH = "NOAUTH Authentication required.";
    EXEC_WITHOUT_MULTI = "ERR EXEC without MULTI";
    EXEC_ABORTED = "EXECABORT Transaction discarded because of previous errors.";
    ROLE_CHANGED = "UNBLOCKED force unblock from blocking operation, instance state changed \
                    (master -> replica?)";
    UNBLOCKED = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
    CLUSTER_DOWN = "CLUSTERDOWN The cluster is down";
    BUSY_KEY = "BUSYKEY Target key name already exists.";
    SAME_OBJECT = "ERR source and destination objects are the same";
    INT_OUT_OF_RANGE = "ERR value is out of range, value must between -2147483648 and 2147483647";
    INVALID_FIRST_DB = "ERR invalid first DB index";
    INVALID_SECOND_DB = "ERR invalid second DB index";
    INVALID_CURSOR = "ERR invalid cursor";
    NOVALUES_NOT_HERE = "ERR NOVALUES option can only be used in HSCAN";
    NOSCORES_NOT_HERE = "ERR NOSCORES option can only be used in ZSCAN";
    NX_WITH_OTHERS = "ERR NX and XX, GT or LT options at the same time are not compatible";
    GT_WITH_LT = "ERR GT and LT options at the same time are not compatible";
    NOT_LFU = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
        Please note that when switching between policies at runtime LRU and LFU data will take \
        some time to adjust.";
    NOT_LRU = "ERR An LFU maxmemory policy is selected, idle time not tracked. \
        Please note that when switching between policies at runtime LRU and LFU data will take \
        some time to adjust.";
    NOT_ZERO_OR_ONE = "ERR value is out of range, value must between 0 and 1";
    NOT_POSITIVE = "ERR value is out of range, must be positive";
    NO_LOG_TO_WAIT_FOR =
        "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    TIMEOUT_NOT_INTEGER = "ERR timeout is not an integer or out of range";
    TIMEOUT_NEGATIVE = "ERR timeout is negative";
    TIMEOUT_OUT_OF_RANGE = "ERR timeout is out of range";
    TIMEOUT_NOT_FLOAT = "ERR timeout is not a float or out of range";
    INDEX_OUT_OF_RANGE = "ERR index out of range";
    KEYS_NOT_POSITIVE = "ERR numkeys should be greater than 0";
    COUNT_NOT_POSITIVE = "ERR count should be greater than 0";
    NOT_OPPOSITE = "ERR value is out of range, \
        value must between -9223372036854775807 and 9223372036854775807";
    NO_PROTO = "NOPROTO unsupported protocol version";
    DECREMENT_OVERFLOW = "ERR decrement would overflow";
    NAN_OR_INFINITY = "ERR increment would produce NaN or Infinity";
    KEY_COUNT = "ERR invalid numkeys value or out of range";
    LCS_NOT_STRINGS = "ERR The specified keys must contain string values";
    LCS_LENGTH_AND_MATCHES =
        "ERR If you want both the length and indexes, please just use IDX.";
    LCS_TOO_LARGE =
        "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    DELEX_CONDITION = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE";
    BIT_OFFSET = "ERR bit offset is not an integer or out of range";
    BIT_VALUE = "ERR bit is not an integer or out of range";
    BIT_WANTED = "ERR The bit argument must be 1 or 0.";
    BITOP_NOT_ONE_SOURCE = "ERR BITOP NOT must be called with a single source key.";
    BITFIELD_TYPE = "ERR Invalid bitfield type. Use something like i16 u8. \
        Note that u64 is not supported but i64 is.";
    BITFIELD_OVERFLOW = "ERR Invalid OVERFLOW type specified";
    BITFIELD_ONLY_GET = "ERR BITFIELD_RO only supports the GET subcommand";
    FIELD_COUNT = "ERR numfields should be greater than 0 and match the provided number of fields";
    HASH_NOT_INTEGER = "ERR hash value is not an integer";
    HASH_NOT_FLOAT = "ERR hash value is not a float";
    INCREMENT_NAN = "ERR value is NaN or Infinity";
    COUNT_OUT_OF_RANGE = "ERR value is out of range, value must between \
        -9223372036854775807 and 9223372036854775807";
    HLL_CORRUPT = "INVALIDOBJ Corrupted HLL object detected";
    HLL_NOT_ONE = "WRONGTYPE Key is not a valid HyperLogLog string value.";
    HLL_NOT_SPARSE = "ERR HLL encoding is not sparse";
    HLL_NO_KEY = "ERR The specified key does not exist";
    HLL_SELF_TEST = "ERR sketches do not work on this machine";
    MORE_KEYS_THAN_ARGS = "ERR Number of keys can't be greater than number of args";
    LIMIT_NEGATIVE = "ERR LIMIT can't be negative";
    NOT_WRITTEN = "MISCONF Errors writing to the AOF file: see the log of the server";
    NOT_KEPT = "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to \
        persist to disk. Commands that may modify the data set are disabled, because this \
        instance is configured to report errors during writes if RDB snapshotting fails \
        (stop-writes-on-bgsave-error option). Please check the Valkey logs for details about the \
        RDB error.";
    TOO_FEW_REPLICAS = "NOREPLICAS Not enough good replicas to write.";
    UNKNOWN_TO_REPLICA = "NOREPLICAS A replica of another kind does not know this command \
        (repl-refuse-unknown).";
    READ_ONLY_REPLICA = "READONLY You can't write against a read only replica.";
    PRIMARY_LOST =
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    LOADING = "LOADING Valkey is loading the dataset in memory";
    DIGEST = "ERR must be exactly 16 hexadecimal characters";
}

/// How many bytes of a client's argument an error quotes.
const QUOTED_BYTES: usize = 128;

/// `ERR wrong number of arguments for 'x' command`.
pub fn wrong_arity(full_name: &str) -> ClientError {
    let name = full_name.to_ascii_lowercase();
    ClientError::new(format!("ERR wrong number of arguments for '{name}' command"))
}

/// A command that is not allowed between MULTI and EXEC, by its full name.
pub fn not_in_multi(name: &str) -> ClientError {
    ClientError::new(format!("ERR Command '{name}' not allowed inside a transaction"))
}

/// A command that a subscribed RESP2 connection may not send, by its full name.
pub fn not_while_subscribed(name: &str) -> ClientError {
    ClientError::new(format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
         are allowed in this context"
    ))
}

/// A script runs for too long, and the command cannot be done beside it.
pub const BUSY_SCRIPT: ClientError = ClientError::text(
    "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
);

/// EXEC itself was refused, and the transaction discarded, for this reason.
pub fn exec_aborted_by(reason: &ClientError) -> ClientError {
    const BEGIN: &[u8] = b"EXECABORT Transaction discarded because of: ";
    let text = reason.0.strip_prefix(b"ERR ").unwrap_or(&reason.0);
    ClientError::bytes([BEGIN, text].concat())
}

/// The code of [`redirected`].
pub const REDIRECT: &str = "REDIRECT";

/// The codes of errors that tell a client that it, or its command, belongs to another node. EXEC is
/// answered with them as they are.
pub const REDIRECTIONS: [&str; 6] =
    [REDIRECT, "MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN", "TRYAGAIN"];

/// Sends the client to this host and port.
pub fn redirected(address: &str) -> ClientError {
    ClientError::new(format!("{REDIRECT} {address}"))
}

/// `ERR unknown command 'x', with args beginning with: 'a' 'b' `.
pub fn unknown_command(args: &[&[u8]]) -> ClientError {
    let cut = |arg: &[u8], most: usize| up_to_nul(&arg[..arg.len().min(most)]).to_vec();
    let mut text = b"ERR unknown command '".to_vec();
    text.extend(cut(args.first().copied().unwrap_or_default(), QUOTED_BYTES));
    text.extend_from_slice(b"', with args beginning with: ");
    let begin = text.len();
    for arg in args.iter().skip(1) {
        let quoted = text.len() - begin;
        if quoted >= QUOTED_BYTES {
            break;
        }
        text.push(b'\'');
        text.extend(cut(arg, QUOTED_BYTES - quoted));
        text.extend_from_slice(b"' ");
    }
    ClientError::bytes(text)
}

/// `ERR Unsupported option x`.
pub fn unsupported_option(word: &[u8]) -> ClientError {
    ClientError::bytes([b"ERR Unsupported option ", up_to_nul(word)].concat())
}

/// `ERR unknown type name 'x'`.
pub fn unknown_type(name: &[u8]) -> ClientError {
    ClientError::bytes([b"ERR unknown type name '", up_to_nul(name), b"'"].concat())
}

/// `ERR member x does not exist`.
pub fn no_member(member: &[u8]) -> ClientError {
    ClientError::bytes([b"ERR member ", up_to_nul(member), b" does not exist"].concat())
}

/// `ERR exactly one of x can be specified for command`, the command as the client wrote it.
pub fn exactly_one(of: &str, command: &[u8]) -> ClientError {
    let text = [b"ERR exactly one of ", of.as_bytes(), b" can be specified for ", command];
    ClientError::bytes(text.concat())
}

/// `ERR Unknown PFDEBUG subcommand 'x'`.
pub fn unknown_pfdebug(word: &[u8]) -> ClientError {
    ClientError::bytes([b"ERR Unknown PFDEBUG subcommand '", up_to_nul(word), b"'"].concat())
}

/// The bytes of an argument that the reference quotes: it reads them as a C string.
pub(crate) fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// `ERR unknown subcommand 'x'. Try CONTAINER HELP.`.
pub fn unknown_subcommand(container: &str, word: &[u8]) -> ClientError {
    about_subcommand(b"unknown subcommand '", container, word)
}

/// `ERR unknown subcommand or wrong number of arguments for 'x'. Try CONTAINER HELP.`: the
/// arguments after a subcommand's name are wrong.
pub fn subcommand_syntax(container: &str, word: &[u8]) -> ClientError {
    about_subcommand(b"unknown subcommand or wrong number of arguments for '", container, word)
}

fn about_subcommand(what: &[u8], container: &str, word: &[u8]) -> ClientError {
    let word = up_to_nul(&word[..word.len().min(QUOTED_BYTES)]);
    let name = container.as_bytes();
    ClientError::bytes([b"ERR ", what, word, b"'. Try ", name, b" HELP."].concat())
}
