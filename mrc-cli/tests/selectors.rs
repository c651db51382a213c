//! The path selectors side by side on a real fabric with a slow path. Needs root; skipped by name and reason otherwise.
//! The exact form of the same experiment is in virtual time: `mrc-sim/tests/selectors/`.

mod common;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{alone, finish};
use mrc_lab::{Fabric, Impairment, Shape, VirtualQueue, impair_requirements, skip};
use serde_json::Value;

const SLOW_BITS_PER_SECOND: u64 = 20_000_000;
/// Unloaded round trip as the selectors are told. Real ones take a tenth; but on a machine whose switches, hosts and
/// other work share two cores, only delays well above a time slice of the scheduler can be told from its noise.
const BASE_RTT_MS: f64 = 2.0;
/// Every selector; the one that never leaves its path is the last.
const ALL: &str = "spray,hopper,flow-bender,plb,reps,flowing-jumping,oblivious,single";

/// The program ahead of everything else on the machine, for the same reason.
fn mrc(args: &[&str]) -> Child {
    let mut command = Command::new("nice");
    command.args(["-n", "-15", env!("CARGO_BIN_EXE_mrc")]).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number `{key}` in {value}"))
}

fn bytes(value: &Value) -> Vec<f64> {
    value["path_bytes"].as_array().unwrap().iter().map(|bytes| bytes.as_f64().unwrap()).collect()
}

/// Share of the bytes of these samples that took the slow or cut path, the first.
fn on_slow(samples: &[Value]) -> f64 {
    let rows: Vec<Vec<f64>> = samples.iter().map(bytes).collect();
    let all: f64 = rows.iter().flatten().sum();
    rows.iter().map(|row| row[0]).sum::<f64>() / all.max(1.0)
}

fn print(report: &Value) {
    println!("{:<11} {:>6} {:>7}  KiB sent on {}", "selector", "ms", "Mb/s", report["paths"]);
    for run in report["runs"].as_array().unwrap() {
        for sample in run["samples"].as_array().unwrap() {
            let row: String = bytes(sample).iter().map(|bytes| format!("{:>7.0}", bytes / 1024.0)).collect();
            let (ms, mbit) = (number(sample, "ms"), number(sample, "gbit_per_s") * 1e3);
            println!("{:<11} {ms:>6.0} {mbit:>7.1} {row}", run["selector"].as_str().unwrap());
        }
    }
    for run in report["runs"].as_array().unwrap() {
        println!("{}: {} Gb/s, switches {}", run["selector"], run["gbit_per_s"], run["switches"]);
    }
}

