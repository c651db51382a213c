//! `mrc conform` as evidence: level and certainty of each verdict, and what it leaves behind about a target that fails.
//! Virtual time, no rights needed.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn conform(arguments: &[&str]) -> Output {
    // No folder is special to the command.
    let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
    command.arg("conform").args(arguments).current_dir(std::env::temp_dir()).output().expect("mrc runs")
}

fn text(arguments: &[&str]) -> String {
    String::from_utf8(conform(arguments).stdout).unwrap()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mrc-evidence-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn each_verdict_has_level_and_certainty() {
    let line = text(&["--filter", "sack/contexts"]);
    assert!(line.starts_with("pass   must C    sack/contexts"), "{line}");
    assert!(line.contains("certainty C :   2 passed"), "{line}");
    let report: Value = serde_json::from_str(&text(&["--filter", "sack/gap.mrc", "--json"])).unwrap();
    let script = &report["scripts"][0];
    assert_eq!((script["level"].as_str(), script["certainty"].as_str()), (Some("must"), Some("2+")));
}

#[test]
fn certainty_chooses_scripts() {
    let count = |certainty: &str| {
        let report: Value = serde_json::from_str(&text(&["--certainty", certainty, "--json"])).unwrap();
        let scripts = report["scripts"].as_array().unwrap();
        let chosen: Vec<&str> = certainty.split(',').collect();
        assert!(scripts.iter().all(|script| chosen.contains(&script["certainty"].as_str().unwrap())));
        scripts.len()
    };
    let (sure, weak) = (count("2+,1"), count("D,C"));
    assert_eq!(sure + weak, mrc_conform::builtin().unwrap().len());
    assert!(sure > 100 && weak > 50, "{sure} sure, {weak} weak");
    let refused = conform(&["--certainty", "X"]);
    assert_eq!(refused.status.code(), Some(2));
}

/// A target of a fixed path MTU was blamed by each script that takes the default for granted.
#[test]
fn a_script_that_needs_the_default_of_a_fixed_knob_does_not_apply() {
    let play = |knob: &str, target: &str| {
        let arguments = ["--filter", "tack/", "--knob", knob, "--target-knob", target, "--json"];
        let report: Value = serde_json::from_str(&text(&arguments)).unwrap();
        let count = |name: &str| report[name].as_u64().unwrap();
        let counts = (count("passed"), count("failed"), count("not_applicable"));
        let scripts = report["scripts"].as_array().unwrap().iter();
        let reasons: std::collections::BTreeSet<String> =
            scripts.filter_map(|script| script["verdict"]["reason"].as_str().map(str::to_owned)).collect();
        (counts, reasons)
    };
    let ((passed, failed, open), reasons) = play("mtu=4096", "mtu=4096");
    assert_eq!(failed, 0);
    assert!(passed > 3 && open > 1, "{passed} passed, {open} open");
    assert_eq!(reasons.into_iter().collect::<Vec<_>>(), ["needs mtu=1024; the target is set to 4096"]);
    // What is wrong with the target besides still shows.
    let ((_, failed, _), _) = play("mtu=4096", "pkey=0x8001");
    assert!(failed > 0);
}

#[test]
fn a_failure_leaves_a_capture_a_junit_file_and_a_page() {
    let folder = Folder::new("files");
    let (page, junit, captures) = (folder.file("page.html"), folder.file("junit.xml"), folder.file("failed"));
    let output = conform(&[
        "--filter",
        "sack/gap",
        "--filter",
        "sack/contexts",
        "--target-knob",
        "pdcid_order=requester",
        "--html",
        &page,
        "--junit",
        &junit,
        "--captures",
        &captures,
        "--target",
        "a <new> NIC",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    for part in [
        "FAIL   must 2+   sack/gap",
        "field seth.spdcid: expected",
        "\n    expected sack opcode=220",
        "\n    actual   sack opcode=220",
        "res1=0",
        "open question OQ-07",
        "knob pdcid_order",
        " ns < port=1 write_first",
        "1000 ns > port=1 sack",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    let capture = PathBuf::from(captures).join("sack-gap.pcap");
    let decoded = Command::new(env!("CARGO_BIN_EXE_mrc")).arg("decode").arg(capture).output().unwrap();
    assert_eq!(String::from_utf8(decoded.stdout).unwrap().lines().count(), 3, "two writes and the SACK that differs");
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(
        xml.contains("tests=\"3\" failures=\"2\"") && xml.contains("<property name=\"certainty\" value=\"C\"/>"),
        "{xml}"
    );
    let html = std::fs::read_to_string(page).unwrap();
    let by_field = "<td>seth.spdcid</td><td class=\"n\">2</td><td>OQ-07: ";
    let choice = "our choice, the sources conflict";
    for part in ["MRC conformance of a &lt;new&gt; NIC", "pdcid_order=0", "sack/gap.mrc", choice, by_field] {
        assert!(html.contains(part), "{part} is not on the page");
    }
}

#[test]
fn names_are_explained() {
    let rule = text(&["--show", "SETH-006"]);
    for part in ["certainty C", "OQ-07", "knobs: pdcid_order", "sack/contexts"] {
        assert!(rule.contains(part), "{part}: {rule}");
    }
    assert!(text(&["--show", "sack/gap"]).contains("> sack cack=0 bitmap=0x2 ooo=1"));
    let slip = conform(&["--show", "SETH-06"]);
    assert_eq!(slip.status.code(), Some(2));
    assert!(String::from_utf8(slip.stderr).unwrap().contains("did you mean SETH-006?"));
    let slip = conform(&["--knob", "pdcid_oder=1"]);
    assert_eq!(slip.status.code(), Some(2));
    assert!(String::from_utf8(slip.stderr).unwrap().contains("did you mean `pdcid_order`?"));
    assert!(text(&["--list-fields"]).contains("  16 bits, signed"));
}
