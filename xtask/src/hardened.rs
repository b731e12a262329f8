//! Checks how a binary was linked, so that a hole in it is harder to exploit.
//!
//! | requirement | why |
//! |---|---|
//! | position independent | its address differs in each run |
//! | symbols bound at the start, their table then read-only | no pointer of the loader to change |
//! | no stack, and no segment, both writable and executable | no code among data |
//! | no search path for libraries in the file | no foreign library |
//! | `__stack_chk_fail` is called | the C code (Lua) notices an overwritten stack |
//!
//! Tests: at the foot.

use std::process::ExitCode;

use crate::elf::{
    DT_FLAGS, DT_FLAGS_1, DT_RPATH, DT_RUNPATH, ET_DYN, EXECUTABLE, Elf, PT_GNU_RELRO,
    PT_GNU_STACK, PT_LOAD, WRITABLE,
};

/// In `DT_FLAGS`: all symbols are bound at the start.
const BIND_NOW: u64 = 8;
/// In `DT_FLAGS_1`: all symbols are bound at the start.
const NOW: u64 = 1;
/// In `DT_FLAGS_1`: a program, not a library.
const PIE: u64 = 0x0800_0000;
/// The function that code with stack protection calls.
const GUARD: &str = "__stack_chk_fail";

/// Checks a file; prints what it lacks.
pub fn run(path: &str) -> ExitCode {
    let read = std::fs::read(path).map_err(|why| why.to_string());
    let lacks = read.and_then(|file| Ok(lacking(&Elf::read(&file)?)));
    match lacks {
        Ok(lacks) if lacks.is_empty() => {
            println!("{path}: hardened");
            ExitCode::SUCCESS
        }
        Ok(lacks) => {
            lacks.iter().for_each(|what| println!("{path}: {what}"));
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("{path}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn lacking(elf: &Elf) -> Vec<&'static str> {
    let has = |tag, flag| elf.dynamic(tag).is_some_and(|flags| flags & flag != 0);
    let is = |kind| elf.segments.iter().any(|one| one.kind == kind);
    let is_both = |kind| {
        let both = EXECUTABLE | WRITABLE;
        elf.segments.iter().any(|one| one.kind == kind && one.flags & both == both)
    };
    let asked = [
        (elf.kind == ET_DYN && has(DT_FLAGS_1, PIE), "it is not position independent"),
        (is(PT_GNU_RELRO), "the loader's tables stay writable"),
        (has(DT_FLAGS, BIND_NOW) || has(DT_FLAGS_1, NOW), "symbols are bound when they are used"),
        (is(PT_GNU_STACK) && !is_both(PT_GNU_STACK), "its stack may be executed"),
        (!is_both(PT_LOAD), "a part of it may be written and executed"),
        (
            elf.dynamic(DT_RPATH).is_none() && elf.dynamic(DT_RUNPATH).is_none(),
            "it says itself where libraries are",
        ),
        (elf.names(GUARD), "no code in it guards its stack"),
    ];
    asked.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").expect("the test's own binary")
    }

    #[test]
    fn what_rust_links_is_hardened_but_has_no_c_code_that_guards() {
        let elf = Elf::read(&own()).expect("an ELF file");
        let lacks = lacking(&elf);
        assert!(lacks.iter().all(|what| what.contains("guards")), "{lacks:?}");
    }

    #[test]
    fn what_is_taken_away_is_missed() {
        let mut elf = Elf::read(&own()).expect("an ELF file");
        elf.kind = 2;
        elf.segments.retain(|one| one.kind != PT_GNU_RELRO);
        let stack = elf.segments.iter_mut().find(|one| one.kind == PT_GNU_STACK);
        stack.expect("it has one").flags |= EXECUTABLE;
        let lacks = lacking(&elf);
        for what in ["position", "tables", "stack may"] {
            assert!(lacks.iter().any(|lack| lack.contains(what)), "{what}: {lacks:?}");
        }
    }

    #[test]
    fn a_file_that_lies_or_ends_early_is_an_error_not_a_panic() {
        let whole = own();
        assert!(Elf::read(b"#!/bin/sh").is_err());
        for length in (0..4096).step_by(7) {
            let _may_do = Elf::read(&whole[..length]);
        }
        for at in 16..512 {
            let mut changed = whole[..whole.len().min(1 << 16)].to_vec();
            changed[at] = 0xff;
            let _may_do = Elf::read(&changed);
        }
    }
}
