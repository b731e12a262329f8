//! The writer of the append-only file on a disk that fails and loses power, for many seeds: what
//! was reported as durable is there afterwards, and what is there is a prefix of the steps.
//!
//! A step is `SET step N`, where N grows by one each time, and sometimes a transaction of several.
//! A base is a file of one step, `BASE N`: it stands for all steps before N. So the contents of a
//! set of files are one number, if they are complete, in order, and without a gap.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use pantala_base::Rng;
use pantala_persistence::aof::files::part_files;
use pantala_persistence::aof::reader::{StepRead, StepReader};
use pantala_persistence::aof::{AofLayout, AofWriter, BaseKind, Rewrite, SyncJob};
use pantala_persistence::disk::simulated::{Act, SimulatedDisk};
use pantala_persistence::disk::{Disk, DiskFile};

const SEEDS: u64 = 2_000;
const LIVES: usize = 4;
const ACTS: usize = 60;

fn layout() -> AofLayout {
    AofLayout::new(Path::new("/d"), "appendonlydir", "appendonly.aof")
}

fn resp(args: &[&str]) -> String {
    let args: String = args.iter().map(|arg| format!("${}\r\n{arg}\r\n", arg.len())).collect();
    format!("*{}\r\n{args}", args.matches('$').count())
}

fn set(number: u64, padding: usize) -> String {
    resp(&["SET", "step", &format!("{number:0padding$}")])
}

/// One run of a process that writes as the server does, and what it expects of the files.
struct Life<'t> {
    disk: &'t SimulatedDisk,
    rng: &'t mut Rng,
    writer: AofWriter,
    /// The number of the next step.
    next: u64,
    /// By offset: the number of steps before it.
    steps_at: Vec<(u64, u64)>,
    sync: Option<SyncJob>,
    rewrite: Option<(Rewrite, u64)>,
}

impl<'t> Life<'t> {
    /// Starts where the files end: they hold the steps before `next`.
    fn begin(disk: &'t SimulatedDisk, rng: &'t mut Rng, next: u64) -> Self {
        let manifest = layout().open(disk).expect("nothing fails at the start");
        let mut writer = AofWriter::new(Arc::new(disk.clone()), layout(), manifest, 0);
        writer.resume().expect("nothing fails at the start");
        Life { disk, rng, writer, next, steps_at: vec![(0, next)], sync: None, rewrite: None }
    }

    /// The number of steps that were reported as durable.
    fn durable(&self) -> u64 {
        let durable = self.writer.durable();
        let known = self.steps_at.iter().rev().find(|(offset, _)| *offset <= durable);
        known.map_or(0, |(_, steps)| *steps)
    }

    fn append(&mut self) {
        let padding = [1, 20, 600, 3_000][self.rng.below(4) as usize];
        let step = match self.rng.below(4) {
            0 => {
                let (first, second) = (set(self.next, padding), set(self.next + 1, 1));
                self.next += 2;
                resp(&["MULTI"]) + &first + &second + &resp(&["EXEC"])
            }
            _ => {
                self.next += 1;
                set(self.next - 1, padding)
            }
        };
        let _told = self.writer.append(step.as_bytes(), None);
        self.steps_at.push((self.writer.written(), self.next));
    }

    fn act(&mut self) {
        match self.rng.below(20) {
            0..9 => self.append(),
            9 => self.sync = self.sync.take().or_else(|| self.writer.begin_sync()),
            10 => {
                if let Some(job) = self.sync.take() {
                    let _told = self.writer.end_sync(job.run());
                }
            }
            11 => drop(self.writer.sync()),
            12 | 13 => self.begin_rewrite(),
            14 | 15 => self.end_rewrite(),
            16 => {
                if let Some(job) = self.writer.begin_removal() {
                    let _told = self.writer.end_removal(&job.run());
                }
            }
            17 => self.disk.set_free_bytes(Some(self.rng.below(5_000))),
            18 => {
                self.disk.set_free_bytes(None);
                self.disk.fail_no_more();
            }
            _ => {
                let acts = [Act::Append, Act::Sync, Act::Rename, Act::Create, Act::SyncDirectory];
                let act = acts[self.rng.below(5) as usize];
                self.disk.fail(act, self.rng.below(3), ErrorKind::Other);
            }
        }
    }

