//! The switch: from the moment at which writes are paused at the old server, until the new one
//! takes them.

use std::time::Duration;

use pantala_client::Value;

use crate::server::{CommandClient, MoveParties};

/// How often to check whether the new server has everything.
const LOOK: Duration = Duration::from_millis(2);
/// The time that must remain of the pause to extend it after that check.
const RESERVE: Duration = Duration::from_millis(200);
/// The length of the extended pause. Writes at the old server after the promotion would be lost,
/// and each of the following steps may take as long as a server may be silent: the promotion,
/// reconnecting, checking, asking again, the old server's reply.
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// The command that promotes. Repeating it is harmless.
const PROMOTION: [&str; 3] = ["REPLICAOF", "NO", "ONE"];
/// The command that makes a server refuse writes which must not be taken.
const REFUSAL: [&str; 4] = ["CONFIG", "SET", "min-replicas-to-write", "1000000"];

/// A pause of writes at the old server: from `began` on or a little later, for `length`.
struct Pause {
    began: Duration,
    length: Duration,
}

impl Pause {
    fn left(&self, now: Duration) -> Duration {
        (self.began + self.length).saturating_sub(now)
    }

    fn is_over(&self, now: Duration) -> bool {
        self.left(now).is_zero()
    }
}

/// Why the new server was not promoted, as far as known.
enum Failed {
    /// It surely was not promoted.
    Surely(String),
    /// It may be a primary, or become one later.
    Perhaps(String, Pause),
}

/// Checks whether a switch is possible, before anything changes.
///
/// # Errors
/// A text for the operator.
pub fn check(MoveParties { old, options, .. }: &mut MoveParties<'_>) -> Result<(), String> {
    options.way_to_new()?;
    // A pause of length zero. A server that cannot pause writes alone would pause this tool, too.
    let knows = old.ask(&["CLIENT", "PAUSE", "0", "WRITE"]).map(drop);
    knows.map_err(|why| {
        format!(
            "{why}: the old server cannot hold writes alone (Redis can from 6.2 on), so \
             --switch is not possible. Without it the new server follows; then end what writes \
             to the old one, and say REPLICAOF NO ONE to the new one"
        )
    })
}

/// Switches over.
///
/// # Errors
/// A text for the operator: the old server takes writes and the new one follows it; or the switch
/// is done, and something after it failed; or that is unknown. The text says which.
pub fn switch(of_all: &mut MoveParties<'_>) -> Result<(), String> {
    let (host, port) = of_all.options.way_to_new()?;
    let first = hold_writes(of_all, of_all.options.pause)?;
    let promoted = take_over(of_all, &first);
    let MoveParties { old, new: _, options, clock, say } = of_all;
    let pause = match promoted {
        Ok(pause) => pause,
        Err(Failed::Surely(why)) => {
            // Paused clients write to the old server again, at the latest when the pause is over.
            let _at_the_latest_then = old.ask(&["CLIENT", "UNPAUSE"]);
            return Err(format!("not changed over, the old server goes on: {why}"));
        }
        Err(Failed::Perhaps(why, pause)) => {
            let left_ms = pause.left(clock.now()).as_millis();
            return Err(format!(
                "it is not known whether the new server takes writes: {why}. At the old one they \
                 are held for {left_ms} ms more. Ask the new one for its ROLE: if it is a primary, \
                 say REPLICAOF {host} {port} to the old one; else CLIENT UNPAUSE"
            ));
        }
    };
    let now = clock.now();
    if pause.is_over(now) {
        return Err(keep_apart(*old));
    }
    let held_ms = (now - first.began).as_millis();
    say(format!("{} takes writes; they were held for {held_ms} ms", options.new.place()));
    // Before its clients continue: otherwise their writes there would be lost.
    let follows = ask_twice(*old, &["REPLICAOF", &host, &port.to_string()]);
    let refuses = if follows.is_ok() { Ok(()) } else { ask_twice(*old, &REFUSAL) };
    if let Err(why) = refuses {
        return Err(format!(
            "the new server takes writes, but the old one could not be told to refuse them: {why}"
        ));
    }
    if pause.is_over(clock.now()) {
        return Err(
            "the roles have changed, but so late that writes at the old server were held no \
                    more: what was written there in the last moment may be lost"
                .into(),
        );
    }
    // The pause ends by itself, too.
    let _soon = old.ask(&["CLIENT", "UNPAUSE"]);
    say(match follows {
        Ok(()) => format!("{} follows {host}:{port} now, and refuses writes", options.old.place()),
        Err(_) => format!("{} refuses writes now (min-replicas-to-write)", options.old.place()),
    });
    Ok(())
}

