//! The runner and the recorder against a small fake server, to see that they detect mistakes.
#![allow(clippy::unwrap_used)]

use pantala_compat::client::Fault;
use pantala_compat::parse::{self, Case, TargetServer, Transcript};
use pantala_compat::pattern::Resp;
use pantala_compat::record;
use pantala_compat::run::{self, Options, Outcome};
use pantala_compat::target::Target;
use pantala_compat::value::Value;
use std::collections::{BTreeMap, VecDeque};

/// A server with the commands ECHO, TWICE (two replies), COUNT (one more each time), MAP, NIL,
/// HELLO and BYE.
#[derive(Default)]
struct Toy {
    resp: Option<Resp>,
    replies: BTreeMap<String, VecDeque<Result<Value, Fault>>>,
    count: i64,
}

impl Target for Toy {
    fn begin(&mut self, _case: &Case, resp: Resp) -> Result<(), Fault> {
        *self = Toy { resp: Some(resp), ..Toy::default() };
        Ok(())
    }

    fn send(&mut self, client: &str, args: &[Vec<u8>]) -> Result<(), Fault> {
        let text = |at: usize| args.get(at).cloned().unwrap_or_default();
        let pair = (Value::Bulk(b"k".to_vec()), Value::Int(1));
        let replies = match text(0).as_slice() {
            b"ECHO" => vec![Ok(Value::Bulk(text(1)))],
            b"TWICE" => vec![Ok(Value::Int(1)), Ok(Value::Int(2))],
            b"COUNT" => {
                self.count += 1;
                vec![Ok(Value::Int(self.count))]
            }
            b"MAP" if self.resp == Some(Resp::Three) => vec![Ok(Value::Map(vec![pair]))],
            b"MAP" => vec![Ok(Value::Array(vec![pair.0, pair.1]))],
            b"NIL" => vec![Ok(Value::Nil)],
            b"HELLO" => {
                self.resp = Some(if text(1) == b"3" { Resp::Three } else { Resp::Two });
                vec![Ok(Value::Simple(b"OK".to_vec()))]
            }
            _ => vec![Err(Fault::Closed)],
        };
        self.replies.entry(client.to_string()).or_default().extend(replies);
        Ok(())
    }

    fn send_bytes(&mut self, client: &str, bytes: &[u8]) -> Result<(), Fault> {
        self.send(client, &[b"ECHO".to_vec(), bytes.to_vec()])
    }

    fn receive(&mut self, client: &str) -> Result<Value, Fault> {
        self.replies
            .entry(client.to_string())
            .or_default()
            .pop_front()
            .unwrap_or(Err(Fault::Silent))
    }

    fn receive_bytes(&mut self, client: &str, _count: usize) -> Result<Vec<u8>, Fault> {
        match self.receive(client)? {
            Value::Bulk(text) => Ok(text),
            _ => Err(Fault::Silent),
        }
    }

    fn unread(&mut self, client: &str) -> Option<Value> {
        self.replies.get_mut(client)?.pop_front()?.ok()
    }
}

fn cases(text: &str) -> Vec<Case> {
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    parse::cases(&lines).unwrap()
}

fn play(text: &str, resp: Resp) -> Outcome {
    let whose = TargetServer::Pantala;
    let options = Options { whose, lacks: vec!["lists".into()], starts_servers: false };
    run::case(&cases(text)[0], resp, &mut Toy::default(), &options)
}

fn passes(text: &str) {
    for resp in [Resp::Two, Resp::Three] {
        assert_eq!(play(text, resp), Outcome::Passed, "{resp:?}: {text}");
    }
}

/// Checks that the case fails at this line with this reply.
fn fails(text: &str, line: usize, got: &str) {
    match play(text, Resp::Two) {
        Outcome::Failed(mismatch) => {
            assert_eq!((mismatch.line, mismatch.got.as_str()), (line, got), "{text}");
        }
        other => panic!("{other:?}: {text}"),
    }
}

#[test]
fn what_is_as_expected_passes() {
    passes("> ECHO a\n< \"a\"\n> MAP\n< { \"k\" => :1 }\n> NIL\n< nil\n");
    passes("> TWICE\n< :1\n< :2\n> BYE\n<<\n");
    passes("a> ECHO x\nb> ECHO y\nb< \"y\"\na< \"x\"\n");
    passes(">> \"raw\"\n<< \"raw\"\n");
    passes("#! let name\n> ECHO 41\n< *\n> ECHO \"is ${name+1}\"\n< \"is 42\"\n> COUNT\n< :1\n");
    passes("#! wait-until\n> COUNT\n< :3\n> COUNT\n< :4\n");
    passes("> MAP\n<2 [ \"k\", :1 ]\n<3 { \"k\" => :1 }\n");
    passes(
        "> HELLO 3\n< OK\n> MAP\n< { \"k\" => :1 }\n> HELLO 2\n< OK\n> MAP\n< { \"k\" => :1 }\n",
    );
}

#[test]
fn what_is_not_is_told() {
    fails("> ECHO a\n< \"b\"\n", 2, "\"a\"");
    fails("> COUNT\n< :1\n> COUNT\n< :1\n> ECHO x\n< \"y\"\n", 4, ":2");
    fails("> TWICE\n< :1\n", 2, ":2");
    fails("> COUNT\n< :1\n< :2\n", 3, "(no reply)");
    fails("> BYE\n< OK\n", 2, "(connection closed)");
    fails("> ECHO a\n<<\n", 2, "\"a\"");
    fails(">> \"raw\"\n<< \"row\"\n", 2, "\"raw\"");
    fails("> ECHO a\n> ECHO b\n< \"b\"\n", 1, "no `<` line");
    fails("> COUNT\n<\n", 2, ":1");
}

#[test]
fn what_is_not_meant_for_the_target_is_skipped() {
    for directive in ["needs: lists", "only: reference x", "resp: 3", "server: --x"] {
        let outcome = play(&format!("#! {directive}\n> COUNT\n< :9\n"), Resp::Two);
        assert!(matches!(outcome, Outcome::Skipped(_)), "{directive}: {outcome:?}");
    }
}

fn recorded(text: &str) -> (String, usize) {
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    let cases = parse::cases(&lines).unwrap();
    let transcript = Transcript { path: "toy.txt".into(), lines, cases };
    let mut told = 0;
    let text = record::text(&transcript, &mut Toy::default(), true, &mut |_| told += 1);
    (text, told)
}

#[test]
fn recording_fills_in_and_replaces() {
    let (text, told) =
        recorded("# a\n> ECHO a\n> MAP\n< :7\n\n# b\na> COUNT\nb> TWICE\nb<\nb<\n> BYE\n");
    let expected = "# a\n> ECHO a\n< \"a\"\n> MAP\n< { \"k\" => :1 }\n\n# b\na> COUNT\na< :1\n\
                    b> TWICE\nb< :1\nb< :2\n> BYE\n<<\n";
    assert_eq!((text.as_str(), told), (expected, 0));
    assert_eq!(recorded(expected), (expected.to_string(), 0));
}

#[test]
fn recording_keeps_patterns_and_tells_when_they_do_not_match() {
    let good = "> COUNT\n< /^:\\d$/\n> ECHO x\n< *\n";
    assert_eq!(recorded(good), (good.to_string(), 0));
    let bad = "> COUNT\n< /^:7$/\n> ECHO x\n< \"x\"\n";
    assert_eq!(recorded(bad), (bad.to_string(), 2));
}
