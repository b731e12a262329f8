//! Runs steps side by side, as many at a time as are asked for, and prints how each one ended.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::counts::Counts;
use super::order::{Begin, Order};
use super::process::{Process, Report, log_of};
use super::run::Reach;
use super::steps::Step;

/// A run of several steps.
pub struct Schedule {
    order: Order,
    reach: Reach,
    jobs: usize,
    running: usize,
    /// Timed steps that have failed, to be tried once more.
    again: Vec<&'static Step>,
    total: Counts,
    ended: (Sender<Report>, Receiver<Report>),
}

impl Schedule {
    /// Of these steps, so many at a time.
    pub fn new(names: &[&str], reach: Reach, jobs: usize) -> Self {
        let (again, total) = (Vec::new(), Counts::default());
        Self { order: Order::new(names), reach, jobs, running: 0, again, total, ended: channel() }
    }

    /// Runs all of them.
    pub fn run(mut self) -> Counts {
        let mut waiting = self.order.steps();
        while !waiting.is_empty() || self.running > 0 {
            waiting.retain(|step| self.keeps_waiting(step));
            if self.running > 0
                && let Ok(report) = self.ended.1.recv()
            {
                self.running -= 1;
                self.take(&report);
            }
        }
        for step in std::mem::take(&mut self.again) {
            self.try_again(step);
        }
        self.total
    }

    /// Starts a step if it may begin.
    fn keeps_waiting(&mut self, step: &'static Step) -> bool {
        if self.running >= self.jobs {
            return true;
        }
        match self.order.may_begin(step) {
            Begin::Later => return true,
            Begin::Now => self.start(step),
            Begin::Never(before) => {
                println!("{:<12}not run: {before} has failed", step.name);
                self.total.failed += 1;
                self.order.end(step, false);
            }
        }
        false
    }

    fn start(&mut self, step: &'static Step) {
        self.running += 1;
        let sender = self.ended.0.clone();
        let report = move |process: std::io::Result<Process>| match process {
            Ok(process) => process.wait(),
            Err(why) => Report::unstarted(step, &why),
        };
        let process = Process::start(step, self.reach);
        std::thread::spawn(move || sender.send(report(process)));
    }

    /// Prints and counts how a step ended.
    fn take(&mut self, report: &Report) {
        println!("{}", report.text);
        self.order.end(report.step, report.is_well());
        if !report.is_well() && report.step.is_timed {
            self.again.push(report.step);
        } else {
            self.total.add(report.counts);
        }
    }

    /// Tries a failed step once more, with nothing beside it.
    fn try_again(&mut self, step: &'static Step) {
        let first = log_of(step).with_extension("first.log");
        if let Err(why) = std::fs::copy(log_of(step), &first) {
            eprintln!("{}: {why}", first.display());
        }
        self.start(step);
        let Ok(mut report) = self.ended.1.recv() else { return };
        self.running -= 1;
        if report.is_well() {
            report.text.push_str(&format!("   unsteady: see {}", first.display()));
        }
        println!("again, alone:\n{}", report.text);
        self.total.add(report.counts);
    }
}
