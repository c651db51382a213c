//! Between agent and collector: lines of JSON over TCP, a Unix socket or TLS, signed with the fabric's key.
//!
//! The collector begins with a random challenge. Every line of the agent is `SIGNATURE JSON`: SipHash-2-4 under the key
//! over the challenge, the number of the line and the JSON. So nobody without the key is heard, and nothing can be
//! replayed, moved or left out unnoticed. Without TLS nothing is encrypted, and the agent does not know who hears it:
//! such connections stay on the machine.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use mrc_mapper::agent::Summary;
use mrc_mapper::probe::Key;
use rustls::{ClientConfig, StreamOwned};

use super::tls;
use super::wire::Address;

/// Longest line, in bytes.
pub const MAX_LINE: usize = 1 << 20;
/// Summaries that wait for the collector; more are dropped.
const WAITING: usize = 8;
/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_secs(1);

/// The signature of line number `number`.
pub fn sign(key: &Key, challenge: &[u8; 16], number: u64, json: &str) -> u64 {
    let mut bytes = Vec::with_capacity(24 + json.len());
    bytes.extend_from_slice(challenge);
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(json.as_bytes());
    key.sign(&bytes)
}

/// The JSON of a signed line; none when the signature is wrong.
pub fn verified<'a>(key: &Key, challenge: &[u8; 16], number: u64, line: &'a str) -> Option<&'a str> {
    let (signature, json) = line.split_once(' ')?;
    let signature = u64::from_str_radix(signature, 16).ok()?;
    (sign(key, challenge, number, json) == signature).then_some(json)
}

/// Sixteen bytes as text.
pub fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sixteen bytes from text.
pub fn unhex(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32).map(u128::to_be_bytes)
}

/// The agent's side: a thread that sends what it can. A collector that is gone, slow or wrong costs summaries, nothing else.
pub struct Uplink(SyncSender<Summary>);

impl Uplink {
    /// Sends to the collector at `address` from now on.
    pub fn start(address: Address, key: Key, tls: Option<Arc<ClientConfig>>) -> anyhow::Result<Self> {
        let (sender, summaries) = sync_channel(WAITING);
        std::thread::Builder::new().name("mrc-uplink".into()).spawn(move || {
            let mut told = String::new();
            loop {
                // Ok: the agent has ended.
                let Err(error) = deliver(&address, &key, tls.as_ref(), &summaries) else { return };
                let why = reason(&error);
                if why != told {
                    log::warn!("collector {address}: {why}; the agent goes on without it");
                    told = why;
                }
                std::thread::sleep(RETRY);
            }
        })?;
        Ok(Self(sender))
    }

    /// Hands a summary over; whether it was taken.
    pub fn send(&self, summary: Summary) -> bool {
        !matches!(self.0.try_send(summary), Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
    }
}

pub(super) fn reason(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.map_or_else(|| error.to_string(), tls::explained)
}

/// Sends summaries until there are no more or the connection breaks.
pub(super) fn deliver(
    address: &Address,
    key: &Key,
    tls: Option<&Arc<ClientConfig>>,
    summaries: &Receiver<Summary>,
) -> std::io::Result<()> {
    let wire = address.connect(RETRY)?;
    match tls {
        None => tell(wire, key, summaries),
        Some(config) => tell(StreamOwned::new(tls::connect(config)?, wire), key, summaries),
    }
}

fn tell(stream: impl Read + Write, key: &Key, summaries: &Receiver<Summary>) -> std::io::Result<()> {
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    reader.by_ref().take(64).read_line(&mut line)?;
    let challenge = unhex(&line).ok_or_else(|| {
        std::io::Error::other("it gave no challenge: is it a collector, and does it use TLS as this agent does?")
    })?;
    for (number, summary) in (0u64..).zip(summaries) {
        let json = serde_json::to_string(&summary)?;
        let signed = format!("{:016x} {json}\n", sign(key, &challenge, number, &json));
        reader.get_mut().write_all(signed.as_bytes())?;
        reader.get_mut().flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_once_in_its_place_under_its_key() {
        let (key, challenge) = (Key::new([7; 16]), [9; 16]);
        let line = format!("{:016x} {{}}", sign(&key, &challenge, 3, "{}"));
        assert_eq!(verified(&key, &challenge, 3, &line), Some("{}"));
        assert_eq!(verified(&key, &challenge, 4, &line), None, "replayed");
        assert_eq!(verified(&key, &[8; 16], 3, &line), None, "of another connection");
        assert_eq!(verified(&Key::new([6; 16]), &challenge, 3, &line), None, "another key");
        assert_eq!(verified(&key, &challenge, 3, &line.replace("{}", "[]")), None, "changed");
        for wrong in ["", " ", "x {}", "{}"] {
            assert_eq!(verified(&key, &challenge, 0, wrong), None);
        }
        assert_eq!(unhex(&hex(&challenge)), Some(challenge));
        assert_eq!(unhex("12"), None);
    }
}