    fn begin_rewrite(&mut self) {
        if self.rewrite.is_none()
            && let Ok(rewrite) = self.writer.begin_rewrite(BaseKind::Commands)
        {
            self.rewrite = Some((rewrite, self.next));
        }
    }

    fn end_rewrite(&mut self) {
        let Some((rewrite, steps)) = self.rewrite.take() else { return };
        let write = || {
            let file: Arc<dyn DiskFile> = self.disk.create(&rewrite.base_path)?;
            file.append(resp(&["BASE", &steps.to_string()]).as_bytes())?;
            file.sync()
        };
        match write() {
            Ok(()) => drop(self.writer.finish_rewrite(rewrite)),
            Err(_) => self.writer.abandon_rewrite(&rewrite),
        }
    }
}

/// The number of steps that the files hold. A torn end is cut off, as the server does.
fn recover(disk: &SimulatedDisk) -> Result<u64, String> {
    let Some(manifest) = layout().open(disk).map_err(|error| error.to_string())? else {
        return Ok(0);
    };
    let files = part_files(disk, &layout(), &manifest).map_err(|error| error.to_string())?;
    let mut next = 0;
    for file in &files {
        let mut reader = file.steps(disk).expect("it is there");
        loop {
            match reader.next().map_err(|error| format!("{}: {error}", file.path.display()))? {
                StepRead::Step => next = replay(&reader, next)?,
                StepRead::Annotation => {}
                StepRead::End => break,
                StepRead::Torn(torn) if file.is_last => {
                    disk.truncate(&file.path, torn.offset).expect("cut");
                    break;
                }
                StepRead::Torn(torn) => return Err(format!("{}: {torn}", file.path.display())),
            }
        }
    }
    Ok(next)
}

fn replay(reader: &StepReader, mut next: u64) -> Result<u64, String> {
    for command in reader.step().commands(reader.window()) {
        let args: Vec<_> = command.map(String::from_utf8_lossy).collect();
        let number = args.last().and_then(|arg| arg.parse().ok());
        let number: u64 = number.ok_or_else(|| format!("no number in {args:?}"))?;
        match &*args[0] {
            "BASE" => next = number,
            _ if number == next => next += 1,
            _ => return Err(format!("step {number} where {next} should be")),
        }
    }
    Ok(next)
}

fn run(seed: u64) -> Result<(), String> {
    let mut rng = Rng::from_seed(seed);
    let disk = SimulatedDisk::new(seed);
    disk.create_directory(Path::new("/d")).expect("made");
    let mut steps = 0;
    for life in 0..LIVES {
        let told = |what: String| format!("seed {seed}, life {life}: {what}");
        let mut writing = Life::begin(&disk, &mut rng, steps);
        for _ in 0..writing.rng.below(ACTS as u64) {
            writing.act();
        }
        let (durable, all) = (writing.durable(), writing.next);
        let has_failed = writing.writer.fault().is_some();
        disk.set_free_bytes(None);
        // Either the power fails, or only the process ends and everything it wrote is kept. After a
        // failed sync the system may show data that is not on the disk, so then it is always the
        // power.
        let is_power = has_failed || rng.below(4) > 0;
        if is_power {
            disk.crash()
        } else {
            disk.fail_no_more()
        }
        steps = recover(&disk).map_err(told)?;
        if steps < durable || steps > all {
            return Err(told(format!("{steps} steps of {all}, {durable} durable")));
        }
    }
    Ok(())
}

#[test]
fn what_was_durable_is_there_and_what_is_there_is_a_beginning() {
    let faults: Vec<_> = (0..SEEDS).filter_map(|seed| run(seed).err()).collect();
    assert!(
        faults.is_empty(),
        "{} of {SEEDS}: {:#?}",
        faults.len(),
        &faults[..faults.len().min(5)]
    );
}
