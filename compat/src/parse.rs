//! Parses a transcript file into cases and steps. The format is described in compat/README.md.
//!
//! 1. Every step knows its line numbers, so that failures can name them and recording can replace
//!    the lines.
//! 2. `<2` and the `<3` after it are one expectation.
//! 3. A text with `${name}` is not parsed as a pattern before its case runs.
//!
//! Not here: running (`run`) and filling in (`record`).

use crate::pattern::{BadPattern, Pattern, Resp};
use crate::quoting;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One file of cases.
#[derive(Debug)]
pub struct Transcript {
    /// Where it was read from.
    pub path: PathBuf,
    /// Its text, for recording.
    pub lines: Vec<String>,
    /// Its cases in order.
    pub cases: Vec<Case>,
}

/// The server whose behaviour a case describes, if it is not that of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetServer {
    /// The server of this repository.
    Pantala,
    /// valkey-server, the reference.
    Reference,
}

/// One conversation with a flushed server.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Its first comment line.
    pub title: String,
    /// First line, counted from 1.
    pub line: usize,
    /// Set by `#! only: WHO REASON`.
    pub only: Option<(TargetServer, String)>,
    /// Set by `#! resp: N`: the case says nothing about the other version.
    pub resp: Option<Resp>,
    /// Set by `#! needs: NAME..`: abilities a server may lack.
    pub needs: Vec<String>,
    /// Set by `#! server: ARGS`: the case needs its own server with these additional arguments.
    pub server: Option<String>,
    /// Set by `#! alone: REASON`: its commands are not to be wrapped into transactions or scripts.
    pub alone: Option<String>,
    /// Set by `#! no-scripts: REASON`: its commands are not to be wrapped into scripts.
    pub no_scripts: Option<String>,
    /// Set by `#! no-reload: REASON`: it depends on state that no file holds.
    pub no_reload: Option<String>,
    /// The steps: commands and expected replies.
    pub steps: Vec<Step>,
}

/// One act of one client.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its lines, counted from 0.
    pub lines: Range<usize>,
    /// The name of the client; the usual one has no name.
    pub client: String,
    /// The action of the step.
    pub act: Act,
}

/// The action of a step.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends a command.
    Send(Send),
    /// Sends bytes as they are.
    SendBytes(Vec<u8>),
    /// Expects one reply.
    Expect(Expected),
}

/// A command to send.
#[derive(Clone, Debug, Default)]
pub struct Send {
    /// Name and arguments; `${name}` inside is replaced when it runs.
    pub args: Vec<Vec<u8>>,
    /// Set by `#! wait-until`: sent again until the reply is the expected one.
    pub wait_until: bool,
    /// Set by `#! let NAME`: the reply's text is kept under this name.
    pub keep_as: Option<String>,
}

/// The expected reply under each protocol version; `None`: no reply at all.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Under RESP2.
    pub two: Option<Reply>,
    /// Under RESP3.
    pub three: Option<Reply>,
}

impl Expected {
    /// The expected reply under `resp`.
    pub fn under(&self, resp: Resp) -> Option<&Reply> {
        match resp {
            Resp::Two => self.two.as_ref(),
            Resp::Three => self.three.as_ref(),
        }
    }
}

/// One expected reply.
#[derive(Clone, Debug)]
pub enum Reply {
    /// `<` alone: to be recorded.
    Blank,
    /// `< nothing`: no reply comes.
    Nothing,
    /// `<<`: the server closes the connection.
    Closed,
    /// `<< "bytes"`: exactly these bytes.
    Bytes(Vec<u8>),
    /// Any other text.
    Pattern {
        /// As written.
        text: String,
        /// Set by `<~`: the order of members does not matter.
        unordered: bool,
        /// The parsed text, unless it holds `${name}`.
        pattern: Option<Pattern>,
    },
}

/// Reads a transcript file.
pub fn file(path: &Path) -> Result<Transcript, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    let cases = cases(&lines).map_err(|(at, e)| format!("{}:{}: {e}", path.display(), at + 1))?;
    Ok(Transcript { path: path.to_path_buf(), lines, cases })
}

/// All transcripts below a folder, or the one file; sorted by path.
pub fn tree(path: &Path) -> Result<Vec<Transcript>, String> {
    if path.is_file() {
        return Ok(vec![file(path)?]);
    }
    let entries = std::fs::read_dir(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        if path.is_dir() || path.extension().is_some_and(|e| e == "txt") {
            all.extend(tree(&path)?);
        }
    }
    Ok(all)
}

