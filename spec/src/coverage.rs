//! Coverage: register and citations joined, as tables, JSON and verdicts.
//!
//! Owns what counts as covered: a `must` wants at least one citation in code and one in a test, unless an exception
//! releases it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::citation::{Kind, Place, Scan};
use crate::register::{Certainty, Chapter, Level, Register, Requirement, Status};

/// Who cites what.
pub(crate) struct Coverage<'a> {
    register: &'a Register,
    scan: &'a Scan,
    code: BTreeMap<&'a str, Vec<&'a Place>>,
    test: BTreeMap<&'a str, Vec<&'a Place>>,
}

/// Outcome of `check`.
pub(crate) struct Verdict {
    pub(crate) ok: bool,
    pub(crate) text: String,
}

/// How many records rest on what, in the order of [`Certainty::ALL`].
type Grounds = [usize; Certainty::ALL.len()];

/// Numbers of one chapter, or of all.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Totals {
    requirements: usize,
    must: usize,
    implemented: usize,
    tested: usize,
    planned: usize,
    uncited: usize,
}

impl<'a> Coverage<'a> {
    pub(crate) fn new(register: &'a Register, scan: &'a Scan) -> Self {
        let mut coverage = Self { register, scan, code: BTreeMap::new(), test: BTreeMap::new() };
        for citation in &scan.citations {
            let side = match citation.kind {
                Kind::Code => &mut coverage.code,
                Kind::Test => &mut coverage.test,
            };
            side.entry(citation.id.as_str()).or_default().push(&citation.place);
        }
        coverage
    }

    fn has_code(&self, requirement: &Requirement) -> bool {
        self.code.contains_key(requirement.id.as_str())
    }

    fn has_test(&self, requirement: &Requirement) -> bool {
        self.test.contains_key(requirement.id.as_str())
    }

    /// A `must` that nothing releases and that lacks code or test.
    fn is_uncited(&self, requirement: &Requirement) -> bool {
        requirement.level == Level::Must
            && !self.register.is_excepted(&requirement.id)
            && !(self.has_code(requirement) && self.has_test(requirement))
    }

