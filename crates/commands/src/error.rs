//! What a client is told when it made a mistake: the exact text on the wire, without the leading
//! minus. Constants where the text is fixed.

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

    /// A text made for the occasion.
    pub fn new(text: impl Into<String>) -> Self {
        ClientError::bytes(text.into().into_bytes())
    }

    /// What repeats bytes of the client.
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
    NO_SUCH_KEY = "ERR no such key";
    OUT_OF_RANGE = "ERR value is out of range";
    OFFSET_OUT_OF_RANGE = "ERR offset is out of range";
    OVERFLOW = "ERR increment or decrement would overflow";
    DB_OUT_OF_RANGE = "ERR DB index is out of range";
    STRING_TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";
    NO_AUTH = "NOAUTH Authentication required.";
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
    DIGEST = "ERR must be exactly 16 hexadecimal characters";
}

/// How much of a client's argument an error repeats.
const QUOTED_BYTES: usize = 128;

/// `ERR wrong number of arguments for 'x' command`.
pub fn wrong_arity(full_name: &str) -> ClientError {
    let name = full_name.to_ascii_lowercase();
    ClientError::new(format!("ERR wrong number of arguments for '{name}' command"))
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

/// The bytes of an argument as the reference repeats them: it reads them as a C string.
fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// `ERR unknown subcommand 'x'. Try CONTAINER HELP.`.
pub fn unknown_subcommand(container: &str, word: &[u8]) -> ClientError {
    let word = quote(word, QUOTED_BYTES);
    ClientError::new(format!("ERR unknown subcommand '{word}'. Try {container} HELP."))
}

/// An argument as text, cut after `limit` bytes.
fn quote(bytes: &[u8], limit: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(limit)]).into_owned()
}
