//! `cluster_mode emulated`: what cluster clients are told.
//!
//! Not here: replicas (`replicas.rs`); a server without a cluster (compat/transcripts/cluster);
//! real clients (compat/clients/cluster.py).

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::Server;

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

impl Server {
    fn emulated() -> Server {
        Server::at_port("--port", &["--cluster_mode", "emulated", "--cluster_node_id", ID])
    }

    fn connect(&self) -> Client {
        Client(self.connect_to_port())
    }
}

struct Client(TcpStream);

impl Client {
    /// All that is answered to a line, up to the answer of a PING after it.
    fn ask(&mut self, line: &str) -> String {
        self.0.write_all(format!("{line}\r\nPING end\r\n").as_bytes()).expect("it is open");
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while !text.ends_with("$3\r\nend\r\n") {
            let count = match self.0.read(&mut bytes) {
                // A signal of the test's own process.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.expect("an answer"),
            };
            assert!(count > 0, "closed after {text:?}");
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        text.truncate(text.len() - "$3\r\nend\r\n".len());
        text
    }
}

#[test]
fn one_node_owns_every_slot() {
    let server = Server::emulated();
    let (mut client, port) = (server.connect(), server.port);
    let own = format!("*4\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$40\r\n{ID}\r\n*0\r\n");
    assert_eq!(client.ask("CLUSTER SLOTS"), format!("*1\r\n*3\r\n:0\r\n:16383\r\n{own}"));
    assert_eq!(client.ask("CLUSTER MYID"), format!("$40\r\n{ID}\r\n"));
    let nodes = client.ask("CLUSTER NODES");
    let bus = port.saturating_add(10_000);
    let line = format!("{ID} 127.0.0.1:{port}@{bus} myself,master - 0 0 1 connected 0-16383\n");
    assert!(nodes.contains(&line), "{nodes}");
    assert!(client.ask("CLUSTER INFO").contains("cluster_state:ok\r\n"));
    assert!(client.ask("INFO cluster").contains("cluster_enabled:1\r\n"));
    assert!(client.ask("HELLO").contains("$7\r\ncluster\r\n"));
    for (line, answer) in [
        ("MSET {a}1 x {b}1 y", "+OK\r\n"),
        ("SELECT 1", "+OK\r\n"),
        ("SET {a}2 z", "+OK\r\n"),
        ("CLUSTER KEYSLOT a", ":15495\r\n"),
        ("CLUSTER COUNTKEYSINSLOT 15495", ":1\r\n"),
        ("CLUSTER GETKEYSINSLOT 15495 5", "*1\r\n$4\r\n{a}2\r\n"),
        ("CLUSTER GETKEYSINSLOT 15495 0", "*0\r\n"),
        ("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid slot\r\n"),
        (
            "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 1",
            "*1\r\n*2\r\n:15495\r\n*2\r\n$9\r\nkey-count\r\n:2\r\n",
        ),
        (
            "CLUSTER SLOT-STATS SLOTSRANGE 15494 15495",
            "*2\r\n*2\r\n:15494\r\n*2\r\n$9\r\nkey-count\r\n:0\r\n\
             *2\r\n:15495\r\n*2\r\n$9\r\nkey-count\r\n:2\r\n",
        ),
        ("CLUSTER LINKS", "*0\r\n"),
        ("CLUSTER COUNT-FAILURE-REPORTS x", "-ERR Unknown node x\r\n"),
        (
            "CLUSTER ADDSLOTS 1",
            "-ERR CLUSTER ADDSLOTS is not possible with cluster_mode emulated: this node owns \
             every slot\r\n",
        ),
        ("ASKING", "+OK\r\n"),
    ] {
        assert_eq!(client.ask(line), answer, "{line}");
    }
}
