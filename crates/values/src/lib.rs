//! Data types and their encodings.
