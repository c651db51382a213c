//! Transports that are registered by name: one file each and a line in [`TRANSPORTS`]; nothing else knows them. MRC and RoCE,
//! which have tables of keys of their own, are not among them. `docs/extend.md` writes one.

use std::collections::BTreeMap;
use std::fmt;

use super::{AnyTransport, line_rate};
use crate::fabric::{Param, Topology};

/// All registered transports, by name.
pub static TRANSPORTS: &[&TransportInfo] = &[&line_rate::INFO];

/// A host that a transport is built for.
#[derive(Clone, Copy, Debug)]
pub struct HostSite<'a> {
    /// The fabric.
    pub topology: &'a Topology,
    /// Number of the host.
    pub host: u32,
    /// Seed of the run; the host's number makes it one of the host.
    pub seed: u64,
}

/// A registered transport.
#[derive(Debug)]
pub struct TransportInfo {
    /// `transport.kind` in scenarios.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Its parameters, `[transport.params]`.
    pub params: &'static [Param],
    /// What else must hold of the values of the parameters, beside the ranges: the name of one that is wrong, and why.
    pub check: Option<TransportCheck>,
    /// Bytes on the wire of its longest packet.
    pub longest_packet: fn(&[f64]) -> u32,
    /// How long it tries in vain before a message fails, in nanoseconds; if it never gives up, the longest time between two tries.
    /// By default a run in which no byte arrives for twice as long counts as stalled (`stall_us`).
    pub patience_ns: fn(&[f64]) -> u64,
    /// Makes one host from the values of the parameters, in their order.
    pub build: fn(&HostSite<'_>, &[f64]) -> AnyTransport<'static>,
}

/// See [`TransportInfo::check`].
pub type TransportCheck = fn(&[f64]) -> Result<(), (&'static str, &'static str)>;

/// Why the parameters of a transport cannot be used: the name of one, and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name}: {why}")]
pub struct TransportParamError {
    /// Name of the parameter.
    pub name: String,
    /// What is wrong, and what is allowed.
    pub why: String,
}

impl TransportInfo {
    /// The values of the parameters, in their order: those of `given`, by name, else the defaults.
    ///
    /// # Errors
    /// There is no such parameter, or a value is not allowed.
    pub fn values(&self, given: &BTreeMap<String, f64>) -> Result<Vec<f64>, TransportParamError> {
        let wrong = |name: &str, why: &dyn fmt::Display| {
            Err(TransportParamError { name: name.to_owned(), why: why.to_string() })
        };
        if let Some((name, value)) = given.iter().find(|(name, _)| self.params.iter().all(|param| param.name != **name))
        {
            let names: Vec<&str> = self.params.iter().map(|param| param.name).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return wrong(name, &format_args!("{value}: parameters of `{}`: {names}", self.name));
        }
        let mut values = Vec::new();
        for param in self.params {
            let value = given.get(param.name).copied().unwrap_or(param.default);
            if let Err(error) = param.check(value) {
                return wrong(param.name, &format_args!("{value}: {error}"));
            }
            values.push(value);
        }
        match self.check.map(|check| check(&values)) {
            Some(Err((name, why))) => wrong(name, &why),
            _ => Ok(values),
        }
    }
}

impl PartialEq for TransportInfo {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TransportInfo {}

/// The example of `docs/extend.md`, as a file of this folder.
#[cfg(test)]
#[path = "../../tests/extend/stop_and_wait.rs"]
mod example;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_outside_moves_in() {
        assert_eq!(example::STOP_AND_WAIT.values(&BTreeMap::new()), Ok(vec![100.0]));
    }

    #[test]
    fn names_and_parameters_are_told_apart() {
        let mut names: Vec<_> = TRANSPORTS.iter().map(|info| info.name).chain(["mrc", "roce"]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TRANSPORTS.len() + 2);
        for info in TRANSPORTS {
            let defaults = info.values(&BTreeMap::new()).unwrap();
            assert_eq!(defaults.len(), info.params.len());
            let all = info.params.iter().map(|param| (param.name.to_owned(), param.default)).collect();
            assert_eq!(info.values(&all), Ok(defaults), "{}", info.name);
            let error = info.values(&[("magic".to_owned(), 1.0)].into()).unwrap_err();
            assert!(error.name == "magic" && error.why.contains("parameters of"), "{error}");
        }
        let of = |name: &str, value: f64| TRANSPORTS[0].values(&[(name.to_owned(), value)].into());
        assert_eq!(of("rto_us", 7.0).unwrap()[1], 7.0);
        assert_eq!(of("rto_us", f64::NAN).unwrap_err().name, "rto_us");
        assert!(of("mtu", 100.5).unwrap_err().why.contains("whole"));
    }
}
