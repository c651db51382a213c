//! A sweep's results do not depend on how many workers it had, nor on when it ran.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

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
    let lines: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the summary is JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
    lines.as_array().expect("a line per point").iter().map(|l| (text(&l["name"]), text(&l["digest"]))).collect()
}

#[test]
fn any_number_of_workers_finds_the_same() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sweep-workers");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    std::fs::write(folder.join("short.toml"), SCENARIO).expect("written");
    std::fs::write(folder.join("short-sweep.toml"), SWEEP).expect("written");
    let one = digests(&folder, "one", "1");
    assert_eq!(one.len(), 6);
    let distinct: std::collections::BTreeSet<&String> = one.values().collect();
    assert_eq!(distinct.len(), 6, "other seeds and other transports take other times: {one:?}");
    assert_eq!(one, digests(&folder, "two", "2"));
    assert_eq!(one, digests(&folder, "again", "1"));
}
