//! The change of roles: from the moment on at which writes wait at the old server, until they are
//! taken at the new one.

use std::time::Duration;

use crate::server::{Ask, Move};

/// How often it is looked whether the new server has all.
const LOOK: Duration = Duration::from_millis(2);
/// So much of the pause is left for what comes after that look.
const RESERVE: Duration = Duration::from_millis(200);

/// Changes over.
///
/// # Errors
/// A text for the operator: the old server is written to, and the new one follows it; or the change
/// is done, and something after it failed, which the text says.
pub fn switch(of_all: &mut Move<'_>) -> Result<(), String> {
    let (host, port) = of_all.options.way_to_new()?;
    let began = of_all.clock.now();
    hold_writes(of_all.old, of_all.options.pause)?;
    let promoted = catch_up(of_all, began)
        .and_then(|()| of_all.new.ask(&["REPLICAOF", "NO", "ONE"]).map(drop));
    let Move { old, new: _, options, clock, say } = of_all;
    if let Err(why) = promoted {
        // Those who wait write to the old server again, at the latest when the pause is over.
        let _at_the_latest_then = old.ask(&["CLIENT", "UNPAUSE"]);
        return Err(format!("not changed over, the old server goes on: {why}"));
    }
    let held = clock.now() - began;
    say(format!(
        "{} takes writes; they were held for {} ms",
        options.new.place(),
        held.as_millis()
    ));
    // Before its clients go on: else what they write there would be lost.
    let follows = old.ask(&["REPLICAOF", &host, &port.to_string()]);
    let refuses = match &follows {
        Ok(_) => Ok(()),
        Err(_) => old.ask(&["CONFIG", "SET", "min-replicas-to-write", "1000000"]).map(drop),
    };
    if let Err(why) = refuses {
        return Err(format!(
            "the new server takes writes, but the old one could not be told to refuse them: {why}"
        ));
    }
    // The pause ends by itself, too.
    let _soon = old.ask(&["CLIENT", "UNPAUSE"]);
    say(match follows {
        Ok(_) => format!("{} follows {host}:{port} now, and refuses writes", options.old.place()),
        Err(_) => format!("{} refuses writes now (min-replicas-to-write)", options.old.place()),
    });
    Ok(())
}

/// Older servers can only hold everything.
fn hold_writes(old: &mut dyn Ask, pause: Duration) -> Result<(), String> {
    let ms = pause.as_millis().to_string();
    let held = old.ask(&["CLIENT", "PAUSE", &ms, "WRITE"]);
    held.or_else(|_| old.ask(&["CLIENT", "PAUSE", &ms])).map(drop)
}

/// Waits until the new server has all that the old one has said.
fn catch_up(
    Move { old, new, options, clock, .. }: &mut Move<'_>,
    began: Duration,
) -> Result<(), String> {
    let end = old.offset("master_repl_offset")?;
    loop {
        let has = new.offset("slave_repl_offset")?;
        if clock.now() - began + RESERVE > options.pause {
            let behind = end.saturating_sub(has);
            return Err(format!("it was {behind} bytes behind when the pause was nearly over"));
        }
        if has >= end {
            return Ok(());
        }
        clock.pause(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::server::Clock;
    use pantala_protocol::value::Value;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// What was said to whom; what is answered to what begins so.
    struct Fake {
        name: &'static str,
        said: Rc<RefCell<Vec<String>>>,
        fails: &'static str,
        offset: u64,
        /// The offset grows by so much with each look.
        step: u64,
    }

    impl Ask for Fake {
        fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
            let line = words.join(" ");
            if !line.starts_with("INFO") {
                self.said.borrow_mut().push(format!("{} {line}", self.name));
            } else {
                self.offset += self.step;
                let text = format!(
                    "master_repl_offset:{}\r\nslave_repl_offset:{}\r\n",
                    self.offset, self.offset
                );
                return Ok(Value::Bulk(text.into_bytes()));
            }
            if !self.fails.is_empty() && line.starts_with(self.fails) {
                return Err("no".into());
            }
            Ok(Value::Simple(b"OK".to_vec()))
        }
    }

    #[derive(Default)]
    struct Ticks(Duration);

    impl Clock for Ticks {
        fn now(&mut self) -> Duration {
            self.0 += Duration::from_millis(1);
            self.0
        }

        fn pause(&mut self, pause: Duration) {
            self.0 += pause;
        }
    }

    fn play(fails_old: &'static str, fails_new: &'static str, step: u64) -> (bool, Vec<String>) {
        let said = Rc::new(RefCell::new(Vec::new()));
        let fake =
            |name, fails, offset, step| Fake { name, said: Rc::clone(&said), fails, offset, step };
        let (mut old, mut new) =
            (fake("old", fails_old, 1000, 0), fake("new", fails_new, 900, step));
        let words = ["redis://a:1", "--to", "redis://b:2", "--switch"].map(str::to_owned);
        let options = Options::parse(&words, None).expect("sound");
        let done = switch(&mut Move {
            old: &mut old,
            new: &mut new,
            options: &options,
            clock: &mut Ticks::default(),
            say: &mut |_| {},
        });
        let said = said.borrow().clone();
        (done.is_ok(), said)
    }

    #[test]
    fn writes_are_held_until_the_new_server_has_all() {
        let (done, said) = play("", "", 10);
        assert!(done);
        let expected = [
            "old CLIENT PAUSE 5000 WRITE",
            "new REPLICAOF NO ONE",
            "old REPLICAOF b 2",
            "old CLIENT UNPAUSE",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn an_old_server_that_cannot_follow_refuses_writes() {
        let (done, said) = play("REPLICAOF", "", 10);
        assert!(done);
        assert_eq!(
            said[3..],
            ["old CONFIG SET min-replicas-to-write 1000000", "old CLIENT UNPAUSE"]
        );
    }

    #[test]
    fn who_does_not_catch_up_is_not_promoted() {
        let (done, said) = play("", "", 0);
        assert!(!done);
        assert_eq!(said, ["old CLIENT PAUSE 5000 WRITE", "old CLIENT UNPAUSE"]);
    }

    #[test]
    fn who_refuses_promotion_leaves_the_old_server_as_it_was() {
        let (done, said) = play("", "REPLICAOF", 10);
        assert!(!done);
        let expected =
            ["old CLIENT PAUSE 5000 WRITE", "new REPLICAOF NO ONE", "old CLIENT UNPAUSE"];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_server_that_knows_no_pause_of_writes_pauses_all() {
        let (_, said) = play("CLIENT PAUSE 5000 WRITE", "", 10);
        assert_eq!(said[1], "old CLIENT PAUSE 5000");
    }
}
