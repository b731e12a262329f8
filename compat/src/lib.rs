//! Behaviour as text: transcripts of conversations with a server, and the tools that play them.
//!
//! ```text
//! quoting   words, quotes, escapes        value    a reply and its reader
//! pattern   an expected reply             render   a reply as text       regex   volatile parts
//! parse     a transcript file             target   where a case is played (client: over TCP)
//! run       play and compare              record   play and fill in
//! oracle    the reference server          differ   random commands to two servers
//! inside    commands wrapped into MULTI or a script; lockstep: the same on two servers
//! serial    is the server strictly serialisable?
//! records   append-only files: do two servers' records agree, and do they restore the same data?
//! ```
//!
//! The transcripts are in `transcripts/<family>/<command>.txt`; the format is in README.md.
//! This crate shares no code with the server, so that it cannot share its mistakes.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod differ;
pub mod events;
pub mod inside;
pub mod lockstep;
pub mod oracle;
pub mod parse;
pub mod pattern;
pub mod quoting;
pub mod record;
pub mod records;
pub mod regex;
pub mod render;
pub mod run;
pub mod serial;
pub mod target;
pub mod value;