/// Pauses writes at the old server.
fn hold_writes(
    MoveParties { old, clock, .. }: &mut MoveParties<'_>,
    length: Duration,
) -> Result<Pause, String> {
    let pause = Pause { began: clock.now(), length };
    old.ask(&["CLIENT", "PAUSE", &length.as_millis().to_string(), "WRITE"])?;
    Ok(pause)
}

/// Promotes the new server once it has everything; returns the pause in force then.
fn take_over(of_all: &mut MoveParties<'_>, first: &Pause) -> Result<Pause, Failed> {
    catch_up(of_all, first).map_err(Failed::Surely)?;
    let length = of_all.options.pause.max(LAST_PAUSE);
    let pause = hold_writes(of_all, length).map_err(Failed::Surely)?;
    if first.is_over(of_all.clock.now()) {
        let why = "the pause was over before it was made longer";
        return Err(Failed::Surely(why.into()));
    }
    promote(of_all.new, pause)
}

/// Waits until the new server has everything that the old one has sent.
fn catch_up(
    MoveParties { old, new, clock, .. }: &mut MoveParties<'_>,
    pause: &Pause,
) -> Result<(), String> {
    let end = old.offset("master_repl_offset")?;
    loop {
        let has = new.offset("slave_repl_offset")?;
        if pause.left(clock.now()) < RESERVE {
            let behind = end.saturating_sub(has);
            return Err(format!("it was {behind} bytes behind when the pause was nearly over"));
        }
        if has >= end {
            return Ok(());
        }
        clock.pause(LOOK);
    }
}

/// Promotes the new server. After a lost reply it may be a primary, or become one when it processes
/// the command: then its role is checked, and the command repeated.
fn promote(new: &mut dyn CommandClient, pause: Pause) -> Result<Pause, Failed> {
    let Err(why) = new.ask(&PROMOTION) else { return Ok(pause) };
    if !new.is_lost() {
        return Err(Failed::Surely(why));
    }
    let again = new.reopen().and_then(|()| match is_primary(new)? {
        true => Ok(()),
        false => new.ask(&PROMOTION).map(drop),
    });
    match again {
        Ok(()) => Ok(pause),
        Err(again) => Err(Failed::Perhaps(format!("{why}; {again}"), pause)),
    }
}

fn is_primary(server: &mut dyn CommandClient) -> Result<bool, String> {
    match server.ask(&["ROLE"])? {
        Value::Array(fields) => Ok(fields.first() == Some(&Value::Bulk(b"master".to_vec()))),
        _ => Err("its answer to ROLE is none".into()),
    }
}

/// Sends an idempotent command, again if the reply is lost.
fn ask_twice(server: &mut dyn CommandClient, words: &[&str]) -> Result<(), String> {
    match server.ask(words) {
        Err(_) if server.is_lost() => {
            server.reopen()?;
            server.ask(words).map(drop)
        }
        answer => answer.map(drop),
    }
}

