//! Many commands as one: transactions, and scripts that name their keys or do not.

use crate::serial::kinds::KindAct;
use crate::serial::large::LargeAct;
use crate::serial::model::{Act, KEYS, State, bulk, name, ok};
use crate::value::Value;

/// Runs the commands in ARGV, each with the number of its words before it.
const RUN: &str = "local out, at = {}, 1 while at <= #ARGV do local n = tonumber(ARGV[at]) \
    out[#out + 1] = redis.CALL(unpack(ARGV, at + 1, at + n)) at = at + n + 1 end return out";
/// Writes first; then writes to a key whose name it makes of what it has read.
const UNDECLARED: &str = "local set = redis.call('SET', ARGV[1], ARGV[2]) \
    local read, sum = redis.call('GET', ARGV[3]), 0 \
    if read then for i = 1, #read do sum = sum + string.byte(read, i) end end \
    local got = redis.call('GETSET', 'key:' .. (sum % KEYS_), ARGV[4]) return {set, read, got}";

/// What a script says of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declares {
    /// That there are none.
    Nothing,
    /// The first of them.
    First,
    /// All that can be known before it runs.
    All,
}

/// Commands that are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// MULTI, these, EXEC.
    Together(Vec<Act>),
    /// A script that calls these.
    Script {
        /// What it calls.
        acts: Vec<Act>,
        /// What it says of its keys.
        declares: Declares,
        /// It ends at the first error; what it has done stays.
        stops: bool,
        /// Scripts that differ in this only have histories of their own at the server.
        edition: usize,
    },
    /// A script that sets a key, reads another, and makes the name of a third of what it has read.
    Undeclared {
        /// The key it sets.
        first: usize,
        /// To this.
        value: Vec<u8>,
        /// The key it reads.
        from: usize,
        /// What it writes to the third.
        second: Vec<u8>,
        /// What it says of its keys.
        declares: Declares,
        /// Tells two scripts with the same words apart.
        edition: usize,
    },
}

impl Program {
    /// Does it, and answers as the server should.
    pub fn apply(&self, state: &mut State, client: usize, db: usize) -> Value {
        match self {
            Program::Together(acts) => {
                if std::mem::take(&mut state.watches[client]).is_touched {
                    return Value::NilArray;
                }
                Value::Array(acts.iter().map(|act| state.apply(client, db, act)).collect())
            }
            Program::Script { acts, stops, .. } => {
                let mut out = Vec::new();
                for act in acts {
                    let answer = state.apply(client, db, act);
                    if *stops && matches!(answer, Value::Error(_)) {
                        return answer;
                    }
                    out.push(answer);
                }
                Value::Array(out)
            }
            Program::Undeclared { first, value, from, second, .. } => {
                state.apply(client, db, &Act::Set(*first, value.clone()));
                let read = state.values[db][*from].clone();
                let sum: usize = read.iter().flatten().map(|byte| usize::from(*byte)).sum();
                let got = state.apply(client, db, &Act::GetSet(sum % KEYS, second.clone()));
                Value::Array(vec![ok(), bulk(read), got])
            }
        }
    }

    /// What is to be compared of an answer: inside a script errors have other words, and there is
    /// one kind of nothing.
    pub fn seen(&self, answer: Value) -> Value {
        match (self, answer) {
            (Program::Together(acts), Value::Array(answers)) => {
                let seen = |(act, answer): (&Act, Value)| alike(act.seen(answer), false);
                Value::Array(acts.iter().zip(answers).map(seen).collect())
            }
            (Program::Together(_), answer) => answer,
            (_, answer) => alike(answer, true),
        }
    }

    /// The commands to send, and so the replies to come.
    pub fn requests(&self) -> Vec<Vec<Vec<u8>>> {
        match self {
            Program::Together(acts) => {
                let word = |text: &str| vec![text.as_bytes().to_vec()];
                let inner = acts.iter().map(Act::words);
                [word("MULTI")].into_iter().chain(inner).chain([word("EXEC")]).collect()
            }
            _ => vec![self.words()],
        }
    }

    /// As text for people; a script also as it is sent.
    pub fn words(&self) -> Vec<Vec<u8>> {
        match self {
            Program::Together(_) => {
                let mut words = Vec::new();
                for request in self.requests() {
                    words.extend(request);
                    words.push(b";".to_vec());
                }
                words
            }
            Program::Script { acts, declares, stops, edition } => {
                let mut words = Vec::new();
                for act in acts {
                    let inner = act.words();
                    words.push(inner.len().to_string().into_bytes());
                    words.extend(inner);
                }
                let text = RUN.replace("CALL", if *stops { "call" } else { "pcall" });
                eval(&text, *edition, declared(keys_of(acts), *declares), words)
            }
            Program::Undeclared { first, value, from, second, declares, edition } => {
                let key = |key: &usize| name(*key).into_bytes();
                let words = vec![key(first), value.clone(), key(from), second.clone()];
                let text = UNDECLARED.replace("KEYS_", &KEYS.to_string());
                eval(&text, *edition, declared(vec![key(first), key(from)], *declares), words)
            }
        }
    }
}

