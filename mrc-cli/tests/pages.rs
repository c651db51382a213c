//! The pages a newcomer reads: every command of the quick starts prints what the page shows, and no link is dead.

use std::path::{Path, PathBuf};
use std::process::Command;

use mrc_lab::skip;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn check(page: &str) {
    let python = Command::new("python3").arg("--version").output();
    if python.is_err() {
        eprintln!("skipped: {page}: there is no python3");
        return;
    }
    let output = Command::new("python3")
        .arg(root().join("docs/quickstart.py"))
        .arg(root().join("docs").join(page))
        .env("MRC", env!("CARGO_BIN_EXE_mrc"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

// The page for firmware engineers builds the engine in release mode: `docs/quickstart.py docs/quickstart-firmware.md` checks it.

#[test]
fn the_quick_start_of_testers() {
    check("quickstart-tester.md");
}

#[test]
fn the_quick_start_of_researchers() {
    check("quickstart-researcher.md");
}

#[test]
fn the_quick_start_of_operators() {
    if skip("the_quick_start_of_operators") {
        return;
    }
    check("quickstart-operator.md");
}

#[test]
fn the_way_from_an_empty_machine_to_a_watched_fabric() {
    if skip("the_way_from_an_empty_machine_to_a_watched_fabric") {
        return;
    }
    check("operations.md");
}

/// Who configures switches by the page has the code points that hosts use.
#[test]
fn switches_have_the_code_points_of_hosts() {
    let page = std::fs::read_to_string(root().join("docs/switches.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let told: Vec<(&str, u8)> =
        rows.filter_map(|(name, rest)| Some((name, rest.split(' ').next()?.parse().ok()?))).collect();
    let plan = mrc_wire::DscpPlan::default();
    let expected = [
        ("no_trim", plan.no_trim),
        ("trimmable", plan.trimmable),
        ("trimmable_retx", plan.trimmable_retx),
        ("trimmed", plan.trimmed),
        ("trimmed_lasthop", plan.trimmed_lasthop),
        ("control", plan.control),
    ];
    assert_eq!(told, expected);
}

/// The changelog has what comes next, then the version of the crates.
#[test]
fn the_changelog_is_by_release() {
    let log = std::fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let releases: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(releases[0], "Unreleased");
    assert!(releases[1].starts_with(concat!(env!("CARGO_PKG_VERSION"), " - 20")), "{releases:?}");
    let sections = log.lines().filter_map(|line| line.strip_prefix("### "));
    let unknown: Vec<&str> = sections.filter(|name| !["Added", "Changed", "Removed", "Fixed"].contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    // A merge that keeps both sides must not keep an entry twice.
    let mut entries: Vec<&str> = log.lines().filter(|line| line.starts_with("- ")).collect();
    entries.sort_unstable();
    let twice: Vec<_> = entries.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

fn pages(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && name != "target" && name != ".git" {
            pages(&path, into);
        } else if name.ends_with(".md") {
            into.push(path);
        }
    }
}

/// The name under which a heading can be linked to.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn no_link_of_a_page_is_dead() {
    let mut all = Vec::new();
    pages(&root(), &mut all);
    assert!(all.len() > 20, "{all:?}");
    let mut dead = Vec::new();
    for page in &all {
        let text = std::fs::read_to_string(page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(['\n', '`', '"']) || link.is_empty() {
                continue;
            }
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let found = match std::fs::read_to_string(&target) {
                Ok(other) if !part.is_empty() && target.extension().is_some_and(|ext| ext == "md") => {
                    other.lines().any(|line| line.starts_with('#') && anchor(line) == part)
                }
                _ => target.exists(),
            };
            if !found {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn the_book_has_every_page() {
    let docs = root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut all = Vec::new();
    pages(&docs, &mut all);
    let name = |page: &PathBuf| page.strip_prefix(&docs).unwrap().display().to_string();
    let missing: Vec<String> =
        all.iter().map(name).filter(|name| name != "SUMMARY.md" && !summary.contains(&format!("]({name})"))).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
}

#[test]
fn the_readme_is_short() {
    let lines = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 120, "README.md has {lines} lines");
}

/// A crate on a registry has its own files only: what its source includes from elsewhere is missing there. Tests are not built there.
#[test]
fn no_crate_includes_a_file_of_another_folder() {
    fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push(path);
            }
        }
    }
    let mut foreign = Vec::new();
    for member in std::fs::read_dir(root()).unwrap().flatten().map(|entry| entry.path()) {
        let manifest = std::fs::read_to_string(member.join("Cargo.toml")).unwrap_or_default();
        if !manifest.contains("\n[package]") && !manifest.starts_with("[package]") || !member.join("src").is_dir() {
            continue;
        }
        let mut files = Vec::new();
        sources(&member.join("src"), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let depth = file.strip_prefix(&member).unwrap().components().count();
            let built = text.split("#[cfg(test)]").next().unwrap_or("");
            for part in built.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                if part.matches("../").count() >= depth {
                    foreign.push(format!("{}: {part}", file.display()));
                }
            }
        }
    }
    assert!(foreign.is_empty(), "link these into the `data` folder of their crate:\n{}", foreign.join("\n"));
}
