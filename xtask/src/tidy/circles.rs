//! Files of a crate that import each other in a circle: at most a handful, or they are one file, or
//! a third one is missing.
//!
//! ```text
//! text --paths--> crate::a::b::Name --resolve--> file --graph--> strongly connected files
//! ```
//!
//! A file imports another when its code outside tests names an item of that file's module by a path
//! that begins with `crate`, `super` or `self`, in a `use` or in a body. A name that is re-exported
//! counts for the file that re-exports it.
//!
//! Not here: arrows between crates (`floors`). Tests: at the foot.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{File, Finding};

/// The name of this rule in tidy.toml.
pub const RULE: &str = "circles";
/// What it asks for.
pub const SAYS: &str = "at most five files of a crate import each other in a circle";

const MOST_FILES: usize = 5;

/// A module's path within its crate.
type Module = Vec<String>;

/// What each module imports.
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// For each crate one finding for each file too many in its largest circle, so that the ratchet
/// counts them down.
pub fn check(files: &[File]) -> Vec<(String, Vec<Finding>)> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.source.is_some()) {
        if let Some((folder, module)) = module_of(&file.path) {
            crates.entry(folder).or_default().insert(module, file);
        }
    }
    let judged = crates.into_iter().map(|(folder, modules)| {
        let largest = circles(&graph(&modules)).into_iter().max_by_key(Vec::len);
        (folder.to_owned(), findings(&largest.unwrap_or_default()))
    });
    judged.filter(|(_, findings)| !findings.is_empty()).collect()
}

fn findings(circle: &[Module]) -> Vec<Finding> {
    let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
    let whole = format!("{} files: {}", circle.len(), names.join(" "));
    let one_more = std::iter::repeat("one file more".to_owned());
    let whats = std::iter::once(whole).chain(one_more);
    whats
        .take(circle.len().saturating_sub(MOST_FILES))
        .map(|what| Finding { line: 1, what })
        .collect()
}

/// The `src` folder of a crate and the module that a path is, unless it is a test or a program.
fn module_of(path: &str) -> Option<(&str, Module)> {
    let at = path.find("/src/").filter(|_| path.starts_with("crates/"))? + "/src".len();
    let inside = path[at + 1..].strip_suffix(".rs")?;
    let mut module: Module = inside.split('/').map(str::to_owned).collect();
    let is_apart = |part: &String| part == "tests" || part == "main" || part.ends_with("_tests");
    if module.iter().any(is_apart) {
        return None;
    }
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    Some((&path[..at], module))
}

fn graph(modules: &BTreeMap<Module, &File>) -> Graph {
    let imports = modules.iter().map(|(module, file)| {
        let lines = file.source.iter().flat_map(|source| source.live_lines());
        let code: Vec<&str> = lines.map(|(_, line)| line).collect();
        let named = paths(&code.join("\n")).into_iter();
        let imported = named.filter_map(|path| resolve(module, &path, modules));
        (module.clone(), imported.filter(|other| other != module).collect())
    });
    imports.collect()
}

/// The longest beginning of a path that is a module.
fn resolve(from: &Module, path: &[String], modules: &BTreeMap<Module, &File>) -> Option<Module> {
    let mut at: Module =
        if path.first().is_some_and(|head| head == "crate") { Vec::new() } else { from.clone() };
    for part in path {
        match part.as_str() {
            "super" => drop(at.pop()),
            "crate" | "self" => {}
            name => at.push(name.to_owned()),
        }
    }
    while !at.is_empty() && !modules.contains_key(&at) {
        at.pop();
    }
    modules.contains_key(&at).then_some(at)
}

