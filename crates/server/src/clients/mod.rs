//! Clients as operators see them: which are meant, how they are shown, what they may take.

pub mod describe;
pub mod filter;
mod limits;
