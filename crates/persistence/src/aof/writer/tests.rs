//! Tests of the writer, on a simulated disk.

use crate::aof::files::part_files;
use crate::disk::read_whole;
use crate::disk::simulated::{Act, SimulatedDisk};

use super::*;

/// A file with preallocation as long as there is space.
struct Roomy(Mutex<(u64, Vec<(u64, u64)>)>);

impl DiskFile for Roomy {
    fn append(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn write_over_start(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn set_room_aside(&self, from: u64, bytes: u64) -> bool {
        let (left, asked) = &mut *self.0.lock();
        asked.push((from, bytes));
        *left >= bytes && {
            *left -= bytes;
            true
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn room_is_a_part_of_what_there_is() {
    const MB: u64 = 1 << 20;
    let file = Roomy(Mutex::new((300 * MB, Vec::new())));
    let mut room = Room::new(0);
    for bytes in (0..2000).map(|count| count * MB) {
        room.grow(&file, bytes);
    }
    let (_, asked) = &*file.0.lock();
    assert_eq!(asked[..3], [(4 * MB, MB), (5 * MB, 5 * MB / 4), (7 * MB, 7 * MB / 4)]);
    assert!(asked.iter().all(|&(from, bytes)| bytes <= 64 * MB && bytes <= from / 4));
    let (refused, taken) = asked.split_last().expect("it has asked");
    assert!(taken.iter().map(|(_, bytes)| bytes).sum::<u64>() <= 300 * MB);
    assert_eq!((refused.1, room.until), (64 * MB, u64::MAX), "once refused, never again");
}

struct Fixture {
    disk: SimulatedDisk,
    writer: AofWriter,
}

fn layout() -> AofLayout {
    AofLayout::new(Path::new("/d"), "aof", "a")
}

fn fixture() -> Fixture {
    let disk = SimulatedDisk::new(1);
    disk.create_directory(Path::new("/d")).expect("made");
    let mut writer = AofWriter::new(Arc::new(disk.clone()), layout(), None, 0);
    writer.resume().expect("it begins");
    Fixture { disk, writer }
}

impl Fixture {
    fn append(&mut self, steps: &str) {
        self.writer.append(steps.as_bytes(), None).expect("appended");
    }

    fn begin(&mut self) -> Rewrite {
        let rewrite = self.writer.begin_rewrite(BaseKind::Rdb).expect("it begins");
        let base = self.disk.create(&rewrite.base_path).expect("created");
        base.append(b"base").expect("appended");
        base.sync().expect("synced");
        rewrite
    }

    /// Compares the manifest on disk, and the content of the files.
    #[track_caller]
    fn check(&self, expected: &str) {
        let manifest = layout().read(&self.disk).expect("read").expect("there is one");
        let mut text = String::new();
        for part in manifest.parts() {
            let path = layout().path(&part.name);
            let bytes = read_whole(&self.disk, &path, 1 << 20).expect("read");
            let name = part.name.trim_start_matches("a.");
            text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(&bytes)));
        }
        assert_eq!(text, expected);
    }
}

#[test]
fn steps_go_to_the_increment_and_a_sync_makes_them_durable() {
    let mut at = fixture();
    at.append("one ");
    at.append("two ");
    assert_eq!((at.writer.written(), at.writer.durable()), (8, 0));
    let job = at.writer.begin_sync().expect("something is not durable");
    at.append("three");
    at.writer.end_sync(job.run()).expect("synced");
    assert_eq!((at.writer.written(), at.writer.durable()), (13, 8));
    at.writer.sync().expect("synced");
    assert!(at.writer.begin_sync().is_none());
    at.check("1.incr.aof: one two three\n");
}

#[test]
fn a_rewrite_puts_a_base_in_place_of_what_came_before() {
    let mut at = fixture();
    at.append("one ");
    let rewrite = at.begin();
    assert_eq!((rewrite.offset, at.writer.durable()), (4, 4));
    at.append("two");
    at.check("1.incr.aof: one \n2.incr.aof: two\n");
    at.writer.finish_rewrite(rewrite).expect("finished");
    at.check("1.base.rdb: base\n2.incr.aof: two\n");
    let gone = at.writer.begin_removal().expect("there is history").run();
    at.writer.end_removal(&gone).expect("stored");
    let names = at.disk.list(layout().directory()).expect("listed");
    assert_eq!(names, ["a.1.base.rdb", "a.2.incr.aof", "a.lengths", "a.manifest"]);
}

#[test]
fn a_closed_file_that_became_shorter_is_told() {
    let mut at = fixture();
    at.append("one ");
    let _never_finished = at.begin();
    at.append("two");
    let files = || {
        let manifest = layout().open(&at.disk).expect("it opens").expect("there is one");
        part_files(&at.disk, &layout(), &manifest).map_err(|error| error.to_string())
    };
    assert_eq!(files().expect("all are there").len(), 2);
    at.disk.truncate(&layout().path("a.2.incr.aof"), 0).expect("cut");
    files().expect("a crash may do that to the last one");
    at.disk.truncate(&layout().path("a.1.incr.aof"), 0).expect("cut");
    let expected = "/d/aof/a.1.incr.aof: the file has 0 bytes, and had 4 when the one after \
                    it was begun: its end is lost (/d/aof/a.lengths says so; without that \
                    file, what is there is loaded)";
    assert_eq!(files().expect_err("its end is lost"), expected);
    let manifest = layout().read(&at.disk).expect("read").expect("there");
    let more = "file a.2.incr.aof seq 2 type i\n";
    let expected = format!("file a.1.incr.aof seq 1 type i bytes 4 next 2\n{more}");
    assert_eq!(manifest.text_of_lengths(), expected);
    let text = read_whole(&at.disk, &layout().manifest_path(), 1 << 20).expect("read");
    assert_eq!(text, format!("file a.1.incr.aof seq 1 type i\n{more}").as_bytes());
    at.disk.remove(&layout().lengths_path()).expect("removed");
    assert_eq!(files().expect("without it it loads").len(), 2);
}

#[test]
fn a_lost_line_of_the_manifest_is_told() {
    let mut at = fixture();
    let _never_finished = at.begin();
    let write = |text: &str| {
        let file = at.disk.create(&layout().manifest_path()).expect("created");
        file.append(text.as_bytes()).expect("appended");
    };
    let files = || {
        let manifest = layout().open(&at.disk).expect("it opens").expect("there is one");
        part_files(&at.disk, &layout(), &manifest).map_err(|error| error.to_string())
    };
    write("file a.1.incr.aof seq 1 type i\n");
    let expected = "/d/aof/a.manifest: the manifest does not name the increment of number 2: \
                    a line is lost (/d/aof/a.lengths says so; without that file, what is there \
                    is loaded)";
    assert_eq!(files().expect_err("it is lost"), expected);
    // As the first versions wrote it.
    at.disk.remove(&layout().lengths_path()).expect("removed");
    write("file a.1.incr.aof seq 1 type i bytes 0 next 2\n");
    let expected = "/d/aof/a.manifest: the manifest does not name the increment of number 2: \
                    a line is lost";
    assert_eq!(files().expect_err("it is lost"), expected);
    write("file a.1.incr.aof seq 1 type i bytes 0 next 2\nfile a.2.incr.aof seq 2 type i\n");
    assert_eq!(files().expect("all are there").len(), 2);
}

#[test]
fn lengths_that_can_not_be_written_do_no_harm() {
    for lost in 0..3 {
        let mut at = fixture();
        at.append("one ");
        let rewrite = at.begin();
        at.append("two");
        // Of the renames: the base, the manifest, the lengths.
        at.disk.fail(Act::Rename, lost, io::ErrorKind::Other);
        let finished = at.writer.finish_rewrite(rewrite);
        assert_eq!(finished.is_ok(), lost == 2, "{lost}");
        at.check(match lost {
            2 => "1.base.rdb: base\n2.incr.aof: two\n",
            _ => "1.incr.aof: one \n2.incr.aof: two\n",
        });
        let manifest = layout().open(&at.disk).expect("it opens").expect("there is one");
        part_files(&at.disk, &layout(), &manifest).expect("all are there");
        assert_eq!(layout().doubt(&at.disk, &manifest), None);
        let told = at.writer.take_lengths_failure().map(|error| error.to_string());
        assert_eq!(told.is_some(), lost == 2, "{told:?}");
        assert!(told.is_none_or(|told| told.starts_with("/d/aof/a.lengths: ")));
        assert!(at.writer.take_lengths_failure().is_none(), "it is told once");
    }
}

#[test]
fn lengths_that_fail_are_told_again_when_they_could_be_written_meanwhile() {
    let mut at = fixture();
    let mut told = Vec::new();
    for fails in [true, true, false, true] {
        let rewrite = at.begin();
        // Of the renames: the base, the manifest, the lengths.
        if fails {
            at.disk.fail(Act::Rename, 2, io::ErrorKind::Other);
        }
        at.writer.finish_rewrite(rewrite).expect("finished");
        at.disk.fail_no_more();
        told.push(at.writer.take_lengths_failure().is_some());
    }
    assert_eq!(told, [true, true, false, true], "a rewrite begins with a manifest that is stored");
}

#[test]
fn the_lengths_of_another_base_of_the_same_number_are_not_used() {
    let mut at = fixture();
    let rewrite = at.begin();
    at.writer.finish_rewrite(rewrite).expect("finished");
    at.append("more");
    let _never_finished = at.begin();
    // Another server begins anew, with the numbers that this one began with.
    let text = "file a.1.base.rdb seq 1 type b\nfile a.2.incr.aof seq 2 type i\n";
    for (path, text) in [
        (layout().manifest_path(), text),
        (layout().path("a.1.base.rdb"), "bas1"),
        (layout().path("a.2.incr.aof"), "x"),
    ] {
        at.disk.create(&path).expect("created").append(text.as_bytes()).expect("appended");
    }
    let manifest = layout().open(&at.disk).expect("it opens").expect("there is one");
    assert_eq!(part_files(&at.disk, &layout(), &manifest).expect("nothing is lost").len(), 2);
    let doubt = layout().doubt(&at.disk, &manifest).expect("it is told");
    let expected = "/d/aof/a.lengths: not used, because the base begins differently";
    assert!(doubt.starts_with(expected), "{doubt}");
}

#[test]
fn a_base_knows_its_length_and_what_follows() {
    let mut at = fixture();
    let rewrite = at.begin();
    at.writer.finish_rewrite(rewrite).expect("finished");
    let text = "file a.1.base.rdb seq 1 type b bytes 4 next 2 head 1405df66cbe219b0\n\
                file a.2.incr.aof seq 2 type i base 1\n";
    assert_eq!(at.writer.manifest().text_of_lengths(), text);
    let mut manifest = layout().read(&at.disk).expect("read").expect("there is one");
    assert_eq!(manifest.text_of_lengths(), text, "it is on disk");
    let text = "file a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type h\n\
                file a.2.incr.aof seq 2 type i\n";
    assert_eq!(manifest.text(), text);
    layout().clean(&at.disk, &mut manifest).expect("removed");
    assert_eq!(layout().read(&at.disk).expect("read"), Some(manifest));
}

#[test]
fn a_base_alone_stands_for_all() {
    let mut at = fixture();
    at.append("one ");
    at.writer.stop().expect("synced");
    let rewrite = at.writer.begin_base(BaseKind::Rdb).expect("it begins");
    let base = at.disk.create(&rewrite.base_path).expect("created");
    base.append(b"base").expect("appended");
    at.writer.finish_rewrite(rewrite).expect("finished");
    at.check("1.base.rdb: base\n");
    assert!(!at.writer.is_kept());
    let manifest = layout().open(&at.disk).expect("it opens");
    let whole = manifest.as_ref().expect("there is one");
    assert_eq!(part_files(&at.disk, &layout(), whole).expect("all are there").len(), 1);
    at.writer = AofWriter::new(Arc::new(at.disk.clone()), layout(), manifest, 0);
    at.writer.resume().expect("it resumes");
    at.append("two");
    at.check("1.base.rdb: base\n2.incr.aof: two\n");
}

#[test]
fn history_may_stay() {
    let mut at = fixture();
    at.writer.keep_history(true);
    for _ in 0..2 {
        let rewrite = at.begin();
        at.writer.finish_rewrite(rewrite).expect("finished");
        assert!(at.writer.begin_removal().is_none());
    }
    let text = "file a.2.base.rdb seq 2 type b\nfile a.2.incr.aof seq 2 type h\n\
                file a.1.base.rdb seq 1 type h\nfile a.1.incr.aof seq 1 type h\n\
                file a.3.incr.aof seq 3 type i\n";
    assert_eq!(at.writer.manifest().text(), text);
    for keeps in [true, false] {
        let manifest = layout().open(&at.disk).expect("it opens");
        at.writer = AofWriter::new(Arc::new(at.disk.clone()), layout(), manifest, 0);
        at.writer.keep_history(keeps);
        at.writer.resume().expect("it resumes");
        let files = at.disk.list(layout().directory()).expect("listed").len();
        assert_eq!(files, if keeps { 7 } else { 4 }, "two of them name the others");
    }
}

#[test]
fn a_rewrite_that_is_given_up_leaves_everything() {
    let mut at = fixture();
    at.append("one ");
    let rewrite = at.begin();
    at.append("two");
    at.writer.abandon_rewrite(&rewrite);
    at.check("1.incr.aof: one \n2.incr.aof: two\n");
    assert!(at.writer.is_kept());
    let rewrite = at.begin();
    at.writer.finish_rewrite(rewrite).expect("finished");
    at.check("2.base.rdb: base\n3.incr.aof: \n");
}

#[test]
fn a_failed_append_loses_what_follows_until_a_rewrite_is_finished() {
    let mut at = fixture();
    at.append("one ");
    at.disk.set_free_bytes(Some(2));
    assert!(at.writer.append(b"two ", None).is_err());
    let fault = at.writer.fault().expect("it is told").to_owned();
    assert!(fault.starts_with("/d/aof/a.1.incr.aof: "), "{fault}");
    at.append("three ");
    at.disk.set_free_bytes(None);
    at.check("1.incr.aof: one \n");
    let rewrite = at.begin();
    at.append("four ");
    at.writer.sync().expect("synced");
    assert!(at.writer.fault().is_some(), "nothing of it counts before there is a base");
    assert_eq!(at.writer.durable(), 0);
    at.check("1.incr.aof: one \n");
    at.writer.finish_rewrite(rewrite).expect("finished");
    assert!(at.writer.fault().is_none());
    assert_eq!(at.writer.durable(), at.writer.written());
    at.append("five");
    at.check("1.base.rdb: base\n2.incr.aof: four five\n");
}

#[test]
fn a_failed_sync_is_a_fault_and_is_not_tried_again() {
    let mut at = fixture();
    at.append("one ");
    at.disk.fail(Act::Sync, 0, io::ErrorKind::Other);
    assert!(at.writer.sync().is_err());
    assert!(at.writer.fault().is_some());
    assert!(at.writer.begin_sync().is_none());
    assert!(!at.writer.is_kept());
}

#[test]
fn a_failed_sync_elsewhere_is_not_hidden_by_the_one_of_a_rewrite() {
    let mut at = fixture();
    at.append("one ");
    let job = at.writer.begin_sync().expect("something is not durable");
    at.disk.fail(Act::Sync, 0, io::ErrorKind::Other);
    let done = job.run();
    assert!(at.writer.begin_rewrite(BaseKind::Rdb).is_err());
    assert!(at.writer.fault().is_some());
    at.writer.end_sync(done).expect("it was told");
    assert_eq!(at.writer.durable(), 0);
}

#[test]
fn a_rewrite_whose_increment_fails_is_given_up_when_nothing_else_counts() {
    let mut at = fixture();
    at.append("one ");
    at.disk.fail(Act::Append, 0, io::ErrorKind::Other);
    assert!(at.writer.append(b"two ", None).is_err());
    let rewrite = at.begin();
    at.disk.fail(Act::Append, 0, io::ErrorKind::Other);
    assert!(at.writer.append(b"three ", None).is_err());
    assert!(at.writer.finish_rewrite(rewrite).is_err());
    assert!(at.writer.fault().is_some());
    at.check("1.incr.aof: one \n");
    let rewrite = at.begin();
    at.writer.finish_rewrite(rewrite).expect("finished");
    at.check("2.base.rdb: base\n3.incr.aof: \n");
}

#[test]
fn time_stamps_are_written_once_a_second() {
    let mut at = fixture();
    for (steps, second) in [("a ", 7), ("b ", 7), ("c ", 8)] {
        at.writer.append(steps.as_bytes(), Some(second)).expect("appended");
    }
    at.check("1.incr.aof: #TS:7\r\na b #TS:8\r\nc \n");
    assert_eq!(at.writer.written(), 6, "the stream knows nothing of them");
}

#[test]
fn writing_can_end_and_begin_anew() {
    let mut at = fixture();
    at.append("one ");
    at.writer.stop().expect("synced");
    assert_eq!(at.writer.durable(), 4);
    at.append("two ");
    let rewrite = at.begin();
    at.append("three");
    at.check("1.incr.aof: one \n");
    at.writer.finish_rewrite(rewrite).expect("finished");
    at.check("1.base.rdb: base\n2.incr.aof: three\n");
    assert!(at.writer.is_kept() && at.writer.fault().is_none());
}

#[test]
fn a_writer_goes_on_where_the_last_one_ended() {
    let mut at = fixture();
    at.append("one ");
    let manifest = layout().open(&at.disk).expect("it opens");
    at.writer = AofWriter::new(Arc::new(at.disk.clone()), layout(), manifest, 100);
    at.writer.resume().expect("it resumes");
    at.append("two");
    assert_eq!((at.writer.durable(), at.writer.written()), (100, 103));
    at.check("1.incr.aof: one two\n");
}

#[test]
fn a_rewrite_is_due_after_a_fault_and_by_growth_but_not_at_once_after_a_failure() {
    let mut at = fixture();
    let rules = GrowthRules { percentage: 100, min_bytes: 10 };
    assert!(!at.writer.is_rewrite_due(rules, 0));
    at.append("0123456789a");
    assert!(at.writer.is_rewrite_due(rules, 0));
    let rewrite = at.begin();
    assert!(!at.writer.is_rewrite_due(rules, 0), "one is under way");
    at.writer.abandon_rewrite(&rewrite);
    assert!(!at.writer.is_rewrite_due(rules, 999));
    assert!(at.writer.is_rewrite_due(rules, 1_000));
    at.disk.fail(Act::Append, 0, io::ErrorKind::Other);
    assert!(at.writer.append(b"x", None).is_err());
    let never = GrowthRules { percentage: 0, min_bytes: 0 };
    assert!(at.writer.is_rewrite_due(never, 60_000));
}

#[test]
fn the_first_rewrite_is_due_again_until_there_is_a_file() {
    let disk = SimulatedDisk::new(1);
    disk.create_directory(Path::new("/d")).expect("made");
    let mut writer = AofWriter::new(Arc::new(disk), layout(), None, 0);
    let never = GrowthRules { percentage: 0, min_bytes: 0 };
    assert!(!writer.is_rewrite_due(never, 999), "whoever began it may be about to come");
    assert!(writer.is_rewrite_due(never, 1_000));
    let rewrite = writer.begin_rewrite(BaseKind::Rdb).expect("it begins");
    assert!(!writer.is_rewrite_due(never, 60_000));
    writer.abandon_rewrite(&rewrite);
    assert!(writer.fault().is_none() && !writer.is_kept());
    assert!(writer.is_rewrite_due(never, 60_000));
    writer.stop().expect("nothing is open");
}
