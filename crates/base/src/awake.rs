//! How long a thread of this process was awake: told by the kernel's scheduler.
//!
//! Awake is who runs, or would if there were a core; so it is the demand of a thread, also on a
//! machine that has other things to do. The thread itself reads no clock for it. Another thread
//! may ask, whatever the one in question is doing.
//!
//! Costs two or three system calls: for looks that are a good part of a second apart. Tests: foot
//! of the file.

use std::path::PathBuf;

/// One thread, and where the kernel tells of it.
#[derive(Clone, Debug)]
pub struct AwakeClock(PathBuf);

impl AwakeClock {
    /// That of the calling thread; none where the system has no such file.
    pub fn of_this_thread() -> Option<AwakeClock> {
        let thread = std::fs::read_link("/proc/thread-self").ok()?;
        let clock = AwakeClock(PathBuf::from("/proc").join(thread).join("schedstat"));
        clock.awake_us().map(|_| clock)
    }

    /// For how long the thread has been awake since it began, in microseconds. None when it has
    /// ended.
    pub fn awake_us(&self) -> Option<u64> {
        parse(&std::fs::read_to_string(&self.0).ok()?)
    }
}

/// "running waiting slices": nanoseconds on a core, nanoseconds ready for one, and how often.
fn parse(text: &str) -> Option<u64> {
    let mut fields = text.split_ascii_whitespace();
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? + next()?) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_and_waiting_count_sleeping_does_not() {
        assert_eq!(parse("2000000 500999 17\n"), Some(2500));
        assert_eq!(parse(""), None);
        assert_eq!(parse("12"), None);
    }

    #[test]
    fn a_thread_is_asked_by_another_until_it_ends() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let clock = AwakeClock::of_this_thread();
            let began = clock.as_ref().and_then(AwakeClock::awake_us);
            // Until the scheduler has taken note: it does so at each tick.
            while clock.is_some() && clock.as_ref().and_then(AwakeClock::awake_us) == began {}
            sender.send(clock).expect("the test listens");
        });
        let clock = receiver.recv().expect("the thread tells");
        thread.join().expect("it ends well");
        // Some sandboxes have no such file.
        assert!(clock.is_none_or(|clock| clock.awake_us().is_none()));
    }
}
