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

/// A reader who repeats a figure has the whole command: a sweep without a folder for its results is refused.
#[test]
fn sweeps_of_the_pages_say_where_results_go() {
    let mut seen = 0;
    for page in std::fs::read_dir(root().join("docs")).unwrap().flatten().map(|entry| entry.path()) {
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&page).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        for command in text.split('`').filter(|text| text.starts_with("mrc sim sweep ")) {
            seen += 1;
            assert!(command.contains(" -o "), "{}: {command}", page.display());
        }
    }
    assert!(seen > 3, "{seen}");
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

/// `a/{b,c}.rs` names two files.
fn alternatives(name: &str) -> Vec<String> {
    match (name.split_once('{'), name.rsplit_once('}')) {
        (Some((before, _)), Some((_, behind))) => {
            let inside = &name[before.len() + 1..name.len() - behind.len() - 1];
            inside.split(',').map(|part| format!("{before}{part}{behind}")).collect()
        }
        _ => vec![name.to_owned()],
    }
}

/// What stands in backquotes and begins with a folder of this tree is a file or folder of it, NAME aside. Logs and the changelog keep old names.
#[test]
fn no_page_names_a_file_that_is_not_there() {
    let mut all = Vec::new();
    pages(&root(), &mut all);
    let old =
        |page: &PathBuf| page.ends_with("CHANGELOG.md") || page.components().any(|part| part.as_os_str() == "log");
    let (mut missing, mut found) = (Vec::new(), 0);
    for page in all.iter().filter(|page| !old(page)) {
        let text = std::fs::read_to_string(page).unwrap();
        let prose: String = text.split("```").step_by(2).collect();
        for name in prose.split('`').skip(1).step_by(2) {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./{},".contains(c);
            let top = name.split('/').next().unwrap_or("");
            if !name.contains('/')
                || name.contains("NAME")
                || !name.chars().all(plain)
                || top.is_empty()
                || !root().join(top).is_dir()
            {
                continue;
            }
            for name in alternatives(name) {
                found += 1;
                let beside = page.parent().unwrap().join(&name);
                if !root().join(&name).exists() && !beside.exists() && !name.starts_with("target/") {
                    missing.push(format!("{}: {name}", page.display()));
                }
            }
        }
    }
    assert!(found > 100, "{found}");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Name and default of each knob in a table of docs/selectors.md: cells begin with "PLB `rounds`, 12" or "`rounds`, 12".
fn knobs_of_the_page(section: &str) -> Vec<(String, String, String)> {
    let (mut of, mut found) = (String::new(), Vec::new());
    for cell in section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()) {
        let Some((before, rest)) = cell.split_once('`') else { continue };
        let Some((name, default)) = rest.split_once("`, ") else { continue };
        if !before.trim().is_empty() {
            of = before.trim().to_owned();
        }
        let default = if default == "60 s" { "60000000000" } else { default.split(' ').next().unwrap() };
        found.push((of.clone(), name.to_owned(), default.to_owned()));
    }
    found
}