    fn of_chapter(&self, chapter: Option<Chapter>) -> impl Iterator<Item = &'a Requirement> {
        self.register.requirements.iter().filter(move |r| chapter.is_none_or(|c| r.chapter == c))
    }

    fn totals(&self, chapter: Option<Chapter>) -> Totals {
        let mut totals = Totals::default();
        for requirement in self.of_chapter(chapter) {
            totals.requirements += 1;
            totals.must += usize::from(requirement.level == Level::Must);
            totals.implemented += usize::from(self.has_code(requirement));
            totals.tested += usize::from(self.has_test(requirement));
            totals.planned += usize::from(requirement.status == Status::Planned);
            totals.uncited += usize::from(self.is_uncited(requirement));
        }
        totals
    }

    /// How many records of a chapter rest on agreeing sources, on one, on a decision, on a choice between conflicting ones.
    fn grounds(&self, chapter: Option<Chapter>) -> Grounds {
        Certainty::ALL.map(|wanted| self.of_chapter(chapter).filter(|r| r.certainty == wanted).count())
    }

    /// The second table of the report: how sure the records are.
    fn grounds_table(&self, chapter: Option<Chapter>) -> String {
        let mut out = format!(
            "{:<12} {:>15} {:>10} {:>12} {:>16}\n",
            "certainty", "sources agree", "one source", "our decision", "sources conflict"
        );
        let mut row = |name: &str, [agreed, single, decision, conflict]: Grounds| {
            let _ = writeln!(out, "{name:<12} {agreed:>15} {single:>10} {decision:>12} {conflict:>16}");
        };
        for one in Chapter::ALL.into_iter().filter(|c| chapter.is_none_or(|wanted| wanted == *c)) {
            row(one.name(), self.grounds(Some(one)));
        }
        if chapter.is_none() {
            row("all", self.grounds(None));
        }
        out
    }

    /// What a requirement lacks, in words.
    fn lack(&self, requirement: &Requirement) -> &'static str {
        match (self.has_code(requirement), self.has_test(requirement)) {
            (false, false) => "code, test",
            (false, true) => "code",
            (true, false) => "test",
            (true, true) => "-",
        }
    }

    /// The report for people.
    pub(crate) fn table(&self, chapter: Option<Chapter>, all: bool) -> String {
        let mut out = format!(
            "{:<12} {:>12} {:>6} {:>12} {:>7} {:>8} {:>8}\n",
            "chapter", "requirements", "must", "implemented", "tested", "planned", "uncited"
        );
        let mut row = |name: &str, t: Totals| {
            let _ = writeln!(
                out,
                "{name:<12} {:>12} {:>6} {:>12} {:>7} {:>8} {:>8}",
                t.requirements, t.must, t.implemented, t.tested, t.planned, t.uncited
            );
        };
        for one in Chapter::ALL.into_iter().filter(|c| chapter.is_none_or(|wanted| wanted == *c)) {
            row(one.name(), self.totals(Some(one)));
        }
        if chapter.is_none() {
            row("all", self.totals(None));
        }
        out.push('\n');
        out.push_str(&self.grounds_table(chapter));
        let (planned, due): (Vec<_>, Vec<_>) =
            self.of_chapter(chapter).filter(|r| self.is_uncited(r)).partition(|r| r.status == Status::Planned);
        if due.is_empty() {
            out.push_str("\nEach implemented must is cited by code and by a test.\n");
        } else {
            let _ = writeln!(out, "\nImplemented musts that lack a citation ({}):", due.len());
            self.list(&mut out, &due);
        }
        match (planned.is_empty(), all) {
            (true, _) => {}
            (false, false) => {
                let _ = writeln!(out, "\nPlanned musts that lack a citation: {} (--all lists them)", planned.len());
            }
            (false, true) => {
                let _ = writeln!(out, "\nPlanned musts that lack a citation ({}):", planned.len());
                self.list(&mut out, &planned);
            }
        }
        out
    }

    fn list(&self, out: &mut String, requirements: &[&Requirement]) {
        for r in requirements {
            let issue = r.issue.map(|n| format!(" [issue {n}]")).unwrap_or_default();
            let _ = writeln!(out, "  {:<10} {:<11} {:<14}{issue} {}", r.id, self.lack(r), r.source, r.summary);
        }
    }

    /// The report for programs.
    pub(crate) fn json(&self, chapter: Option<Chapter>) -> Value {
        let uncited: Vec<&Requirement> = self.of_chapter(chapter).filter(|r| self.is_uncited(r)).collect();
        let missing = |r: &&Requirement| {
            json!({
                "id": r.id,
                "status": r.status,
                "issue": r.issue,
                "code": self.has_code(r),
                "test": self.has_test(r),
            })
        };
        let mut object = totals_json(self.totals(chapter));
        object["certainty"] = grounds_json(self.grounds(chapter));
        object["uncited"] = uncited.iter().map(|r| Value::from(r.id.as_str())).collect();
        object["missing"] = uncited.iter().map(missing).collect();
        // How many places would notice a breach of each.
        let tests = |r: &Requirement| self.test.get(r.id.as_str()).map_or(0, Vec::len);
        object["tests"] = self.of_chapter(chapter).map(|r| (r.id.clone(), Value::from(tests(r)))).collect();
        object["exceptions"] = self
            .register
            .exceptions
            .iter()
            .map(|e| json!({"requirement": e.requirement.get_ref(), "reason": e.reason, "effect": e.effect, "until": e.until}))
            .collect();
        object["chapters"] = Chapter::ALL
            .into_iter()
            .filter(|c| chapter.is_none_or(|wanted| wanted == *c))
            .map(|c| {
                let mut one = totals_json(self.totals(Some(c)));
                one["certainty"] = grounds_json(self.grounds(Some(c)));
                one["chapter"] = c.name().into();
                one
            })
            .collect();
        object
    }

    /// Refuses unknown and malformed citations and, when `strict`, implemented musts without code or test.
    pub(crate) fn check(&self, strict: bool) -> Verdict {
        let mut text = String::new();
        let mut errors = 0usize;
        for (place, reason) in &self.scan.malformed {
            errors += 1;
            let _ = writeln!(text, "error: {}:{}: {reason}", place.file, place.line);
        }
        for citation in &self.scan.citations {
            if !self.register.requirements.iter().any(|r| r.id == citation.id) {
                errors += 1;
                let Place { file, line } = &citation.place;
                let _ = writeln!(text, "error: {file}:{line}: no requirement `{}` in the register", citation.id);
            }
        }
        let due = self.of_chapter(None).filter(|r| r.status == Status::Implemented && self.is_uncited(r));
        let mut warnings = 0usize;
        for requirement in due {
            let name = if strict { "error" } else { "warning" };
            let lack = self.lack(requirement);
            let _ =
                writeln!(text, "{name}: {} is implemented but lacks {lack}: {}", requirement.id, requirement.summary);
            if strict {
                errors += 1;
            } else {
                warnings += 1;
            }
        }
        let t = self.totals(None);
        let _ = writeln!(
            text,
            "{} requirements, {} citations: {errors} errors, {warnings} warnings",
            t.requirements,
            self.scan.citations.len()
        );
        Verdict { ok: errors == 0, text }
    }

    /// One record with its decisions, exception and citations; `None` for an unknown id.
    pub(crate) fn show(&self, id: &str) -> Option<String> {
        if let Some(decision) = self.register.decisions.iter().find(|d| d.id.get_ref() == id) {
            return Some(format!(
                "{id}  {}\n  decision      {}\n  why           {}\n  impact        {}\n  knobs         {}\n  requirements  {}\n",
                decision.question,
                decision.decision,
                decision.why,
                decision.impact,
                or_none(&decision.knobs),
                or_none(decision.requirements.get_ref()),
            ));
        }
        let r = self.register.requirements.iter().find(|r| r.id == id)?;
        let status = match r.issue {
            None => "implemented".to_string(),
            Some(issue) => format!("planned, issue {issue}"),
        };
        let mut out = format!(
            "{id}  {}\n  source     {}\n  level      {}\n  certainty  {}\n  status     {status}\n  knobs      {}\n",
            r.summary,
            r.source,
            r.level.name(),
            format_args!("{} ({})", r.certainty.tag(), r.certainty.meaning()),
            or_none(&r.knobs),
        );
        for d in self.register.decisions.iter().filter(|d| d.requirements.get_ref().contains(&r.id)) {
            let _ = writeln!(out, "  decision   {}: {}", d.id.get_ref(), d.decision);
        }
        for e in self.register.exceptions.iter().filter(|e| *e.requirement.get_ref() == r.id) {
            let _ = writeln!(out, "  exception  {} (effect: {}; until: {})", e.reason, e.effect, e.until);
        }
        for (name, side) in [("code", &self.code), ("test", &self.test)] {
            for place in side.get(id).into_iter().flatten() {
                let _ = writeln!(out, "  {name:<9}  {}:{}", place.file, place.line);
            }
        }
        Some(out)
    }
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn totals_json(t: Totals) -> Value {
    json!({
        "requirements": t.requirements,
        "must": t.must,
        "implemented": t.implemented,
        "tested": t.tested,
        "planned": t.planned,
        "uncited": t.uncited,
    })
}

