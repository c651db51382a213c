//! `[[job]]`: which hosts a job has, and what they speak.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use mrc_core::Rng;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{MrcKeys, PlacementKey, Problem, RoceKeys, Scenario, TransportKeys, TransportKind};
use crate::fabric::Topology;
use crate::host::{TransportInfo, TransportParamError};

/// What the hosts of a job speak.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum JobTransportKey {
    /// One of those that `[transport]` has tables for.
    Kind(TransportKind),
    /// One with tables of its own.
    Own(Box<OwnTransportKeys>),
}

/// `[job.transport]`: as `[transport]`; how messages share connections is one for all jobs.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct OwnTransportKeys {
    /// What the hosts of the job speak.
    pub kind: TransportKind,
    /// `[job.transport.mrc]`, as `[transport.mrc]`.
    pub mrc: MrcKeys,
    /// `[job.transport.roce]`, as `[transport.roce]`.
    pub roce: RoceKeys,
    /// `[job.transport.params]`, as `[transport.params]`.
    pub params: BTreeMap<String, f64>,
}

impl<'de> Deserialize<'de> for JobTransportKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Key;
        impl<'de> Visitor<'de> for Key {
            type Value = JobTransportKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a transport, such as `mrc` or `roce`, or a table with `kind` and the keys of that transport",
                )
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<JobTransportKey, E> {
                TransportKind::deserialize(StrDeserializer::new(word)).map(JobTransportKey::Kind)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JobTransportKey, A::Error> {
                let own = OwnTransportKeys::deserialize(MapAccessDeserializer::new(map))?;
                Ok(JobTransportKey::Own(Box::new(own)))
            }
        }
        from.deserialize_any(Key)
    }
}

impl JsonSchema for JobTransportKey {
    fn schema_name() -> Cow<'static, str> {
        "JobTransportKey".into()
    }

    fn json_schema(from: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let kind = TransportKind::json_schema(from).to_value();
        let words = kind.get("oneOf").and_then(|words| words.as_array()).cloned().unwrap_or_default();
        let table = from.subschema_for::<OwnTransportKeys>().to_value();
        let all: Vec<_> = words.into_iter().chain([table]).collect();
        schemars::json_schema!({ "oneOf": all })
    }
}

/// The keys of a transport that hosts of the run speak.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SpokenKeys {
    /// Where they stand: `transport`, `job[1].transport`.
    pub(super) table: String,
    /// The job that brought them.
    pub(super) job: Option<String>,
    pub(super) keys: TransportKeys,
}

impl SpokenKeys {
    /// The values of the parameters of a registered transport.
    pub(super) fn params(&self, info: &TransportInfo) -> Result<Vec<f64>, Problem> {
        let wrong =
            |error: TransportParamError| Problem::new(format!("{}.params.{}", self.table, error.name), error.why);
        info.values(&self.keys.params).map_err(wrong)
    }

    /// The scenario as it would be if all hosts spoke this.
    pub(super) fn alone(&self, scenario: &Scenario) -> Scenario {
        Scenario { transport: self.keys.clone(), ..scenario.clone() }
    }

    /// An error of that scenario, with the key where it stands.
    pub(super) fn problem(&self, problem: Problem) -> Problem {
        match problem.key.strip_prefix("transport.") {
            Some(key) => Problem { key: format!("{}.{key}", self.table), ..problem },
            None => problem,
        }
    }
}

/// What is spoken: `[transport]`, then what jobs have in its place; and which of these each job speaks.
pub(super) fn spoken(scenario: &Scenario) -> (Vec<SpokenKeys>, Vec<usize>) {
    let main = &scenario.transport;
    let mut all = vec![SpokenKeys { table: "transport".to_owned(), job: None, keys: main.clone() }];
    let of_job = scenario.job.iter().enumerate().map(|(nth, job)| {
        let spoken = match &job.transport {
            None => return 0,
            Some(JobTransportKey::Kind(kind)) => {
                let keys = TransportKeys { kind: *kind, ..main.clone() };
                SpokenKeys { table: "transport".to_owned(), job: None, keys }
            }
            Some(JobTransportKey::Own(own)) => {
                let OwnTransportKeys { kind, mrc, roce, params } = (**own).clone();
                let keys = TransportKeys { kind, mrc, roce, params, ..main.clone() };
                SpokenKeys { table: format!("job[{nth}].transport"), job: Some(job.name.clone()), keys }
            }
        };
        all.iter().position(|known| known.keys == spoken.keys).unwrap_or_else(|| {
            all.push(spoken);
            all.len() - 1
        })
    });
    let of_job = of_job.collect();
    (all, of_job)
}

/// A job and its hosts, by rank.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) hosts: Vec<u32>,
}

/// All jobs, in order.
pub(super) fn place(scenario: &Scenario, topology: &Topology) -> Result<Vec<Job>, Problem> {
    let mut rng = Rng::new(scenario.seed ^ 0x6a_6f_62);
    let mut free: Vec<u32> = (0..topology.hosts()).collect();
    let mut jobs: Vec<Job> = Vec::new();
    for (nth, keys) in scenario.job.iter().enumerate() {
        let at = |key: &str| format!("job[{nth}].{key}");
        if keys.name.is_empty() || jobs.iter().any(|job| job.name == keys.name) {
            return Err(Problem::new(at("name"), "a job has a name of its own, for workloads to name"));
        }
        if keys.hosts == 0 || keys.hosts as usize > free.len() {
            let message = format_args!("{}: 1 to {}, as many as have no job yet", keys.hosts, free.len());
            return Err(Problem::new(at("hosts"), message));
        }
        match keys.placement {
            PlacementKey::Packed => free.sort_unstable(),
            PlacementKey::Spread => {
                // By their place among the free hosts of their leaf, then by leaf.
                free.sort_unstable_by_key(|&host| (topology.leaf_of(host), host));
                let leaves = free.chunk_by(|&a, &b| topology.leaf_of(a) == topology.leaf_of(b));
                let mut turns: Vec<(usize, u32, u32)> = leaves
                    .flat_map(|hosts| {
                        hosts.iter().enumerate().map(|(turn, &host)| (turn, topology.leaf_of(host), host))
                    })
                    .collect();
                turns.sort_unstable();
                free = turns.into_iter().map(|(_, _, host)| host).collect();
            }
            PlacementKey::Random => {
                free.sort_unstable();
                for at in (1..free.len()).rev() {
                    free.swap(at, rng.below(at as u32 + 1) as usize);
                }
            }
        }
        let rest = free.split_off(keys.hosts as usize);
        jobs.push(Job { name: keys.name.clone(), hosts: std::mem::replace(&mut free, rest) });
    }
    Ok(jobs)
}

/// Which transport each host speaks, by its place in [`spoken`]; empty where there is one.
pub(super) fn speaks(of_job: &[usize], jobs: &[Job], hosts: u32) -> Vec<usize> {
    if of_job.iter().all(|&nth| nth == 0) {
        return Vec::new();
    }
    let mut speaks = vec![0; hosts as usize];
    for (&nth, job) in of_job.iter().zip(jobs) {
        job.hosts.iter().for_each(|&host| speaks[host as usize] = nth);
    }
    speaks
}
