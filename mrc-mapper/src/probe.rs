//! The frame of a mapper probe.
//!
//! ```text
//!  Ethernet 14 | IPv6 40, destination = uSID list | UDP 8 | head 48 | padding
//!
//!  head, big endian:
//!   0  u16 magic 0x4D50      2  u8 version 1         3  u8 kind
//!   4  u16 host              6  u8 plane             7  u8 class
//!   8  u16 target           10  u8 reply plane      11  u8 zero
//!  12  u16 reply spine      14  u16 zero
//!  16  u32 path             20  u32 instance
//!  24  u64 sequence         32  u64 send time, ns of the sender's own clock
//!  40  u64 SipHash-2-4 of bytes 0 to 39 under the fabric's key
//! ```
//!
//! The payload follows the outer header directly (next header 17), with a UDP port that no MRC device takes: the XDP
//! filter of a device redirects next headers 41 and 43 and the MRC ports, and passes everything else to the kernel, where
//! the agent's packet socket finds it. Switches shift the destination of a probe as that of any SRv6 packet.
//! The head survives trimming (a switch keeps at least 122 bytes of the frame); padding is what it cuts from a probe of the data
//! class. One of the control class has padding where it is as long as the longest data packet.

use core::hash::Hasher;
use std::fmt;

use mrc_wire::DscpPlan;
use siphasher::sip::SipHasher24;

/// UDP port of probes, from the dynamic range.
pub const UDP_PORT: u16 = 49791;
/// Bytes of the head.
pub const HEAD_LEN: usize = 48;
/// Bytes of a frame without padding.
pub const FRAME_LEN: usize = HEAD_AT + HEAD_LEN;
/// Most padding of a frame.
pub const MAX_PADDING: usize = 9216;
/// Bytes that a frame costs on the wire beyond its own: preamble, FCS, gap.
pub const WIRE_EXTRA: usize = 24;

const HEAD_AT: usize = 14 + 40 + 8;
const SIGNED: usize = 40;
const MAGIC: u16 = 0x4D50;
const VERSION: u8 = 1;
const HOP_LIMIT: u8 = 64;
const UDP: u8 = 17;

/// The secret that all agents of a fabric share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 16]);

impl Key {
    /// A key from its 16 bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Keyed checksum of `bytes`.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(bytes);
        hasher.finish()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Comes back to its sender through switches alone.
    Path,
    /// Asks the target's agent for a reply on another plane.
    Request,
    /// That reply; everything but the kind is the request's.
    Reply,
    /// "I am here", to a host under the same T0.
    Hello,
}

/// Which queue of a switch a probe takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// That of acknowledgements: congestion does not reach it.
    Control,
    /// That of data: it is trimmed and delayed with the data.
    Data,
}

impl Class {
    /// Code point of the class.
    #[must_use]
    pub fn dscp(self, plan: &DscpPlan) -> u8 {
        match self {
            Self::Control => plan.control,
            Self::Data => plan.trimmable,
        }
    }
}

/// The head of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// What it is for.
    pub kind: Kind,
    /// Class it was sent in.
    pub class: Class,
    /// Who sent it; of a reply: who asked.
    pub host: u16,
    /// Plane it left on.
    pub plane: u8,
    /// Who is asked; the sender itself where nobody is.
    pub target: u16,
    /// Plane the reply takes.
    pub reply_plane: u8,
    /// T1 the reply takes where the hosts have different T0s.
    pub reply_spine: u16,
    /// Number of the path in the sender's plan.
    pub path: u32,
    /// Random number of the sending agent: two agents under one name are recognised by it.
    pub instance: u32,
    /// Consecutive over all probes of the agent.
    pub sequence: u64,
    /// Send time on the sender's own clock. Nobody else reads it.
    pub sent_ns: u64,
}

/// Where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Ethernet destination and source.
    pub macs: [[u8; 6]; 2],
    /// Outer source: the port's own address.
    pub source: [u8; 16],
    /// Outer destination with the whole uSID list.
    pub destination: [u8; 16],
    /// What the last switch leaves of it; the UDP checksum covers this one.
    pub last: [u8; 16],
}

/// A probe that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its head.
    pub probe: Probe,
    /// A switch cut the padding or marked the packet as cut.
    pub trimmed: bool,
    /// The code point that a switch gave it in place of that of its class.
    pub rewritten: Option<u8>,
}

/// Why a frame is no probe of this fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Something else: another port, protocol or length.
    #[error("not a mapper probe")]
    Foreign,
    /// Another version of the format.
    #[error("mapper probe of version {0}, this agent speaks version {VERSION}")]
    Version(u8),
    /// The keyed checksum is wrong: forged, or another key.
    #[error("keyed checksum is wrong: forged, damaged, or an agent with another key")]
    Forged,
    /// Signed, but a field makes no sense.
    #[error("field `{0}` of a signed probe is out of range")]
    Field(&'static str),
}

