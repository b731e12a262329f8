//! The same commands sent in another way: each wrapped into a transaction, called by a script, or
//! sent after all data was saved to a file and loaded again.
//!
//! ```text
//! multi       MULTI, the command, EXEC; its reply is the only element of EXEC's
//! lua         EVAL "return redis.call(unpack(ARGV))" 0 COMMAND..      (no key is declared)
//! lua-keys    the same with the keys that COMMAND GETKEYS names; EVAL_RO where it only reads
//! reload      as it is; before it another client sends DEBUG RELOAD: a save and a load between any
//!             two lines
//! ```
//!
//! Which commands are sent unwrapped follows from the reference's `COMMAND`: those that a
//! transaction or a script may not contain (`no_multi`, `noscript`), and those that may wait while
//! other clients act (`blocking`). Added by hand are commands that open or end transactions, and
//! those after which a connection no longer answers once for each command. Other commands that
//! answer differently when wrapped are not excluded: see `lockstep`.
//!
//! 1. A wrapped command always has exactly one reply.
//! 2. Replies are read when they are asked for, not when the command is sent: the event that the
//!    command waits for may come from another client.

use crate::client::{Connection, Fault, encode};
use crate::parse::{Act, Case};
use crate::pattern::Resp;
use crate::target::{Target, Tcp};
use crate::value::Value;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The ways to wrap commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Each command in a transaction.
    Multi,
    /// Each command in a script that declares no keys.
    Lua,
    /// Each command in a script that declares its keys.
    LuaKeys,
    /// No wrapping; all data is saved to a file and loaded before.
    Reload,
}

impl Inside {
    /// The way with this name on the command line.
    pub fn named(name: &str) -> Option<Inside> {
        match name {
            "multi" => Some(Inside::Multi),
            "lua" => Some(Inside::Lua),
            "lua-keys" => Some(Inside::LuaKeys),
            "reload" => Some(Inside::Reload),
            _ => None,
        }
    }
}

const CALL: &[u8] = b"return redis.call(unpack(ARGV))";
const CALL_RESP3: &[u8] = b"redis.setresp(3) return redis.call(unpack(ARGV))";

/// Commands that begin or end a transaction, or decide whether one runs.
const OF_TRANSACTIONS: [&str; 4] = ["multi", "exec", "discard", "watch"];
/// Commands of scripts: some scripts do not end, and functions stay from case to case.
const OF_SCRIPTS: [&str; 8] =
    ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro", "script", "function"];
/// After these a connection no longer answers once for each command.
const LAST_WRAPPED: [&str; 6] =
    ["subscribe", "psubscribe", "ssubscribe", "client|reply", "quit", "sync"];

/// The flags of each command of a server.
pub struct Table(BTreeMap<String, Vec<String>>);

impl Table {
    /// Asks the servers at these addresses. The flags come from the first that knows a command.
    pub fn of(addresses: [&str; 2]) -> Result<Table, Fault> {
        let mut table = Table(BTreeMap::new());
        for address in addresses {
            let mut connection = Connection::open(address, Resp::Two)?;
            if let Value::Array(rows) = connection.command(&["COMMAND"])? {
                rows.iter().for_each(|row| table.add(row));
            }
        }
        Ok(table)
    }

    fn add(&mut self, row: &Value) {
        let Value::Array(fields) = row else { return };
        let (Some(name), Some(Value::Array(flags))) =
            (fields.first().and_then(text), fields.get(2))
        else {
            return;
        };
        let flags = || flags.iter().filter_map(text).collect();
        self.0.entry(name.to_ascii_lowercase()).or_insert_with(flags);
        if let Some(Value::Array(inner)) = fields.get(9) {
            inner.iter().for_each(|row| self.add(row));
        }
    }

    /// The full name of a command, and whether it has a flag.
    fn find(&self, args: &[Vec<u8>], flag: &str) -> (String, bool) {
        let word =
            |at: usize| args.get(at).map(|arg| String::from_utf8_lossy(arg).to_ascii_lowercase());
        let name = word(0).unwrap_or_default();
        let full = format!("{name}|{}", word(1).unwrap_or_default());
        let name = if self.0.contains_key(&full) { full } else { name };
        let has = self.0.get(&name).is_some_and(|flags| flags.iter().any(|each| each == flag));
        (name, has)
    }
}

