//! Standard output in the hands of other programs, and results on a full disk.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mrc"))
        .args(["sim", "list"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    // Every write to this device fails as on a full disk.
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    for args in [&["sim", "schema"][..], &["doctor"]] {
        let out = Command::new(env!("CARGO_BIN_EXE_mrc"))
            .args(args)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .stdout(full.try_clone().unwrap())
            .output()
            .unwrap();
        let says = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {says}");
        assert!(says.contains("cannot write to standard output") && !says.contains("panicked"), "{args:?}: {says}");
    }
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/parity/one-flow.toml");
    // Lines of a trace would spoil the JSON.
    let both =
        Command::new(env!("CARGO_BIN_EXE_mrc")).args(["sim", "run", scenario, "--trace", "--json"]).output().unwrap();
    assert!(!both.status.success() && both.stdout.is_empty());
    assert!(String::from_utf8_lossy(&both.stderr).contains("give --json a file"));
    let run = ["sim", "run", scenario, "--quiet", "--json", "/dev/full"];
    let out = Command::new(env!("CARGO_BIN_EXE_mrc")).args(run).output().unwrap();
    let says = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && says.contains("No space left"), "{says}");
    assert!(String::from_utf8_lossy(&out.stdout).contains("all completed"), "the run is not lost with the file");
}

#[test]
fn an_error_that_cannot_be_told_changes_no_exit_code() {
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    let (reader, nobody_reads) = std::io::pipe().unwrap();
    drop(reader);
    for args in [&["decode", "nosuch.pcap"][..], &["lab", "status", "--prefix", "nosuch"]] {
        let code = |stderr: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
            command.args(args).stdout(Stdio::null()).stderr(stderr).status().unwrap().code()
        };
        let expected = code(Stdio::null());
        assert!(matches!(expected, Some(1..=3)), "{args:?}: {expected:?}");
        assert_eq!(code(full.try_clone().unwrap().into()), expected, "{args:?}");
        assert_eq!(code(nobody_reads.try_clone().unwrap().into()), expected, "{args:?}");
    }
}

