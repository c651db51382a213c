//! Files about a test: JUnit for a test server, a capture per failed script, and the certificate page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use mrc_conform::{Decision, KNOBS, Knobs, Outcome, Requirement, Verdict, knobs_of};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};

use super::report::{Report, word};

/// What the certificate says about the test itself.
pub struct Test {
    /// Name of the target, as the user gives it.
    pub target: String,
    /// How it was reached.
    pub by: String,
    /// Knobs that the target was said to have.
    pub knobs: Knobs,
    /// When the test began, UTC.
    pub when: String,
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Writes the results as JUnit XML. A flaky script is a failure there: JUnit has no third result.
///
/// # Errors
/// The file cannot be written.
pub fn junit(report: &Report, path: &Path) -> anyhow::Result<()> {
    let failures = report.failed + report.flaky;
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuite name=\"mrc conform\" tests=\"{}\" failures=\"{failures}\" errors=\"{}\" skipped=\"{}\">",
        report.scripts.len(),
        report.broken,
        report.not_applicable
    );
    for outcome in &report.scripts {
        let (folder, name) = outcome.script.rsplit_once('/').unwrap_or(("", &outcome.script));
        let _ = writeln!(
            xml,
            "  <testcase classname=\"{}\" name=\"{}\">",
            escape(folder),
            escape(name.trim_end_matches(".mrc"))
        );
        let property = |name: &str, value: &str| format!("<property name=\"{name}\" value=\"{}\"/>", escape(value));
        let _ = writeln!(
            xml,
            "    <properties>{}{}{}</properties>",
            property("requires", &outcome.requires.join(" ")),
            property("level", outcome.weight.level),
            property("certainty", outcome.weight.certainty.tag())
        );
        let text = escape(&outcome.explain());
        let _ = match &outcome.verdict {
            Verdict::Pass => Ok(()),
            Verdict::Fail(failure) => {
                writeln!(xml, "    <failure message=\"{}\">{text}</failure>", escape(&failure.what))
            }
            Verdict::Flaky { attempts, .. } => {
                writeln!(xml, "    <failure type=\"flaky\" message=\"passed at attempt {attempts}\">{text}</failure>")
            }
            Verdict::NotApplicable { reason } => writeln!(xml, "    <skipped message=\"{}\"/>", escape(reason)),
            Verdict::Broken { reason } => writeln!(xml, "    <error message=\"{}\"/>", escape(reason)),
        };
        xml.push_str("  </testcase>\n");
    }
    xml.push_str("</testsuite>\n");
    fs::write(path, xml).with_context(|| path.display().to_string())
}

/// Writes the packets of a script that failed to `DIR/folder-script.pcap`.
///
/// # Errors
/// The file cannot be written.
pub fn capture(outcome: &Outcome, folder: &Path) -> anyhow::Result<()> {
    if outcome.packets.is_empty() {
        return Ok(());
    }
    let name = outcome.script.trim_end_matches(".mrc").replace('/', "-");
    let path = folder.join(format!("{name}.pcap"));
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    let header =
        PcapHeader { ts_resolution: TsResolution::NanoSecond, datalink: DataLink::ETHERNET, ..Default::default() };
    let mut writer = PcapWriter::with_header(file, header).with_context(|| path.display().to_string())?;
    for entry in &outcome.packets {
        let digits = entry.frame.as_bytes().chunks(2);
        let bytes = digits.filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let frame: Vec<u8> = bytes.collect();
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        writer
            .write_packet(&PcapPacket::new(Duration::from_nanos(entry.at_ns), len, &frame))
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;width:100%;margin:1rem 0}td,th{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #ddd;\
vertical-align:top}.pass{color:#176117}.FAIL{color:#a40000;font-weight:bold}.flaky{color:#8a5a00}pre{white-space:pre-wrap;\
overflow-wrap:anywhere;background:#f4f4f4;padding:.6rem;font-size:12px}td.n,th.n{text-align:right}";

/// Writes the certificate: what was tested, when, against which version, what failed and what stays open.
///
/// # Errors
/// The file cannot be written.
pub fn certificate(report: &Report, test: &Test, path: &Path) -> anyhow::Result<()> {
    let title = escape(&format!("MRC conformance of {}", test.target));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n<table>\n"
    );
    let knobs: Vec<String> = test.knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let knobs = if knobs.is_empty() { "none: every open question at its default".to_string() } else { knobs.join(" ") };
    let version = format!("mrc {} ({})", env!("CARGO_PKG_VERSION"), env!("MRC_COMMIT"));
    for (name, value) in
        [("Tested", &test.when), ("Reached by", &test.by), ("Test suite", &version), ("Knobs of the target", &knobs)]
    {
        let _ = writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", escape(value));
    }
    let _ = writeln!(page, "</table>\n<p>{}</p>", escape(report.summary().lines().next().unwrap_or_default()));
    page += &certainties(report);
    page += &failures(report);
    page += &questions(report, &test.knobs);
    page.push_str(
        "<h2>Every script</h2>\n<p>The text of the OCP specification is not public. The last column names the section or \
         table where public material names it; an empty one says that none does.</p>\n",
    );
    page.push_str("<table><tr><th>verdict</th><th>level</th><th>certainty</th><th>script</th><th>shows</th><th>requirements</th><th>OCP MRC 1.0</th></tr>\n");
    for outcome in &report.scripts {
        let (word, reason) = word(&outcome.verdict);
        let rules: Vec<String> = outcome.requires.iter().map(|id| rule(id)).collect();
        let reason = reason.map_or(String::new(), |reason| format!(" ({})", escape(reason)));
        let _ = writeln!(
            page,
            "<tr><td class=\"{word}\">{word}</td><td>{}</td><td>{}</td><td>{}</td><td>{}{reason}</td><td>{}</td><td>{}</td></tr>",
            outcome.weight.level,
            outcome.weight.certainty.tag(),
            escape(&outcome.script),
            escape(&outcome.title),
            rules.join(" "),
            places(&outcome.requires)
        );
    }
    page.push_str("</table></body></html>\n");
    fs::write(path, page).with_context(|| path.display().to_string())
}

/// Where the OCP specification has these requirements, as far as public material names the place.
fn places(ids: &[String]) -> String {
    let rules = ids.iter().filter_map(|id| Requirement::named(id));
    let places: BTreeSet<&str> =
        rules.flat_map(|rule| rule.ocp.split("; ")).filter(|place| !place.is_empty()).collect();
    places.into_iter().collect::<Vec<_>>().join("; ")
}

/// A requirement's id that shows its text.
fn rule(id: &str) -> String {
    let text = Requirement::named(id).map_or("", |rule| rule.summary);
    format!("<span title=\"{}\">{}</span>", escape(text), escape(id))
}

fn certainties(report: &Report) -> String {
    let mut page = String::from(
        "<h2>How sure the rules are</h2>\n<p>A script counts under the least sure of its requirements. A failure under 1, D \
         or C may be our reading of the specification, not a defect of the target.</p>\n\
         <table><tr><th>certainty</th><th>meaning</th><th class=\"n\">passed</th><th class=\"n\">failed</th>\
         <th class=\"n\">open</th></tr>\n",
    );
    for certainty in mrc_conform::Certainty::ALL {
        let counts = report.by_certainty.get(certainty.tag()).copied().unwrap_or_default();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            certainty.tag(),
            certainty.meaning(),
            counts.passed,
            counts.failed,
            counts.open
        );
    }
    page + "</table>\n"
}