impl Probe {
    fn head(&self, key: &Key) -> [u8; HEAD_LEN] {
        let mut head = [0; HEAD_LEN];
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in head.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        let kind = match self.kind {
            Kind::Path => 1,
            Kind::Request => 2,
            Kind::Reply => 3,
            Kind::Hello => 4,
        };
        put(0, &MAGIC.to_be_bytes());
        put(2, &[VERSION, kind]);
        put(4, &self.host.to_be_bytes());
        put(6, &[self.plane, u8::from(self.class == Class::Data)]);
        put(8, &self.target.to_be_bytes());
        put(10, &[self.reply_plane]);
        put(12, &self.reply_spine.to_be_bytes());
        put(16, &self.path.to_be_bytes());
        put(20, &self.instance.to_be_bytes());
        put(24, &self.sequence.to_be_bytes());
        put(32, &self.sent_ns.to_be_bytes());
        let sum = key.sign(&head[..SIGNED]);
        head[SIGNED..].copy_from_slice(&sum.to_be_bytes());
        head
    }

    /// Writes the frame with `padding` zeros behind the head and returns its length; `None` when `out` is too short or the
    /// padding exceeds [`MAX_PADDING`].
    pub fn emit(&self, key: &Key, to: &Addresses, plan: &DscpPlan, padding: usize, out: &mut [u8]) -> Option<usize> {
        if padding > MAX_PADDING {
            return None;
        }
        let frame = out.get_mut(..FRAME_LEN + padding)?;
        frame.fill(0);
        let udp_len = (8 + HEAD_LEN + padding) as u16;
        frame[..6].copy_from_slice(&to.macs[0]);
        frame[6..12].copy_from_slice(&to.macs[1]);
        frame[12..14].copy_from_slice(&0x86DD_u16.to_be_bytes());
        let class = u32::from(self.class.dscp(plan)) << 2;
        frame[14..18].copy_from_slice(&(6 << 28 | class << 20).to_be_bytes());
        frame[18..20].copy_from_slice(&udp_len.to_be_bytes());
        frame[20..22].copy_from_slice(&[UDP, HOP_LIMIT]);
        frame[22..38].copy_from_slice(&to.source);
        frame[38..54].copy_from_slice(&to.destination);
        frame[54..56].copy_from_slice(&UDP_PORT.to_be_bytes());
        frame[56..58].copy_from_slice(&UDP_PORT.to_be_bytes());
        frame[58..60].copy_from_slice(&udp_len.to_be_bytes());
        frame[HEAD_AT..FRAME_LEN].copy_from_slice(&self.head(key));
        let sum = udp_checksum(&to.source, &to.last, &frame[54..]);
        frame[60..62].copy_from_slice(&sum.to_be_bytes());
        Some(FRAME_LEN + padding)
    }

    /// Reads a frame. Never panics; looks at no field before the keyed checksum is verified, but for the version.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn parse(frame: &[u8], key: &Key, plan: &DscpPlan) -> Result<Arrival, Refused> {
        let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        let ours = half(12) == Some(0x86DD) && frame.get(20) == Some(&UDP) && half(56) == Some(UDP_PORT);
        let head = frame.get(HEAD_AT..FRAME_LEN).filter(|_| ours).ok_or(Refused::Foreign)?;
        let be = |at: usize, len: usize| head[at..at + len].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        if be(0, 2) != u64::from(MAGIC) {
            return Err(Refused::Foreign);
        }
        if head[2] != VERSION {
            return Err(Refused::Version(head[2]));
        }
        if key.sign(&head[..SIGNED]) != be(SIGNED, 8) {
            return Err(Refused::Forged);
        }
        let kind = match head[3] {
            1 => Kind::Path,
            2 => Kind::Request,
            3 => Kind::Reply,
            4 => Kind::Hello,
            _ => return Err(Refused::Field("kind")),
        };
        let class = match head[7] {
            0 => Class::Control,
            1 => Class::Data,
            _ => return Err(Refused::Field("class")),
        };
        let probe = Self {
            kind,
            class,
            host: be(4, 2) as u16,
            plane: head[6],
            target: be(8, 2) as u16,
            reply_plane: head[10],
            reply_spine: be(12, 2) as u16,
            path: be(16, 4) as u32,
            instance: be(20, 4) as u32,
            sequence: be(24, 8),
            sent_ns: be(32, 8),
        };
        let dscp = ((frame[14] & 0x0F) << 2) | (frame[15] >> 6);
        let trimmed = plan.trim(dscp).is_some();
        let rewritten = (!trimmed && dscp != class.dscp(plan)).then_some(dscp);
        Ok(Arrival { probe, trimmed, rewritten })
    }
}

