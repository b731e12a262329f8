//! The opcodes before sections. The numbers below them are kinds of values.

/// Dragonfly: sections compressed together by Zstandard.
pub const COMPRESSED_ZSTD: u8 = 201;
/// Dragonfly: sections compressed together by LZ4.
pub const COMPRESSED_LZ4: u8 = 202;
/// Dragonfly and Pantala: bits about the next key, see `beside`.
pub const KEY_BITS: u8 = 220;
/// Redis, version 13: a module's metadata of the next key.
pub const KEY_METADATA: u8 = 243;
/// Valkey 9: slots that are being imported.
pub const SLOT_IMPORT: u8 = 243;
/// How many keys a slot of a cluster has, and how many of them have deadlines.
pub const SLOT_SIZES: u8 = 244;
/// A library of functions.
pub const FUNCTION: u8 = 245;
/// A library of functions, as release candidates of Redis 7.0 wrote it.
pub const FUNCTION_BEFORE_RELEASE: u8 = 246;
/// A module's data outside keys.
pub const MODULE_AUX: u8 = 247;
/// The idle time of the next key, in seconds.
pub const IDLE: u8 = 248;
/// The access frequency of the next key, as a logarithm.
pub const FREQUENCY: u8 = 249;
/// A name and value about the file or the server.
pub const AUX: u8 = 250;
/// How many keys a database has, and how many of them have deadlines.
pub const SIZES: u8 = 251;
/// The next key's deadline in milliseconds.
pub const DEADLINE_MS: u8 = 252;
/// The next key's deadline in seconds.
pub const DEADLINE_SECONDS: u8 = 253;
/// The database of the next keys.
pub const DATABASE: u8 = 254;
/// The end; a checksum follows.
pub const END: u8 = 255;
