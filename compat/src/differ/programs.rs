//! The input of a session of the differ: single commands, transactions, and scripts that call
//! several commands.
//!
//! 1. Commands in a transaction or a script come from the grammar, also corrupted ones.
//! 2. A script declares all keys that can exist, some, or none; the servers must answer the same.

use super::grammar::{AllowedDifference, Rule, Sent, key};
use super::random::Random;
use crate::pattern::Resp;

/// One of this many items of a session is a transaction.
const TRANSACTION_ONCE_IN: usize = 10;
/// One of this many items of a session is a script.
const SCRIPT_ONCE_IN: usize = 6;
/// The most commands in a transaction or script.
const MOST_COMMANDS: usize = 5;
/// The most keys that a script declares.
const MOST_KEYS: usize = 8;
/// Each script exists in this many variants, which a server cannot recognise as the same script.
const EDITIONS: usize = 20;

/// Lua code that runs the commands in its arguments. Each is preceded by its number of words; its
/// first word is `call` or `pcall`.
macro_rules! run {
    ($args:literal) => {
        concat!(
            "local out, at = {}, 1 while at <= #",
            $args,
            " do local n = tonumber(",
            $args,
            "[at]) local result = redis[",
            $args,
            "[at + 1]](unpack(",
            $args,
            ", at + 2, at + n)) if result == nil then result = 'nil' end ",
            "out[#out + 1] = result at = at + n + 1 end return out"
        )
    };
}

const SCRIPT: &str = run!("ARGV");

/// The library for FUNCTION LOAD: `run` and `look`; `look` only reads.
pub const LIBRARY: &str = concat!(
    "#!lua name=differ\nlocal function run(keys, args) ",
    run!("args"),
    " end redis.register_function('run', run) redis.register_function{function_name='look', \
     callback=run, flags={'no-writes'}}"
);

/// Commands that run scripts: the name, and for those that call a function the one of `LIBRARY`.
const SCRIPTS: [(&str, Option<&str>); 6] = [
    ("EVAL", None),
    ("EVAL", None),
    ("EVAL_RO", None),
    ("FCALL", Some("run")),
    ("FCALL", Some("look")),
    ("FCALL_RO", Some("look")),
];

/// Makes sessions.
pub struct Maker {
    rules: Vec<Rule>,
    scripts: Vec<(&'static str, Option<&'static str>)>,
    has_transactions: bool,
}

