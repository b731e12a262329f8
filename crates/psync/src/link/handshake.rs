//! The handshake of a replica with its primary before the stream, in Valkey's order.
//!
//! ```text
//! PING                                             +PONG, or an error that asks for a password
//! AUTH, REPLCONF listening-port ... version        one answer each; only AUTH's counts
//! PSYNC id offset                                  empty lines until the answer is known,
//!                                                  perhaps +PARTS token n before it
//! ```
//!
//! Tests: at the foot.

use pantala_journal::resp::push_command;

use crate::id::ReplicationId;

/// The version that a replica announces: of the server with the same messages.
const VERSION: &[u8] = b"9.1.2";

/// The answer of a primary that is asked to take over, in the words of Redis and Valkey.
const IS_PRIMARY: &[u8] = b"-ERR PSYNC FAILOVER can't be sent to a master";

/// What a replica announces about itself.
#[derive(Clone, Debug, Default)]
pub struct Greeting {
    /// User name and password; without a name, the default user's.
    pub login: Option<(String, String)>,
    /// The port on which it listens.
    pub port: u16,
    /// Its address, if other than that of the connection.
    pub address: String,
    /// Over how many connections beside the link it takes a full copy; less than two: only over the
    /// link.
    pub connections: usize,
    /// Whether the other server must take over even if it lacks data.
    pub forces: bool,
    /// Its id as a node of a cluster; empty: it is none.
    pub node: String,
}

/// The primary's offer of connections beside the link for a full copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The token that each of them sends.
    pub token: String,
    /// How many connections.
    pub connections: usize,
}

/// The state of a replica that asks to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeRequest {
    /// The history.
    pub id: ReplicationId,
    /// It has everything before this position.
    pub position: u64,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Read the next line.
    Read,
    /// Open these connections if wanted; then read the next line.
    Invited(Invitation),
    /// The handshake has ended.
    Over(HandshakeAnswer),
}

