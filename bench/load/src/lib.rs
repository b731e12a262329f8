//! A small load generator and filler for the bench.