/// Reads the cases of a text; an error comes with its line, counted from 0.
pub fn cases(lines: &[String]) -> Result<Vec<Case>, (usize, String)> {
    let mut reader = Reader::default();
    for (at, line) in lines.iter().enumerate() {
        reader.line(at, line).map_err(|error| (at, error))?;
    }
    reader.end_case().map_err(|error| (lines.len(), error))?;
    Ok(reader.cases)
}

#[derive(Default)]
struct Reader {
    cases: Vec<Case>,
    /// Directives at the head of the file, which apply to every case.
    common: Case,
    case: Case,
    /// The directives for the next command.
    next: Send,
    /// An expected reply that continues on the next line: its mark and the text so far.
    open: Option<(Mark, String, usize)>,
}

/// The mark before an expected text: `a<3~`.
#[derive(Clone, PartialEq, Eq)]
struct Mark {
    client: String,
    resp: Option<Resp>,
    unordered: bool,
    raw: bool,
}

impl Reader {
    fn line(&mut self, at: usize, line: &str) -> Result<(), String> {
        if let Some((mark, text, first)) = self.open.take() {
            let (_, more) = marked(line).ok_or("the reply above is not finished")?;
            return self.expect(mark, format!("{text}\n{more}"), first..at + 1);
        }
        if line.trim().is_empty() {
            return self.end_case();
        }
        if self.case.title.is_empty() && self.case.steps.is_empty() && self.case.line == 0 {
            self.case = Case { line: at + 1, ..self.common.clone() };
        }
        if let Some(directive) = line.strip_prefix("#!") {
            return self.directive(directive.trim());
        }
        if let Some(comment) = line.strip_prefix('#') {
            if self.case.title.is_empty() {
                self.case.title = comment.trim().to_string();
            }
            return Ok(());
        }
        if let Some((mark, text)) = marked(line) {
            return self.expect(mark, text.to_string(), at..at + 1);
        }
        let (client, rest) = split_client(line, '>').ok_or("neither a command nor a reply")?;
        let act = match rest.strip_prefix('>') {
            Some(raw) => Act::SendBytes(quoting::split(raw)?.concat()),
            None => {
                let args = quoting::split(rest)?;
                Act::Send(Send { args, ..std::mem::take(&mut self.next) })
            }
        };
        let client = client.to_string();
        self.case.steps.push(Step { lines: at..at + 1, client, act });
        Ok(())
    }

    fn directive(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once([':', ' ']).unwrap_or((text, ""));
        let value = value.trim();
        match name {
            "only" => {
                let (who, reason) = value.split_once(' ').ok_or("only: WHO REASON")?;
                let whose = match who {
                    "pantala" => TargetServer::Pantala,
                    "reference" => TargetServer::Reference,
                    _ => return Err(format!("only: pantala or reference, not {who}")),
                };
                self.case.only = Some((whose, reason.to_string()));
            }
            "resp" => {
                self.case.resp = Some(match value {
                    "2" => Resp::Two,
                    "3" => Resp::Three,
                    _ => return Err("resp: 2 or 3".into()),
                });
            }
            "needs" => self.case.needs.extend(value.split_whitespace().map(str::to_string)),
            "alone" => self.case.alone = Some(value.to_string()),
            "no-scripts" => self.case.no_scripts = Some(value.to_string()),
            "no-reload" => self.case.no_reload = Some(value.to_string()),
            "server" => self.case.server = Some(value.to_string()),
            "wait-until" => self.next.wait_until = true,
            "let" => self.next.keep_as = Some(value.to_string()),
            _ => return Err(format!("no directive is called {name}")),
        }
        Ok(())
    }

    fn expect(&mut self, mark: Mark, text: String, lines: Range<usize>) -> Result<(), String> {
        let reply = match text.trim() {
            "" if mark.raw => Reply::Closed,
            "" => Reply::Blank,
            "nothing" => Reply::Nothing,
            raw if mark.raw => Reply::Bytes(quoting::split(raw)?.concat()),
            trimmed => match Pattern::parse(&without_variables(trimmed)) {
                Err(BadPattern::Unfinished) => {
                    self.open = Some((mark, text, lines.start));
                    return Ok(());
                }
                Err(BadPattern::Wrong(why)) => return Err(why),
                Ok(pattern) => Reply::Pattern {
                    text: trimmed.to_string(),
                    unordered: mark.unordered,
                    pattern: (!trimmed.contains("${")).then_some(pattern),
                },
            },
        };
        let (two, three) = match mark.resp {
            None => (Some(reply.clone()), Some(reply)),
            Some(Resp::Two) => (Some(reply), None),
            Some(Resp::Three) => (None, Some(reply)),
        };
        if let Some(Step { lines: last, client, act: Act::Expect(before) }) =
            self.case.steps.last_mut()
            && two.is_none()
            && before.three.is_none()
            && *client == mark.client
        {
            before.three = three;
            last.end = lines.end;
            return Ok(());
        }
        let act = Act::Expect(Expected { two, three });
        self.case.steps.push(Step { lines, client: mark.client, act });
        Ok(())
    }