#[test]
fn selectors_meet_a_slow_path() {
    if skip("selectors_meet_a_slow_path") {
        return;
    }
    if let Err(missing) = impair_requirements() {
        eprintln!("SKIP selectors_meet_a_slow_path: {missing}");
        return;
    }
    let _alone = alone();
    let prefix = format!("mrcsel{}", std::process::id());
    let fabric = Fabric::up(Shape { prefix: prefix.clone(), ..Shape::default() }).unwrap().guarded();
    // A real queue that delays and, full, drops; and the marks that a switch would set at its length.
    let (link, never) = ("p0-t0a-t1a", 1 << 40);
    fabric.slow(link, SLOW_BITS_PER_SECOND, Some(200_000)).unwrap();
    let queue = VirtualQueue {
        bits_per_second: SLOW_BITS_PER_SECOND,
        mark_bytes: 30_000,
        trim_bytes: never,
        drop_bytes: never,
    };
    fabric.impair(link, &Impairment { queue: Some(queue), ..Impairment::default() }).unwrap();

    let common = ["--prefix", &prefix, "--port", "18721", "--json"];
    let server = mrc(&[&["write-bw", "--lab", "hB"][..], &common].concat());
    // The offered load is ten times what the slow path carries and far below what the machine does; a message is small
    // so that goodput follows; the timer is longer than the slow queue, so that nothing but the round trip tells of it.
    let load = ["-D", "2", "-s", "16384", "--rate-limit", "200mbit", "--window", "65536", "--timeout", "16"];
    let choice = ["--selector", ALL, "--path", "p0u0", "--base-rtt", "2000"];
    let client = mrc(&[&["write-bw", "--lab", "hA", "localhost"][..], &common, &load, &choice].concat());
    let output = finish(client, Duration::from_secs(60));
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
    print(&report);
    assert!(output.status.success() && finish(server, Duration::from_secs(10)).status.success(), "{report}");

    assert_eq!((report["paths"][0].as_str(), report["paths"].as_array().unwrap().len()), (Some("p0u0"), 8));
    let runs = report["runs"].as_array().unwrap();
    let [spray, hopper, flowbender, plb, reps, flowing, oblivious, pinned] = runs.as_slice() else {
        panic!("eight runs: {report}")
    };
    let samples = |run: &Value| run["samples"].as_array().unwrap().clone();
    assert!(runs.iter().all(|run| samples(run).len() >= 4 && run["error"].is_null()), "{report}");
    // The pinned flow has the rate of its path, every other one a multiple of it.
    let slow_gbit = SLOW_BITS_PER_SECOND as f64 / 1e9;
    assert_eq!(on_slow(&samples(pinned)), 1.0);
    assert!(number(pinned, "gbit_per_s") < 1.05 * slow_gbit, "{pinned}");
    for run in [spray, hopper, flowbender, plb, reps, flowing, oblivious] {
        assert!(number(run, "gbit_per_s") > 3.0 * slow_gbit, "{run}");
    }
    // Spraying that listens keeps more off the slow path than spraying that does not.
    for run in [spray, reps, flowing] {
        assert!(on_slow(&samples(run)) < on_slow(&samples(oblivious)), "{run} {oblivious}");
    }
    // Who keeps a load of each path shows it. A delay is that of the latest round trip, which after a moment of noise need
    // not be longest on the slow path, and a path that was given up is no longer on the ring: neither is held here.
    let table = flowing["path_table"][0][1].as_array().unwrap();
    let paths = report["paths"].as_array().unwrap();
    let named: BTreeSet<&str> = table.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(table.len() >= 7 && named.len() == table.len(), "{table:?}");
    assert!(named.iter().all(|name| paths.iter().any(|path| path == name)), "{table:?}");
    // The slow one has none where it has just come back.
    let mut others = table.iter().filter(|row| row["name"] != "p0u0");
    assert!(others.all(|row| number(row, "delay_ns") > 0.0), "{table:?}");
    assert!(table.iter().any(|row| number(row, "load_bytes") > 0.0), "{table:?}");
    assert!(table.iter().all(|row| row["telemetry"] == false), "{table:?}");
    assert!(runs.iter().all(|run| run["selector"] == "flowing-jumping" || run["path_table"][0].is_null()));
    // Both single-path policies leave; Hopper within ten round trips of its first probe. The little that is left is
    // for a moment of noise elsewhere in which the slow path, idle, looks no worse than others.
    let left = &hopper["switches"][0];
    assert_eq!(left["from"], "p0u0", "{hopper}");
    assert!(number(left, "after_probe_ms") <= 10.0 * BASE_RTT_MS, "{left}");
    // PLB waits for twelve marked rounds of a round trip that is 26 ms there.
    for run in [hopper, flowbender, plb] {
        assert!(on_slow(&samples(run)[2..]) < 0.02, "{run}");
    }
}

#[test]
fn selectors_meet_a_cut_path() {
    if skip("selectors_meet_a_cut_path") {
        return;
    }
    let _alone = alone();
    let prefix = format!("mrccut{}", std::process::id());
    let fabric = Fabric::up(Shape { prefix: prefix.clone(), ..Shape::default() }).unwrap().guarded();
    fabric.cut("p0-t0a-t1a").unwrap();
    let common = ["--prefix", &prefix, "--port", "18723", "--json"];
    let server = mrc(&[&["write-bw", "--lab", "hB"][..], &common].concat());
    // All begin on the path that is cut, as far as they begin on one; the offered load is a tenth of what the machine does.
    let load = ["-D", "2", "-s", "16384", "--rate-limit", "200mbit", "--window", "65536"];
    let choice = ["--selector", ALL, "--path", "p0u0", "--base-rtt", "2000"];
    let client = mrc(&[&["write-bw", "--lab", "hA", "localhost"][..], &common, &load, &choice].concat());
    let output = finish(client, Duration::from_secs(60));
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
    print(&report);
    finish(server, Duration::from_secs(10));
    let (last, others) = report["runs"].as_array().unwrap().split_last().unwrap();
    assert_eq!(others.len(), 7, "{report}");
    // Who listens sends nothing there soon; who does not waits for a timer at every eighth packet, or for ever.
    for run in others {
        assert!(run["error"].is_null() && number(run, "gbit_per_s") > 0.002, "{run}");
        let samples = run["samples"].as_array().unwrap();
        let (cut, listens) = (on_slow(&samples[1..]), run["selector"] != "oblivious");
        assert!(samples.len() >= 4 && (cut < 0.01) == listens, "{cut} on the cut path: {run}");
        // A flow that stopped would send nothing there, too.
        assert!(!listens || samples.iter().all(|sample| number(sample, "gbit_per_s") > 0.002), "{run}");
    }
    assert_eq!(number(last, "gbit_per_s"), 0.0, "{last}");
}
