//! Tests which Rust layer may import which (docs/architecture.md). A layer is a module of the crate's root.
//!
//! The test reads every path that begins with `crate::`, `ringbco::` or `super::`, in `use` and elsewhere, and
//! compares it with the tables here. Tests inside the crate may import anything. For example, `use
//! crate::policy::queue::WaitingQueue` in `rust/speed/` is refused, since the table has no `policy` for `speed`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What each layer may import: a layer, or one name of a layer.
const LAYERS: &[(&str, &[&str])] = &[
    // These import no other layer.
    ("ds", &[]),
    ("error", &[]),
    ("files", &[]),
    ("ids", &[]),
    ("rng", &[]),
    // Input, options and results.
    ("bound", &["error"]),
    ("decisions", &["error", "ids"]),
    ("options", &["error", "planner::Dispatch", "planner::Planner"]),
    ("outcome", &["decisions", "error", "ids", "record", "serving::Answers", "speed::Ring", "trace::Load"]),
    ("policies", &["options", "policy"]),
    ("serving", &["ds", "error"]),
    ("setting", &["cluster", "decisions", "ids", "options", "trace"]),
    ("trace", &["error", "ids", "options::Model", "serving::Answering"]),
    // The parts of the machine. None of them imports the machine or a policy.
    ("cluster", &["ds", "error", "ids"]),
    ("record", &["cluster::FewestServers", "ids", "speed", "trace"]),
    ("placement", &["cluster", "ids", "options", "rng"]),
    ("speed", &["cluster::Network", "cluster::Tier", "ds", "ids", "trace"]),
    // The machine has the trait of policies, and imports none of them.
    (
        "machine",
        &[
            "cluster",
            "decisions",
            "ds",
            "error",
            "ids",
            "options",
            "outcome",
            "placement",
            "record",
            "rng",
            "serving",
            "setting",
            "speed",
            "trace",
        ],
    ),
    (
        "policy",
        &[
            "cluster::FewestServers",
            "decisions",
            "ds",
            "error",
            "ids",
            "machine",
            "options",
            "outcome",
            "placement",
            "record::Why",
            "rng",
            "setting",
            "speed",
            "trace",
        ],
    ),
];

/// The layers on top. They import what they need, and no lower layer imports them except as in `LAYERS`.
const ON_TOP: &[&str] = &["concavity", "pack", "planner", "python", "replay", "simulation"];

/// Returns the crate's files, without those that hold tests.
fn files() -> Vec<PathBuf> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let rust = root();
    let mut files = Vec::new();
    walk(&rust, &mut files);
    let tests = rust.join("tests");
    files.retain(|path| !path.starts_with(&tests));
    files.retain(|path| !path.ends_with("build.rs"));
    files.retain(|path| !path.ends_with("tests.rs"));
    files.sort();
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("rust")
}

/// Returns a file's module as a path from the crate's root; empty for `lib.rs`.
fn module(file: &Path) -> Vec<String> {
    let inside = file.strip_prefix(root()).unwrap().with_extension("");
    let mut names: Vec<String> = inside.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    if names.last().is_some_and(|name| name == "mod" || name == "lib") {
        names.pop();
    }
    names
}

/// Returns a file's code without comments and without the tests inside it.
fn code(file: &Path) -> String {
    let mut code = String::new();
    let mut tested = false;
    for line in fs::read_to_string(file).unwrap().lines() {
        tested |= line == "mod tests {";
        if !tested {
            code.push_str(line.split("//").next().unwrap());
            code.push('\n');
        }
        tested &= line != "}";
    }
    code
}

/// Returns every path of the crate that the code names, as a path from the crate's root, with `{a, b}` written out.
fn paths(code: &str, module: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (start, word) in ["crate::", "ringbco::", "super::"].iter().flat_map(|word| code.match_indices(word)) {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || "_:".contains(letter)) {
            continue;
        }
        let mut from: Vec<&str> = module.iter().map(String::as_str).collect();
        let mut rest = &code[start..];
        if word != "super::" {
            from.clear();
            rest = &rest[word.len()..];
        }
        while let Some(after) = rest.strip_prefix("super::") {
            from.pop();
            rest = after;
        }
        expand(&from.join("::"), &mut rest, &mut found);
    }
    found
}