fn grounds_json(grounds: Grounds) -> Value {
    Certainty::ALL.into_iter().zip(grounds).map(|(certainty, n)| (certainty.tag().to_string(), json!(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::citation::tests::scan_of;
    use crate::register::tests::{GOOD, good, load};

    const BOTH: &str = "//= BTH-001\nfn a() {}\n//= BTH-001 test\nfn b() {}\n";

    #[test]
    fn totals_count_records_not_citations() {
        let register = good();
        let scan = scan_of("a.rs", &format!("{BOTH}{BOTH}"));
        let totals = Coverage::new(&register, &scan).totals(None);
        let expected = Totals { requirements: 2, must: 2, implemented: 1, tested: 1, planned: 1, uncited: 1 };
        assert_eq!(totals, expected);
    }

    #[test]
    fn certainty_is_counted_per_chapter_and_adds_up() {
        let register = good();
        let scan = Scan::default();
        let coverage = Coverage::new(&register, &scan);
        assert_eq!(coverage.grounds(None).iter().sum::<usize>(), register.requirements.len());
        let json = coverage.json(None);
        for certainty in Certainty::ALL {
            let records = register.requirements.iter().filter(|r| r.certainty == certainty).count();
            assert_eq!(json["certainty"][certainty.tag()], records, "{}", certainty.tag());
        }
        let table = coverage.table(None, false);
        assert!(table.contains("sources conflict"), "{table}");
    }

    #[test]
    fn json_has_the_promised_keys() {
        let register = good();
        let scan = scan_of("a.rs", "//= BTH-001\n");
        let json = Coverage::new(&register, &scan).json(None);
        assert_eq!(json["requirements"], 2);
        assert_eq!(json["implemented"], 1);
        assert_eq!(json["tested"], 0);
        assert_eq!(json["uncited"], json!(["BTH-001", "BTH-002"]));
        assert_eq!(
            json["missing"][0],
            json!({"id": "BTH-001", "status": "implemented", "issue": null, "code": true, "test": false})
        );
        assert_eq!(json["chapters"][0]["chapter"], "wire");
        assert_eq!(Coverage::new(&register, &scan).json(Some(Chapter::Paths))["uncited"], json!([]));
    }

    #[test]
    fn strict_check_wants_code_and_test_of_implemented_musts_only() {
        let register = good();
        let scan = scan_of("a.rs", "//= BTH-001\n");
        let coverage = Coverage::new(&register, &scan);
        assert!(coverage.check(false).ok);
        let strict = coverage.check(true);
        assert!(!strict.ok);
        assert!(strict.text.contains("error: BTH-001 is implemented but lacks test"), "{}", strict.text);
        assert!(!strict.text.contains("BTH-002"), "{}", strict.text);
        let scan = scan_of("a.rs", BOTH);
        assert!(Coverage::new(&register, &scan).check(true).ok);
    }

    #[test]
    fn unknown_and_malformed_citations_fail_every_check() {
        let register = good();
        let scan = scan_of("a.rs", "\n//= BTH-009\n//= nonsense\n");
        let verdict = Coverage::new(&register, &scan).check(false);
        assert!(!verdict.ok);
        assert!(verdict.text.contains("error: a.rs:2: no requirement `BTH-009` in the register"), "{}", verdict.text);
        assert!(verdict.text.contains("error: a.rs:3: `nonsense` is no id"), "{}", verdict.text);
    }

    #[test]
    fn exception_releases_a_must() {
        let exception = "[[exception]]\nrequirement = \"BTH-001\"\nreason = \"r\"\neffect = \"e\"\nuntil = \"never\"\n";
        let decisions = "[[decision]]\nid = \"OQ-01\"\nquestion = \"q\"\ndecision = \"d\"\nwhy = \"w\"\nimpact = \"i\"\n\
                         knobs = []\nrequirements = [\"BTH-002\"]\n";
        let register = load(GOOD, decisions, exception).expect("sound");
        let scan = Scan::default();
        assert!(Coverage::new(&register, &scan).check(true).ok);
        let shown = Coverage::new(&register, &scan).show("BTH-001").expect("known id");
        assert!(shown.contains("exception  r (effect: e; until: never)"), "{shown}");
    }

    #[test]
    fn table_lists_planned_musts_on_request() {
        let register = good();
        let scan = scan_of("a.rs", BOTH);
        let coverage = Coverage::new(&register, &scan);
        let short = coverage.table(None, false);
        assert!(short.contains("Each implemented must is cited"), "{short}");
        assert!(short.contains("lack a citation: 1 (--all"), "{short}");
        assert!(coverage.table(None, true).contains("BTH-002    code, test  wire 4"), "{}", coverage.table(None, true));
        assert!(!coverage.table(Some(Chapter::Paths), true).contains("BTH-002"));
    }

    #[test]
    fn show_joins_record_decision_and_places() {
        let register = good();
        let scan = scan_of("a.rs", "//= BTH-002 test\n");
        let coverage = Coverage::new(&register, &scan);
        let text = coverage.show("BTH-002").expect("known id");
        assert!(text.contains("planned, issue 3") && text.contains("OQ-01: d") && text.contains("a.rs:1"), "{text}");
        assert!(coverage.show("OQ-01").expect("known decision").contains("BTH-002"));
        assert!(coverage.show("BTH-009").is_none());
    }
}
