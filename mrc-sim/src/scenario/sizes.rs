//! `workload.sizes`: the name of a distribution of message sizes, or its points.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Points of a cumulative distribution: bytes, and the share of messages up to so many.
pub(super) type Points = Vec<(f64, f64)>;

/// A distribution of message sizes.
#[derive(Clone, PartialEq, Debug)]
pub enum SizesKey {
    /// One of those below.
    Named(&'static Named),
    /// The file's own.
    Points(Points),
}

/// A distribution that ships with the simulator.
#[derive(PartialEq, Debug)]
pub struct Named {
    /// Name in scenarios.
    pub name: &'static str,
    /// What it is, and where it is from.
    pub about: &'static str,
    /// Bytes, and percent of messages up to so many.
    percent: &'static [(f64, f64)],
}

/// All named distributions.
pub(super) static NAMED: [Named; 5] = [
    Named {
        name: "web-search",
        about: "Web search (DCTCP, SIGCOMM 2010), in the points that RDMA simulations use; mean 1.7 MB.",
        percent: &[
            (1.0, 0.0),
            (1e4, 15.0),
            (2e4, 20.0),
            (3e4, 30.0),
            (5e4, 40.0),
            (8e4, 53.0),
            (2e5, 60.0),
            (1e6, 70.0),
            (2e6, 80.0),
            (5e6, 90.0),
            (1e7, 97.0),
            (3e7, 100.0),
        ],
    },
    Named {
        name: "hadoop",
        about: "Hadoop at Meta (SIGCOMM 2015), thinned out, with an even tail from 2.2 to 20 MB, in which 71 % of all bytes are; mean \
                0.2 MB.",
        percent: &[
            (1.0, 0.0),
            (271.0, 4.1),
            (376.0, 20.3),
            (600.0, 45.9),
            (800.0, 57.6),
            (1277.0, 62.8),
            (1664.0, 66.7),
            (5210.0, 69.3),
            (36_844.0, 73.1),
            (47_050.0, 77.9),
            (70_722.0, 83.3),
            (102_058.0, 88.9),
            (156_563.0, 91.6),
            (240_177.0, 94.4),
            (736_642.0, 96.8),
            (2_169_118.0, 98.7),
            (2e7, 100.0),
        ],
    },
    Named {
        name: "hadoop-10mb",
        about: "The same up to 10 MB, with the tail that public simulations of RDMA have, in which 54 % of all bytes are above 2.2 MB; \
                mean 0.12 MB.",
        percent: &[
            (1.0, 0.0),
            (100.0, 0.8),
            (217.0, 1.5),
            (271.0, 4.1),
            (300.0, 5.2),
            (326.0, 13.75),
            (376.0, 20.3),
            (480.0, 26.4),
            (600.0, 45.9),
            (737.0, 55.2),
            (800.0, 57.6),
            (1042.0, 61.0),
            (1534.0, 64.7),
            (1664.0, 66.7),
            (5210.0, 69.3),
            (7830.0, 70.8),
            (31_946.0, 72.1),
            (39_973.0, 74.0),
            (47_050.0, 77.9),
            (51_046.0, 81.6),
            (70_722.0, 83.3),
            (81_565.0, 87.2),
            (102_058.0, 88.9),
            (133_013.0, 90.7),
            (184_284.0, 92.6),
            (240_177.0, 94.4),
            (288_520.0, 95.35),
            (470_507.0, 96.3),
            (940_700.0, 97.2),
            (1_769_244.0, 98.1),
            (2_169_118.0, 98.7),
            (2_944_602.0, 98.96),
            (3_997_329.0, 99.22),
            (5_426_418.0, 99.48),
            (7_366_423.0, 99.74),
            (1e7, 100.0),
        ],
    },
    Named {
        name: "alicloud-storage",
        about: "Storage at Alibaba Cloud (2019); mean 41 kB.",
        percent: &[
            (1.0, 0.0),
            (4e3, 22.93),
            (8e3, 69.21),
            (1.6e4, 80.61),
            (3.2e4, 90.47),
            (6.4e4, 93.53),
            (1.28e5, 96.77),
            (2.56e5, 97.53),
            (2e6, 100.0),
        ],
    },
    Named {
        name: "ml",
        about: "Our own statement of a training cluster, from no measurement: 20 % up to 64 KiB (control and small tensors) and 40 % \
                to 1 MiB (pieces of gradient buckets); 30 % to 4 MiB (buckets) and 10 % to 32 MiB (parameters and \
                activations); mean 3 MB.",
        percent: &[(4_096.0, 0.0), (65_536.0, 20.0), (1_048_576.0, 60.0), (4_194_304.0, 90.0), (33_554_432.0, 100.0)],
    },
];

impl SizesKey {
    /// The points.
    pub fn points(&self) -> Points {
        match self {
            Self::Named(named) => named.percent.iter().map(|&(bytes, percent)| (bytes, percent / 100.0)).collect(),
            Self::Points(points) => points.clone(),
        }
    }
}

impl Serialize for SizesKey {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Named(named) => to.serialize_str(named.name),
            Self::Points(points) => points.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for SizesKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Key;
        impl<'de> Visitor<'de> for Key {
            type Value = SizesKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a distribution, or a list of [bytes, share]")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<SizesKey, E> {
                let known = NAMED.iter().map(|named| format!("`{}`", named.name)).collect::<Vec<_>>().join(", ");
                let named = NAMED.iter().find(|named| named.name == word).map(SizesKey::Named);
                named.ok_or_else(|| E::custom(format!("unknown variant `{word}`, expected one of {known}")))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SizesKey, A::Error> {
                let mut points = Vec::new();
                while let Some(point) = list.next_element()? {
                    points.push(point);
                }
                Ok(SizesKey::Points(points))
            }
        }
        from.deserialize_any(Key)
    }
}

impl JsonSchema for SizesKey {
    fn schema_name() -> Cow<'static, str> {
        "SizesKey".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let word = |named: &Named| {
            schemars::json_schema!({ "type": "string", "const": named.name, "description": named.about }).to_value()
        };
        let pair = serde_json::json!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 });
        let points = serde_json::json!({ "type": "array", "items": pair });
        let all: Vec<_> = NAMED.iter().map(word).chain([points]).collect();
        schemars::json_schema!({ "oneOf": all })
    }
}
