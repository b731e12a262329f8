//! The global allocator and the exact count of what it has given out.
