//! A server that speaks HTTP, and clients of both protocols.

#[path = "../common/mod.rs"]
mod process;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Deref;

use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use process::{PATIENCE, connect_to, free_port};

pub const ENGINES: [&str; 2] = ["epoll", "auto"];

/// A server with a control plane.
pub struct Server {
    process: process::Server,
    pub admin_port: u16,
}

impl Deref for Server {
    type Target = process::Server;

    fn deref(&self) -> &process::Server {
        &self.process
    }
}

impl Server {
    pub fn new(engine: &str, more: &[&str]) -> Server {
        let admin_port = free_port();
        let number = admin_port.to_string();
        let mut args = vec!["--admin_port", &number, "--io_engine", engine, "--threads", "3"];
        args.extend(more);
        Server { process: process::Server::at_port("--port", &args), admin_port }
    }

    /// A client of RESP.
    pub fn resp(&self) -> Resp {
        Resp::at(self.port)
    }

    /// A browser.
    pub fn browser(&self) -> Browser {
        Browser::at(self.port)
    }
}

/// A RESP client that sends lines.
pub struct Resp(pub TcpStream);

impl Resp {
    pub fn at(port: u16) -> Resp {
        Resp(connect_to(("127.0.0.1", port)).expect("it listens"))
    }

    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).expect("it reads");
    }

    #[track_caller]
    pub fn check(&mut self, request: &str, reply: &str) {
        self.say(format!("{request}\r\n"));
        let mut heard = vec![0; reply.len()];
        self.0.read_exact(&mut heard).expect("it answers");
        assert_eq!(String::from_utf8_lossy(&heard), reply, "{request}");
    }

    /// All bytes until the end.
    pub fn rest(mut self) -> String {
        let mut heard = Vec::new();
        // A reset is an end, too.
        let _ = self.0.read_to_end(&mut heard);
        String::from_utf8_lossy(&heard).into_owned()
    }
}

/// An answer of HTTP.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// An HTTP client that keeps its cookie.
pub struct Browser {
    pub runtime: Runtime,
    pub port: u16,
    pub cookie: Option<String>,
}

impl Browser {
    pub fn at(port: u16) -> Browser {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Browser { runtime: runtime.expect("a runtime"), port, cookie: None }
    }

    pub fn request(&self, method: &str, path: &str, lines: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if lines.iter().all(|(name, _)| !name.eq_ignore_ascii_case("host")) {
            request = request.header("Host", format!("127.0.0.1:{}", self.port));
        }
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("Cookie", cookie);
        }
        let request = request.body(Full::<Bytes>::from(body.to_owned())).expect("a request");
        self.runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await;
            let io = TokioIo::new(stream.expect("it listens"));
            let (mut sender, connection) = http1::handshake(io).await.expect("a connection");
            let driver = tokio::spawn(connection);
            let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
            let (head, body) = answer.expect("in time").expect("an answer").into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            driver.abort();
            let body = String::from_utf8_lossy(&body).into_owned();
            Answer { status: head.status.as_u16(), headers: head.headers, body }
        })
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let lines = [("X-Pantala", "1"), ("Content-Type", "application/json")];
        self.request("POST", path, &lines, &body.to_string())
    }

    /// The reply to a command.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> Value {
        let answer = self.post("/api/run", &json!({ "run": words }));
        assert_eq!(answer.status, 200, "{words:?}: {}", answer.body);
        answer.json()["reply"].clone()
    }

    /// Logs in; returns the status.
    pub fn log_in(&mut self, user: &str, password: &str) -> u16 {
        let answer = self.post("/api/login", &json!({ "user": user, "password": password }));
        if let Some(cookie) = answer.headers.get("set-cookie") {
            let cookie = cookie.to_str().expect("text");
            assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
            self.cookie = cookie.split(';').next().map(str::to_owned);
        }
        answer.status
    }

    /// A WebSocket, or the status of the refusal.
    pub fn socket(&self, lines: &[(&'static str, &str)]) -> Result<Socket<'_>, u16> {
        let address = format!("ws://127.0.0.1:{}/api/socket", self.port);
        let mut request = address.into_client_request().expect("a request");
        let cookie = self.cookie.iter().map(|cookie| ("Cookie", cookie.as_str()));
        for (name, value) in lines.iter().copied().chain(cookie) {
            request.headers_mut().insert(name, value.parse().expect("a value"));
        }
        let connected = self.runtime.block_on(tokio_tungstenite::connect_async(request));
        match connected {
            Ok((stream, _)) => Ok(Socket { browser: self, stream, kept: VecDeque::new() }),
            Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => {
                Err(answer.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A WebSocket.
pub struct Socket<'b> {
    browser: &'b Browser,
    stream: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    kept: VecDeque<Value>,
}

impl Socket<'_> {
    pub fn say(&mut self, value: &Value) {
        let message = Message::text(value.to_string());
        self.browser.runtime.block_on(self.stream.send(message)).expect("it reads");
    }

    /// The next message; `None`: the end.
    pub fn hear(&mut self) -> Option<Value> {
        if let Some(kept) = self.kept.pop_front() {
            return Some(kept);
        }
        self.browser.runtime.block_on(async {
            loop {
                let next = tokio::time::timeout(PATIENCE, self.stream.next()).await;
                match next.expect("in time") {
                    Some(Ok(Message::Text(text))) => {
                        return Some(serde_json::from_str(&text).expect("JSON"));
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                    Some(Ok(_)) => {}
                }
            }
        })
    }

    /// The next message with this field; others are kept for later.
    pub fn hear_of(&mut self, field: &str) -> Value {
        let mut others = VecDeque::new();
        loop {
            let message = self.hear().unwrap_or_else(|| panic!("it ended before {field}"));
            if message.get(field).is_some() {
                self.kept = others;
                return message;
            }
            others.push_back(message);
        }
    }

    /// The reply to a command.
    pub fn run(&mut self, id: u64, words: &[&str]) -> Value {
        self.say(&json!({ "id": id, "run": words }));
        let answer = self.hear_of("reply");
        assert_eq!(answer["id"], json!(id));
        answer["reply"].clone()
    }
}