/// Defaults of selectors and schemes are those of the code.
#[test]
fn the_page_of_selectors_has_their_defaults() {
    use mrc_core::path::{
        FlowBenderConfig, FlowingJumpingConfig, HopperConfig, PathSet, PlbConfig, RepsConfig, Selector,
    };
    let page = std::fs::read_to_string(root().join("docs/selectors.md")).unwrap();
    let section = |title: &str| page.split("\n## ").find(|text| text.starts_with(title)).unwrap();
    let mut checked = 0;
    for (title, of, code) in [
        ("FlowBender, PLB, REPS", "FlowBender", format!("{:?}", FlowBenderConfig::DEFAULT)),
        ("FlowBender, PLB, REPS", "PLB", format!("{:?}", PlbConfig::DEFAULT)),
        ("FlowBender, PLB, REPS", "REPS", format!("{:?}", RepsConfig::DEFAULT)),
        ("Flowing & Jumping", "", format!("{:?}", FlowingJumpingConfig::DEFAULT)),
        ("Hopper", "", format!("{:?}", HopperConfig::DEFAULT)),
    ] {
        for (_, name, default) in knobs_of_the_page(section(title)).into_iter().filter(|(its, ..)| its == of) {
            let says = format!("{name}: {default}");
            let holds = code.split([',', '{', '}']).any(|field| field.trim() == says);
            assert!(holds || default == "none", "docs/selectors.md says `{says}` of {of} in `{title}`: {code}");
            checked += 1;
        }
    }
    assert!(checked >= 25, "{checked}");
    let bytes = |selector: Selector, evs| selector.state_bytes(evs);
    let rotation = bytes(Selector::Spray, 0);
    let per_ev = bytes(Selector::Spray, 1) - rotation;
    let own = [
        Selector::Hopper(HopperConfig::DEFAULT),
        Selector::FlowingJumping(FlowingJumpingConfig::DEFAULT),
        Selector::Plb(PlbConfig::DEFAULT),
        Selector::Reps(RepsConfig::DEFAULT),
        Selector::FlowBender(FlowBenderConfig::DEFAULT),
    ]
    .map(|selector| bytes(selector, 0) - rotation);
    let [hopper, flowing, plb, reps, bender] = own;
    let says = format!(
        "beside the {per_ev} per EV that all of them share: rotation {rotation} (all selectors); Hopper {hopper}, Flowing & Jumping \
         {flowing}, PLB {plb}, REPS {reps}, FlowBender {bender}, none for the others. A QP reserves the largest, {} in all.",
        size_of::<PathSet>()
    );
    assert!(
        page.split_whitespace().collect::<Vec<_>>().join(" ").contains(&says),
        "docs/selectors.md should say: {says}"
    );
    for row in section("Schemes of the switches").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let scheme = mrc_sim::scheme::named(cells[0].trim_matches(['|', ' ', '`'])).expect("a scheme");
        let params = cells[2].split('`').skip(1).step_by(2).zip(cells[2].split('`').skip(2).step_by(2));
        let shown: Vec<(String, f64)> = params
            .filter_map(|(name, rest)| {
                let number = rest.strip_prefix(" (")?.split([',', ';', ':', ')']).next()?;
                Some((name.to_owned(), number.parse().ok()?))
            })
            .collect();
        let code = scheme.info().params.iter().map(|param| (param.name.to_owned(), param.default));
        assert_eq!(shown, code.collect::<Vec<_>>(), "{}", cells[0]);
    }
}

/// SECURITY.md has a row for each port that a program listens on by default.
#[test]
fn every_port_is_named() {
    let page = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let commands: [&[&str]; 6] =
        [&["write-bw"], &["write-lat"], &["conform"], &["mapper", "collect"], &["mapper", "web"], &["metrics"]];
    for command in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_mrc")).args(command).arg("--help").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        // `ADDRESS:PORT`, and the default of `--port`.
        let words = help.split(|c: char| c.is_whitespace() || "]/".contains(c));
        let addresses = words.filter_map(|word| word.rsplit_once(':')).map(|(_, port)| port);
        let option = help.split("--port <PORT>").nth(1).and_then(|rest| rest.split("[default: ").nth(1));
        let option = option.and_then(|rest| rest.split(']').next());
        let is_port = |word: &&str| word.parse::<u16>().is_ok_and(|n| n > 4_096);
        let ports: Vec<&str> = addresses.chain(option).filter(is_port).collect();
        assert!(!ports.is_empty(), "{command:?}: no port in its help");
        for port in ports {
            assert!(page.contains(&format!("{port}, ")), "SECURITY.md does not name port {port} of {command:?}");
        }
    }
}

/// Every script is counted where a page says how many there are.
#[test]
fn pages_say_how_many_scripts_there_are() {
    let count = mrc_conform::builtin().unwrap().len();
    for (page, says) in [
        ("README.md", format!("Conformance: {count} scripts ")),
        ("docs/quickstart-tester.md", format!("\n{count} passed, 0 failed, ")),
        ("docs/quickstart-firmware.md", format!(" {count} traces ")),
    ] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains(&says), "{page} should say `{}`", says.trim());
    }
}

#[test]
fn the_page_of_counters_has_each_of_them_and_no_other() {
    let page = std::fs::read_to_string(root().join("docs/counters.md")).unwrap();
    let first_cells = page.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    let names = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let mut there: Vec<&str> = names.collect();
    let mut all = Vec::new();
    mrc_core::Stats::default().for_each(|name, _| all.push(name));
    there.sort_unstable();
    all.sort_unstable();
    assert_eq!(there, all);
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
