//! The conformance scripts over a veth pair against our own AF_XDP endpoint, without and with faults put in on purpose.
//! Needs root; skipped by name and reason otherwise.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use mrc_conform::{Op, PacketSpec, Script, builtin};
use mrc_lab::skip;
use serde_json::Value;

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two namespaces with two links between them, and a target in the second one. Gone on drop. Scripts wait for most of their time, so
/// that benches share a core.
struct Bench {
    tester: String,
    target: String,
    server: Child,
}

impl Bench {
    fn new(fault: &[&str]) -> Self {
        static BENCHES: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), BENCHES.fetch_add(1, Ordering::Relaxed));
        let (tester, target) = (format!("mrcc{id}a"), format!("mrcc{id}b"));
        for namespace in [&tester, &target] {
            ip(&format!("netns add {namespace}"));
        }
        for link in ["p1", "p2"] {
            ip(&format!("link add {link} netns {tester} mtu 9000 type veth peer name {link} netns {target} mtu 9000"));
            for namespace in [&tester, &target] {
                ip(&format!("-n {namespace} link set {link} up"));
            }
        }
        ip(&format!("-n {tester} addr add 10.77.0.1/24 dev p1"));
        ip(&format!("-n {target} addr add 10.77.0.2/24 dev p1"));
        let serve = ["conform", "--serve", "--iface", "p1,p2", "--listen", "0.0.0.0:4970"];
        let server = mrc_in(&target).args(serve).args(fault).stderr(Stdio::null()).spawn().expect("the target starts");
        Self { tester, target, server }
    }

    /// A busy machine may hold a frame up and be slow; a fault fails every time.
    fn play(&self, retries: &str, folders: &BTreeSet<&str>) -> Value {
        let args = ["conform", "--iface", "p1,p2", "--peer", "10.77.0.2", "--retries", retries, "--json"];
        let filters = folders.iter().flat_map(|folder| ["--filter", folder]);
        let output = mrc_in(&self.tester).args(args).args(filters).output().expect("the tester runs");
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text)
            .unwrap_or_else(|why| panic!("{why}: {text} {}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        for namespace in [&self.tester, &self.target] {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

fn mrc_in(namespace: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, env!("CARGO_BIN_EXE_mrc")]).stdin(Stdio::null());
    command
}

/// The failed scripts and the field in which each differs.
fn failed(report: &Value) -> Vec<(String, Option<String>)> {
    let scripts = report["scripts"].as_array().expect("scripts");
    let failing = scripts.iter().filter(|script| script["verdict"]["result"] == "fail");
    let field = |script: &Value| script["verdict"]["difference"]["field"].as_str().map(String::from);
    failing.map(|script| (script["script"].as_str().unwrap_or("").to_string(), field(script))).collect()
}

fn expects(script: &Script, what: impl Fn(&PacketSpec) -> bool) -> bool {
    script.steps.iter().any(|step| matches!(&step.op, Op::Expect(spec) if what(spec)))
}

/// With `fault`, exactly the scripts that `touched` picks fail, each in `field`, of all in their folders.
fn names_exactly(fault: &str, field: Option<&str>, touched: impl Fn(&Script) -> bool) {
    if skip(&format!("names_exactly {fault}")) {
        return;
    }
    let scripts = builtin().unwrap();
    let wanted: BTreeSet<&str> =
        scripts.iter().filter(|script| touched(script)).map(|script| script.file.as_str()).collect();
    let folders = wanted.iter().map(|file| &file[..=file.find('/').unwrap()]).collect();
    let report = Bench::new(&["--fault", fault]).play("2", &folders);
    let failed = failed(&report);
    let names: BTreeSet<&str> = failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, wanted, "{fault}");
    assert!(!wanted.is_empty());
    if let Some(field) = field {
        assert!(failed.iter().all(|(_, differs)| differs.as_deref() == Some(field)), "{fault}: {failed:?}");
        assert!(report["differing"][field].is_array(), "{}", report["differing"]);
    }
}

#[test]
fn our_endpoint_conforms() {
    if skip("our_endpoint_conforms") {
        return;
    }
    let report = Bench::new(&[]).play("4", &BTreeSet::new());
    assert_eq!(failed(&report), [], "{}", report["differing"]);
    assert_eq!(report["broken"], 0);
    // A script that a busy machine disturbs passes at half the speed, and is flaky.
    let number = |name: &str| report[name].as_u64().unwrap();
    let (passed, not_applicable) = (number("passed") + number("flaky"), number("not_applicable"));
    assert!(passed >= 300 && not_applicable <= 5, "{passed} passed, {not_applicable} not applicable");
}

/// All scripts of a target whose cable was out failed, each as a rule that it breaks.
#[test]
fn a_link_that_carries_nothing_is_no_failure_of_the_target() {
    if skip("a_link_that_carries_nothing_is_no_failure_of_the_target") {
        return;
    }
    let bench = Bench::new(&[]);
    ip(&format!("-n {} link set p2 down", bench.target));
    let report = bench.play("2", &BTreeSet::from(["paths/reverse_rotates", "sack/gap"]));
    let verdict = |script: &str| {
        let scripts = report["scripts"].as_array().unwrap();
        scripts.iter().find(|found| found["script"] == format!("{script}.mrc")).unwrap()["verdict"].clone()
    };
    assert!(["pass", "flaky"].contains(&verdict("sack/gap")["result"].as_str().unwrap()), "one link is enough");
    let broken = verdict("paths/reverse_rotates");
    assert_eq!(broken["result"], "broken", "{broken}");
    assert!(broken["reason"].as_str().unwrap().starts_with("p2 has no carrier"), "{broken}");
    // A frame that does not fit the tester's own interface says nothing of the target either.
    ip(&format!("-n {} link set p1 mtu 1500", bench.tester));
    let report = bench.play("0", &BTreeSet::from(["wire/mtu_4096"]));
    let broken = &report["scripts"][0]["verdict"];
    assert!(broken["reason"].as_str().unwrap_or("").contains("p1: its MTU is too small for a frame of"), "{broken}");
}

#[test]
fn a_wrong_icrc_mask_is_named() {
    // The hop limit exists in IPv6 only.
    names_exactly("icrc-mask", Some("icrc"), |script| {
        let about_it = script.requires.iter().any(|id| id.starts_with("ICRC"));
        about_it && script.knobs.get("ip") == 6 && expects(script, |_| true)
    });
}

#[test]
fn a_wrong_sack_offset_is_named() {
    names_exactly("sack-offset", Some("seth.sack_offset"), |script| {
        expects(script, |spec| spec.kind.name == "sack" && spec.number("ooo").is_some_and(|ooo| ooo > 0))
    });
}

#[test]
fn skip_taken_for_bad_is_named() {
    names_exactly("skip-as-bad", None, |script| {
        ["mark_is_heeded", "mark_skips_once", "mark_needs_no_probe", "mark_skips_for_a_time", "mark_prolongs_a_skip"]
            .iter()
            .any(|name| script.file == format!("paths/{name}.mrc"))
    });
}
