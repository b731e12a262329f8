//! What a worker sends: replies, messages, the stream of replicas.
//!
//! | file | what |
//! |---|---|
//! | `sending` | one send for each connection with output |
//! | `fence` | what may not leave any more |
//! | `published` | messages of channels |
//! | `invalidation` | CLIENT TRACKING |
//! | `monitors` | MONITOR |
//! | `replicas` | the stream and copies of replicas |

pub mod fence;
pub mod invalidation;
pub mod monitors;
pub mod published;
pub mod replicas;
pub mod sending;
