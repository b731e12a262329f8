//! Clients as operators see them: filters, CLIENT LIST, and the memory limit of all clients.

pub mod describe;
pub mod filter;
mod limits;