/// Why a case makes no sense when its commands are wrapped.
pub fn unfit(case: &Case, inside: Inside) -> Option<String> {
    let sends = |words: &[&str]| {
        case.steps.iter().any(|step| match &step.act {
            Act::Send(send) if send.args.len() >= words.len() => words
                .iter()
                .zip(&send.args)
                .all(|(word, arg)| arg.eq_ignore_ascii_case(word.as_bytes())),
            _ => false,
        })
    };
    if inside == Inside::Reload {
        if let Some(reason) = &case.no_reload {
            return Some(reason.clone());
        }
        let holds_up = [&["client", "pause"][..], &["script", "kill"], &["function", "kill"]];
        let is_lost = [&["stick"][..], &["client", "kill"]];
        return if holds_up.iter().any(|words| sends(words)) {
            Some("a save would wait".into())
        } else {
            let is_lost = is_lost.iter().any(|words| sends(words));
            is_lost.then(|| "a file does not hold it, or nobody is left to ask for it".into())
        };
    }
    let no_scripts = case.no_scripts.as_ref().filter(|_| inside != Inside::Multi);
    if let Some(reason) = case.alone.as_ref().or(no_scripts) {
        return Some(reason.clone());
    }
    if OF_SCRIPTS.iter().any(|name| sends(&[name])) {
        return Some("about scripts themselves".into());
    }
    if sends(&["monitor"]) {
        return Some("MONITOR shows the wrapping".into());
    }
    let is_stopped = inside != Inside::Multi && sends(&["client", "pause"]);
    is_stopped.then(|| "a pause of writes stops every script".into())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(text) | Value::Simple(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// A target whose clients wrap the commands they send.
pub struct Wrapped {
    tcp: Tcp,
    inside: Inside,
    /// The reference's table, used for both servers: they must wrap in the same way.
    table: Rc<Table>,
    /// A connection to a separate reference that no case kills, to ask it for keys.
    guide: Connection,
    resp: Resp,
    is_crowded: bool,
    /// The last command may not have been processed yet.
    may_wait: bool,
    clients: BTreeMap<String, Client>,
}

#[derive(Default)]
struct Client {
    /// Commands are not wrapped any more.
    is_plain: bool,
    /// Between the MULTI and the EXEC of the case itself.
    in_transaction: bool,
    resp3: bool,
    /// The number of transactions whose replies were neither read nor asked for.
    passed_over: usize,
    /// There is a transaction whose reply must be read.
    is_awaited: bool,
    /// Pushes that arrived in between.
    pushes: VecDeque<Value>,
}

impl Wrapped {
    /// Wraps commands sent to `tcp`; a reference that no case is played against is at `guide`.
    pub fn new(tcp: Tcp, inside: Inside, table: Rc<Table>, guide: &str) -> Result<Wrapped, Fault> {
        let guide = Connection::open(guide, Resp::Two)?;
        let (resp, clients) = (Resp::Two, BTreeMap::new());
        Ok(Wrapped { tcp, inside, table, guide, resp, is_crowded: false, may_wait: false, clients })
    }

    fn state(&mut self, client: &str) -> &mut Client {
        let resp3 = self.resp == Resp::Three;
        let new = || Client { resp3, ..Client::default() };
        self.clients.entry(client.to_string()).or_insert_with(new)
    }

    /// Whether to wrap this command; also records the state that it changes.
    fn wraps(&mut self, client: &str, args: &[Vec<u8>]) -> bool {
        let table = Rc::clone(&self.table);
        let barred = if self.inside == Inside::Multi { "no_multi" } else { "noscript" };
        let (name, is_barred) = table.find(args, barred);
        let waits = self.is_crowded && table.find(args, "blocking").1;
        let state = self.state(client);
        match (name.as_str(), args.get(1).map(Vec::as_slice)) {
            ("hello", Some(version)) => state.resp3 = version == b"3",
            ("reset", _) => state.resp3 = false,
            _ => {}
        }
        let was_in_transaction = state.in_transaction;
        match name.as_str() {
            "multi" => state.in_transaction = true,
            "exec" | "discard" | "reset" => state.in_transaction = false,
            _ => {}
        }
        state.is_plain |= LAST_WRAPPED.contains(&name.as_str());
        let is_of_transactions = OF_TRANSACTIONS.contains(&name.as_str());
        !(state.is_plain || was_in_transaction || is_of_transactions || is_barred || waits)
    }

    fn as_script(&mut self, client: &str, args: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let script = if self.state(client).resp3 { CALL_RESP3 } else { CALL };
        let mut keys = Vec::new();
        if self.inside == Inside::LuaKeys {
            let mut ask = vec![b"COMMAND".to_vec(), b"GETKEYS".to_vec()];
            ask.extend_from_slice(args);
            self.guide.send(&encode(&ask));
            if let Ok(Value::Array(found)) = self.guide.receive() {
                keys.extend(found.into_iter().filter_map(|key| match key {
                    Value::Bulk(key) => Some(key),
                    _ => None,
                }));
            }
        }
        let only_reads = self.inside == Inside::LuaKeys && self.table.find(args, "readonly").1;
        let name = if only_reads { b"EVAL_RO".to_vec() } else { b"EVAL".to_vec() };
        let mut wrapped = vec![name, script.to_vec(), keys.len().to_string().into()];
        wrapped.extend(keys);
        wrapped.extend_from_slice(args);
        wrapped
    }

    /// The next reply that is not a push.
    fn next(&mut self, client: &str) -> Result<Value, Fault> {
        loop {
            match self.tcp.receive(client)? {
                push @ Value::Push(_) => self.state(client).pushes.push_back(push),
                value => return Ok(value),
            }
        }
    }

    /// The reply of the only command in a transaction.
    fn unwrapped(&mut self, client: &str) -> Result<Value, Fault> {
        let opened = self.next(client)?;
        let queued = self.next(client)?;
        let done = self.next(client)?;
        if opened != Value::Simple(b"OK".to_vec()) {
            // The command was not allowed in a transaction, so it has been executed without one.
            return Ok(queued);
        }
        match (queued, done) {
            (Value::Simple(word), Value::Array(mut items))
                if word == b"QUEUED" && items.len() == 1 =>
            {
                Ok(items.remove(0))
            }
            (error @ Value::Error(_), Value::Error(done)) if done.starts_with(b"EXECABORT") => {
                Ok(error)
            }
            (_, done) => Ok(done),
        }
    }

    fn catch_up(&mut self, client: &str) -> Result<(), Fault> {
        while self.state(client).passed_over > 0 {
            self.unwrapped(client)?;
            self.state(client).passed_over -= 1;
        }
        Ok(())
    }
}

impl Target for Wrapped {
    fn begin(&mut self, case: &Case, resp: Resp) -> Result<(), Fault> {
        self.clients.clear();
        self.may_wait = false;
        self.resp = resp;
        let acts = case.steps.iter().filter(|step| !matches!(step.act, Act::Expect(_)));
        let mut names: Vec<&str> = acts.map(|step| step.client.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        self.is_crowded = names.len() > 1;
        self.tcp.begin(case, resp)
    }

    fn send(&mut self, client: &str, args: &[Vec<u8>]) -> Result<(), Fault> {
        if self.inside == Inside::Reload {
            // With INFO a case waits for a command that was just sent and finds no data while they
            // are being loaded.
            let is_info = args.first().is_some_and(|name| name.eq_ignore_ascii_case(b"info"));
            let waits = self.table.find(args, "blocking").1;
            let may_wait = self.may_wait;
            self.may_wait = waits || is_info && may_wait;
            if !is_info && !may_wait {
                self.tcp.operate(&["DEBUG", "RELOAD"])?;
            }
            return self.tcp.send(client, args);
        }
        let state = self.state(client);
        state.passed_over += usize::from(std::mem::take(&mut state.is_awaited));
        if !self.wraps(client, args) {
            return self.tcp.send(client, args);
        }
        if self.inside != Inside::Multi {
            let script = self.as_script(client, args);
            return self.tcp.send(client, &script);
        }
        self.state(client).is_awaited = true;
        let mut bytes = encode(&[b"MULTI".to_vec()]);
        bytes.extend(encode(args));
        bytes.extend(encode(&[b"EXEC".to_vec()]));
        self.tcp.send_bytes(client, &bytes)
    }

    fn send_bytes(&mut self, client: &str, bytes: &[u8]) -> Result<(), Fault> {
        let state = self.state(client);
        state.passed_over += usize::from(std::mem::take(&mut state.is_awaited));
        self.tcp.send_bytes(client, bytes)
    }

    fn receive(&mut self, client: &str) -> Result<Value, Fault> {
        self.catch_up(client)?;
        if std::mem::take(&mut self.state(client).is_awaited) {
            return self.unwrapped(client);
        }
        match self.state(client).pushes.pop_front() {
            Some(push) => Ok(push),
            None => self.tcp.receive(client),
        }
    }

    fn receive_bytes(&mut self, client: &str, count: usize) -> Result<Vec<u8>, Fault> {
        self.catch_up(client)?;
        self.tcp.receive_bytes(client, count)
    }

    fn unread(&mut self, client: &str) -> Option<Value> {
        // Replies that were not asked for may still arrive.
        let state = self.state(client);
        if state.is_awaited || state.passed_over > 0 {
            return None;
        }
        state.pushes.pop_front().or_else(|| self.tcp.unread(client))
    }
}
