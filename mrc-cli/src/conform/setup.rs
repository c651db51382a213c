//! The set-up file of an endpoint that has no control connection: what somebody configured it with by hand.

use mrc_conform::{Facts, Knobs, Script};
use serde::Deserialize;

/// The file, JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// What all QPs are set to; what is not named has the default of the scripts.
    #[serde(default)]
    pub knobs: Knobs,
    /// Addresses, keys and paths of both sides.
    pub facts: Facts,
    /// Fresh QPs. Each serves one script.
    pub qps: Vec<FreshQp>,
}

/// A QP that nothing was sent on yet.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreshQp {
    /// Number of the target's QP.
    pub target_qpn: u32,
    /// Number it thinks the tester's QP has.
    pub tester_qpn: u32,
    /// In what it differs from the others.
    #[serde(default)]
    pub knobs: Knobs,
    #[serde(skip)]
    used: bool,
}

impl Setup {
    /// Whether every knob is one, and has a value that it can have.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), String> {
        self.knobs.check()?;
        self.qps.iter().try_for_each(|qp| qp.knobs.check().map_err(|why| format!("QP {}: {why}", qp.target_qpn)))
    }

    /// A fresh QP that is set up as the script wants it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(&mut self, script: &Script) -> Result<Facts, String> {
        let mut why = "no fresh QP is left in the set-up file".to_string();
        for qp in self.qps.iter_mut().filter(|qp| !qp.used) {
            let value = |name: &str| {
                let of = |knobs: &Knobs| knobs.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
                of(&qp.knobs).or(of(&self.knobs)).unwrap_or_else(|| Knobs::default().get(name))
            };
            let other = mrc_conform::KNOBS.iter().find(|knob| value(knob.name) != script.knobs.get(knob.name));
            match other {
                None => {
                    qp.used = true;
                    let (target_qpn, tester_qpn) = (qp.target_qpn, qp.tester_qpn);
                    return Ok(Facts { target_qpn, tester_qpn, ..self.facts.clone() });
                }
                Some(knob) => {
                    let (want, have) = (script.knobs.get(knob.name), value(knob.name));
                    why = format!("needs {}={want}; the target is set to {have}", knob.name);
                }
            }
        }
        Err(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file of `docs/conformance.md`.
    const FILE: &str = r#"{ "knobs": { "mtu": 4096 },
        "facts": { "target_qpn": 0, "tester_qpn": 0, "target_mac": [[2,0,0,0,0,11]], "tester_mac": [],
                   "target_ip": "2001:db8:1::b", "tester_ip": "2001:db8:1::a", "target_sid": [], "tester_sid": [],
                   "target_va": 139637976727552, "target_rkey": 3405643777, "region": 1048576,
                   "tester_va": 0, "tester_rkey": 0, "evs": [] },
        "qps": [ { "target_qpn": 17, "tester_qpn": 106657 },
                 { "target_qpn": 18, "tester_qpn": 106658, "knobs": { "psn": 100 } } ] }"#;

    fn script(knobs: &str) -> Script {
        Script::parse("a", &format!("# t\nrequires SACK-001\nknobs {knobs}\n0 quiet")).unwrap()
    }

    #[test]
    fn knobs_that_cannot_be_are_refused() {
        let check = |from: &str, to: &str| serde_json::from_str::<Setup>(&FILE.replace(from, to)).unwrap().check();
        assert_eq!(check("", ""), Ok(()));
        assert!(check("\"mtu\": 4096", "\"mtuu\": 4096").unwrap_err().contains("did you mean `mtu`"));
        let wrong = check("\"psn\": 100", "\"psn\": 16777216").unwrap_err();
        assert_eq!(wrong, "QP 18: `psn=16777216`: psn takes a number from 0 to 16777215");
    }

    /// A misspelt key was ignored, and the target was blamed for having the default.
    #[test]
    fn keys_that_nobody_knows_are_refused() {
        for (from, to) in [
            ("\"knobs\": { \"mtu\"", "\"knob\": { \"mtu\""),
            ("\"evs\": []", "\"evs\": [], \"lack\": [\"vlan\"]"),
            ("\"knobs\": { \"psn\": 100 }", "\"psn\": 100"),
        ] {
            assert!(FILE.contains(from), "{from}");
            let why = serde_json::from_str::<Setup>(&FILE.replace(from, to)).unwrap_err().to_string();
            assert!(why.contains("unknown field"), "{why}");
        }
    }

    #[test]
    fn each_script_takes_a_fresh_qp_that_is_set_up_for_it() {
        let mut setup: Setup = serde_json::from_str(FILE).unwrap();
        let refused = setup.take(&script("mtu=1024")).unwrap_err();
        assert_eq!(refused, "needs mtu=1024; the target is set to 4096");
        assert_eq!(setup.take(&script("mtu=4096 psn=100")).unwrap().target_qpn, 18);
        let facts = setup.take(&script("mtu=4096")).unwrap();
        assert_eq!((facts.target_qpn, facts.tester_qpn, facts.target_rkey), (17, 106_657, 3_405_643_777));
        assert_eq!(setup.take(&script("mtu=4096")).unwrap_err(), "no fresh QP is left in the set-up file");
    }
}
