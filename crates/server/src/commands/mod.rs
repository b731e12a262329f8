//! Commands about the server itself; each file a family, as in the crate `commands`.

mod client;

use pantala_commands::{Command, families};

/// All families of the server.
pub fn families() -> Vec<&'static [Command]> {
    vec![
        families::connection::ROWS,
        families::databases::ROWS,
        families::generic::ROWS,
        families::string::ROWS,
        client::ROWS,
    ]
}
