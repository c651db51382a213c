//! What every command has in common: the version, exit codes, completions, manual pages, and any folder to start in.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

fn mrc(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mrc")).args(arguments).current_dir("/").output().expect("mrc runs")
}

/// As somebody without rights.
fn unprivileged(arguments: &[&str]) -> Output {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    // The program may lie where only root can read. Tests run side by side.
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let copy = std::env::temp_dir().join(format!("mrc-commands-{}-{number}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_mrc"), &copy).unwrap();
    let output = match effective_uid() {
        0 => Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(&copy)
            .args(arguments)
            .output(),
        _ => Command::new(&copy).args(arguments).output(),
    };
    let _ = std::fs::remove_file(copy);
    output.expect("mrc runs")
}

fn effective_uid() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

#[test]
fn the_version_names_commit_and_features() {
    for arguments in [&["--version"][..], &["conform", "--version"]] {
        let text = String::from_utf8(mrc(arguments).stdout).unwrap();
        assert!(text.contains(concat!(env!("CARGO_PKG_VERSION"), " (commit ")), "{text}");
        assert!(text.contains("features: ") && text.contains("linux"), "{text}");
    }
}

/// Results name the program that made them: that of a changed commit is another one.
#[test]
fn the_version_says_whether_the_sources_are_those_of_the_commit() {
    let sources = ["../mrc-wire/src", "../mrc-core/src", "../mrc-sim/src"];
    let diff = Command::new("git").args(["diff", "--quiet", "HEAD", "--"]).args(sources).status();
    let modified = match diff.ok().and_then(|status| status.code()) {
        Some(code @ 0..=1) if std::env::var_os("MRC_COMMIT").is_none() => code == 1,
        _ => return, // no history, or somebody else says the commit
    };
    let text = String::from_utf8(mrc(&["--version"]).stdout).unwrap();
    assert_eq!(text.contains("-modified,"), modified, "{text}");
}

