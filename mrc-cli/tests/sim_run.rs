//! What `mrc sim run` and its kin say when something is wrong: exit codes, results of unfinished runs, names.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn mrc(folder: &Path, args: &[&str]) -> Output {
    // MRC_TEST_PROGRAM: another build of the program, to see these tests fail with it.
    let program = std::env::var("MRC_TEST_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_mrc").to_owned());
    Command::new(program).args(args).current_dir(folder).output().expect("the program starts")
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", says(output)))
}

/// Two flows; the only link of the second one's receiver goes down for ever, and its sender tries for ever.
const CUT_OFF: &str = "[topology]\nshape = \"dumbbell\"\n[transport.mrc]\nexponential_retries = 25\n\
    [[workload]]\nname = \"well\"\nfrom = 0\nto = 2\nbytes = 100000\n\
    [[workload]]\nname = \"cut\"\nfrom = 1\nto = 3\nbytes = 1000000\n\
    [[fault]]\ntarget = [\"p0-hD\"]\nat_us = 1\n";

#[test]
fn a_scenario_may_come_from_standard_input() {
    let folder = folder("stdin");
    std::fs::write(folder.join("good.toml"), "[[workload]]\nbytes = 1000\n").unwrap();
    let of_file = json(&mrc(&folder, &["sim", "run", "good.toml", "--quiet", "--json"]));
    let from_stdin = |file: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
        command.args(["sim", "run", "-", "--quiet", "--json"]).current_dir(&folder);
        command.stdin(std::fs::File::open(folder.join(file)).unwrap()).output().expect("the program starts")
    };
    let results = json(&from_stdin("good.toml"));
    assert_eq!((&results["digest"], &results["completed"]), (&of_file["digest"], &1.into()));
    std::fs::write(folder.join("bad.toml"), "[topology]\nplains = 2\n").unwrap();
    let bad = from_stdin("bad.toml");
    assert!(bad.status.code() == Some(2) && says(&bad).contains("-:2: topology.plains"), "{}", says(&bad));
}

/// The times of a size stand for those of its messages that completed, and the line says so where others did not.
#[test]
fn sizes_say_that_their_times_are_those_of_completed_messages() {
    let folder = folder("sizes");
    let text = "until = \"limit\"\n[[workload]]\nkind = \"poisson\"\nflows = 100\nsizes = \"web-search\"\n";
    std::fs::write(folder.join("poisson.toml"), text).unwrap();
    let bins = |limit: &str| {
        let run = mrc(&folder, &["sim", "run", "poisson.toml", "--quiet", "--set", limit]);
        assert!(run.status.success(), "{}", says(&run));
        let out = String::from_utf8_lossy(&run.stdout).into_owned();
        let bins = out.lines().filter(|line| line.contains(" messages, slowdown ")).map(str::to_owned);
        bins.collect::<Vec<_>>()
    };
    let partial = |line: &String| line.contains("slowdown of those that completed: mean ");
    assert!(bins("limit_us=3000").iter().any(partial), "{:?}", bins("limit_us=3000"));
    assert!(!bins("limit_us=1000000").iter().any(partial), "{:?}", bins("limit_us=1000000"));
}

#[test]
fn a_flow_that_is_cut_off_is_no_success() {
    let folder = folder("cut-off");
    std::fs::write(folder.join("cut.toml"), CUT_OFF).unwrap();
    let run = mrc(&folder, &["sim", "run", "cut.toml", "--quiet", "--json"]);
    assert_eq!(run.status.code(), Some(4), "{}", says(&run));
    assert!(says(&run).contains("no byte arrived for") && says(&run).contains("1 to 3"), "{}", says(&run));
    let results = json(&run);
    assert_eq!((&results["ended"], &results["completed"]), (&"stalled".into(), &1.into()));
    assert!(results["diagnosis"].as_str().unwrap().contains("1 of 2 messages completed"));
    // No time for what never came, neither of all nor of the group; of what completed there is one.
    assert!(results["fct_us"].is_null() && results["slowdown"].is_null());
    let groups = &results["groups"];
    assert!(groups[0]["fct_us"]["mean"].as_f64().unwrap() > 5.0, "{groups}");
    assert!(groups[1]["fct_us"].is_null() && groups[1]["completed_fct_us"].is_null(), "{groups}");
    assert_eq!(results["completed_fct_us"]["max"], groups[0]["fct_us"]["max"]);
    // The same where the time limit is nearer, and where it is a planned end.
    let limited = mrc(&folder, &["sim", "run", "cut.toml", "--quiet", "--json", "--set", "limit_us=5000"]);
    assert_eq!((limited.status.code(), &json(&limited)["ended"]), (Some(4), &"limit".into()), "{}", says(&limited));
    let planned = ["--set", "limit_us=5000", "--set", "until=limit"];
    let planned = mrc(&folder, &[&["sim", "run", "cut.toml", "--quiet", "--json"], &planned[..]].concat());
    assert_eq!((planned.status.code(), &json(&planned)["ended"]), (Some(0), &"planned".into()));
    // A message that fails is worse than one that waits.
    let failed = ["--set", "transport.mrc.exponential_retries=1"];
    let failed = mrc(&folder, &[&["sim", "run", "cut.toml", "--quiet", "--json"], &failed[..]].concat());
    assert_eq!((failed.status.code(), &json(&failed)["ended"]), (Some(1), &"failed".into()), "{}", says(&failed));
}