/// All paths of a code that begin with `crate`, `super` or `self`, with what stands in braces
/// written out.
fn paths(code: &str) -> Vec<Module> {
    let tokens = tokens(code);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let begins = matches!(tokens[at], "crate" | "super" | "self");
        let is_inside = at > 0 && tokens[at - 1] == "::";
        if begins && !is_inside && tokens.get(at + 1) == Some(&"::") {
            at = path(&tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one path after `prefix`; the index behind it.
fn path(tokens: &[&str], mut at: usize, prefix: &[String], found: &mut Vec<Module>) -> usize {
    let mut whole = prefix.to_vec();
    while at < tokens.len() {
        match tokens[at] {
            "{" => return group(tokens, at + 1, &whole, found),
            word if is_word(word) => whole.push(word.to_owned()),
            _ => break,
        }
        at += 1;
        if tokens.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    found.push(whole);
    at
}

/// Reads what stands in braces after `prefix`; the index behind the closing one.
fn group(tokens: &[&str], mut at: usize, prefix: &[String], found: &mut Vec<Module>) -> usize {
    while at < tokens.len() && tokens[at] != "}" {
        let is_path = is_word(tokens[at]) || tokens[at] == "{";
        at = if is_path { path(tokens, at, prefix, found) } else { at + 1 };
    }
    at + 1
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words, `::`, and every other character by itself.
fn tokens(code: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = match rest.find(|c: char| !is_name(c)).unwrap_or(rest.len()) {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            length => length,
        };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

/// Groups of modules that reach each other, of two and more.
fn circles(graph: &Graph) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reach(graph, module))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (module, others) in &reached {
        if !others.contains(module) || seen.contains(module) {
            continue;
        }
        let back = |other: &&&Module| reached[**other].contains(module);
        let circle: Vec<&Module> = others.iter().filter(back).copied().collect();
        seen.extend(circle.iter().copied());
        if circle.len() > 1 {
            found.push(circle.into_iter().cloned().collect());
        }
    }
    found
}

/// All modules that lead from one, over others too.
fn reach<'g>(graph: &'g Graph, from: &Module) -> BTreeSet<&'g Module> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in graph.get(module).into_iter().flatten() {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(module: &str, text: &str) -> File {
        File::new(&format!("crates/a/src/{module}.rs"), text.into())
    }

    fn named(text: &str) -> Vec<String> {
        paths(text).into_iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_written_out() {
        assert_eq!(
            named("use crate::a::{B, c::{D, self}};"),
            ["crate::a::B", "crate::a::c::D", "crate::a::c::self"]
        );
        assert_eq!(
            named("fn f(x: super::b::X) -> crate::Y { self.z; a::self::b }"),
            ["super::b::X", "crate::Y"]
        );
    }

    #[test]
    fn a_large_circle_is_found_and_a_small_one_is_let_be() {
        let ring = |length: usize| {
            let next = move |at: usize| format!("use crate::m{}::X;", (at + 1) % length);
            let modules = (0..length).map(move |at| file(&format!("m{at}"), &next(at)));
            modules.chain([file("lib", "mod m0;"), file("other", "use super::m0::X;")])
        };
        let found = |length: usize| {
            let files: Vec<File> = ring(length).collect();
            check(&files).into_iter().map(|(at, findings)| (at, findings.len())).collect::<Vec<_>>()
        };
        assert_eq!(found(5), []);
        assert_eq!(found(7), [("crates/a/src".into(), 2)]);
    }

    #[test]
    fn tests_and_comments_import_nothing() {
        let cut = "// use crate::b::X;\n#[cfg(test)]\nmod tests {\n    use crate::b::X;\n}\n";
        let files = [file("a", cut), file("b", "use crate::a::Y;")];
        let modules = files.iter().map(|file| (module_of(&file.path).unwrap().1, file)).collect();
        assert_eq!(circles(&graph(&modules)), Vec::<Vec<Module>>::new());
    }

    #[test]
    fn a_folder_is_the_module_of_its_head() {
        assert_eq!(module_of("crates/a/src/b/mod.rs"), Some(("crates/a/src", vec!["b".into()])));
        assert_eq!(module_of("crates/a/src/lib.rs"), Some(("crates/a/src", vec![])));
        assert_eq!(module_of("crates/a/src/main.rs"), None);
        assert_eq!(module_of("crates/a/tests/b.rs"), None);
        assert_eq!(module_of("xtask/src/b.rs"), None);
    }
}
