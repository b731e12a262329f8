//! Resource limits of this process: cores, memory, descriptors. Read from /proc and the
//! control-group file systems; every parser is a pure function over their text.
//!
//! 1. A missing or odd file limits nothing: the result is what the machine has.
//! 2. A control group is limited by itself and by each of its ancestors; the smallest limit counts.
//!
//! Not here: how the server uses them. Tests: foot of the file, on sample texts.

use std::path::{Path, PathBuf};

pub use crate::os::raise_fd_limit;

const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// A v1 limit at or above this means none (the kernel shows the largest page-aligned i64).
const NO_LIMIT_BYTES: u64 = 1 << 62;
const PAGE_BYTES: u64 = 4096;

/// Cores this process may run on: its affinity, limited by the control groups' CPU quota, rounded
/// up. At least 1.
pub fn available_cores() -> usize {
    let allowed = read("/proc/self/status").as_deref().and_then(cores_allowed);
    let fallback = || std::thread::available_parallelism().map_or(1, usize::from);
    let cores = allowed.unwrap_or_else(fallback);
    let quota = cgroup_limits(|dir, version| match version {
        Version::V2 => quota_v2(&read(dir.join("cpu.max"))?),
        Version::V1 => {
            quota_v1(&read(dir.join("cpu.cfs_quota_us"))?, &read(dir.join("cpu.cfs_period_us"))?)
        }
    });
    quota.map_or(cores, |quota| cores.min(quota)).max(1)
}

/// The lowest memory limit of this process's control groups, in bytes.
pub fn cgroup_memory_limit() -> Option<u64> {
    cgroup_limits(|dir, version| {
        let file = match version {
            Version::V2 => "memory.max",
            Version::V1 => "memory.limit_in_bytes",
        };
        memory_limit(&read(dir.join(file))?)
    })
}

/// The machine's memory in bytes; 0 when unknown.
pub fn total_memory() -> u64 {
    read("/proc/meminfo").as_deref().and_then(|text| kilobytes(text, "MemTotal:")).unwrap_or(0)
}

/// Resident memory of this process in bytes; 0 when unknown.
pub fn rss_bytes() -> u64 {
    read("/proc/self/statm").as_deref().and_then(resident_pages).unwrap_or(0) * page_bytes()
}

/// The kernel's page size, from the ELF auxiliary vector; 4,096 when that cannot be read.
fn page_bytes() -> u64 {
    static PAGE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *PAGE.get_or_init(|| {
        let vector = std::fs::read("/proc/self/auxv").unwrap_or_default();
        page_size(&vector).unwrap_or(PAGE_BYTES)
    })
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// The lowest limit that `limit` finds in this process's control groups and their ancestors.
fn cgroup_limits<T: Ord>(limit: impl Fn(&Path, Version) -> Option<T>) -> Option<T> {
    let membership = read("/proc/self/cgroup")?;
    memberships(&membership)
        .into_iter()
        .flat_map(|(version, mount, path)| {
            ancestors(&mount, &path).into_iter().map(move |dir| (dir, version))
        })
        .filter_map(|(dir, version)| limit(&dir, version))
        .min()
}

/// The lines of /proc/self/cgroup: version, mount point, path within it.
fn memberships(text: &str) -> Vec<(Version, PathBuf, String)> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let root = Path::new(CGROUP_ROOT);
            match controllers {
                "" => Some((Version::V2, root.to_path_buf(), path.to_owned())),
                _ => {
                    let wanted = controllers.split(',').any(|c| matches!(c, "memory" | "cpu"));
                    wanted.then(|| (Version::V1, root.join(controllers), path.to_owned()))
                }
            }
        })
        .collect()
}

/// The group's directory and its ancestors up to the mount point. A path that the mount does not
/// show (a container sees only its own part) is harmless: those files are missing.
fn ancestors(mount: &Path, path: &str) -> Vec<PathBuf> {
    let mut dirs = vec![mount.to_path_buf()];
    let mut dir = mount.to_path_buf();
    for part in path.split('/').filter(|part| !matches!(*part, "" | "." | "..")) {
        dir.push(part);
        dirs.push(dir.clone());
    }
    dirs
}

/// "max 100000" or "150000 100000": quota and period in microseconds. Cores, rounded up.
fn quota_v2(text: &str) -> Option<usize> {
    let (quota, period) = text.trim().split_once(' ')?;
    quota_v1(quota, period)
}