/// The new server takes writes, and the old one may have taken some since: it must not follow, or
/// those would be lost. Returns the text for the operator.
fn keep_apart(old: &mut dyn CommandClient) -> String {
    let refuses = match ask_twice(old, &REFUSAL) {
        Ok(()) => "it refuses writes now (min-replicas-to-write), and keeps what it has".into(),
        Err(why) => format!("it could not be told to refuse them: {why}"),
    };
    format!(
        "the new server takes writes, but so late that they were held no more at the old one: what \
         was written there since is only there; {refuses}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ImportOptions;
    use crate::server::Clock;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    /// The behaviour of a fake server for commands with a prefix.
    #[derive(Clone, Copy)]
    enum Does {
        /// It answers with an error.
        Refuses(&'static str),
        /// It runs the command, and the reply is lost; it can be reached again, or not.
        Loses(&'static str, bool),
        /// It takes this long.
        Takes(&'static str, Duration),
    }

    /// The received commands, and the replies.
    struct Fake {
        name: &'static str,
        said: Rc<RefCell<Vec<String>>>,
        now: Rc<Cell<Duration>>,
        does: Vec<Does>,
        /// As ROLE reports it.
        role: &'static str,
        offset: u64,
        /// By how much the offset grows with each check.
        step: u64,
        is_lost: bool,
        can_be_reached: bool,
    }

    impl Fake {
        fn answer(&mut self, line: &str) -> Result<Value, String> {
            for does in self.does.clone() {
                match does {
                    Does::Refuses(what) if line.starts_with(what) => return Err("no".into()),
                    Does::Loses(what, can_be_reached) if line.starts_with(what) => {
                        self.does.clear();
                        (self.is_lost, self.can_be_reached) = (true, can_be_reached);
                    }
                    Does::Takes(what, time) if line.starts_with(what) => {
                        self.now.set(self.now.get() + time);
                    }
                    _ => {}
                }
            }
            match (self.is_lost, line) {
                (true, _) => Err("lost".into()),
                (_, "ROLE") => Ok(Value::Array(vec![Value::Bulk(self.role.into())])),
                _ => Ok(Value::Simple(b"OK".to_vec())),
            }
        }
    }

    impl CommandClient for Fake {
        fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
            let line = words.join(" ");
            if line.starts_with("INFO") {
                self.offset += self.step;
                let text = format!(
                    "master_repl_offset:{}\r\nslave_repl_offset:{}\r\n",
                    self.offset, self.offset
                );
                return Ok(Value::Bulk(text.into_bytes()));
            }
            self.said.borrow_mut().push(format!("{} {line}", self.name));
            self.answer(&line)
        }

        fn is_lost(&self) -> bool {
            self.is_lost
        }

        fn reopen(&mut self) -> Result<(), String> {
            self.said.borrow_mut().push(format!("{} again", self.name));
            self.is_lost = !self.can_be_reached;
            if self.is_lost { Err("it is gone".into()) } else { Ok(()) }
        }
    }

    struct Ticks(Rc<Cell<Duration>>);

    impl Clock for Ticks {
        fn now(&mut self) -> Duration {
            self.pause(Duration::from_millis(1));
            self.0.get()
        }

        fn pause(&mut self, pause: Duration) {
            self.0.set(self.0.get() + pause);
        }
    }

    /// A switch, and the commands of it.
    struct Scene {
        old: Vec<Does>,
        new: Vec<Does>,
        role: &'static str,
        step: u64,
    }

    impl Default for Scene {
        fn default() -> Self {
            Scene { old: Vec::new(), new: Vec::new(), role: "slave", step: 10 }
        }
    }

    impl Scene {
        fn play(
            self,
            act: impl FnOnce(&mut MoveParties<'_>) -> Result<(), String>,
        ) -> (Result<(), String>, Vec<String>) {
            let (said, now) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::default()));
            let fake = |name, does, offset, step| Fake {
                name,
                said: Rc::clone(&said),
                now: Rc::clone(&now),
                does,
                role: self.role,
                offset,
                step,
                is_lost: false,
                can_be_reached: true,
            };
            let (mut old, mut new) =
                (fake("old", self.old, 1000, 0), fake("new", self.new, 900, self.step));
            let words = ["redis://a:1", "--to", "redis://b:2", "--switch"].map(str::to_owned);
            let options = ImportOptions::parse(&words, None).expect("sound");
            let done = act(&mut MoveParties {
                old: &mut old,
                new: &mut new,
                options: &options,
                clock: &mut Ticks(Rc::clone(&now)),
                say: &mut |_| {},
            });
            let said = said.borrow().clone();
            (done, said)
        }

        /// Checks that the switch fails with this text, after these commands.
        fn fails(self, text: &str, expected: &[&str]) {
            let (done, said) = self.play(switch);
            let why = done.expect_err("it fails");
            assert!(why.contains(text), "{why}");
            assert_eq!(said, expected);
        }

        fn ends(self, expected: &[&str]) {
            let (done, said) = self.play(switch);
            assert_eq!(done, Ok(()));
            assert_eq!(said, expected);
        }
    }

    const HELD: [&str; 3] =
        ["old CLIENT PAUSE 5000 WRITE", "old CLIENT PAUSE 30000 WRITE", "new REPLICAOF NO ONE"];

    fn after_held<'t>(more: &[&'t str]) -> Vec<&'t str> {
        HELD.iter().chain(more).copied().collect()
    }

    #[test]
    fn writes_are_held_until_the_new_server_has_all() {
        Scene::default().ends(&after_held(&["old REPLICAOF b 2", "old CLIENT UNPAUSE"]));
    }

    #[test]
    fn an_old_server_that_cannot_follow_refuses_writes() {
        let old = vec![Does::Refuses("REPLICAOF")];
        let refusal = "old CONFIG SET min-replicas-to-write 1000000";
        Scene { old, ..Scene::default() }.ends(&after_held(&[
            "old REPLICAOF b 2",
            refusal,
            "old CLIENT UNPAUSE",
        ]));
    }

    #[test]
    fn an_old_server_whose_answer_is_lost_is_told_again() {
        let old = vec![Does::Loses("REPLICAOF", true)];
        Scene { old, ..Scene::default() }.ends(&after_held(&[
            "old REPLICAOF b 2",
            "old again",
            "old REPLICAOF b 2",
            "old CLIENT UNPAUSE",
        ]));
    }

    #[test]
    fn who_does_not_catch_up_is_not_promoted() {
        let expected = ["old CLIENT PAUSE 5000 WRITE", "old CLIENT UNPAUSE"];
        Scene { step: 0, ..Scene::default() }.fails("nearly over", &expected);
    }

    #[test]
    fn who_refuses_promotion_leaves_the_old_server_as_it_was() {
        let new = vec![Does::Refuses("REPLICAOF")];
        let scene = Scene { new, ..Scene::default() };
        scene.fails("the old server goes on: no", &after_held(&["old CLIENT UNPAUSE"]));
    }

    #[test]
    fn a_promotion_may_take_longer_than_the_first_pause() {
        let new = vec![Does::Takes("REPLICAOF", Duration::from_secs(20))];
        let scene = Scene { new, ..Scene::default() };
        scene.ends(&after_held(&["old REPLICAOF b 2", "old CLIENT UNPAUSE"]));
    }

    #[test]
    fn nobody_is_promoted_after_a_gap_in_the_pause() {
        let old = vec![Does::Takes("CLIENT PAUSE 30000", Duration::from_secs(5))];
        let expected = [HELD[0], HELD[1], "old CLIENT UNPAUSE"];
        Scene { old, ..Scene::default() }.fails("before it was made longer", &expected);
    }

    #[test]
    fn an_old_server_that_may_have_been_written_to_does_not_follow() {
        let new = vec![Does::Takes("REPLICAOF", LAST_PAUSE)];
        let scene = Scene { new, ..Scene::default() };
        let expected = after_held(&["old CONFIG SET min-replicas-to-write 1000000"]);
        scene.fails("is only there; it refuses writes now", &expected);
    }

    #[test]
    fn an_end_after_the_pause_is_told() {
        let old = vec![Does::Takes("REPLICAOF", LAST_PAUSE)];
        let scene = Scene { old, ..Scene::default() };
        scene.fails("may be lost", &after_held(&["old REPLICAOF b 2"]));
    }

    #[test]
    fn a_promotion_whose_answer_is_lost_counts_if_it_was_done() {
        let new = || vec![Does::Loses("REPLICAOF", true)];
        let scene = Scene { new: new(), role: "master", ..Scene::default() };
        let (looks, ends) =
            (["new again", "new ROLE"], ["old REPLICAOF b 2", "old CLIENT UNPAUSE"]);
        scene.ends(&after_held(&[&looks[..], &ends[..]].concat()));
        // It may still become one: so it is told again.
        let scene = Scene { new: new(), ..Scene::default() };
        scene.ends(&after_held(&[&looks[..], &HELD[2..], &ends[..]].concat()));
    }

    #[test]
    fn while_nobody_knows_who_is_the_primary_writes_stay_held() {
        let new = vec![Does::Loses("REPLICAOF", false)];
        let scene = Scene { new, ..Scene::default() };
        scene.fails("it is not known", &after_held(&["new again"]));
    }

    #[test]
    fn a_server_that_can_only_hold_everything_is_refused_before_anything_is_changed() {
        let (done, _) = Scene::default().play(check);
        assert_eq!(done, Ok(()));
        let old = vec![Does::Refuses("CLIENT PAUSE 0 WRITE")];
        let (done, said) = Scene { old, ..Scene::default() }.play(check);
        assert!(done.is_err_and(|why| why.contains("cannot hold writes alone")));
        assert_eq!(said, ["old CLIENT PAUSE 0 WRITE"]);
    }
}
