//! Warnings about unusual settings of the machine: logged once at the start, each with a remedy.
//!
//! Not here: limits that are too low for the settings (`limits`), and the available memory
//! (`pantala_base::limits`). Tests: at the foot, on sample texts.

use pantala_base::size::human;
use pantala_settings::Settings;
use pantala_settings::field::IoEngine;

/// Reads a file of the system, if it is there.
pub type Read<'r> = &'r dyn Fn(&str) -> Option<String>;

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const SWAPS: &str = "/proc/swaps";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const IO_URING: &str = "/proc/sys/kernel/io_uring_disabled";

/// Clock sources that are read without a system call.
const QUICK_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];
/// A `vm.swappiness` from which on data that is not used for a while is swapped out.
const EAGER_SWAPPINESS: u64 = 10;

/// The cores and the memory that this process may use.
pub struct Share {
    /// By its affinity and its control groups.
    pub cores: usize,
    /// The memory limit of its control groups, in bytes.
    pub memory_limit: Option<u64>,
}

impl Share {
    /// The share of this process.
    pub fn of_this() -> Share {
        let memory_limit = pantala_base::limits::cgroup_memory_limit();
        Share { cores: pantala_base::limits::available_cores(), memory_limit }
    }
}

/// Logs what is unusual.
pub fn warn(settings: &Settings) {
    for finding in findings_now(settings) {
        tracing::warn!("host: {finding}");
    }
}

/// What is unusual at this moment, each a sentence or two.
pub fn findings_now(settings: &Settings) -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    findings(settings, &Share::of_this(), &read)
}

fn findings(settings: &Settings, share: &Share, read: Read<'_>) -> Vec<String> {
    let found =
        [huge_pages(read), overcommit(read), clock(read), swap(read), cores(settings, share)];
    found.into_iter().flatten().chain(memory(settings, share)).collect()
}

fn huge_pages(read: Read<'_>) -> Option<String> {
    let is_always = read(HUGE_PAGES)?.contains("[always]");
    is_always.then(|| {
        format!(
            "transparent huge pages are always on: memory that is free again may stay with the \
             process, and pages are made at bad moments. Write madvise to {HUGE_PAGES}."
        )
    })
}

/// The server never forks, so a kernel that promises more memory than there is does no harm; one
/// that never does (mode 2) is reported.
fn overcommit(read: Read<'_>) -> Option<String> {
    let is_strict = read(OVERCOMMIT)?.trim() == "2";
    is_strict.then(|| {
        format!(
            "the kernel promises no more memory than there is ({OVERCOMMIT} is 2): the server may \
             run out of it while much is free. Set vm.overcommit_memory to 1 or 0."
        )
    })
}

fn clock(read: Read<'_>) -> Option<String> {
    let clock = read(CLOCK)?;
    let clock = clock.trim();
    (!QUICK_CLOCKS.contains(&clock)).then(|| {
        format!(
            "the clock of this machine ({clock}) is read by a system call, each time: timing \
             commands costs more than elsewhere."
        )
    })
}

fn swap(read: Read<'_>) -> Option<String> {
    // The first line is a heading.
    let has_swap = read(SWAPS)?.lines().count() > 1;
    let eagerness: u64 = read(SWAPPINESS)?.trim().parse().ok()?;
    (has_swap && eagerness > EAGER_SWAPPINESS).then(|| {
        format!(
            "there is swap, and vm.swappiness is {eagerness}: data that nobody uses for a while \
             may go to disk, and take milliseconds to come back. Set it to 1, or turn swap off."
        )
    })
}

fn cores(settings: &Settings, share: &Share) -> Option<String> {
    let (workers, cores) = (settings.worker_count(), share.cores);
    (workers > cores).then(|| {
        format!(
            "there are {workers} workers, and cores for {cores}: they get in each other's way. Set \
             threads to {cores}, or to auto."
        )
    })
}

fn memory(settings: &Settings, share: &Share) -> Option<String> {
    let (limit, most) = (share.memory_limit?, settings.memory_limit());
    let why = match most {
        0 => "maxmemory is not set".to_owned(),
        _ if most > limit / 10 * 9 => format!("maxmemory is {}", human(most)),
        _ => return None,
    };
    let limit = human(limit);
    Some(format!(
        "the control group ends the process above {limit}, and {why}: set it to nine tenths of \
         that at most, or turn cache_mode on."
    ))
}

/// Why the event loop is epoll although io_uring was not declined.
pub fn missing_io_uring(settings: &Settings, engine: &str) -> Option<String> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let is_missing = settings.io_engine == IoEngine::Auto && engine.starts_with("epoll");
    is_missing.then(|| why_no_io_uring(&read))
}

fn why_no_io_uring(read: Read<'_>) -> String {
    let why = match read(IO_URING).as_deref().map(str::trim) {
        Some("1") => "kernel.io_uring_disabled is 1: only privileged processes may",
        Some("2") => "kernel.io_uring_disabled is 2: nobody may",
        _ => "the kernel is too old, or the container's profile of system calls forbids it",
    };
    format!("io_uring is not to be had ({why}). The server uses epoll, which costs it some speed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Share = Share { cores: 4, memory_limit: None };

    fn settings(threads: usize, maxmemory: u64) -> Settings {
        let mut settings = Settings::defaults();
        (settings.threads, settings.maxmemory) = (threads, maxmemory);
        settings
    }

    fn check(files: &[(&str, &str)], share: &Share, settings: &Settings, expected: &[&str]) {
        let read = |path: &str| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        let found = findings(settings, share, &read);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (finding, part) in found.iter().zip(expected) {
            assert!(finding.contains(part), "{finding}");
        }
    }

    #[test]
    fn nothing_is_said_of_what_is_usual() {
        let usual = [
            (HUGE_PAGES, "always [madvise] never\n"),
            (OVERCOMMIT, "0\n"),
            (CLOCK, "tsc\n"),
            (SWAPS, "Filename Type Size Used Priority\n"),
            (SWAPPINESS, "60\n"),
        ];
        check(&usual, &SHARE, &settings(4, 0), &[]);
        check(&[], &SHARE, &settings(1, 0), &[]);
        let limited = Share { cores: 4, memory_limit: Some(1 << 30) };
        check(&[], &limited, &settings(1, 900 << 20), &[]);
    }

    #[test]
    fn what_is_unusual_is_said() {
        let unusual = [
            (HUGE_PAGES, "[always] madvise never\n"),
            (OVERCOMMIT, "2\n"),
            (CLOCK, "hpet\n"),
            (SWAPS, "Filename Type Size Used Priority\n/swap file 8388604 0 -2\n"),
            (SWAPPINESS, "60\n"),
        ];
        let limited = Share { cores: 4, memory_limit: Some(1 << 30) };
        let expected =
            ["huge pages", "overcommit", "(hpet)", "swappiness is 60", "for 4", "maxmemory is not"];
        check(&unusual, &limited, &settings(5, 0), &expected);
        check(&[], &limited, &settings(1, 1 << 30), &["maxmemory is 1.00G"]);
    }

    #[test]
    fn it_is_said_why_there_is_no_io_uring() {
        let why = |text: &str| {
            let text = text.to_owned();
            why_no_io_uring(&move |_| Some(text.clone()))
        };
        assert!(why("2\n").contains("disabled is 2") && why("0\n").contains("too old"));
    }
}
