//! Open questions of the protocol that peers may answer in two ways: a target of the other reading passes the suite when
//! the tester knows its knob, and fails scripts that name the field when it does not.

use mrc_conform::{Knobs, Verdict, builtin, engine, run};

/// Scripts that fail, and the field in which each differs, when the target has `fixed` and the tester `known`.
fn failing(fixed: &Knobs, known: &Knobs) -> Vec<(String, String)> {
    let mut failing = Vec::new();
    for mut script in builtin().unwrap() {
        let mut target = script.knobs.clone();
        if target.fix(fixed).is_err() || script.knobs.fix(known).is_err() {
            continue; // Does not apply to this target.
        }
        let outcome = engine::with_virtual(&target, |target, facts| run(&script, facts, target)).unwrap();
        match outcome.verdict {
            Verdict::Pass => {}
            Verdict::Fail(failure) => {
                let field = failure.difference.map_or("behaviour".into(), |difference| difference.field);
                failing.push((script.file, field));
            }
            other => panic!("{}: {other:?}", script.file),
        }
    }
    failing
}

fn knobs(items: &[&str]) -> Knobs {
    let mut knobs = Knobs::default();
    items.iter().for_each(|item| knobs.read(item).unwrap());
    knobs
}

//= SETH-006 test
#[test]
fn a_target_that_names_the_requester_first() {
    let other = knobs(&["pdcid_order=requester"]);
    assert_eq!(failing(&other, &other), []);
    let unknown = failing(&other, &knobs(&[]));
    assert!(unknown.iter().all(|(_, field)| field == "seth.spdcid" || field == "neth.spdcid"), "{unknown:?}");
    for script in ["sack/contexts.mrc", "window/beyond.mrc", "resources/nack_fields.mrc"] {
        assert!(unknown.iter().any(|(name, _)| name == script), "{script} does not notice");
    }
}
