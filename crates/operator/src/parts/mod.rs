//! The parts of a server that commands for operators are about.
//!
//! | file | what |
//! |---|---|
//! | `root` | [`Operator`]: all parts |
//! | `process` | what commands ask of the process |
//! | `stop_mode` | how a server is to stop |
//! | `run_info` | the constants of one run |
//! | `rates` | rates per second, from one INFO to the next |

pub mod process;
pub mod rates;
mod root;
pub mod run_info;
pub mod stop_mode;

pub use root::Operator;
