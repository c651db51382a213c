//! How sure we are of a rule. The crate `spec`, which judges the register, reads this file too: a register that is broken
//! must not keep its judge from being built, so it does not depend on this crate.

use serde::{Deserialize, Serialize};

/// How sure we are of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub enum Certainty {
    /// Two or more independent sources agree.
    #[serde(rename = "2+")]
    Agreed,
    /// One source.
    #[serde(rename = "1")]
    Single,
    /// Sources are silent; we decided.
    #[serde(rename = "D")]
    Decision,
    /// Sources conflict; we chose one of them.
    #[serde(rename = "C")]
    Conflict,
}

impl Certainty {
    /// Every value, the surest first.
    pub const ALL: [Self; 4] = [Self::Agreed, Self::Single, Self::Decision, Self::Conflict];

    /// As the register writes it.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Agreed => "2+",
            Self::Single => "1",
            Self::Decision => "D",
            Self::Conflict => "C",
        }
    }

    /// In words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Agreed => "independent sources agree",
            Self::Single => "one source",
            Self::Decision => "our decision, the sources are silent",
            Self::Conflict => "our choice, the sources conflict",
        }
    }

    /// The value with this tag.
    pub fn named(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|certainty| certainty.tag().eq_ignore_ascii_case(tag))
    }
}
