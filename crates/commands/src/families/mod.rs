//! One file a family of commands; each exports its rows as `ROWS`.

pub mod connection;
pub mod databases;
pub mod generic;
pub mod string;