/// The fields in which scripts failed, most scripts first, with the open questions that may be behind them all.
fn causes(report: &Report) -> String {
    let mut fields: BTreeMap<&str, (usize, BTreeSet<String>)> = BTreeMap::new();
    for outcome in &report.scripts {
        let Verdict::Fail(failure) = &outcome.verdict else { continue };
        let difference = failure.difference.as_ref();
        let (count, knobs) = fields.entry(difference.map_or("behaviour", |d| &d.field)).or_default();
        *count += 1;
        let of_field = difference.into_iter().flat_map(|difference| knobs_of(&difference.field));
        knobs.extend(of_field.map(|knob| format!("{}: {} (knob {})", knob.question, knob.doc, knob.name)));
    }
    let mut fields: Vec<_> = fields.into_iter().collect();
    fields.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let mut page = String::from(
        "<p>Scripts by the first field that differs. Where a field depends on an open question, play the suite again with its \
         knob before you call it a defect.</p>\n<table><tr><th>field</th><th class=\"n\">scripts</th><th>open question</th></tr>\n",
    );
    for (field, (count, knobs)) in fields {
        let knobs: Vec<String> = knobs.into_iter().collect();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=\"n\">{count}</td><td>{}</td></tr>",
            escape(field),
            escape(&knobs.join("; "))
        );
    }
    page + "</table>\n"
}

fn failures(report: &Report) -> String {
    let mut page = String::from("<h2>Failed or flaky</h2>\n");
    if report.failed > 0 {
        page += &causes(report);
    }
    let explained: Vec<(&Outcome, String)> = report
        .scripts
        .iter()
        .map(|outcome| (outcome, outcome.explain()))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    if explained.is_empty() {
        page.push_str("<p>None.</p>\n");
    }
    for (outcome, text) in explained {
        let _ = writeln!(
            page,
            "<h3 class=\"{}\">{} {} ({})</h3><p>{}</p><pre>{}</pre>",
            word(&outcome.verdict).0,
            word(&outcome.verdict).0,
            escape(&outcome.script),
            outcome.weight,
            escape(&outcome.title),
            escape(&text)
        );
    }
    page
}

/// The open questions of the protocol, and the answer under which the target was tested.
fn questions(report: &Report, fixed: &Knobs) -> String {
    let mut page = String::from(
        "<h2>Open questions</h2>\n<p>Where sources conflict or are silent, the target was tested under these answers.</p>\n\
         <table><tr><th>question</th><th>tested under</th><th>knob</th></tr>\n",
    );
    let tested = |decision: &Decision| {
        let rests = |outcome: &Outcome| outcome.requires.iter().any(|id| decision.requirements.contains(&id.as_str()));
        report.scripts.iter().any(|outcome| rests(outcome) && !matches!(outcome.verdict, Verdict::NotApplicable { .. }))
    };
    for decision in Decision::all().iter().filter(|decision| tested(decision)) {
        let knobs: Vec<String> = KNOBS
            .iter()
            .filter(|knob| knob.question == decision.id)
            .map(|knob| format!("{}={}", knob.name, fixed.get(knob.name)))
            .collect();
        let _ = writeln!(
            page,
            "<tr><td>{} {}</td><td>{}</td><td>{}</td></tr>",
            decision.id,
            escape(decision.question),
            escape(decision.decision),
            escape(&knobs.join(" "))
        );
    }
    page + "</table>\n"
}
