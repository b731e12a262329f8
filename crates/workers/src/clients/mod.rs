//! Clients as operators see them: filters, CLIENT LIST, and the memory limit of all clients.

pub mod accepted;
pub mod describe;
mod limits;
