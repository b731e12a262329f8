//! The command table: one row a command, one file a family.
