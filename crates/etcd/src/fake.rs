//! A server that says what it is told to, right or wrong: one reply for each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::EtcdConfig;

/// The start of an answer: a header of revision 9.
pub(crate) const HEADER: &str = r#""header":{"cluster_id":"7","member_id":"8","revision":"9"}"#;

/// What it says to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These bytes; the connection ends after them.
    Raw(String),
    /// These bytes; then nothing, until the client goes.
    Open(String),
    /// The connection ends.
    Cut,
    /// Nothing, until the client goes.
    Silence,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &str) -> Reply {
        let length = body.len();
        Reply::Raw(format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
    }
}

/// One such server. Its thread ends with the tests' process.
pub(crate) struct Fake {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    pub(crate) fn new(replies: Vec<Reply>) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = format!("http://{}", listener.local_addr().expect("it has an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut replies = replies.into_iter();
            for stream in listener.incoming() {
                let stream = stream.expect("somebody comes");
                if let Some(request) = request_of(&stream) {
                    seen.lock().push(request);
                    answer(stream, replies.next().unwrap_or(Reply::Cut));
                }
            }
        });
        Fake { address, asked }
    }

    /// An address at which nobody is.
    pub(crate) fn gone() -> Fake {
        Fake { address: "http://127.0.0.1:1".into(), asked: Arc::default() }
    }

    /// The requests so far: heads and bodies.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

fn request_of(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        let line = head[start..].trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8_lossy(&body))
}

/// Says it, from a thread of its own if the client is to go first.
fn answer(mut stream: TcpStream, reply: Reply) {
    let (bytes, stays) = match reply {
        Reply::Raw(bytes) => (bytes, false),
        Reply::Open(bytes) => (bytes, true),
        Reply::Cut => return,
        Reply::Silence => (String::new(), true),
    };
    // A client that does not want the rest goes.
    stream.write_all(bytes.as_bytes()).unwrap_or_default();
    if stays {
        std::thread::spawn(move || stream.read_to_end(&mut Vec::new()).unwrap_or_default());
    }
}

/// A client's configuration for these servers.
pub(crate) fn config(fakes: &[&Fake]) -> EtcdConfig {
    EtcdConfig {
        endpoints: fakes.iter().map(|fake| fake.address.clone()).collect(),
        user: String::new(),
        password: String::new(),
        ca_file: String::new(),
        cert_file: String::new(),
        key_file: String::new(),
        timeout: Duration::from_secs(2),
    }
}

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("there is a runtime").block_on(work)
}