impl Maker {
    /// A maker for these commands; `is_wanted` says which of MULTI, EVAL and similar ones may be
    /// sent.
    pub fn new(rules: Vec<Rule>, is_wanted: &mut dyn FnMut(&str) -> bool) -> Maker {
        let has_transactions = is_wanted("MULTI");
        let scripts = SCRIPTS.into_iter().filter(|(name, _)| is_wanted(name)).collect();
        Maker { rules, scripts, has_transactions }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// A session of this many commands or a few more, not counting those in scripts.
    pub fn session(&self, count: usize, random: &mut Random, resp: Resp) -> Vec<Sent> {
        let mut all = Vec::new();
        while all.len() < count {
            if self.has_transactions && random.once_in(TRANSACTION_ONCE_IN) {
                self.transaction(random, resp, &mut all);
            } else {
                all.push(self.one(random, resp));
            }
        }
        all
    }

    fn command(&self, random: &mut Random) -> Sent {
        random.pick(&self.rules).generate(random)
    }

    fn one(&self, random: &mut Random, resp: Resp) -> Sent {
        if !self.scripts.is_empty() && random.once_in(SCRIPT_ONCE_IN) {
            return self.script(random, resp);
        }
        self.command(random)
    }

    fn transaction(&self, random: &mut Random, resp: Resp, all: &mut Vec<Sent>) {
        if random.once_in(2) {
            let keys = (0..1 + random.below(3)).map(|_| key(random));
            all.push(Sent::of(["WATCH".into()].into_iter().chain(keys)));
            for _ in 0..random.below(3) {
                all.push(self.one(random, resp));
            }
        }
        let word = |text: &str| Sent::of([text.into()]);
        all.push(word("MULTI"));
        for _ in 0..1 + random.below(MOST_COMMANDS) {
            all.push(self.one(random, resp));
        }
        let odd = ["DISCARD", "MULTI", "UNWATCH"];
        if random.once_in(8) {
            all.push(word(odd[random.below(odd.len())]));
        }
        all.push(word("EXEC"));
    }

    fn script(&self, random: &mut Random, resp: Resp) -> Sent {
        let (name, function) = *random.pick(&self.scripts);
        let is_three = resp == Resp::Three && function.is_none() && random.once_in(2);
        let head = if is_three { "redis.setresp(3) " } else { "" };
        let body = match function {
            Some(function) => function.to_string(),
            None => format!("{head}{SCRIPT} -- {}", random.below(EDITIONS)),
        };
        let keys: Vec<Vec<u8>> = match random.below(3) {
            0 => Vec::new(),
            _ => (0..random.below(MOST_KEYS)).map(|_| key(random)).collect(),
        };
        let mut args = vec![name.into(), body.into(), keys.len().to_string().into()];
        args.extend(keys);
        let mut calls = Vec::new();
        for _ in 0..1 + random.below(MOST_COMMANDS) {
            let mut command = self.command(random);
            let way: &[u8] = if random.once_in(4) { b"call" } else { b"pcall" };
            command.args.insert(0, way.to_vec());
            if is_three && command.slack == AllowedDifference::None {
                command.slack = AllowedDifference::Tables;
            }
            calls.push(command);
        }
        Sent { args, slack: AllowedDifference::None, calls }
    }
}

/// Follows a session to know the allowed differences of each answer, also those of EXEC.
#[derive(Default)]
pub struct Follower {
    queued: Vec<AllowedDifference>,
}

impl Follower {
    /// The allowed differences of the answer to the next command.
    pub fn slack(&mut self, sent: &Sent, answer: &crate::value::Value) -> AllowedDifference {
        if *answer == crate::value::Value::Simple(b"QUEUED".to_vec()) {
            self.queued.push(sent.slack());
            return AllowedDifference::None;
        }
        let is = |name: &str| sent.args[0].eq_ignore_ascii_case(name.as_bytes());
        if is("EXEC") {
            return AllowedDifference::Each(std::mem::take(&mut self.queued));
        }
        if is("MULTI") || is("DISCARD") {
            self.queued.clear();
        }
        sent.slack()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn an_answer_of_exec_has_the_slack_of_what_was_queued() {
        let queued = Value::Simple(b"QUEUED".to_vec());
        let mut follower = Follower::default();
        let command = |name: &str, slack| Sent { slack, ..Sent::of([name.as_bytes().to_vec()]) };
        assert_eq!(
            follower.slack(&command("TTL", AllowedDifference::Integer(2)), &queued),
            AllowedDifference::None
        );
        // A command that was refused has no answer in EXEC's.
        let refused = Value::Error(b"ERR".to_vec());
        follower.slack(&command("KEYS", AllowedDifference::Order), &refused);
        follower.slack(&command("GET", AllowedDifference::None), &queued);
        let each =
            AllowedDifference::Each(vec![AllowedDifference::Integer(2), AllowedDifference::None]);
        assert_eq!(follower.slack(&command("exec", AllowedDifference::None), &Value::Nil), each);
        follower.slack(&command("GET", AllowedDifference::None), &queued);
        follower.slack(&command("DISCARD", AllowedDifference::None), &Value::Nil);
        let none = AllowedDifference::Each(Vec::new());
        assert_eq!(follower.slack(&command("EXEC", AllowedDifference::None), &Value::Nil), none);
    }

    #[test]
    fn sessions_have_transactions_and_scripts_of_several_commands() {
        let rules = super::super::grammar::parse("GET key\nTTL key").expect("a grammar");
        let maker = Maker::new(rules.clone(), &mut |_| true);
        let session = maker.session(500, &mut Random::new(1), Resp::Three);
        let count = |name: &[u8]| session.iter().filter(|sent| sent.args[0] == name).count();
        for name in [&b"MULTI"[..], b"EXEC", b"WATCH", b"EVAL", b"EVAL_RO", b"FCALL", b"FCALL_RO"] {
            assert!(count(name) > 0, "{}", String::from_utf8_lossy(name));
        }
        assert!(session.iter().any(|sent| sent.calls.len() == MOST_COMMANDS));
        let plain = Maker::new(rules, &mut |_| false);
        let session = plain.session(500, &mut Random::new(1), Resp::Two);
        assert!(session.iter().all(|sent| sent.calls.is_empty() && sent.args[0] != b"MULTI"));
    }
}