/// Quota (-1 is none) and period in microseconds. Cores, rounded up.
fn quota_v1(quota: &str, period: &str) -> Option<usize> {
    let quota: u64 = quota.trim().parse().ok()?;
    let period: u64 = period.trim().parse().ok()?;
    (period > 0).then(|| usize::try_from(quota.div_ceil(period)).unwrap_or(usize::MAX).max(1))
}

/// "max" or a number of bytes.
fn memory_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&bytes| bytes < NO_LIMIT_BYTES)
}

/// Cores in the list "0-3,8,10-11" of a process's status.
fn cores_allowed(status: &str) -> Option<usize> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cores = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        cores += last.checked_sub(first)?.checked_add(1)?;
    }
    (cores > 0).then_some(cores)
}

/// The value of `name` in a text of lines like "MemTotal:  16384 kB", in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The second field of statm.
fn resident_pages(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Pairs of words, key and value; 6 is the page size.
fn page_size(vector: &[u8]) -> Option<u64> {
    const AT_PAGESZ: usize = 6;
    let (words, _) = vector.as_chunks::<{ size_of::<usize>() }>();
    let (pairs, _) = words.as_chunks::<2>();
    let pair = pairs.iter().find(|pair| usize::from_ne_bytes(pair[0]) == AT_PAGESZ)?;
    Some(usize::from_ne_bytes(pair[1]) as u64).filter(|size| size.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity() {
        let status =
            |list: &str| format!("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{list}\n");
        assert_eq!(cores_allowed(&status("0-3")), Some(4));
        assert_eq!(cores_allowed(&status("0")), Some(1));
        assert_eq!(cores_allowed(&status("0-3,8,10-11")), Some(7));
        assert_eq!(cores_allowed(&status("")), None);
        assert_eq!(cores_allowed(&status("3-1")), None);
        assert_eq!(cores_allowed("Name:\tx\n"), None);
    }

    #[test]
    fn quotas_round_up() {
        assert_eq!(quota_v2("max 100000\n"), None);
        assert_eq!(quota_v2("150000 100000\n"), Some(2));
        assert_eq!(quota_v2("200000 100000\n"), Some(2));
        assert_eq!(quota_v2("1000 100000\n"), Some(1));
        assert_eq!(quota_v2(""), None);
        assert_eq!(quota_v1("-1\n", "100000\n"), None);
        assert_eq!(quota_v1("50000\n", "0\n"), None);
    }

    #[test]
    fn memory() {
        assert_eq!(memory_limit("max\n"), None);
        assert_eq!(memory_limit("536870912\n"), Some(512 << 20));
        assert_eq!(memory_limit("9223372036854771712\n"), None);
        let meminfo = "MemTotal:       24545448 kB\nMemFree:  1 kB\n";
        assert_eq!(kilobytes(meminfo, "MemTotal:"), Some(24_545_448 * 1024));
        assert_eq!(kilobytes(meminfo, "MemNone:"), None);
        assert_eq!(resident_pages("5000 1234 100 1 0 1 0\n"), Some(1234));
        assert_eq!(resident_pages(""), None);
    }

    #[test]
    fn groups_and_their_ancestors() {
        let found = memberships("12:cpu,cpuacct:/a\n5:pids:/x\n4:memory:/a/b\n0::/u:v/w\n");
        let versions: Vec<Version> = found.iter().map(|group| group.0).collect();
        assert_eq!(versions, [Version::V1, Version::V1, Version::V2]);
        assert_eq!(found[0].1, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        let dirs = ancestors(&found[2].1, &found[2].2);
        let expected = ["/sys/fs/cgroup", "/sys/fs/cgroup/u:v", "/sys/fs/cgroup/u:v/w"];
        assert_eq!(dirs, expected.map(PathBuf::from));
        assert_eq!(ancestors(Path::new("/m"), "/../..").len(), 1);
    }

    #[test]
    fn page_sizes() {
        let vector: Vec<u8> =
            [33usize, 7, 6, 65_536, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(page_size(&vector), Some(65_536));
        assert_eq!(page_size(&vector[..16]), None);
    }

    #[test]
    fn this_machine() {
        assert!(available_cores() >= 1);
        assert!(total_memory() > 1 << 20);
        assert!(rss_bytes() > PAGE_BYTES && rss_bytes() < total_memory());
        assert!(cgroup_memory_limit().is_none_or(|bytes| bytes > rss_bytes()));
    }
}
