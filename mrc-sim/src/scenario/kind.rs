//! `transport.kind`: MRC, RoCE, or a transport that is registered by name.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fabric::Param;
use crate::host::{TRANSPORTS, TransportInfo};

/// Transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransportKind {
    /// The engine of this project.
    #[default]
    Mrc,
    /// RoCEv2 Reliable Connection, and its IRN variant.
    Roce,
    /// One of [`TRANSPORTS`].
    Named(&'static TransportInfo),
}

impl TransportKind {
    /// The word in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mrc => "mrc",
            Self::Roce => "roce",
            Self::Named(info) => info.name,
        }
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Mrc, Self::Roce].into_iter().chain(TRANSPORTS.iter().copied().map(Self::Named))
    }
}

impl Serialize for TransportKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for TransportKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Self::all().find(|kind| kind.name() == word).ok_or_else(|| {
            let known: Vec<String> = Self::all().map(|kind| format!("`{}`", kind.name())).collect();
            D::Error::custom(format!("unknown variant `{word}`, expected one of {}", known.join(", ")))
        })
    }
}

impl JsonSchema for TransportKind {
    fn schema_name() -> Cow<'static, str> {
        "TransportKind".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let of = Self::all().map(|kind| {
            let about = match kind {
                Self::Mrc => "The engine of this project.".to_owned(),
                Self::Roce => "RoCEv2 Reliable Connection, and its IRN variant.".to_owned(),
                Self::Named(info) => {
                    let param = |param: &Param| format!(" `params.{}` {}", param.name, param.describe());
                    format!("{}{}", info.about, info.params.iter().map(param).collect::<String>())
                }
            };
            schemars::json_schema!({ "type": "string", "const": kind.name(), "description": about }).to_value()
        });
        schemars::json_schema!({ "oneOf": of.collect::<Vec<_>>() })
    }
}
