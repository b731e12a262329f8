//! One file or directory for each family of commands; each exports its rows as `ROWS`.

pub mod bitmap;
pub mod connection;
pub mod databases;
mod deadlines;
pub mod generic;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod list;
pub mod memcached;
pub mod set;
pub mod sort;
pub mod stream;
pub mod string;
pub mod transaction;
pub mod zset;