#[test]
fn exit_codes_mean_the_same_everywhere() {
    for (arguments, wanted) in [
        (&["sim", "list"][..], 0),
        (&["sim", "schema"], 0),
        (&["conform", "--filter", "sack/gap"], 0),
        (&["decode", "00"], 1),
        (&["conform", "--filter", "sack/gap", "--target-knob", "pdcid_order=1"], 1),
        (&[], 2),
        (&["frob"], 2),
        (&["sim", "run", "frob"], 2),
        (&["conform", "--knob", "frob=1"], 2),
        (&["conform", "--knob", "mtu"], 2),
        (&["conform", "--knob", "mtu=on"], 2),
        (&["conform", "--knob", "bitmap_reach=10"], 2),
        (&["conform", "--serve", "--iface", "no-such-nic"], 2),
        (&["decode", "/no/such.pcap"], 2),
        (&["completions", "frob"], 2),
        // Nothing was tested: the script needs another MTU.
        (&["conform", "--filter", "sack/gap", "--knob", "mtu=256"], 1),
        (&["conform", "--filter", "sack/gap", "--target-knob", "pdcid_order=7"], 2),
        (&["conform", "--filter", "aeth/access", "--knob", "mtu=300"], 2),
        (&["conform", "--scripts", "/no/such/folder"], 2),
        (&["mapper", "trial", "--only", "zz"], 2),
        // Nothing to judge.
        (&["mapper", "score", "--faults", "0", "--hours", "0"], 2),
        (&["mapper", "policy", "/no/such/policy"], 2),
        (&["control", "deny", "--ev", "0x1002"], 2),
        (&["conform", "--iface", "lo", "--setup", "/no/such.json"], 2),
        (&["write-bw", "--port", "0"], 2),
        (&["write-lat", "--port", "0"], 2),
        // Options that another one leaves without effect.
        (&["conform", "--serve", "--iface", "lo", "--peer", "192.0.2.1"], 2),
        (&["conform", "--filter", "sack/gap", "--listen", "[::1]:4970"], 2),
        (&["lab", "trial", "--prefix", "qs"], 2),
        (&["conform", "--list-fields", "--json"], 2),
        (&["conform", "--show", "SACK-008", "--json"], 2),
    ] {
        let output = mrc(arguments);
        assert_eq!(code(&output), wanted, "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for arguments in [&["lab", "up"][..], &["lab", "down"], &["conform", "--serve", "--iface", "lo"]] {
        let output = unprivileged(arguments);
        assert_eq!(code(&output), 3, "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn who_is_not_root_hears_that_of_each_command_of_the_lab() {
    for arguments in [&["lab", "status"][..], &["lab", "trial"], &["mapper", "trial"]] {
        let output = unprivileged(arguments);
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(code(&output) == 3 && says.contains("root is needed for network namespaces"), "{arguments:?}: {says}");
    }
}

/// It said that there is no such file.
#[test]
fn a_capture_in_a_folder_that_may_not_be_entered_is_no_missing_file() {
    let folder = std::env::temp_dir().join(format!("mrc-closed-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("capture.pcap");
    std::fs::write(&file, [0; 24]).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o000)).unwrap();
    let output = unprivileged(&["decode", file.to_str().unwrap()]);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let missing = unprivileged(&["decode", "/no/such.pcap"]);
    std::fs::remove_dir_all(&folder).unwrap();
    for (output, wanted) in [(output, "capture.pcap: Permission denied"), (missing, "there is no file /no/such.pcap")] {
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(code(&output) == 2 && says.contains(wanted), "{wanted}: {says}");
    }
}

#[test]
fn a_program_that_does_not_exist_is_a_wrong_command_line() {
    let (folder, config, library) = host_files("mrc-no-program");
    let (config, library) = (config.to_str().unwrap(), library.to_str().unwrap());
    let output = mrc(&["verbs-run", "--no-sysfs", "--config", config, "--library", library, "--", "/no/such/program"]);
    let says = String::from_utf8_lossy(&output.stderr);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(code(&output) == 2 && says.contains("running /no/such/program: No such file"), "{says}");
}

/// A service that is asked to read its configuration again lost its supervisor, and held the device without it.
#[test]
fn signals_to_verbs_run_reach_the_program_and_end_nothing_else() {
    let (folder, config, library) = host_files("mrc-signals");
    let (config, library) = (config.to_str().unwrap(), library.to_str().unwrap());
    let start = ["verbs-run", "--no-sysfs", "--config", config, "--library", library, "--", "sh", "-c"];
    for signal in ["HUP", "TERM", "USR1", "USR2"] {
        let script = format!("trap 'exit 7' {signal}; echo ready; while :; do sleep 0.05; done");
        // Whoever runs the tests may have them ignore SIGHUP, and a shell cannot trap what it found ignored.
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_mrc")]).args(start).arg(&script);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(child.wait().unwrap().code(), Some(7), "{signal}");
    }
    // SIGHUP and SIGINT, as `nohup` and shells have programs ignore them.
    let script = "trap '' HUP INT; exec \"$@\" 'grep SigIgn /proc/self/status'";
    let output = Command::new("sh").args(["-c", script, "sh", env!("CARGO_BIN_EXE_mrc")]).args(start).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let ignored = text.trim().strip_prefix("SigIgn:").map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    assert_eq!(ignored.map(|mask| mask & 3), Some(3), "{output:?}");
}

/// Mooncake took the device for absent and wrote over TCP, since `/dev/infiniband/uverbs0` did not exist. And a program that another
/// user ran found neither the library nor anything below `/sys/class`.
#[test]
fn a_program_finds_device_and_library_whoever_runs_it() {
    if effective_uid() != 0 {
        eprintln!("skipped: needs root");
        return;
    }
    let (folder, config, library) = host_files("mrc-views");
    let run = |script: &str| {
        let (config, library) = (config.to_str().unwrap(), library.to_str().unwrap());
        mrc(&["verbs-run", "--config", config, "--library", library, "--", "sh", "-c", script])
    };
    let looks = "cd /dev/infiniband && test -c uverbs0 && test -r uverbs0 && test -w uverbs0 || exit 11
        : >/dev/null || exit 12; test -c /dev/null && ! test -L /dev/null || exit 13; test -d /dev/pts || exit 14
        script -qec true /dev/null </dev/null >/dev/null || exit 18
        cat /sys/class/infiniband/mrc0/ports/1/gids/2 /sys/class/infiniband/mrc0/node_guid || exit 15; ls -L ${LD_LIBRARY_PATH%%:*}/libibverbs.so.1 || exit 16
        cat /sys/class/net/lo/address || exit 17";
    let as_nobody = format!("setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '{looks}'");
    for script in [looks, &as_nobody] {
        let output = run(script);
        assert_eq!(code(&output), 0, "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Counters stood still, and nobody knew why.
#[test]
fn a_folder_of_sockets_that_is_refused_is_named_by_verbs_run_once() {
    if effective_uid() != 0 {
        eprintln!("skipped: needs root");
        return;
    }
    let (folder, config, library) = host_files("mrc-still");
    // The program runs until the counters are looked at a third time.
    let script = "mount -t tmpfs none /run && mkdir -p /run/mrc/engines && chmod 755 /run/mrc/engines || exit 11
        exec \"$0\" verbs-run --config \"$1\" --library \"$2\" -- sleep 2.5";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_mrc")]).arg(config).arg(library);
    let output = command.output().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!((code(&output), says.matches("/run/mrc/engines must be a folder").count()), (0, 1), "{says}");
    assert!(says.contains("the counters of /sys/class/infiniband/mrc0/ports/1 stand still"), "{says}");
}

/// A limit of processes, as containers have it, was a panic.
#[test]
fn a_thread_that_cannot_be_made_is_told() {
    if effective_uid() != 0 {
        eprintln!("skipped: needs root to be a user without processes");
        return;
    }
    let (folder, config, library) = host_files("mrc-threads");
    let (program, key) = (folder.join("mrc"), folder.join("key"));
    std::fs::copy(env!("CARGO_BIN_EXE_mrc"), &program).unwrap();
    std::fs::write(&key, [7; 16]).unwrap();
    for path in [&folder, &key, &config, &library] {
        std::os::unix::fs::chown(path, Some(61_234), None).unwrap();
    }
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let db = text(&folder.join("map.db"));
    let verbs_run = format!("verbs-run --config {} --library {} -- true", text(&config), text(&library));
    let collect = format!("mapper collect --fabric 2,2,4,2 --key {} --db {db} --listen {db}.sock", text(&key));
    // The second thread of the collector is that for signals.
    for (command, threads) in [(verbs_run, 1), (collect.clone(), 1), (collect + " --http 127.0.0.1:18798", 2)] {
        let script = format!("ulimit -u {threads}; exec {} {command}", text(&program));
        let user = ["--reuid=61234", "--regid=61234", "--clear-groups", "--", "bash", "-c"];
        let output = Command::new("setpriv").args(user).arg(script).current_dir("/").output().unwrap();
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(&output), 1, "{command}: {says}");
        assert!(says.contains("cannot make a thread") && !says.contains("panicked"), "{command}: {says}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// A configuration and something to take for the library, in a folder of their own.
fn host_files(name: &str) -> (PathBuf, PathBuf, PathBuf) {
    let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (config, library) = (folder.join("mrc.toml"), folder.join("libibverbs.so"));
    std::fs::write(&library, b"").unwrap();
    let text = "name = \"hA\"\ngid = \"fd00::1\"\nmtu = 9000\n[[planes]]\ninterface = \"nosuch0\"\n\
        next_hop = \"02:00:00:00:00:01\"\n[[peers]]\nname = \"hB\"\ngid = \"fd00::2\"\nuplinks = 4\n";
    std::fs::write(&config, text).unwrap();
    (folder, config, library)
}

#[test]
fn slips_are_named() {
    for (arguments, hint) in [
        (&["conforn"][..], "'conform'"),
        (&["decode", "--verbos"], "'--verbose'"),
        (&["sim", "run", "perm129"], "did you mean"),
        (&["conform", "--show", "SACK-8"], "did you mean SACK-008"),
        (&["mapper", "policy", "--fault", "p0-t0a-t1c=5%"], "no host would deny anything"),
        // Each of several is enough: all are named.
        (&["lab", "impair", "p0-hA"], "<--loss <LOSS>|--trim <TRIM>|--ce <CE>|--queue <RATE,MARK,TRIM,DROP>|--clear>"),
        (&["lab", "impair", "--loss", "1%"], "<LINK|--all|--plane <PLANE>>"),
        (&["lab", "slow", "p0-hA"], "<--rate <RATE>|--clear>"),
        (&["control", "deny"], "<--plane <PLANES>|--ev <EVS>>"),
        (&["sim", "run", "perm128", "--packets", "5"], "<--pcap <LINK>|--trace>"),
        (
            &["verbs-run", "--prefix", "frob", "--lab", "hZ", "--", "true"],
            "no host `hZ` in a fabric with prefix `frob`",
        ),
    ] {
        let output = mrc(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(hint), "{arguments:?}: {text}");
    }
}

/// The results of a run over a wire were lost with the file that could not be written after it.
#[test]
fn a_file_that_cannot_be_written_costs_no_results() {
    let nowhere = std::env::temp_dir().join(format!("mrc-no-folder-{}", std::process::id()));
    for option in ["--junit", "--html"] {
        let file = nowhere.join("file");
        let output = mrc(&["conform", "--filter", "sack/gap", "--json", option, file.to_str().unwrap()]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((report["passed"].as_u64(), code(&output)), (Some(1), 1), "{option}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("mrc-no-folder"), "{option}");
    }
    // What is no folder is named, not the file below it.
    let output = mrc(&["vectors", "--out", "/dev/null"]);
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(code(&output) == 1 && says.starts_with("mrc: /dev/null: "), "{says}");
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let help = String::from_utf8(mrc(&["--help"]).stdout).unwrap();
    let list = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let lines = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let commands: Vec<&str> =
        lines.filter_map(|line| line.split_whitespace().next()).filter(|c| *c != "help").collect();
    assert!(commands.len() >= 14, "{commands:?}");
    let folder = std::env::temp_dir().join(format!("mrc-man-{}", std::process::id()));
    assert_eq!(code(&mrc(&["man", "--out", folder.to_str().unwrap()])), 0);
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(mrc(&["completions", shell]).stdout).unwrap();
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    for command in &commands {
        let page: PathBuf = folder.join(format!("mrc-{command}.1"));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|why| panic!("{}: {why}", page.display()));
        assert!(text.contains("Exit code") || text.contains("SUBCOMMANDS"), "{command}: no exit codes");
    }
    // A file that a page shows keeps its lines.
    let sweep = std::fs::read_to_string(folder.join("mrc-sim-sweep.1")).unwrap();
    let shown = sweep.split(".nf\n").nth(1).and_then(|rest| rest.split(".fi\n").next()).unwrap();
    assert!(shown.starts_with("  scenario = ") && shown.contains("\n  [[without]]"), "{shown}");
    assert!(!folder.join(".mrc-man").exists());
    let _ = std::fs::remove_dir_all(folder);
}

/// Others may have devices: who asks for one process is told of that one.
#[test]
fn a_process_without_a_device_is_named() {
    for arguments in [&["stats", "--pid", "1"][..], &["control", "--pid", "1", "state"]] {
        let output = mrc(arguments);
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(code(&output) == 1 && says.contains("process 1 is no program"), "{says}");
    }
}

#[test]
fn a_log_level_that_is_none_is_named() {
    for (level, named) in [("loud", true), ("debug", false), ("", false)] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_mrc")).args(["decode", "00"]).env("MRC_LOG", level).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr).contains("MRC_LOG"), named, "{level}: {output:?}");
    }
}

#[test]
fn a_script_of_another_folder_is_shown_from_there() {
    let folder = std::env::temp_dir().join(format!("mrc-scripts-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("sack")).unwrap();
    let text = "# Mine\nrequires SACK-008\n\n0 < write_only psn=0 len=64 a\n0 > sack cack=0\n0 > ack psn=0 msn=1\n";
    std::fs::write(folder.join("sack/mine.mrc"), text).unwrap();
    let show = |what| mrc(&["conform", "--scripts", folder.to_str().unwrap(), "--show", what]);
    assert_eq!(String::from_utf8(show("sack/mine").stdout).unwrap(), text);
    let rule = String::from_utf8(show("SACK-008").stdout).unwrap();
    assert!(rule.ends_with("scripts:\n  sack/mine                        Mine\n"), "{rule}");
    assert_eq!(code(&show("sack/gap")), 2, "the scripts inside are not those of the folder");
    let _ = std::fs::remove_dir_all(folder);
}