#[test]
fn the_table_of_an_unfinished_run_says_so() {
    let folder = folder("cut-off-table");
    std::fs::write(folder.join("cut.toml"), CUT_OFF).unwrap();
    let run = mrc(&folder, &["sim", "run", "cut.toml", "--quiet"]);
    let table = String::from_utf8_lossy(&run.stdout);
    assert!(table.contains("1 of 2 in") && table.contains("STALLED"), "{table}");
    assert!(table.contains("of those that completed: mean") && table.contains("none completed"), "{table}");
}

#[test]
fn a_sweep_with_an_unfinished_point_fails_also_when_its_results_are_there_already() {
    let folder = folder("cut-off-sweep");
    std::fs::write(folder.join("cut.toml"), CUT_OFF).unwrap();
    let sweep = "scenario = \"cut.toml\"\n[[axis]]\nkey = \"limit_us\"\nvalues = [2000, 3000]\n";
    std::fs::write(folder.join("sweep.toml"), sweep).unwrap();
    for round in 0..2 {
        let run = mrc(&folder, &["sim", "sweep", "sweep.toml", "-o", "out"]);
        assert_eq!(run.status.code(), Some(1), "{round}: {}", says(&run));
        assert!(says(&run).contains("2000: not all completed: 1 of 2 messages"), "{}", says(&run));
        let table = String::from_utf8_lossy(&run.stdout).into_owned();
        let row = table.lines().find(|line| line.starts_with("2000")).unwrap();
        assert!(row.contains(" - ") && row.ends_with("NOT all completed"), "{table}");
    }
    let report = mrc(&folder, &["sim", "report", "out"]);
    assert!(report.status.success(), "{}", says(&report));
    let page = std::fs::read_to_string(folder.join("out/report.html")).unwrap();
    assert!(page.contains("1 of 2") && page.contains("A cross is a point with unfinished runs"));
    let nowhere = mrc(&folder, &["sim", "report", "out", "-o", "no/such/page.html"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(says(&nowhere).contains("no/such/page.html") && !folder.join("no").exists(), "{}", says(&nowhere));
}

#[test]
fn what_cannot_be_exits_with_2() {
    let folder = folder("exit-2");
    let file = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    file("key.toml", "[topology]\nhots_per_t0 = 4\n[[workload]]\n");
    file("word.toml", "[[workload]]\nkind = \"all-reduse\"\n");
    file("value.toml", "[topology]\nplanes = 99\n[[workload]]\n");
    file("good.toml", "[[workload]]\n");
    file("silent.toml", "[[workload]]\nkind = \"poisson\"\nload = 0.01\nduration_us = 0.01\n");
    std::fs::create_dir(folder.join("broken")).unwrap();
    file("broken/x.json", "{\"digest\": 1");
    file("bins.toml", "size_bins = [0, 1000]\n[[workload]]\n");
    file(
        "big.toml",
        "[topology]\nshape = \"graph\"\n[[topology.edge]]\nbetween = [[\"h0\", \"a\"], [\"H1\", \"a\"]]\n[[workload]]\n",
    );
    file("sweep.toml", "scenario = \"good.toml\"\n[[axis]]\nkey = \"bin_us\"\nvalues = [100, -1]\n");
    file("seeds.toml", "scenario = \"good.toml\"\nseeds = [7, 8, 7]\n");
    file("one.toml", "scenario = \"good.toml\"\nseeds = [1]\n");
    file("two.toml", "scenario = \"good.toml\"\nseeds = [2]\n");
    assert!(mrc(&folder, &["sim", "sweep", "one.toml", "-o", "used"]).status.success());
    let axis = "[[axis]]\nkey = \"workload.0.bytes\"\nvalues = [1, 2]\n";
    file("axes.toml", &format!("scenario = \"good.toml\"\n{axis}{axis}"));
    let axis = format!("scenario = \"good.toml\"\n{axis}[[without]]\nwhy = \"no\"\n");
    file("label.toml", &format!("{axis}at = {{ bytes = 1 }}\n"));
    file("none.toml", &format!("{axis}at = {{ bytes = [\"1\", \"2\"] }}\n"));
    for (args, want) in [
        (&["sweep", "label.toml", "-o", "out"][..], "expected a label in quotes"),
        (&["sweep", "none.toml", "-o", "out"], "leaves no point"),
        (&["run", "key.toml"], "did you mean `hosts_per_t0`?"),
        (&["run", "word.toml"], "did you mean `all-reduce`?"),
        (&["run", "value.toml"], "value.toml:2: topology.planes: 99"),
        (&["run", "good.toml", "--set", "topology.plans=2"], "did you mean `planes`?"),
        (&["run", "good.toml", "--set", "topology"], "write key=value"),
        (&["run", "good.toml", "--pcap", "p9-hA"], "no link is called"),
        (&["run", "missing.toml"], "no such file"),
        (&["run", "sweep.toml"], "sweep.toml is a sweep"),
        (&["sweep", "sweep.toml", "-o", "out"], "point -1"),
        (&["sweep", "good.toml", "-o", "out"], "is a scenario"),
        (&["sweep", "seeds.toml", "-o", "out"], "seeds: 7 is there twice"),
        (&["sweep", "axes.toml", "-o", "out"], "two axes change workload.0.bytes"),
        (&["sweep", "two.toml", "-o", "used"], "used holds another sweep"),
        (&["tune", "good.toml"], "good.toml compares no sides: `mrc sim run good.toml` runs it"),
        (&["list", "nowhere"], "cannot list nowhere"),
        (&["run", "bins.toml"], "rising numbers of bytes, from 1 on"),
        (&["run", "big.toml"], "`H1`: hosts are h0, h1 and so on"),
        (&["schema", "transport.mcr"], "no table is called `transport.mcr`; there are topology"),
        (&["report", "."], "no results in .: run a scenario"),
        (&["report", "nowhere"], "cannot read nowhere"),
        (&["report", "broken"], "broken/x.json holds no results"),
        (&["run", "silent.toml"], "silent.toml:4: workload[0].duration_us: no flow begins"),
        (&["new", "nowhere/mine.toml"], "cannot write nowhere/mine.toml: nowhere is no folder"),
        (&["run", "good.toml", "--json", "x", "--links", "y", "--flows", "x"], "--json and --flows name one file"),
        (
            &["run", "good.toml", "--json", "--flows", "-"],
            "--json and --flows both need standard output: give --flows a file",
        ),
    ] {
        let run = mrc(&folder, &[&["sim"], args].concat());
        assert_eq!(run.status.code(), Some(2), "{args:?}: {}", says(&run));
        assert!(says(&run).contains(want), "{args:?}: {}", says(&run));
    }
}

#[test]
fn tables_of_rows_can_go_to_standard_output() {
    let folder = folder("stdout");
    std::fs::write(folder.join("one.toml"), "[[workload]]\nfrom = 0\nto = 1\nbytes = 5000\n").unwrap();
    for (option, begins) in [("--flows", "id,workload,src,"), ("--links", "at_us,link,"), ("--paths", "host,peer,qp,")]
    {
        let run = mrc(&folder, &["sim", "run", "one.toml", "--quiet", option, "-"]);
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(run.status.success() && text.starts_with(begins), "{option}: {text}{}", says(&run));
        // Rows, and nothing else.
        let commas = begins.matches(',').count();
        assert!(text.lines().all(|line| line.matches(',').count() > commas), "{option}: {text}");
    }
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|file| file.file_name()).collect();
    assert_eq!(files, ["one.toml"]);
}

#[test]
fn a_new_scenario_can_be_checked_and_run() {
    let folder = folder("new");
    let new = mrc(&folder, &["sim", "new", "first.toml"]);
    assert!(new.status.success(), "{}", says(&new));
    let check = mrc(&folder, &["sim", "check", "first.toml", "planes-sweep", "--set", "seed=2"]);
    assert!(says(&check).contains("is a sweep") && check.status.code() == Some(2), "{}", says(&check));
    let check = mrc(&folder, &["sim", "check", "first.toml", "planes-sweep"]);
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(check.status.success() && lines.len() == 2, "{}", says(&check));
    assert!(lines[0].starts_with("first.toml: 32 hosts, 24 switches, mrc, 32 messages of 128.000 MB in all"), "{text}");
    assert!(lines[1].contains("60 points"), "{text}");
    let run = mrc(&folder, &["sim", "run", "first.toml", "--quiet", "--set", "workload.0.bytes=100000"]);
    assert!(run.status.success(), "{}", says(&run));
    // What exists is kept, and what is wrong is told.
    assert_eq!(mrc(&folder, &["sim", "new", "first.toml"]).status.code(), Some(2));
    let text = std::fs::read_to_string(folder.join("first.toml")).unwrap();
    std::fs::write(folder.join("wrong.toml"), text.replace("planes", "plains")).unwrap();
    let wrong = mrc(&folder, &["sim", "check", "wrong.toml"]);
    assert!(wrong.status.code() == Some(2) && says(&wrong).contains("did you mean `planes`"), "{}", says(&wrong));
}

#[test]
fn ready_scenarios_are_at_hand_in_any_folder() {
    let folder = folder("anywhere");
    let list = mrc(&folder, &["sim", "list", "--json"]);
    assert!(list.status.success(), "{}", says(&list));
    let listed = json(&list);
    let rows = listed.as_array().unwrap();
    assert!(rows.len() > 25 && rows.iter().all(|row| row["valid"] == true), "{listed}");
    let run = mrc(&folder, &["sim", "run", "one-flow", "--quiet", "--json"]);
    assert!(run.status.success() && json(&run)["finished"] == true, "{}", says(&run));
    // The points of a ready sweep find its scenario, too.
    let mut list = Command::new(env!("CARGO_BIN_EXE_mrc"));
    let list = list.args(["sim", "sweep", "evs-sweep", "-o", "out", "--only", "0", "--json"]).current_dir(&folder);
    let out = list.output().unwrap();
    assert!(out.status.success(), "{}", says(&out));
    assert_eq!(std::fs::read_dir(folder.join("out")).unwrap().count(), 2, "the manifest and one point");
}

#[test]
fn the_tuning_file_of_the_docs_is_at_hand_and_is_no_scenario() {
    let folder = folder("tuning");
    let run = mrc(&folder, &["sim", "run", "same-search-tune", "--quiet"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(says(&run).contains("`mrc sim tune same-search-tune` makes the runs"), "{}", says(&run));
}

#[test]
fn results_repeat_themselves_and_say_so() {
    let folder = folder("repeat");
    let text = "preset = \"parity\"\n[topology]\nt0 = 2\nhosts_per_t0 = 4\nt1 = 2\nforwarding = \"letflow\"\n\
        [topology.scheme]\ngap_us = 7.5\n[[workload]]\nkind = \"permutation\"\nbytes = 100000\n\
        [[workload]]\nkind = \"trace\"\nfile = \"t.csv\"\n[[fault]]\nkind = \"loss\"\nprobability = 0.01\n";
    std::fs::write(folder.join("s.toml"), text).unwrap();
    std::fs::write(folder.join("t.csv"), "1.5,0,5,3000\n").unwrap();
    let set = ["--seed", "7", "--set", "queue.trim=false", "--json", "out.json", "--flows", "flows.csv"];
    let divided = ["--set", "partitions=2", "--threads", "2", "--links", "links.csv"];
    let first = mrc(&folder, &[&["sim", "run", "s.toml", "--quiet"], &set[..], &divided[..]].concat());
    assert!(first.status.success(), "{}", says(&first));
    let results: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("out.json")).unwrap()).expect("JSON");
    assert!(results["program"].as_str().unwrap().starts_with("mrc 0.") && results["seed"] == 7);
    assert!(results["command"].as_str().unwrap().contains("--set queue.trim=false"), "{}", results["command"]);
    assert!(results["resolved"].as_str().unwrap().contains("gap_us = 7.5"), "{}", results["resolved"]);
    // A row for each message, in numbers that the results have too.
    let csv = std::fs::read_to_string(folder.join("flows.csv")).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((rows.len(), rows[0][9], rows[1].len()), (1 + 9, "fct_us", rows[0].len()));
    let longest = rows[1..].iter().map(|row| row[9].parse::<f64>().unwrap()).fold(0.0, f64::max);
    assert_eq!(longest, results["fct_us"]["max"].as_f64().unwrap());
    // Every message has packets, and the losses of this run were retransmitted.
    let sum = |column: usize| rows[1..].iter().map(|row| row[column].parse::<u64>().unwrap()).sum::<u64>();
    assert_eq!((rows[0][11], rows[0][12], rows[0][13]), ("packets", "retransmitted_bytes", "ports"));
    assert_eq!(sum(11), results["data_packets"].as_u64().unwrap() + results["retransmitted_packets"].as_u64().unwrap());
    assert!(sum(12) > 0 && sum(13) == 9, "{csv}");
    // How busy links were: no link more than always, and the senders' at some time.
    let csv = std::fs::read_to_string(folder.join("links.csv")).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["at_us", "link", "direction", "percent", "queued_bytes"]);
    let percent = |row: &&Vec<&str>| row[3].parse::<f64>().unwrap();
    assert!(rows[1..].iter().all(|row| (0.0..=100.0).contains(&percent(&row))), "{csv}");
    assert!(rows[1..].iter().any(|row| row[1] == "p0-hA" && row[2] == "up" && percent(&row) > 5.0), "{csv}");
    let lines = results["timeline"]["links"].as_array().unwrap();
    let tiers: Vec<&str> = lines.iter().map(|line| line["tier"].as_str().unwrap()).collect();
    assert_eq!(tiers, ["host-up", "t0-up", "t1-down", "t0-down"]);
    assert_eq!(
        lines[0]["mean_percent"].as_array().unwrap().len(),
        results["timeline"]["at_us"].as_array().unwrap().len()
    );
    assert_eq!((&results["parts"]["parts"], &results["parts"]["threads"]), (&2.into(), &2.into()));
    // From another folder, without the scenario file, on one thread.
    std::fs::remove_file(folder.join("s.toml")).unwrap();
    let elsewhere = folder.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let again =
        mrc(&elsewhere, &["sim", "run", "../out.json", "--quiet", "--threads", "1", "--flows", "flows.parquet"]);
    assert!(again.status.success() && says(&again).contains("same digest"), "{}", says(&again));
    let parquet = std::fs::read(elsewhere.join("flows.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"), "{} bytes", parquet.len());
    let has = |bytes: &[u8]| parquet.windows(bytes.len()).any(|window| window == bytes);
    assert!(
        has(b"retransmitted_bytes") && has(b"permutation") && has(&longest.to_le_bytes()),
        "{} bytes",
        parquet.len()
    );
    let changed = mrc(&elsewhere, &["sim", "run", "../out.json", "--quiet", "--seed", "8"]);
    assert!(changed.status.success() && !says(&changed).contains("digest"), "{}", says(&changed));
    // Results of another program.
    let mut other = results;
    other["digest"] = "0123".into();
    std::fs::write(folder.join("other.json"), other.to_string()).unwrap();
    let other = mrc(&folder, &["sim", "run", "other.json", "--quiet"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(says(&other).contains("has digest 0123, made by mrc"), "{}", says(&other));
}

#[test]
fn results_travel_with_their_trace_beside_them() {
    let folder = folder("travel");
    let (here, there) = (folder.join("here"), folder.join("there"));
    std::fs::create_dir(&here).unwrap();
    std::fs::write(here.join("t.csv"), "1.5,0,2,3000\n").unwrap();
    std::fs::write(here.join("s.toml"), "[[workload]]\nkind = \"trace\"\nfile = \"t.csv\"\n").unwrap();
    let first = mrc(&here, &["sim", "run", "s.toml", "--quiet", "--json", "out.json"]);
    assert!(first.status.success(), "{}", says(&first));
    // Another machine does not have the folder of the run.
    std::fs::rename(&here, &there).unwrap();
    for (from, results) in [(&there, "out.json"), (&folder, "there/out.json")] {
        let again = mrc(from, &["sim", "run", results, "--quiet"]);
        assert!(again.status.success() && says(&again).contains("same digest"), "{}", says(&again));
    }
}