/// How the handshake ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeAnswer {
    /// A snapshot follows, then the stream from this position on.
    FullCopy(ReplicationId, u64),
    /// The stream continues where it was requested; the history may have a new id.
    Continue(Option<ReplicationId>),
    /// The other server was asked to take over, and is a primary already.
    IsPrimary,
    /// Not possible now; to be tried again.
    Later(String),
    /// An error that the operator should know; the link tries again nevertheless.
    Refused(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeState {
    Begin,
    Ping,
    /// AUTH was sent, with this many other replies to come after its own.
    Login(usize),
    /// This many replies to REPLCONF are to come.
    Told(usize),
    Psync,
}

/// The replica's side of the handshake, as a state machine.
#[derive(Debug)]
pub struct Handshake {
    greeting: Greeting,
    wanted: Option<ResumeRequest>,
    is_failover: bool,
    at: HandshakeState,
}

impl Handshake {
    /// A handshake before its start. `is_failover`: the primary is asked to become a replica of
    /// this server.
    pub fn new(greeting: Greeting, wanted: Option<ResumeRequest>, is_failover: bool) -> Handshake {
        Handshake { greeting, wanted, is_failover, at: HandshakeState::Begin }
    }

    /// Whether the last or next request asks the other server to take over.
    pub fn asks_to_take_over(&self) -> bool {
        self.is_failover && self.at == HandshakeState::Psync
    }

    /// The first bytes to send.
    pub fn begin(&mut self) -> Vec<u8> {
        self.at = HandshakeState::Ping;
        command(&[b"PING"])
    }

    /// Handles a line from the primary.
    pub fn take(&mut self, line: &[u8]) -> HandshakeStep {
        let is_error = line.first() == Some(&b'-');
        match self.at {
            HandshakeState::Begin => {
                HandshakeStep::Over(HandshakeAnswer::Refused("it spoke first".into()))
            }
            HandshakeState::Ping => self.pinged(line),
            HandshakeState::Login(more) => match is_error {
                // In Valkey's words, and in Redis's: people and tools look for them.
                true => HandshakeStep::Over(HandshakeAnswer::Refused(format!(
                    "Unable to AUTH to PRIMARY: {} (Unable to AUTH to MASTER)",
                    text(line)
                ))),
                false => self.told(more),
            },
            // An old server need not know all of these.
            HandshakeState::Told(more) => {
                debug_assert!(more > 0, "replies are to come");
                self.told(more - 1)
            }
            HandshakeState::Psync if line.is_empty() => HandshakeStep::Read,
            HandshakeState::Psync
                if self.greeting.connections > 1 && line.starts_with(b"+PARTS ") =>
            {
                match invitation(line).filter(|it| it.connections <= self.greeting.connections) {
                    Some(invitation) => HandshakeStep::Invited(invitation),
                    None => HandshakeStep::Over(HandshakeAnswer::Refused(format!(
                        "PSYNC: {}",
                        text(line)
                    ))),
                }
            }
            HandshakeState::Psync => HandshakeStep::Over(self.answered(line)),
        }
    }

    fn pinged(&mut self, line: &[u8]) -> HandshakeStep {
        let asks_for_login = [&b"-NOAUTH"[..], b"-NOPERM", b"-ERR operation not permitted"];
        if line.first() != Some(&b'+') && !asks_for_login.iter().any(|code| line.starts_with(code))
        {
            return HandshakeStep::Over(HandshakeAnswer::Later(format!("PING: {}", text(line))));
        }
        let mut out = Vec::new();
        if let Some((user, password)) = &self.greeting.login {
            match user.is_empty() {
                true => push_command(&mut out, &[b"AUTH", password.as_bytes()]),
                false => push_command(&mut out, &[b"AUTH", user.as_bytes(), password.as_bytes()]),
            }
        }
        let port = self.greeting.port.to_string();
        push_command(&mut out, &[b"REPLCONF", b"listening-port", port.as_bytes()]);
        let mut told = 3;
        if !self.greeting.address.is_empty() {
            let address = self.greeting.address.as_bytes();
            push_command(&mut out, &[b"REPLCONF", b"ip-address", address]);
            told += 1;
        }
        let parts = format!("parts-{}", self.greeting.connections);
        let node = format!("node-{}", self.greeting.node);
        // A server skips capabilities that it does not know.
        let mut capabilities: Vec<&[u8]> =
            vec![b"REPLCONF", b"capa", b"eof", b"capa", b"psync2", b"capa", b"pantala"];
        if self.greeting.connections > 1 {
            capabilities.extend([&b"capa"[..], parts.as_bytes()]);
        }
        if !self.greeting.node.is_empty() {
            capabilities.extend([&b"capa"[..], node.as_bytes()]);
        }
        push_command(&mut out, &capabilities);
        push_command(&mut out, &[b"REPLCONF", b"version", VERSION]);
        self.at = if self.greeting.login.is_some() {
            HandshakeState::Login(told)
        } else {
            HandshakeState::Told(told)
        };
        HandshakeStep::Send(out)
    }

    /// Waits for `more` further replies.
    fn told(&mut self, more: usize) -> HandshakeStep {
        if more > 0 {
            self.at = HandshakeState::Told(more);
            return HandshakeStep::Read;
        }
        self.at = HandshakeState::Psync;
        let (id, number) = match self.wanted {
            Some(wanted) => (wanted.id.to_string(), (wanted.position + 1).to_string()),
            None => ("?".to_owned(), "-1".to_owned()),
        };
        let mut args: Vec<&[u8]> = vec![b"PSYNC", id.as_bytes(), number.as_bytes()];
        if self.is_failover {
            args.push(b"FAILOVER");
            if self.greeting.forces {
                args.push(b"FORCE");
            }
        }
        HandshakeStep::Send(command(&args))
    }

    fn answered(&self, line: &[u8]) -> HandshakeAnswer {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        match (words.next().unwrap_or_default(), words.next(), words.next()) {
            (b"+FULLRESYNC", Some(id), Some(position)) => {
                let position =
                    std::str::from_utf8(position).ok().and_then(|text| text.parse().ok());
                match (ReplicationId::parse(id), position) {
                    (Some(id), Some(position)) if i64::try_from(position).is_ok() => {
                        HandshakeAnswer::FullCopy(id, position)
                    }
                    _ => HandshakeAnswer::Refused(format!("PSYNC: {}", text(line))),
                }
            }
            (b"+CONTINUE", id, _) if self.wanted.is_some() => {
                let id = id.map(ReplicationId::parse);
                match id {
                    None => HandshakeAnswer::Continue(None),
                    Some(Some(id)) => HandshakeAnswer::Continue(Some(id)),
                    Some(None) => HandshakeAnswer::Refused(format!("PSYNC: {}", text(line))),
                }
            }
            (b"-NOMASTERLINK" | b"-LOADING", _, _) => HandshakeAnswer::Later(text(line)),
            _ if self.is_failover && line.starts_with(IS_PRIMARY) => HandshakeAnswer::IsPrimary,
            _ => HandshakeAnswer::Refused(format!("PSYNC: {}", text(line))),
        }
    }
}

/// Parses `+PARTS token n`.
fn invitation(line: &[u8]) -> Option<Invitation> {
    let line = std::str::from_utf8(line).ok()?;
    let (token, connections) = line.strip_prefix("+PARTS ")?.split_once(' ')?;
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    let connections = connections.parse().ok().filter(|count| *count > 0 && is_token)?;
    Some(Invitation { token: token.to_owned(), connections })
}

fn command(args: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    push_command(&mut out, args);
    out
}

/// A line in the form for the log.
fn text(line: &[u8]) -> String {
    /// How many bytes of it are shown.
    const SHOWN_BYTES: usize = 200;
    line[..line.len().min(SHOWN_BYTES)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789012345678901234567890123456789";

    fn id() -> ReplicationId {
        ReplicationId::parse(ID.as_bytes()).expect("forty digits")
    }

    /// The sent words when the primary answers like this; and how it ends.
    fn speak(mut handshake: Handshake, answers: &[&str]) -> (Vec<String>, Option<HandshakeAnswer>) {
        let words = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("text");
            let lines = text.split("\r\n").filter(|line| !line.starts_with(['*', '$']));
            lines.collect::<Vec<_>>().join(" ").trim_end().to_owned()
        };
        let mut sent = vec![words(handshake.begin())];
        for answer in answers {
            match handshake.take(answer.as_bytes()) {
                HandshakeStep::Send(bytes) => sent.push(words(bytes)),
                HandshakeStep::Read => {}
                HandshakeStep::Invited(to) => {
                    sent.push(format!("{} for {}", to.connections, to.token))
                }
                HandshakeStep::Over(answer) => return (sent, Some(answer)),
            }
        }
        (sent, None)
    }

    #[test]
    fn a_new_replica_asks_for_everything() {
        let greeting = Greeting { port: 7000, ..Greeting::default() };
        let answer = format!("+FULLRESYNC {ID} 42");
        let answers = ["+PONG", "+OK", "+OK", "-ERR unknown", "", "", &answer];
        let (sent, ended) = speak(Handshake::new(greeting, None, false), &answers);
        assert_eq!(
            sent,
            [
                "PING",
                "REPLCONF listening-port 7000 REPLCONF capa eof capa psync2 capa pantala \
                 REPLCONF version 9.1.2",
                "PSYNC ? -1"
            ]
        );
        assert_eq!(ended, Some(HandshakeAnswer::FullCopy(id(), 42)));
    }

    #[test]
    fn one_that_comes_back_logs_in_and_says_what_it_has() {
        let greeting = Greeting {
            login: Some(("anna".into(), "secret".into())),
            port: 7000,
            address: "10.0.0.1".into(),
            connections: 1,
            forces: false,
            node: "ab".into(),
        };
        let wanted = Some(ResumeRequest { id: id(), position: 99 });
        let forcing = Greeting { forces: true, ..Greeting::default() };
        let (sent, _) = speak(Handshake::new(forcing, wanted, true), &["+PONG", "", "", ""]);
        assert_eq!(sent[2], format!("PSYNC {ID} 100 FAILOVER FORCE"));
        let handshake = Handshake::new(greeting, wanted, true);
        let answers = ["-NOAUTH", "+OK", "+OK", "+OK", "+OK", "+OK", "+CONTINUE"];
        let (sent, ended) = speak(handshake, &answers);
        assert!(sent[1].starts_with("AUTH anna secret REPLCONF listening-port 7000 REPLCONF ip-"));
        assert_eq!(sent[2], format!("PSYNC {ID} 100 FAILOVER"));
        assert_eq!(ended, Some(HandshakeAnswer::Continue(None)));
    }

    #[test]
    fn what_the_primary_answers_ends_it_in_its_way() {
        let answered = |line: &str| {
            let wanted = Some(ResumeRequest { id: id(), position: 1 });
            let handshake = Handshake::new(Greeting::default(), wanted, false);
            speak(handshake, &["+PONG", "+OK", "+OK", "+OK", line]).1.expect("an end")
        };
        let continued = answered(&format!("+CONTINUE {}", "a".repeat(40)));
        assert!(matches!(continued, HandshakeAnswer::Continue(Some(_))));
        assert!(matches!(answered("-NOMASTERLINK no"), HandshakeAnswer::Later(_)));
        assert!(matches!(answered("-LOADING now"), HandshakeAnswer::Later(_)));
        for line in [
            "+CONTINUE x",
            "+FULLRESYNC",
            "+FULLRESYNC x 1",
            &format!("+FULLRESYNC {ID} -1"),
            &format!("+FULLRESYNC {ID} 18446744073709551615"),
            "-ERR unknown command",
            "*3",
        ] {
            assert!(matches!(answered(line), HandshakeAnswer::Refused(_)), "{line}");
        }
    }

    #[test]
    fn who_is_asked_to_take_over_may_be_a_primary_already() {
        let answered = |is_failover| {
            let mut handshake = Handshake::new(Greeting::default(), None, is_failover);
            handshake.begin();
            for line in ["+PONG", "+OK", "+OK", "+OK"] {
                assert!(!handshake.asks_to_take_over());
                handshake.take(line.as_bytes());
            }
            assert_eq!(handshake.asks_to_take_over(), is_failover);
            handshake.take(b"-ERR PSYNC FAILOVER can't be sent to a master.")
        };
        assert_eq!(answered(true), HandshakeStep::Over(HandshakeAnswer::IsPrimary));
        assert!(matches!(answered(false), HandshakeStep::Over(HandshakeAnswer::Refused(_))));
    }

    #[test]
    fn who_takes_parts_says_so_and_is_invited() {
        let greeting = Greeting { connections: 4, ..Greeting::default() };
        let full = format!("+FULLRESYNC {ID} 42");
        let handshake = |answers: &[&str]| {
            let before = ["+PONG", "+OK", "+OK", "+OK"];
            speak(Handshake::new(greeting.clone(), None, false), &[&before, answers].concat())
        };
        let (sent, ended) = handshake(&["", "+PARTS 0a1b 3", "", &full]);
        assert!(sent[1].contains("capa pantala capa parts-4 REPLCONF"), "{sent:?}");
        assert_eq!(sent[3], "3 for 0a1b");
        assert_eq!(ended, Some(HandshakeAnswer::FullCopy(id(), 42)));
        for wrong in ["+PARTS 0a 5", "+PARTS 0a 0", "+PARTS 0a", "+PARTS  3", "+PARTS xyz 3"] {
            assert!(matches!(handshake(&[wrong]).1, Some(HandshakeAnswer::Refused(_))), "{wrong}");
        }
        let alone = Handshake::new(Greeting::default(), None, false);
        let (_, ended) = speak(alone, &["+PONG", "+OK", "+OK", "+OK", "+PARTS 0a1b 3"]);
        assert!(matches!(ended, Some(HandshakeAnswer::Refused(_))), "nobody has asked for it");
    }

    #[test]
    fn a_wrong_password_ends_it() {
        let login = Some((String::new(), "wrong".into()));
        let handshake = Handshake::new(Greeting { login, ..Greeting::default() }, None, false);
        let (_, ended) = speak(handshake, &["-NOAUTH", "-WRONGPASS no"]);
        let words = "Unable to AUTH to PRIMARY: -WRONGPASS no (Unable to AUTH to MASTER)";
        assert_eq!(ended, Some(HandshakeAnswer::Refused(words.into())));
        let handshake = Handshake::new(Greeting::default(), None, false);
        assert!(matches!(speak(handshake, &["-ERR"]).1, Some(HandshakeAnswer::Later(_))));
    }
}