/// One rule for every command: a file that cannot be read, or holds something else, is for the user to mend.
#[test]
fn a_named_file_that_is_none_of_its_kind_ends_with_code_2() {
    let folder = std::env::temp_dir().join(format!("mrc-files-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("folder")).unwrap();
    std::fs::write(folder.join("text"), "no such thing\n").unwrap();
    let collect = ["mapper", "collect", "--fabric", "2,2,4,2", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let load = ["mapper", "load", "--fabric", "2,2,4,2", "--key"];
    for file in ["text", "folder", "nosuch.file"] {
        let mut all = vec![
            vec!["decode", file],
            vec!["decode", "--host-file", file, "00"],
            vec!["top", "--once", "--replay", file],
            vec!["mapper", "policy", file],
            vec!["mapper", "web", "--db", file],
            [&collect[..], &["--tls", file]].concat(),
            [&collect[..], &["--key", "new.key", "--policy", file]].concat(),
            vec!["write-bw", "--host-file", file],
            vec!["verbs-run", "--config", file, "true"],
            vec!["sim", "run", file],
            vec!["sim", "report", file],
        ];
        if file != "nosuch.file" {
            // One that is not there is made.
            all.extend([[&collect[..], &["--key", file]].concat(), [&load[..], &[file]].concat()]);
        }
        if file == "text" {
            all.push([&collect[..], &["--key", "new.key", "--db", file]].concat());
        }
        for args in all {
            let out = Command::new(env!("CARGO_BIN_EXE_mrc")).args(&args).current_dir(&folder).output().unwrap();
            let says = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{args:?}: {says}");
            assert!(says.contains(file), "{args:?}: {says}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A typing error made the program say that the file is a scenario.
#[test]
fn a_sweep_with_a_typing_error_is_named_by_its_line() {
    let folder = std::env::temp_dir().join(format!("mrc-typo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("mine.toml"), "scenario = \"parity/one-flow.toml\"\nseeds = = [1, 2]\n\n[[axis]]\n")
        .unwrap();
    for args in [&["sim", "sweep", "mine.toml", "-o", "out"][..], &["sim", "tune", "mine.toml"]] {
        let out = Command::new(env!("CARGO_BIN_EXE_mrc")).args(args).current_dir(&folder).output().unwrap();
        let says = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {says}");
        assert!(says.contains("mine.toml is no") && says.contains("line 2") && !says.contains("run"), "{says}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn results_that_have_no_place_are_refused_before_the_work() {
    let folder = std::env::temp_dir().join(format!("mrc-noplace-{}", std::process::id()));
    for name in ["p0-hA.pcapng", "mrc-demo.svg"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/parity/one-flow.toml");
    for args in [
        &["sim", "run", scenario, "--json", "nosuch/out.json"][..],
        &["sim", "run", scenario, "--json", "."],
        &["sim", "run", scenario, "--pcap", "p0-hA", "--json", "out.json"],
        &["demo", "--mode", "sim", "--seconds", "3600"],
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_mrc")).args(args).current_dir(&folder).output().unwrap();
        let says = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {says}");
        assert!(
            says.contains("cannot write") && !String::from_utf8_lossy(&out.stdout).contains("Gb/s"),
            "{args:?}: {says}"
        );
    }
    let left = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(left.len(), 2, "asking leaves nothing behind: {left:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_capture_has_whole_control_packets_and_times_of_the_link() {
    let folder = std::env::temp_dir().join(format!("mrc-capture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let scenario = "[topology]\nshape = \"dumbbell\"\n[transport]\nkind = \"roce\"\n[[workload]]\nfrom = 0\nto = 2\nbytes = 4096\n";
    std::fs::write(folder.join("one.toml"), scenario).unwrap();
    let mrc = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_mrc")).args(args).current_dir(&folder).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let trace = mrc(&["sim", "run", "one.toml", "--quiet", "--trace"]);
    // 4190 bytes at 100 Gb/s need 335 ns, their link 500: the last bit arrives at 835 ns.
    assert!(
        trace.trim_start().starts_with("0.835 us up   fd6d:7263::1 > fd6d:7263::3: RDMA_WRITE_ONLY qp=0x000002"),
        "{trace}"
    );
    // Two jobs: each packet is read as what its sender speaks.
    let mixed = "[topology]\nt0 = 2\nhosts_per_t0 = 2\nforwarding = \"ecmp\"\n[queue]\npfc = false\n[[job]]\nname = \"a\"\nhosts = 2\n\
                 [[job]]\nname = \"b\"\nhosts = 2\ntransport = \"roce\"\n\
                 [[workload]]\njob = \"a\"\nfrom = 0\nto = 1\nbytes = 4096\n[[workload]]\njob = \"b\"\nfrom = 0\nto = 1\nbytes = 4096\n";
    std::fs::write(folder.join("mixed.toml"), mixed).unwrap();
    let of_link = |link: &str| mrc(&["sim", "run", "mixed.toml", "--quiet", "--trace", "--pcap", link]);
    let (a, b) = (of_link("p0-hA"), of_link("p0-hC"));
    assert!(a.contains("::1 > fd6d:7263::2: ") && !a.contains("sport="), "{a}");
    assert!(b.contains("::3 > fd6d:7263::4: RDMA_WRITE_ONLY qp=0x000002") && !b.contains("not MRC"), "{b}");
    mrc(&["sim", "run", "one.toml", "--quiet", "--set", "transport.kind=mrc", "--pcap", "p0-hA"]);
    let packets = mrc(&["decode", "--json", "p0-hA.pcapng"]);
    let state = |packet: &str| packet.contains("\"icrc\":\"good\"");
    for packet in packets.lines() {
        assert_eq!(state(packet), !packet.contains("WRITE_ONLY"), "only a payload is left out: {packet}");
    }
    assert!(packets.lines().filter(|packet| state(packet)).count() > 3, "{packets}");
    // One that was cut, under a name that is no text, beside an option that used to swallow it.
    let whole = std::fs::read(folder.join("p0-hA.pcapng")).unwrap();
    let cut = std::ffi::OsStr::from_bytes(b"cut-\xff.pcapng");
    std::fs::write(folder.join(cut), &whole[..whole.len() - 10]).unwrap();
    let mut decode = Command::new(env!("CARGO_BIN_EXE_mrc"));
    let out = decode.args(["decode", "--json", "--dport", "4791"]).arg(cut).current_dir(&folder).output().unwrap();
    let (lines, says) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8_lossy(&out.stderr).into_owned());
    let count = packets.lines().count() - 1;
    assert!(out.status.code() == Some(1) && lines.lines().eq(packets.lines().take(count)), "{says}");
    assert!(says.contains(&format!("after packet {count}: the capture ends")), "{says}");
    // What is no packet of MRC is named on request.
    let other = mrc(&["decode", "--json", "-v", "p0-hA.pcapng"]);
    // Each packet's headers follow what is printed without -v.
    let fields = other.lines().map(|line| line.split(",\"wire\":{\"eth.dst\":").next().unwrap().to_owned() + "}");
    assert!(fields.eq(packets.lines()), "{other}");
    let refused = Command::new(env!("CARGO_BIN_EXE_mrc")).args(["decode", "--json", "-v", "00ff"]).output().unwrap();
    let says =
        "{\"number\":1,\"len\":2,\"not_mrc\":\"l3_bad\",\"wire\":{},\"wire_end\":\"eth cut short: 2 of 14 bytes\"}\n";
    assert_eq!(String::from_utf8_lossy(&refused.stdout), says);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn sizes_that_cannot_be_are_refused_before_the_bench_begins() {
    for (more, code, says) in [
        (&["--hosts", "0"][..], 2, "not in 2..=131072"),
        (&["--hosts", "131073"], 2, "not in"),
        (&["--hosts", "128,251", "--bytes", "4096"], 0, ""),
        (&["--hosts", "4,65521"], 2, "65521 hosts do not divide"),
        (&["--hosts", "4", "--bytes", "0"], 2, "mrc: 4 hosts"),
        (&["--hosts", "4", "--partitions", "999"], 2, "mrc: 4 hosts"),
        (&["--hosts", "4", "--seed", "9223372036854775808"], 2, "not in"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
        let out = command.args(["sim", "bench"]).args(more).output().unwrap();
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{more:?}: {error}");
        assert!(error.contains(says) && !error.contains("panicked"), "{more:?}: {error}");
        assert!(code == 0 || out.stdout.is_empty(), "{more:?}: {}", String::from_utf8_lossy(&out.stdout));
        assert!(error.matches("mrc: ").count() < 2, "{more:?}: {error}");
    }
}

#[test]
fn results_of_the_bench_say_what_made_them() {
    let bench = ["sim", "bench", "--hosts", "4", "--bytes", "4096", "--json"];
    let out = Command::new(env!("CARGO_BIN_EXE_mrc")).args(bench).output().unwrap();
    let results: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let of = |key: &str| results[key].as_str().unwrap().to_owned();
    assert!(of("program").starts_with("mrc "), "{}", of("program"));
    assert!(of("command").ends_with("sim bench --hosts 4 --bytes 4096 --json"), "{}", of("command"));
}

/// With room for `blocks` of 512 bytes in each file, as on a disk that is nearly full: code, standard output and standard error.
fn with_room_for(blocks: u32, folder: &std::path::Path, args: &[&str]) -> (Option<i32>, String, String) {
    // Without the signal, writing fails.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    let mut command = Command::new("sh");
    let command = command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_mrc")]).args(args).current_dir(folder);
    let out = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn a_file_that_does_not_fit_leaves_nothing_behind_and_takes_no_other_along() {
    let folder = std::env::temp_dir().join(format!("mrc-no-room-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let files = || {
        let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let (code, _, error) = with_room_for(0, &folder, &["sim", "new", "mine.toml"]);
    assert!(code == Some(1) && error.contains("cannot write mine.toml: "), "{error}");
    assert!(files().is_empty(), "{:?}", files());

    std::fs::write(folder.join("s.toml"), "[topology]\nt0 = 1\n[[workload]]\nfrom = 0\nto = 1\nbytes = 40000\n")
        .unwrap();
    let run = ["sim", "run", "s.toml", "--quiet", "--json", "out.json", "--flows", "f.csv", "--pcap", "p0-hA"];
    let (code, table, error) = with_room_for(2, &folder, &run);
    assert!(code == Some(1) && table.contains("all completed"), "{table}{error}");
    assert!(error.contains("cannot write out.json: ") && error.contains("cannot write p0-hA.pcapng: "), "{error}");
    assert_eq!(files(), ["f.csv", "s.toml"]);

    std::fs::write(folder.join("sweep.toml"), "scenario = \"s.toml\"\nseeds = [1]\n").unwrap();
    let (code, _, error) = with_room_for(2, &folder, &["sim", "sweep", "sweep.toml", "-o", "out"]);
    assert!(code == Some(1) && error.starts_with("seed1: cannot write out/seed1.json: "), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_scripts_may_set_is_listed_as_data_too() {
    let out = Command::new(env!("CARGO_BIN_EXE_mrc")).args(["conform", "--list-knobs", "--json"]).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let names = |key: &str| list[key].as_array().unwrap().iter().filter(|row| row["name"].is_string()).count();
    assert_eq!((names("knobs"), names("lacks")), (mrc_conform::KNOBS.len(), mrc_conform::LACKS.len()));
}
