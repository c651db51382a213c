//! The register of the protocol's rules (`spec/`), as far as a verdict needs it: how binding a rule is, and how sure we are
//! of it. The tables are copied from the register when the library is built.

use serde::Serialize;

pub use crate::certainty::Certainty;

/// One rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// Such as `SACK-008`.
    pub id: &'static str,
    /// Chapter and section of the reference.
    pub source: &'static str,
    /// Section or table of the OCP specification, as far as public material names it (`spec/ocp.toml`); else empty.
    pub ocp: &'static str,
    /// `must`, `should` or `may`.
    pub level: &'static str,
    /// How sure we are.
    pub certainty: Certainty,
    /// The rule in our words.
    pub summary: &'static str,
}

/// One open question and what we do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Such as `OQ-07`.
    pub id: &'static str,
    /// What is open.
    pub question: &'static str,
    /// What we do.
    pub decision: &'static str,
    /// Requirements that follow the decision.
    pub requirements: &'static [&'static str],
}

include!(concat!(env!("OUT_DIR"), "/register.rs"));

impl Requirement {
    /// Every rule.
    pub fn all() -> &'static [Self] {
        REQUIREMENTS
    }

    /// The rule with this id.
    pub fn named(id: &str) -> Option<&'static Self> {
        REQUIREMENTS.iter().find(|requirement| requirement.id == id)
    }

    /// The open questions that this rule depends on.
    pub fn decisions(&self) -> impl Iterator<Item = &'static Decision> {
        let id = self.id;
        DECISIONS.iter().filter(move |decision| decision.requirements.contains(&id))
    }
}

impl Decision {
    /// Every open question.
    pub fn all() -> &'static [Self] {
        DECISIONS
    }

    /// The question with this id.
    pub fn named(id: &str) -> Option<&'static Self> {
        DECISIONS.iter().find(|decision| decision.id == id)
    }
}

/// How much a verdict on these rules says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Weight {
    /// The strongest level of the rules.
    pub level: &'static str,
    /// The certainty of the least sure rule: a failure may come from that one.
    pub certainty: Certainty,
}

impl Weight {
    /// Of the rules with these ids.
    pub fn of(ids: &[String]) -> Self {
        let rules = || ids.iter().filter_map(|id| Requirement::named(id));
        let strength = |level: &&str| ["may", "should", "must"].iter().position(|known| known == level);
        let level = rules().map(|rule| rule.level).max_by_key(strength).unwrap_or("may");
        Self { level, certainty: rules().map(|rule| rule.certainty).max().unwrap_or(Certainty::Decision) }
    }
}

impl std::fmt::Display for Weight {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.level, self.certainty.tag())
    }
}

/// The name among `known` that `name` was probably meant to be.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let near = known.into_iter().map(|candidate| (strsim::osa_distance(name, candidate), candidate)).min()?;
    (near.0 <= name.len().max(near.1.len()) / 3 + 1).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_ocp_specification_are_known_where_public_material_names_them() {
        let ocp = |id: &str| Requirement::named(id).map(|rule| rule.ocp);
        assert_eq!(ocp("BTH-001"), Some("section 6.2.2"));
        assert_eq!(ocp("RSP-004"), Some("section 6.3.1, item 6; table 7-3"));
        assert_eq!(ocp("SACK-008"), Some(""));
        // A place whose requirements are gone shows here.
        let text = include_str!("../data/ocp.toml");
        for id in text.split('"').filter(|part| {
            part.contains('-') && part.chars().all(|c| c.is_ascii_uppercase() || "-0123456789*".contains(c))
        }) {
            let group = id.trim_end_matches('*');
            assert!(Requirement::all().iter().any(|rule| rule.id.starts_with(group) && !rule.ocp.is_empty()), "{id}");
        }
    }

    #[test]
    fn the_least_sure_rule_decides() {
        let ids = |list: &[&str]| list.iter().map(|id| (*id).to_string()).collect::<Vec<_>>();
        assert_eq!(Weight::of(&ids(&["MODEL-001"])).to_string(), "must 2+");
        // The order of the context identifiers is a choice between sources.
        assert_eq!(Weight::of(&ids(&["MODEL-001", "SETH-006"])).to_string(), "must C");
        assert_eq!(Requirement::named("SETH-006").unwrap().decisions().next().unwrap().id, "OQ-07");
        assert_eq!(Certainty::named("c"), Some(Certainty::Conflict));
    }

    #[test]
    fn a_slip_of_the_pen_finds_the_name() {
        assert_eq!(nearest("SACK-0O8", Requirement::all().iter().map(|rule| rule.id)), Some("SACK-008"));
        assert_eq!(nearest("frob", ["mtu", "timeout"]), None);
    }
}