fn eval(text: &str, edition: usize, keys: Vec<Vec<u8>>, args: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let text = format!("{text} -- {edition}");
    let head = vec![b"EVAL".to_vec(), text.into_bytes(), keys.len().to_string().into_bytes()];
    [head, keys, args].concat()
}

fn declared(mut keys: Vec<Vec<u8>>, declares: Declares) -> Vec<Vec<u8>> {
    keys.truncate(match declares {
        Declares::Nothing => 0,
        Declares::First => 1,
        Declares::All => usize::MAX,
    });
    keys
}

/// The words that are names of keys.
fn keys_of(acts: &[Act]) -> Vec<Vec<u8>> {
    let is_key = |word: &Vec<u8>| {
        let kinds = ["key:", "list:", "zset:", "stream:", "large:"];
        kinds.iter().any(|kind| word.starts_with(kind.as_bytes()))
    };
    acts.iter().flat_map(Act::words).filter(is_key).collect()
}

fn alike(answer: Value, in_script: bool) -> Value {
    match answer {
        Value::NilArray => Value::Nil,
        Value::Error(_) if in_script => Value::Error(b"ERR".to_vec()),
        Value::Array(items) if in_script => {
            Value::Array(items.into_iter().map(|item| alike(item, true)).collect())
        }
        other => other,
    }
}

/// Whether a script may call it: nothing that may not wait, where the reference refuses that, and
/// nothing with almost as many words as Lua can hand over.
pub fn fits_script(act: &Act) -> bool {
    let is_long = matches!(act, Act::On(KindAct::Large(LargeAct::Fill(_) | LargeAct::Empty(_))));
    !is_long && !matches!(act, Act::On(KindAct::AwaitRead(..)) | Act::Watch(_) | Act::Unwatch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serial::model::error;

    fn text(value: &str) -> Vec<u8> {
        value.as_bytes().to_vec()
    }

    #[test]
    fn a_transaction_is_dropped_only_if_something_watched_was_touched() {
        let mut state = State::default();
        let together = Act::Program(Program::Together(vec![Act::Incr(0), Act::Get(1)]));
        let both = Value::Array(vec![Value::Int(1), Value::Nil]);
        state.apply(0, 0, &Act::Watch(vec![0]));
        assert_eq!(state.apply(0, 0, &together), both);
        state.apply(0, 0, &Act::Watch(vec![0]));
        state.apply(1, 0, &Act::Incr(0));
        assert_eq!(state.apply(0, 0, &together), Value::NilArray);
        assert_eq!(state.values[0][0], Some(text("2")));
        assert!(matches!(state.apply(0, 0, &together), Value::Array(_)), "watching has ended");
    }

    #[test]
    fn a_script_keeps_what_it_did_before_its_error() {
        let mut state = State::default();
        let acts = vec![Act::Set(0, text("x")), Act::Incr(0), Act::Set(1, text("y"))];
        let script = |stops| {
            Act::Program(Program::Script {
                acts: acts.clone(),
                declares: Declares::All,
                stops,
                edition: 0,
            })
        };
        assert!(matches!(state.apply(0, 0, &script(true)), Value::Error(_)));
        assert_eq!(state.values[0][..2], [Some(text("x")), None]);
        let seen = script(false).seen(state.apply(0, 0, &script(false)));
        assert_eq!(seen, Value::Array(vec![ok(), error("ERR"), ok()]));
    }

    #[test]
    fn a_wanderer_goes_where_the_data_leads() {
        let mut state = State::default();
        std::sync::Arc::make_mut(&mut state.values[0])[1] = Some(vec![7]);
        let undeclared = Program::Undeclared {
            first: 0,
            value: text("a"),
            from: 1,
            second: text("b"),
            declares: Declares::Nothing,
            edition: 3,
        };
        let answer = undeclared.apply(&mut state, 0, 0);
        assert_eq!(answer, Value::Array(vec![ok(), Value::Bulk(vec![7]), Value::Nil]));
        assert_eq!(state.values[0][7 % KEYS], Some(text("b")));
        assert_eq!(
            undeclared.words()[2..],
            [text("0"), text("key:0"), text("a"), text("key:1"), text("b")]
        );
    }
}
