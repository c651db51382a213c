//! Slow links with real queues: a token bucket (`tbf`) at each sending port of a switch. Packets wait in it, so round trips
//! grow. A virtual queue of the same rate ([`crate::VirtualQueue`]) then reports the backlog that is really there.

use serde::Serialize;
use serde_json::Value;

use crate::bpf::Hook;
use crate::exec::{LabError, tc};
use crate::fabric::Fabric;
use crate::impair::{Place, parse_unit, places};
use crate::shape::{Shape, device};

/// Bytes that may leave at once: one jumbo frame and some, so that the queue begins almost at once.
const BURST_BYTES: u32 = 16 << 10;
/// Bytes that may wait unless told otherwise: more than any window here.
const LIMIT_BYTES: u64 = 16 << 20;

/// One slowed direction of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShaperReport {
    /// Link.
    pub link: String,
    /// Node the packets come from.
    pub from: String,
    /// Node they go to.
    pub to: String,
    /// Packets that left.
    pub packets: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// Times a packet had to wait for the bucket.
    pub waits: u64,
    /// Bytes that wait now.
    pub backlog_bytes: u64,
}

/// Bits per second from text: `100mbit`, `2.5gbit`.
///
/// # Errors
/// What is wrong, for people.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let rates = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
    parse_unit(text, "rate", &rates)
}

/// Bytes from text: `300kb`, `2mb`.
///
/// # Errors
/// What is wrong, for people.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let sizes = [("gb", 1_000_000_000), ("mb", 1_000_000), ("kb", 1_000), ("b", 1)];
    parse_unit(text, "number of bytes", &sizes)
}

/// The directions of `what` in which a switch sends: all but those that leave a host.
fn sending(shape: &Shape, what: &str) -> Result<Vec<Place>, LabError> {
    let mut places = places(shape, what)?;
    places.retain(|place| place.hook == Hook::Egress);
    Ok(places)
}

impl Place {
    fn interface(&self, shape: &Shape) -> (String, String) {
        (shape.namespace(self.switch), device(self.link.plane, self.switch, self.peer))
    }
}

impl Fabric {
    /// Slows links to `bits_per_second` in each direction in which a switch sends; `what` as in [`Self::impair`]. What
    /// does not fit into a queue of `queue_bytes`, 16 MiB unless told, is dropped. An earlier rate is replaced.
    ///
    /// # Errors
    /// No such link, or the kernel has no `tbf`.
    pub fn slow(&self, what: &str, bits_per_second: u64, queue_bytes: Option<u64>) -> Result<(), LabError> {
        let (rate, burst) = (format!("{bits_per_second}bit"), BURST_BYTES.to_string());
        let limit = queue_bytes.unwrap_or(LIMIT_BYTES).to_string();
        sending(self.shape(), what)?.iter().try_for_each(|place| {
            let (namespace, device) = place.interface(self.shape());
            let tbf = ["tbf", "rate", &rate, "burst", &burst, "limit", &limit];
            tc(&namespace, &[&["qdisc", "replace", "dev", &device, "root"][..], &tbf].concat()).map(drop)
        })
    }

    /// Lets links run at full speed again. A link that was not slowed stays as it is.
    ///
    /// # Errors
    /// No such link.
    pub fn unslow(&self, what: &str) -> Result<(), LabError> {
        sending(self.shape(), what)?.iter().try_for_each(|place| {
            let (namespace, device) = place.interface(self.shape());
            match bucket(&namespace, &device)? {
                Some(_) => tc(&namespace, &["qdisc", "del", "dev", &device, "root"]).map(drop),
                None => Ok(()),
            }
        })
    }

    /// What the slowed links did, one entry per direction, in the order of the links.
    ///
    /// # Errors
    /// A switch does not answer.
    pub fn slowed(&self) -> Result<Vec<ShaperReport>, LabError> {
        let mut reports = Vec::new();
        let missing = self.missing_links()?;
        for place in sending(self.shape(), "all")?.into_iter().filter(|place| !missing.contains(&place.link.name())) {
            let (namespace, device) = place.interface(self.shape());
            if let Some(bucket) = bucket(&namespace, &device)? {
                let number = |key: &str| bucket[key].as_u64().unwrap_or(0);
                let (from, to) = place.ends();
                reports.push(ShaperReport {
                    link: place.link.name(),
                    from: from.name(),
                    to: to.name(),
                    packets: number("packets"),
                    dropped: number("drops"),
                    waits: number("overlimits"),
                    backlog_bytes: number("backlog"),
                });
            }
        }
        Ok(reports)
    }
}

/// The token bucket of an interface, as `tc` describes it.
fn bucket(namespace: &str, device: &str) -> Result<Option<Value>, LabError> {
    let text = tc(namespace, &["-s", "-j", "qdisc", "show", "dev", device])?;
    let unreadable =
        |error: serde_json::Error| LabError::Command { command: "tc -s -j qdisc show".into(), text: error.to_string() };
    let list: Vec<Value> = serde_json::from_str(&text).map_err(unreadable)?;
    Ok(list.into_iter().find(|qdisc| qdisc["kind"] == "tbf"))
}
