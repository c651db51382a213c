//! A sweep's results do not depend on how many workers it had, nor on when it ran.

mod common;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use common::empty_folder;

/// Three seeds of a short permutation with losses, so that every random part of a run has its say.
const SWEEP: &str = r#"
scenario = "short.toml"
seeds = [1, 2, 3]
set = { "topology.t0" = 2 }

[[axis]]
name = "hosts"
cases = [
  { label = "mrc", set = {} },
  { label = "roce", set = { "transport.kind" = "roce", "topology.forwarding" = "ecmp" } },
]
"#;

const SCENARIO: &str = r#"
name = "short"
about = "A permutation with random losses."
limit_us = 20000

[topology]
planes = 2
t0 = 4
hosts_per_t0 = 4
t1 = 4

[[workload]]
kind = "permutation"
bytes = 200000

[[fault]]
kind = "loss"
at_us = 0
tier = "host"
probability = 0.002
"#;

/// Runs the sweep in a folder of its own; the digest of all completion times by point.
fn digests(folder: &Path, out: &str, workers: &str) -> BTreeMap<String, String> {
    let out = folder.join(out);
    let sweep = folder.join("short-sweep.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
    command.args(["sim", "sweep", "--json", "--workers", workers]).arg(&sweep).arg("--out").arg(&out);
    let output = command.output().expect("mrc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the summary is JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
    // What made it, from what.
    assert!(text(&summary["program"]).starts_with(concat!("mrc ", env!("CARGO_PKG_VERSION"))), "{summary}");
    assert!(text(&summary["command"]).contains("sim sweep --json --workers "), "{summary}");
    let head = [&summary["scenario"], &summary["text"], &summary["finished"]];
    assert_eq!(head, [&"short".into(), &SCENARIO.into(), &serde_json::Value::Bool(true)]);
    let points = summary["points"].as_array().expect("a line per point");
    assert!(points.iter().all(|point| point["program"] == summary["program"]), "{summary}");
    points.iter().map(|l| (text(&l["name"]), text(&l["digest"]))).collect()
}

#[test]
fn any_number_of_workers_finds_the_same() {
    let folder = empty_folder("sweep-workers");
    std::fs::write(folder.join("short.toml"), SCENARIO).expect("written");
    std::fs::write(folder.join("short-sweep.toml"), SWEEP).expect("written");
    let one = digests(&folder, "one", "1");
    assert_eq!(one.len(), 6);
    let distinct: std::collections::BTreeSet<&String> = one.values().collect();
    assert_eq!(distinct.len(), 6, "other seeds and other transports take other times: {one:?}");
    assert_eq!(one, digests(&folder, "two", "2"));
    assert_eq!(one, digests(&folder, "again", "1"));
}

/// Two schemes against each other with a fault; a combination that does not exist.
const COMPARED: &str = r#"
scenario = "short.toml"
seeds = [1, 2]
set = { "topology.planes" = 1 }
compare = "scheme"

[[axis]]
name = "fault"
cases = [
  { label = "healthy", set = { fault = [] } },
  { label = "down", set = { fault = [{ kind = "link-down", target = ["p0-t0a-t1b"], at_us = 5 }] } },
]

[[axis]]
name = "scheme"
cases = [
  { label = "mrc", set = {} },
  { label = "rps", set = { "topology.forwarding" = "rps", "transport.mrc.selector" = "single" } },
  { label = "ecmp", set = { "topology.forwarding" = "ecmp", "transport.mrc.selector" = "single" } },
]

[[without]]
at = { fault = "down", scheme = ["ecmp"] }
why = "one path <for ever> does not leave"
"#;

/// Without `sweep.json` nothing says what results are of that are in the folder already.
#[test]
fn results_of_another_run_are_not_taken_for_those_of_a_point() {
    let folder = empty_folder("sweep-others");
    std::fs::write(folder.join("short.toml"), SCENARIO).expect("the scenario");
    std::fs::write(folder.join("short-sweep.toml"), "scenario = \"short.toml\"\nseeds = [1, 2]\n").expect("the sweep");
    let first = digests(&folder, "out", "1");
    let sweep = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
        let output = command.args(["sim", "sweep", "short-sweep.toml", "-o", "out"]).current_dir(&folder).output();
        let output = output.expect("mrc starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let manifest = folder.join("out/sweep.json");
    std::fs::remove_file(&manifest).expect("sweep.json");
    assert_eq!(digests(&folder, "out", "1"), first, "its own results");

    std::fs::remove_file(&manifest).expect("sweep.json");
    std::fs::copy(folder.join("out/seed1.json"), folder.join("out/seed2.json")).expect("results of another seed");
    for _ in 0..2 {
        let (code, error) = sweep();
        assert!(code == Some(2) && error.contains("out/seed2.json is of another run"), "{code:?} {error}");
    }
    std::fs::remove_file(folder.join("out/seed2.json")).expect("results");
    std::fs::write(folder.join("short.toml"), SCENARIO.replace("200000", "100000")).expect("another scenario");
    let (code, error) = sweep();
    assert!(code == Some(2) && error.contains("out/seed1.json is of another run"), "{code:?} {error}");

    // What cannot be read is no result, and no reason to say that all is well.
    std::fs::remove_dir_all(folder.join("out")).expect("out");
    std::fs::create_dir_all(folder.join("out/seed1.json")).expect("a folder in place of results");
    let (code, error) = sweep();
    assert!(code != Some(0) && error.contains("cannot read out/seed1.json"), "{code:?} {error}");
}

/// All points have run: whatever cannot be written then, the table is printed.
#[test]
fn a_table_is_not_lost_with_a_file() {
    let folder = empty_folder("sweep-table");
    std::fs::create_dir_all(folder.join("out/over-seeds.json")).expect("a folder in place of the file");
    std::fs::write(folder.join("short.toml"), SCENARIO).expect("the scenario");
    std::fs::write(folder.join("sweep.toml"), "scenario = \"short.toml\"\nseeds = [1, 2]\n").expect("the sweep");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
    let output = command.args(["sim", "sweep", "sweep.toml", "-o", "out"]).current_dir(&folder).output();
    let output = output.expect("mrc starts");
    let (table, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(table.contains("seed1 ") && table.contains("seed2 ") && table.contains("means over seeds"), "{table}");
    assert!(output.status.code() == Some(1) && error.contains("cannot write out/over-seeds.json: "), "{error}");
}

/// The value of the second knob goes with the default of the first one, and not with what the search found.
const APART: &str = r#"
scenario = "short.toml"
seed = 1
seeds = [2]
measure = "mean"
[[side]]
name = "a"
set = { limit_us = 1.0 }
knob = [{ key = "limit_us", values = [200000.0] }, { key = "bin_us", values = [0.01, 100.0] }]
"#;

/// Both from standard input, which nobody can read a second time.
#[test]
fn sweeps_and_their_scenarios_are_read_once() {
    let folder = empty_folder("sweep-once");
    let mrc = |args: &[&str], input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
        command.args(args).current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("mrc starts");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("mrc ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    std::fs::write(folder.join("short.toml"), SCENARIO).expect("the scenario");
    let (code, text, error) = mrc(&["sim", "check", "-"], SWEEP);
    assert_eq!((code, text.as_str()), (Some(0), "-: sweep of short.toml by hosts: 6 points\n"), "{error}");
    let (code, text, error) = mrc(&["sim", "check", "-"], APART);
    let says = "-: short.toml, every side tuned by the same search: a\n";
    assert_eq!((code, text.as_str()), (Some(0), says), "{error}");
    for commands in ["--jobs", "--slurm"] {
        let (code, text, error) = mrc(&["sim", "sweep", "-", "--out", "none", commands, "-"], SWEEP);
        assert_eq!((code, text.as_str()), (Some(2), ""), "{commands}");
        assert!(error.contains("give it a file in place of -"), "{error}");
    }
    let sweep = SWEEP.replace("short.toml", "/dev/stdin");
    std::fs::write(folder.join("sweep.toml"), &sweep).expect("the sweep");
    let (code, _, error) = mrc(&["sim", "sweep", "sweep.toml", "--out", "out", "--where", "seed=1"], SCENARIO);
    assert_eq!(code, Some(0), "{error}");
    assert!(folder.join("out/roce-seed1.json").exists() && folder.join("out/mrc-seed1.json").exists());
}

#[test]
fn combinations_that_a_comparison_refuses_are_named_with_their_side_and_counted() {
    let folder = empty_folder("tune-apart");
    std::fs::write(folder.join("short.toml"), SCENARIO).expect("the scenario");
    std::fs::write(folder.join("tuning.toml"), APART).expect("the tuning file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
    let output = command.args(["sim", "tune", "tuning.toml", "--json", "out.json"]).current_dir(&folder).output();
    let output = output.expect("mrc starts");
    let (table, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(error.starts_with("mrc: side `a`: ") && error.contains("limit_us=200000.0, bin_us=0.01"), "{error}");
    assert!(table.contains("(3 runs, 1 refused) |"), "{table}");
    let compared = std::fs::read_to_string(folder.join("out.json")).expect("the comparison");
    let compared: serde_json::Value = serde_json::from_str(&compared).expect("JSON");
    let side = &compared["sides"][0];
    assert_eq!((&side["searched"], &side["refused"]), (&3.into(), &1.into()), "{compared}");
    // What made it, from what, with which seeds.
    let program = compared["program"].as_str().expect("a program");
    assert!(program.starts_with(concat!("mrc ", env!("CARGO_PKG_VERSION"))), "{program}");
    let command = compared["command"].as_str().expect("a command");
    assert!(command.ends_with("sim tune tuning.toml --json out.json"), "{command}");
    let known = serde_json::json!({"scenario": "short", "text": SCENARIO, "measure": "mean", "seed": 1, "seeds": [2], "finished": true});
    for (key, value) in known.as_object().expect("keys") {
        assert_eq!(&compared[key], value, "{key}");
    }
    assert_eq!(side["set"], serde_json::json!(["limit_us=1.0"]));
}

#[test]
fn a_comparison_runs_in_parts_and_ends_in_a_verdict() {
    let folder = empty_folder("sweep-compared");
    std::fs::write(folder.join("short.toml"), SCENARIO).expect("written");
    std::fs::write(folder.join("sweep.toml"), COMPARED).expect("written");
    let out = folder.join("out");
    let sweep = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
        command.args(["sim", "sweep"]).arg(folder.join("sweep.toml")).arg("--out").arg(&out).args(more);
        let output = command.output().expect("mrc starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let results = || {
        let files = std::fs::read_dir(&out).expect("the folder").filter_map(|file| file.ok());
        files.filter(|file| file.file_name().to_string_lossy().contains("seed")).count()
    };
    let (code, _, error) = sweep(&["--where", "fault=up"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("labels of fault are healthy, down"), "{error}");
    let (code, _, error) = sweep(&["--where", "seed=1", "--where", "seed=2"]);
    assert!(code == Some(2) && error.contains("--where seed=2: seed is there twice"), "{error}");
    assert_eq!(sweep(&["--where", "seed=1", "--where", "scheme=mrc,rps"]).0, Some(0));
    assert_eq!(results(), 4, "two schemes, healthy and not, one seed");
    for part in ["0/3", "1/3", "2/3"] {
        assert_eq!(sweep(&["--part", part]).0, Some(0), "{part}");
    }
    assert_eq!(results(), 10, "five combinations with two seeds each");
    let (code, text, error) = sweep(&["--report"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("10 of 10 points have results") && text.contains("Leaves faulty links in"), "{text}");
    let page = std::fs::read_to_string(out.join("report.html")).expect("the page");
    for part in
        ["Verdict by scheme", "one path &lt;for ever&gt; does not leave", "times the best", "state of a queue pair"]
    {
        assert!(page.contains(part), "{part}");
    }
    let script = folder.join("array.sh");
    assert_eq!(sweep(&["--where", "seed=2", "--slurm", script.to_str().expect("a name")]).0, Some(0));
    let script = std::fs::read_to_string(script).expect("the script");
    assert!(
        script.contains("--array=0-4") && script.contains("--where seed=2 --part \"$SLURM_ARRAY_TASK_ID\"/5"),
        "{script}"
    );
}

/// The file that a help text shows: the indented lines behind `begin`.
fn file_in_help(command: &str, begin: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_mrc")).args(["sim", command, "--help"]).output().expect("mrc starts");
    let help = String::from_utf8(output.stdout).expect("text");
    let (_, shown) = help.split_once(begin).unwrap_or_else(|| panic!("`{begin}` is not in the help of {command}"));
    let lines = shown.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with("  "));
    lines.fold(String::new(), |file, line| file + line.trim_start() + "\n")
}

#[test]
fn the_files_in_the_help_texts_run_as_they_stand() {
    let folder = empty_folder("sweep-help");
    for name in ["ring.toml", "mine.toml"] {
        std::fs::write(folder.join(name), "[[workload]]\nkind = \"permutation\"\nbytes = 20000\n").expect("written");
    }
    let mrc = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_mrc")).current_dir(&folder).args(arguments).output().expect("mrc");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    std::fs::write(folder.join("sweep.toml"), file_in_help("sweep", "what changes:\n")).expect("written");
    let page = mrc(&["sim", "sweep", "sweep.toml", "--out", "out", "--report"]);
    assert!(page.contains("25 of 25 points have results") && page.contains("roce   "), "{page}");
    std::fs::write(folder.join("tuning.toml"), file_in_help("tune", "with their knobs:\n")).expect("written");
    assert!(mrc(&["sim", "tune", "tuning.toml"]).contains("| RoCE, go-back-N, PFC |"));
}