/// Reads a path, or a tree of paths in braces, below `from`.
fn expand(from: &str, rest: &mut &str, found: &mut BTreeSet<String>) {
    *rest = rest.trim_start();
    if let Some(after) = rest.strip_prefix('{') {
        *rest = after;
        loop {
            expand(from, rest, found);
            // The rest of an item: `as name`.
            *rest = &rest[rest.find([',', '}']).unwrap()..];
            let closed = rest.starts_with('}');
            *rest = rest[1..].trim_start();
            if closed {
                return;
            }
            if let Some(after) = rest.strip_prefix('}') {
                *rest = after;
                return;
            }
        }
    }
    let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '*')).unwrap();
    let name = &rest[..end];
    *rest = &rest[end..];
    let path = match (from, name) {
        ("", _) => name.to_owned(),
        (_, "self") => from.to_owned(),
        _ => format!("{from}::{name}"),
    };
    match rest.strip_prefix("::") {
        Some(after) if !after.starts_with('<') => {
            *rest = after;
            expand(&path, rest, found);
        }
        _ => {
            found.insert(path);
        }
    }
}

/// Returns whether a permission, a layer or a name in one, covers a path.
fn covers(permission: &str, path: &str) -> bool {
    path.strip_prefix(permission).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns (layer, file, path) of everything that a file names outside its own layer.
fn imports() -> Vec<(String, PathBuf, String)> {
    let mut all = Vec::new();
    for file in files() {
        let module = module(&file);
        let Some(layer) = module.first() else { continue };
        for path in paths(&code(&file), &module) {
            if !covers(layer, &path) {
                all.push((layer.clone(), file.clone(), path));
            }
        }
    }
    all
}

fn permissions(layer: &str) -> Option<&'static [&'static str]> {
    LAYERS.iter().find(|(name, _)| *name == layer).map(|(_, permissions)| *permissions)
}

#[test]
fn a_room_imports_what_the_table_permits() {
    for (layer, file, path) in imports() {
        match permissions(&layer) {
            Some(permissions) => {
                let permitted = permissions.iter().any(|permission| covers(permission, &path));
                assert!(permitted, "{} imports {path}, which `{layer}` may not", file.display());
            }
            None => {
                assert!(ON_TOP.contains(&layer.as_str()), "{}: the tables do not have `{layer}`", file.display());
                assert!(!covers("python", &path), "{} imports {path}", file.display());
            }
        }
    }
}

#[test]
fn the_table_permits_no_more_than_is_imported() {
    let imports = imports();
    for &(layer, permissions) in LAYERS {
        let places = [layer.to_owned(), format!("{layer}.rs")];
        assert!(places.iter().any(|place| root().join(place).exists()), "there is no `{layer}`");
        for permission in permissions {
            let used = imports.iter().any(|(of, _, path)| of == layer && covers(permission, path));
            assert!(used, "`{layer}` may import {permission} and does not");
        }
    }
}

#[test]
fn only_one_room_knows_python() {
    for file in files() {
        if module(&file).first().is_some_and(|layer| layer == "python") {
            continue;
        }
        for name in ["pyo3", "numpy"] {
            assert!(!code(&file).contains(name), "{} names {name}", file.display());
        }
    }
}

#[test]
fn paths_are_read_as_rust_reads_them() {
    let module = ["policy", "queue", "pass"].map(str::to_owned);
    let code = "use super::{Line, Queued as Q};
        use crate::{ds::{Minima, self}, rng};
        use super::super::log::A;
        pub(in crate::policy) fn f() -> crate::trace::Jobs<'_> { other_crate::nothing(crate::policy::estimate(1)) }";
    let expected = [
        "ds",
        "ds::Minima",
        "policy",
        "policy::estimate",
        "policy::log::A",
        "policy::queue::Line",
        "policy::queue::Queued",
        "rng",
        "trace::Jobs",
    ];
    assert_eq!(paths(code, &module), expected.map(str::to_owned).into());
}