    fn end_case(&mut self) -> Result<(), String> {
        if self.open.is_some() {
            return Err("the reply above is not finished".into());
        }
        let case = std::mem::take(&mut self.case);
        if !case.steps.is_empty() {
            self.cases.push(case);
        } else if self.cases.is_empty() && case.line > 0 {
            self.common = Case { title: String::new(), line: 0, ..case };
        }
        Ok(())
    }
}

/// Splits `a< text` or `a> text` at its sign; the client's name is letters only.
fn split_client(line: &str, sign: char) -> Option<(&str, &str)> {
    let (client, rest) = line.split_once(sign)?;
    client.bytes().all(|byte| byte.is_ascii_lowercase()).then_some((client, rest))
}

fn marked(line: &str) -> Option<(Mark, &str)> {
    let (client, mut rest) = split_client(line, '<')?;
    let mut eat = |token: char| match rest.strip_prefix(token) {
        Some(more) => {
            rest = more;
            true
        }
        None => false,
    };
    let raw = eat('<');
    let resp = if eat('2') {
        Some(Resp::Two)
    } else if eat('3') {
        Some(Resp::Three)
    } else {
        None
    };
    // `<~[` is a set, `<~ [` an array in any order
    let set = rest.starts_with("~[");
    let unordered = !set && rest.strip_prefix('~').map(|more| rest = more).is_some();
    Some((Mark { client: client.to_string(), resp, unordered, raw }, rest))
}

/// The text with every `${name}` replaced by a digit, to check whether it is complete.
fn without_variables(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (_, after) = after.split_once('}').unwrap_or(("", after));
        out.push_str(before);
        out.push('0');
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Case> {
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        cases(&lines).unwrap()
    }

    #[test]
    fn cases_and_steps() {
        let text = "#! needs: debug\n\n# first\n# more\n> SET k \"a b\"\n< OK\n\n# second\n\
                    #! resp: 3\na> GET k\na< [ \"x\",\na<   :1 ]\n";
        let cases = read(text);
        assert_eq!(cases.len(), 2);
        assert_eq!((cases[0].title.as_str(), cases[0].line), ("first", 3));
        assert_eq!(cases[0].needs, ["debug"]);
        assert_eq!(cases[1].resp, Some(Resp::Three));
        assert_eq!(cases[1].steps[0].client, "a");
        assert_eq!(cases[1].steps[1].lines, 10..12);
    }

    #[test]
    fn one_expectation_of_two_versions() {
        let cases = read("> X\n<2 :1\n<3 ,1\n<~ [ :2 ]\n<~[ :2 ]\n<<\n<< \"x\"\n< nothing\n<\n");
        let replies: Vec<String> = cases[0].steps[1..]
            .iter()
            .map(|step| match &step.act {
                Act::Expect(Expected { two: Some(a), three: Some(b) }) => match (a, b) {
                    (Reply::Pattern { text, .. }, Reply::Pattern { text: b, unordered, .. }) => {
                        format!("{text} {b} {unordered}")
                    }
                    (reply, _) => format!("{reply:?}"),
                },
                other => format!("{other:?}"),
            })
            .collect();
        let expected = [":1 ,1 false", "[ :2 ] [ :2 ] true", "~[ :2 ] ~[ :2 ] false"];
        assert_eq!(replies[..3], expected);
        assert_eq!(replies[3..], ["Closed", "Bytes([120])", "Nothing", "Blank"]);
    }

    #[test]
    fn directives_of_a_command() {
        let cases = read("#! let id\n> CLIENT ID\n< *\n#! wait-until\n> GET ${id}\n< :${id}\n");
        let Act::Send(send) = &cases[0].steps[0].act else { panic!("no command") };
        assert_eq!((send.keep_as.as_deref(), send.wait_until), (Some("id"), false));
        let Act::Send(send) = &cases[0].steps[2].act else { panic!("no command") };
        assert_eq!((send.keep_as.as_deref(), send.wait_until), (None, true));
    }

    #[test]
    fn mistakes_come_with_their_line() {
        for (text, line) in [("> A\nfoo", 1), ("< [ :1\n\n", 1), ("#! what\n", 0), ("< foo", 0)] {
            let lines: Vec<String> = text.split('\n').map(str::to_string).collect();
            assert_eq!(cases(&lines).unwrap_err().0, line, "{text}");
        }
    }
}
