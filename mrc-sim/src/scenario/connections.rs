//! `transport.connections`: a word or a number.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::workload::Connections;

/// How messages share connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionsKey(pub Connections);

const WORDS: [(&str, Connections, &str); 2] = [
    (
        "per-pair",
        Connections::PerPair,
        "One: a message waits for those before it to the same host. Or so many, as a number, in turn.",
    ),
    (
        "per-message",
        Connections::PerMessage,
        "Each message has its own. MRC: a new one, whose memory serves another message when it is done. RoCE: one of its pair that is idle; a pair has as many as its messages need, at most 1024. See `expected_slowdown`.",
    ),
];

impl Serialize for ConnectionsKey {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Connections::Count(count) => to.serialize_u32(count),
            known => match WORDS.iter().find(|(_, value, _)| *value == known) {
                Some((word, ..)) => to.serialize_str(word),
                None => to.serialize_none(),
            },
        }
    }
}

impl<'de> Deserialize<'de> for ConnectionsKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Key;
        impl Visitor<'_> for Key {
            type Value = Connections;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`per-pair`, `per-message`, or a number from 1 to 1024")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Connections, E> {
                let known = WORDS.iter().find(|(name, ..)| *name == word).map(|(_, value, _)| *value);
                let unknown =
                    || format!("unknown variant `{word}`, expected one of `per-pair`, `per-message`, or a number");
                known.ok_or_else(|| E::custom(unknown()))
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<Connections, E> {
                match u32::try_from(count) {
                    Ok(count @ 1..=1024) => Ok(Connections::Count(count)),
                    _ => Err(E::custom(format!("{count}: allowed are 1 to 1024, `per-pair`, `per-message`"))),
                }
            }
        }
        from.deserialize_any(Key).map(Self)
    }
}

impl JsonSchema for ConnectionsKey {
    fn schema_name() -> Cow<'static, str> {
        "ConnectionsKey".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let words = WORDS.map(|(word, _, about)| {
            schemars::json_schema!({ "type": "string", "const": word, "description": about }).to_value()
        });
        let number = schemars::json_schema!({ "type": "integer", "minimum": 1, "maximum": 1024 }).to_value();
        let all: Vec<_> = words.into_iter().chain([number]).collect();
        schemars::json_schema!({ "oneOf": all })
    }
}
