//! Checks of the transcripts themselves: every file can be parsed, every case has a title, every
//! command a reply.
#![allow(clippy::unwrap_used)]

use pantala_compat::parse::{self, Act, Case, Reply};
use pantala_compat::run;
use std::path::Path;

fn cases() -> Vec<(String, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let transcripts = parse::tree(&folder).unwrap();
    assert!(transcripts.len() > 80, "only {} files were found", transcripts.len());
    let named = |path: String| move |case| (path.clone(), case);
    transcripts
        .into_iter()
        .flat_map(|file| file.cases.into_iter().map(named(file.path.display().to_string())))
        .collect()
}

#[test]
fn every_case_has_a_title() {
    for (path, case) in cases() {
        assert!(!case.title.is_empty(), "{path}:{}: no title", case.line);
    }
}

#[test]
fn every_command_has_its_reply() {
    for (path, case) in cases() {
        if let Some((line, command)) = run::unanswered(&case) {
            panic!("{path}:{line}: {command}: no reply");
        }
        for step in &case.steps {
            let Act::Expect(expected) = &step.act else { continue };
            let blank = |reply: &Option<Reply>| matches!(reply, Some(Reply::Blank));
            let recorded = !blank(&expected.two) && !blank(&expected.three);
            assert!(recorded, "{path}:{}: not recorded", step.lines.start + 1);
        }
    }
}
