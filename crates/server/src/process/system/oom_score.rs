//! `oom-score-adj`: the kernel learns how readily it is to end this process when memory runs out,
//! and that a replica goes before its primary.
//!
//! 1. What the score was before is put back when the setting becomes `no`, and is what relative
//!    scores are added to until then.
//! 2. The file is opened before the process gives up rights (`confinement`), and stays open.
//!
//! Not here: a separate score for a process that saves, because threads of this process save.
//! Tests: at the foot; the bad day `oom_score`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use pantala_settings::Settings;
use pantala_settings::field::OomScoreAdj;
use parking_lot::{Mutex, MutexGuard};

use pantala_durability::place;

/// What the kernel takes.
const LOWEST: i32 = -1000;
const HIGHEST: i32 = 1000;

/// The score of this process.
pub struct OomScore {
    file: io::Result<File>,
    /// What it was, while it is set.
    before: Mutex<Option<i32>>,
}

impl OomScore {
    /// That of the process.
    pub fn of_process() -> OomScore {
        OomScore::at(Path::new("/proc/self/oom_score_adj"))
    }

    /// None: for a server that is not the process.
    pub fn none() -> OomScore {
        OomScore { file: Err(io::ErrorKind::Unsupported.into()), before: Mutex::default() }
    }

    fn at(path: &Path) -> OomScore {
        let file = OpenOptions::new().read(true).write(true).open(path);
        OomScore { file, before: Mutex::default() }
    }

    /// Sets it to what the settings say of the server's role, or puts back what it was. `now` tells
    /// both; of two that apply it the later one asks for what both have changed.
    ///
    /// # Errors
    /// The kernel refuses it; the log says why.
    pub fn apply(&self, now: impl FnOnce() -> (Arc<Settings>, bool)) -> Result<(), String> {
        let mut before = self.before();
        let (settings, is_replica) = now();
        self.set(&mut before, &settings, is_replica)
    }

    fn before(&self) -> MutexGuard<'_, Option<i32>> {
        self.before.lock()
    }

    fn set(
        &self,
        before: &mut Option<i32>,
        settings: &Settings,
        is_replica: bool,
    ) -> Result<(), String> {
        let values = settings.oom_score_adj_values;
        let value = if is_replica { values.replica } else { values.primary };
        let score = match (settings.oom_score_adj, *before) {
            (OomScoreAdj::No, None) => return Ok(()),
            (OomScoreAdj::No, Some(was)) => {
                *before = None;
                was
            }
            (mode, was) => {
                let was = match was {
                    Some(was) => was,
                    None => self.read().map_err(|why| failed("read", &why))?,
                };
                *before = Some(was);
                match mode {
                    OomScoreAdj::Absolute => value,
                    _ => value.saturating_add(was),
                }
            }
        };
        self.write(score.clamp(LOWEST, HIGHEST)).map_err(|why| failed("write", &why))
    }

    fn file(&self) -> io::Result<&File> {
        let again = |error: &io::Error| {
            error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
        };
        self.file.as_ref().map_err(again)
    }

    fn read(&self) -> io::Result<i32> {
        let mut bytes = [0; 16];
        let count = self.file()?.read_at(&mut bytes, 0)?;
        let text = std::str::from_utf8(&bytes[..count]).unwrap_or_default();
        text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn write(&self, score: i32) -> io::Result<()> {
        self.file()?.write_all_at(format!("{score}\n").as_bytes(), 0)
    }
}

/// Warns that values cannot take effect if the process lacks the rights: a process that saves, and
/// then a replica, should end first.
pub fn warn_of_values(settings: &Settings) {
    let values = settings.oom_score_adj_values;
    if values.replica < values.primary || values.saving < values.replica {
        tracing::warn!(
            "The oom-score-adj-values configuration may not work for non-privileged processes! \
             Please consult the documentation."
        );
    }
}

fn failed(what: &str, why: &io::Error) -> String {
    tracing::warn!("Unable to {what} oom_score_adj: {}", place::os_words(&why.to_string()));
    "Failed to set current oom_score_adj. Check server logs.".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A score that is a plain file.
    struct Kept(PathBuf);

    impl Kept {
        fn holding(name: &str, text: &str) -> Kept {
            let name = format!("pantala-oom-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).expect("writable");
            Kept(path)
        }

        fn now(&self) -> String {
            let text = std::fs::read_to_string(&self.0).expect("there");
            text.lines().next().unwrap_or_default().to_owned()
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            let _left = std::fs::remove_file(&self.0);
        }
    }

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().fold(Settings::defaults(), |settings, (name, value)| {
            settings.with(name, value).expect("allowed")
        })
    }

    #[test]
    fn score_follows_role_and_is_put_back() {
        let kept = Kept::holding("role", "7\n");
        let score = OomScore::at(&kept.0);
        let no = Settings::defaults();
        score.set(&mut score.before(), &no, false).expect("nothing to do");
        assert_eq!(kept.now(), "7");
        for word in ["yes", "relative"] {
            let relative =
                settings(&[("oom-score-adj", word), ("oom-score-adj-values", "10 20 30")]);
            score.set(&mut score.before(), &relative, false).expect("set");
            assert_eq!(kept.now(), "17", "{word}");
            score.set(&mut score.before(), &relative, true).expect("set");
            assert_eq!(kept.now(), "27", "added to what it was before, not to what it is");
            score.set(&mut score.before(), &no, true).expect("put back");
            assert_eq!(kept.now(), "7");
        }
        let absolute =
            settings(&[("oom-score-adj", "absolute"), ("oom-score-adj-values", "-9 1500 1600")]);
        score.set(&mut score.before(), &absolute, false).expect("set");
        assert_eq!(kept.now(), "-9");
        score.set(&mut score.before(), &absolute, true).expect("set");
        assert_eq!(kept.now(), "1000", "no more than the kernel takes");
    }

    #[test]
    fn refused_where_it_can_not_be_set() {
        let why = "Failed to set current oom_score_adj. Check server logs.";
        let yes = settings(&[("oom-score-adj", "yes")]);
        let (kept, nowhere) = (Kept::holding("odd", "no number"), Path::new("/nonexistent/score"));
        for score in [OomScore::at(nowhere), OomScore::at(&kept.0), OomScore::none()] {
            assert_eq!(score.set(&mut score.before(), &yes, false), Err(why.into()));
            score.set(&mut score.before(), &Settings::defaults(), false).expect("nothing was set");
        }
        assert_eq!(kept.now(), "no number");
    }
}