/// The UDP checksum over pseudo header and datagram; 0 is sent as 0xFFFF.
fn udp_checksum(source: &[u8; 16], destination: &[u8; 16], datagram: &[u8]) -> u16 {
    let words = |bytes: &[u8]| -> u64 {
        let pairs = bytes.chunks(2);
        pairs.map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0))).sum()
    };
    let mut sum = words(source) + words(destination) + words(datagram) + datagram.len() as u64 + u64::from(UDP);
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    match !(sum as u16) {
        0 => 0xFFFF,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Key = Key::new([7; 16]);

    fn addresses() -> Addresses {
        Addresses { macs: [[2; 6], [4; 6]], source: [1; 16], destination: [9; 16], last: [8; 16] }
    }

    fn probe() -> Probe {
        Probe {
            kind: Kind::Request,
            class: Class::Data,
            host: 3,
            plane: 1,
            target: 9,
            reply_plane: 2,
            reply_spine: 5,
            path: 77,
            instance: 0xDEAD_BEEF,
            sequence: 1 << 40,
            sent_ns: 123_456_789,
        }
    }

    fn emitted(probe: &Probe, padding: usize) -> Vec<u8> {
        let mut out = [0; FRAME_LEN + MAX_PADDING];
        let len = probe.emit(&KEY, &addresses(), &DscpPlan::default(), padding, &mut out).unwrap();
        out[..len].to_vec()
    }

    /// SipHash-2-4 of the bytes 0 to 14 under the key 0 to 15, from the publication of the function.
    #[test]
    fn checksum_is_siphash_2_4() {
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(Key::new(std::array::from_fn(|i| i as u8)).sign(&bytes), 0xA129_CA61_49BE_45E5);
    }

    #[test]
    fn the_layout_is_as_documented() {
        let frame = emitted(&probe(), 0);
        assert_eq!(frame.len(), 110);
        let head = &frame[62..];
        assert_eq!(&head[..8], &[0x4D, 0x50, 1, 2, 0, 3, 1, 1]);
        assert_eq!(&head[8..16], &[0, 9, 2, 0, 0, 5, 0, 0]);
        assert_eq!(&head[16..24], &[0, 0, 0, 77, 0xDE, 0xAD, 0xBE, 0xEF]);
        assert_eq!(&head[24..32], &(1u64 << 40).to_be_bytes());
        // DSCP 4 in the traffic class, UDP over the last destination.
        assert_eq!(&frame[14..16], &[0x61, 0x00]);
        let mut datagram = frame[54..].to_vec();
        let sum = u16::from_be_bytes([datagram[6], datagram[7]]);
        datagram[6..8].fill(0);
        assert_eq!(udp_checksum(&[1; 16], &[8; 16], &datagram), sum);
    }

    #[test]
    fn every_damaged_bit_of_the_head_is_refused() {
        let frame = emitted(&probe(), 0);
        for bit in 0..HEAD_LEN * 8 {
            let mut damaged = frame.clone();
            damaged[HEAD_AT + bit / 8] ^= 1 << (bit % 8);
            assert!(Probe::parse(&damaged, &KEY, &DscpPlan::default()).is_err(), "bit {bit}");
        }
        let other = Key::new([8; 16]);
        assert_eq!(Probe::parse(&frame, &other, &DscpPlan::default()), Err(Refused::Forged));
    }

    #[test]
    fn a_trimmed_probe_is_read_and_recognised() {
        let mut frame = emitted(&probe(), 100);
        frame.truncate(122);
        let plan = DscpPlan::default();
        for dscp in [plan.trimmed, plan.trimmed_lasthop] {
            let class = u32::from(dscp) << 2;
            frame[14..18].copy_from_slice(&(6 << 28 | class << 20).to_be_bytes());
            let arrival = Probe::parse(&frame, &KEY, &plan).unwrap();
            assert_eq!(arrival, Arrival { probe: probe(), trimmed: true, rewritten: None });
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            kind in 0..4u8, data: bool, host: u16, plane: u8, target: u16, reply_plane: u8, reply_spine: u16,
            path: u32, instance: u32, sequence: u64, sent_ns: u64, padding in 0..=MAX_PADDING,
        ) {
            let kind = [Kind::Path, Kind::Request, Kind::Reply, Kind::Hello][usize::from(kind)];
            let class = if data { Class::Data } else { Class::Control };
            let probe = Probe {
                kind, class, host, plane, target, reply_plane, reply_spine, path, instance, sequence, sent_ns,
            };
            let arrival = Probe::parse(&emitted(&probe, padding), &KEY, &DscpPlan::default());
            prop_assert_eq!(arrival, Ok(Arrival { probe, trimmed: false, rewritten: None }));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..200usize) {
            let _ = Probe::parse(&bytes, &KEY, &DscpPlan::default());
            let mut frame = emitted(&probe(), 30);
            frame.truncate(cut);
            for (to, from) in frame.iter_mut().skip(62).step_by(3).zip(&bytes) {
                *to = *from;
            }
            let _ = Probe::parse(&frame, &KEY, &DscpPlan::default());
        }
    }
}
