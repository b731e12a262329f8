//! How long a thread of this process was awake, according to the kernel's scheduler.
//!
//! A thread is awake while it runs, or would run if a core were free; so this is its demand, even
//! on a machine with other work. If the kernel keeps no such account, or hides /proc, it is only
//! the time on a core. The thread itself reads no clock for it, and any other thread may ask.
//!
//! An answer costs two or three system calls, so ask a few times per second at most. Tests: foot of
//! the file.

use std::path::{Path, PathBuf};

use crate::os::CoreClock;

/// Measures one thread.
#[derive(Clone, Debug)]
pub struct AwakeClock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The thread's `schedstat` in /proc.
    Account(PathBuf),
    /// A clock of its time on a core, without such a file.
    Core(CoreClock),
}

impl AwakeClock {
    /// The clock of the calling thread.
    pub fn of_this_thread() -> Option<AwakeClock> {
        // A kernel without the account may still have the file, with zeros.
        let is_kept = read(Path::new("/proc/self/schedstat")).is_some_and(|us| us > 0);
        let thread = std::fs::read_link("/proc/thread-self").ok().filter(|_| is_kept);
        let account = thread.map(|thread| {
            let path = Path::new("/proc").join(thread).join("schedstat");
            AwakeClock(Source::Account(path))
        });
        account.or_else(Self::of_core)
    }

    fn of_core() -> Option<AwakeClock> {
        CoreClock::of_this_thread().map(|clock| AwakeClock(Source::Core(clock)))
    }

    /// How long the thread was awake since it began, in microseconds. `None` when it has ended.
    pub fn awake_us(&self) -> Option<u64> {
        match &self.0 {
            Source::Account(path) => read(path),
            Source::Core(clock) => clock.us(),
        }
    }
}

fn read(path: &Path) -> Option<u64> {
    parse(&std::fs::read_to_string(path).ok()?)
}

/// "running waiting slices": nanoseconds on a core, nanoseconds ready for one, and a count.
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
        for make in [AwakeClock::of_this_thread, AwakeClock::of_core] {
            let (sender, receiver) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || {
                let clock = make().expect("one of them is there");
                let began = clock.awake_us();
                // Until the scheduler has updated its account, at each tick.
                while clock.awake_us() == began {}
                sender.send((clock, began)).expect("the test listens");
            });
            let (clock, began) = receiver.recv().expect("the thread tells");
            assert!(clock.awake_us().is_none_or(|now| Some(now) > began));
            thread.join().expect("it ends well");
            // The kernel may take a moment to bury it.
            while clock.awake_us().is_some() {
                std::thread::yield_now();
            }
        }
    }
}
