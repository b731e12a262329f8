//! The marks before sections. Below them are the kinds of values.

/// Dragonfly: sections that are compressed together, by Zstandard ...
pub const COMPRESSED_ZSTD: u8 = 201;
/// ... or LZ4.
pub const COMPRESSED_LZ4: u8 = 202;
/// Dragonfly and we: bits that tell of the next key, see `beside`.
pub const KEY_BITS: u8 = 220;
/// What modules keep with the next key (Redis, version 13) ...
pub const KEY_METADATA: u8 = 243;
/// ... or slots that are being imported (Valkey 9).
pub const SLOT_IMPORT: u8 = 243;
/// How many keys a slot of a cluster has, and how many of them deadlines.
pub const SLOT_SIZES: u8 = 244;
/// A library of functions.
pub const FUNCTION: u8 = 245;
/// A library of functions, as release candidates of Redis 7.0 wrote it.
pub const FUNCTION_BEFORE_RELEASE: u8 = 246;
/// What a module keeps beside its keys.
pub const MODULE_AUX: u8 = 247;
/// For how long the next key was not used, in seconds.
pub const IDLE: u8 = 248;
/// How often the next key was used, as a logarithm.
pub const FREQUENCY: u8 = 249;
/// Something about the file or the server.
pub const AUX: u8 = 250;
/// How many keys a database has, and how many of them deadlines.
pub const SIZES: u8 = 251;
/// The next key's deadline in milliseconds.
pub const DEADLINE_MS: u8 = 252;
/// The next key's deadline in seconds.
pub const DEADLINE_SECONDS: u8 = 253;
/// Of which database the next keys are.
pub const DATABASE: u8 = 254;
/// The end; a checksum follows.
pub const END: u8 = 255;
