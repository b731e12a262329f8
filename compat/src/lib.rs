//! Transcripts and their runners.
