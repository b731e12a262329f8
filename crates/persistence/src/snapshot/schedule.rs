//! When a snapshot is due: save points, times of day, a cron line. Time is an argument; UTC.
//!
//! Tests: at the foot.

use chrono::{DateTime, Utc};
use croner::Cron;
use pantala_base::glob;
use pantala_settings::Settings;

/// How many seconds save points wait after a failed snapshot.
const RETRY_S: i64 = 5;

/// The input of save points at some moment.
#[derive(Clone, Copy, Debug)]
pub struct SavePointCounts {
    /// When the last good snapshot began, or the server (Unix, seconds).
    pub last_good_s: i64,
    /// When the last failed snapshot ended, if no good one followed.
    pub last_failed_s: Option<i64>,
    /// How many changes there were since the last good snapshot.
    pub changes: u64,
}

/// Why a snapshot is due, in words.
pub type Cause = String;

/// When the next snapshot is due, by save points, times of day and a cron line.
pub struct Schedule {
    save: pantala_settings::field::SavePoints,
    times: String,
    cron: Option<Cron>,
    /// The last minute that was checked.
    minute: i64,
    /// The next time by the cron line (Unix, seconds).
    next_s: Option<i64>,
}

impl Schedule {
    /// A schedule by the settings, from now (Unix, seconds) on.
    pub fn new(settings: &Settings, now_s: i64) -> Schedule {
        let cron = settings.snapshot_cron.parse().ok();
        let next_s = cron.as_ref().and_then(|cron| after(cron, now_s));
        Schedule {
            save: settings.save.clone(),
            times: settings.save_schedule.clone(),
            cron,
            minute: now_s.div_euclid(60),
            next_s,
        }
    }

    /// Whether a snapshot can ever be due: only then is it worth asking each second.
    pub fn has_any(&self) -> bool {
        !self.save.0.is_empty() || !self.times.is_empty() || self.cron.is_some()
    }

    /// Whether a snapshot is due now (Unix, seconds), and why.
    pub fn is_due(&mut self, now_s: i64, since: SavePointCounts) -> Option<Cause> {
        // All are asked, so that each notes the time.
        let by_time = self.by_time(now_s);
        let by_cron = self.by_cron(now_s);
        by_time.or(by_cron).or_else(|| self.by_changes(now_s, since))
    }

    fn by_changes(&self, now_s: i64, since: SavePointCounts) -> Option<Cause> {
        if since.last_failed_s.is_some_and(|failed_s| now_s - failed_s <= RETRY_S) {
            return None;
        }
        let passed_s = now_s - since.last_good_s;
        let is_due = |point: &&pantala_settings::field::SavePoint| {
            since.changes >= u64::from(point.changes) && passed_s > i64::from(point.seconds)
        };
        let point = self.save.0.iter().find(is_due)?;
        Some(format!("{} changes in {} seconds", point.changes, point.seconds))
    }

    fn by_time(&mut self, now_s: i64) -> Option<Cause> {
        let minute = now_s.div_euclid(60);
        if self.times.is_empty() || minute == self.minute {
            return None;
        }
        self.minute = minute;
        let of_day = minute.rem_euclid(24 * 60);
        let text = format!("{:02}:{:02}", of_day / 60, of_day % 60);
        let is_one = glob::matches(self.times.as_bytes(), text.as_bytes());
        is_one.then(|| format!("it is {text}"))
    }

    fn by_cron(&mut self, now_s: i64) -> Option<Cause> {
        self.next_s.filter(|next_s| *next_s <= now_s)?;
        self.next_s = self.cron.as_ref().and_then(|cron| after(cron, now_s));
        Some("snapshot_cron says so".into())
    }
}

/// The first time of a cron line after this one.
fn after(cron: &Cron, now_s: i64) -> Option<i64> {
    let now: DateTime<Utc> = DateTime::from_timestamp(now_s, 0)?;
    let next = cron.find_next_occurrence(&now, false).ok()?;
    Some(next.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22 17:35:03.
    const NOW_S: i64 = 1_795_368_903;

    fn schedule(settings: &[(&str, &str)]) -> Schedule {
        let mut all = Settings::defaults().with("save", "").expect("a setting");
        for (name, value) in settings {
            all = all.with(name, value).expect("a setting");
        }
        Schedule::new(&all, NOW_S)
    }

    const NOTHING: SavePointCounts =
        SavePointCounts { last_good_s: NOW_S, last_failed_s: None, changes: 0 };

    #[test]
    fn nothing_is_ever_due_without_settings() {
        assert!(!schedule(&[]).has_any());
        assert_eq!(schedule(&[]).is_due(NOW_S + 1_000_000, NOTHING), None);
    }

    #[test]
    fn save_points_ask_for_time_and_changes() {
        let mut schedule = schedule(&[("save", "60 10 5 1000")]);
        assert!(schedule.has_any());
        for (passed_s, changes, is_due) in [
            (59, 10, false),
            (60, 10, false),
            (61, 10, true),
            (61, 9, false),
            (6, 1000, true),
            (6, 999, false),
        ] {
            let since = SavePointCounts { changes, ..NOTHING };
            let due = schedule.is_due(NOW_S + passed_s, since);
            assert_eq!(due.is_some(), is_due, "{passed_s} {changes}");
        }
        let failed = SavePointCounts { last_failed_s: Some(NOW_S + 100), changes: 10, ..NOTHING };
        assert_eq!(schedule.is_due(NOW_S + 105, failed), None);
        assert!(schedule.is_due(NOW_S + 106, failed).is_some());
    }

    #[test]
    fn a_time_of_day_comes_once() {
        let mut schedule = schedule(&[("save_schedule", "*:36")]);
        assert_eq!(schedule.is_due(NOW_S + 56, NOTHING), None);
        assert!(schedule.is_due(NOW_S + 57, NOTHING).is_some());
        assert_eq!(schedule.is_due(NOW_S + 58, NOTHING), None);
        assert_eq!(schedule.is_due(NOW_S + 57 + 60, NOTHING), None);
        assert!(schedule.is_due(NOW_S + 57 + 3600, NOTHING).is_some());
    }

    #[test]
    fn a_cron_line_tells_the_next_moment() {
        let mut schedule = schedule(&[("snapshot_cron", "*/10 * * * *")]);
        assert_eq!(schedule.is_due(NOW_S + 296, NOTHING), None);
        assert!(schedule.is_due(NOW_S + 297, NOTHING).is_some(), "17:40:00");
        assert_eq!(schedule.is_due(NOW_S + 298, NOTHING), None);
        assert!(schedule.is_due(NOW_S + 2000, NOTHING).is_some(), "late is not never");
    }
}
