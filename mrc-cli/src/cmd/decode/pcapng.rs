//! pcapng, block by block: only what packets need of it, so that no other block or option can break a capture.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use pcap_file::DataLink;

/// No block is longer, as in Wireshark.
const LONGEST: u32 = 16 << 20;

/// A packet as it stands in the file.
pub struct Packet {
    pub link: DataLink,
    pub at: Option<Duration>,
    pub wire_len: u32,
    pub data: Vec<u8>,
    pub comments: Vec<String>,
}

/// The packets of a file.
pub struct Packets<R> {
    source: R,
    /// Byte order of this section.
    big_endian: bool,
    /// Interfaces of this section.
    interfaces: Vec<Interface>,
}

impl<R: Read> Packets<R> {
    pub fn new(source: R) -> Self {
        Self { source, big_endian: false, interfaces: Vec::new() }
    }

    /// The next packet, if there is one.
    ///
    /// # Errors
    /// The file ends in the middle of a block, or is broken.
    pub fn next(&mut self) -> anyhow::Result<Option<Packet>> {
        while let Some((kind, body)) = self.block()? {
            let fields = Fields { bytes: &body, big_endian: self.big_endian };
            match kind {
                SECTION => self.interfaces.clear(),
                INTERFACE => self.interfaces.push(Interface::new(fields).context(CUT)?),
                PACKET | OLD_PACKET | SIMPLE_PACKET => return self.packet(kind, fields).map(Some),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The type and the body of the next block.
    fn block(&mut self) -> anyhow::Result<Option<(u32, Vec<u8>)>> {
        let mut head = [0; 8];
        let mut have = 0;
        while have < head.len() {
            match self.source.read(&mut head[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(more) => have += more,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why.into()),
            }
        }
        let mut head = head.to_vec();
        let mut body = Vec::new();
        if head[..4] == SECTION.to_be_bytes() {
            body = vec![0; 4];
            self.source.read_exact(&mut body)?;
            self.big_endian = match body[..] {
                [0x1A, 0x2B, 0x3C, 0x4D] => true,
                [0x4D, 0x3C, 0x2B, 0x1A] => false,
                _ => bail!("broken capture: a section without byte order"),
            };
        }
        let mut fields = Fields { bytes: &head, big_endian: self.big_endian };
        let (kind, len) = fields.u32().zip(fields.u32()).context(CUT)?;
        let known = 12 + body.len() as u32;
        ensure!((known..=LONGEST).contains(&len), "broken capture: a block of {len} bytes");
        let from = body.len();
        body.resize(len as usize - 12, 0);
        self.source.read_exact(&mut body[from..])?;
        head.truncate(4);
        self.source.read_exact(&mut head)?;
        Ok(Some((kind, body)))
    }

    fn packet(&self, kind: u32, mut fields: Fields<'_>) -> anyhow::Result<Packet> {
        let interface = match kind {
            PACKET => fields.u32(),
            // Behind it the number of packets dropped.
            OLD_PACKET => fields.u16().zip(fields.u16()).map(|(interface, _)| interface.into()),
            _ => Some(0),
        };
        let interface = interface.context(CUT)?;
        let interface = self.interfaces.get(interface as usize).context("a packet of an unknown interface")?;
        let link = interface.link;
        if kind == SIMPLE_PACKET {
            let wire_len = fields.u32().context(CUT)?;
            // What is beyond that pads the block.
            let len = wire_len.min(interface.snap_len).min(fields.bytes.len() as u32);
            let data = fields.take(len as usize).context(CUT)?.to_vec();
            return Ok(Packet { link, at: None, wire_len, data, comments: Vec::new() });
        }
        let (high, low) = fields.u32().zip(fields.u32()).context(CUT)?;
        let (len, wire_len) = fields.u32().zip(fields.u32()).context(CUT)?;
        let data = fields.padded(len as usize).context(CUT)?.to_vec();
        let comments = fields.options().filter(|(code, _)| *code == COMMENT);
        let comments = comments.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
        let at = Some(interface.time(u64::from(high) << 32 | u64::from(low)));
        Ok(Packet { link, at, wire_len, data, comments })
    }
}

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
/// Obsolete, and still in old files.
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
/// "Enhanced" in the specification.
const PACKET: u32 = 6;

const COMMENT: u16 = 1;
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;

const CUT: &str = "broken capture: a block is shorter than what it says of itself";

/// What an interface says about its packets.
struct Interface {
    link: DataLink,
    /// Bytes kept of a packet.
    snap_len: u32,
    /// Ticks per second.
    ticks: u128,
    /// Seconds to add.
    offset: i64,
}

impl Interface {
    fn new(mut fields: Fields<'_>) -> Option<Self> {
        let (link, _) = fields.u16().zip(fields.u16())?;
        let snap_len = match fields.u32()? {
            0 => u32::MAX,
            len => len,
        };
        let mut interface = Self { link: u32::from(link).into(), snap_len, ticks: 1_000_000, offset: 0 };
        let big_endian = fields.big_endian;
        for (code, value) in fields.options() {
            match (code, value) {
                // A power of two when the upper bit is set, else of ten; one past all time stamps makes them all 0.
                (RESOLUTION, [power, ..]) if power >= &0x80 => interface.ticks = 1 << (power & 0x7F),
                (RESOLUTION, [power, ..]) => {
                    interface.ticks = 10u128.checked_pow((*power).into()).unwrap_or(u128::MAX);
                }
                (OFFSET, seconds) => {
                    let seconds = <[u8; 8]>::try_from(seconds).unwrap_or_default();
                    interface.offset =
                        if big_endian { i64::from_be_bytes(seconds) } else { i64::from_le_bytes(seconds) };
                }
                _ => {}
            }
        }
        Some(interface)
    }

    /// The time of a packet.
    fn time(&self, ticks: u64) -> Duration {
        let ticks = u128::from(ticks);
        let seconds = u64::try_from(ticks / self.ticks).unwrap_or(u64::MAX).saturating_add_signed(self.offset);
        let nanoseconds = (ticks % self.ticks).saturating_mul(1_000_000_000) / self.ticks;
        Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or(0))
    }
}

/// Numbers and bytes of a block, one after the other.
struct Fields<'b> {
    bytes: &'b [u8],
    big_endian: bool,
}

impl<'b> Fields<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    /// So many bytes, and what fills them up to a multiple of four.
    fn padded(&mut self, len: usize) -> Option<&'b [u8]> {
        let taken = self.take(len)?;
        let pad = (len.next_multiple_of(4) - len).min(self.bytes.len());
        self.take(pad)?;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?.try_into().ok()?;
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// Options up to the end of them, or to one that is cut short.
    fn options(mut self) -> impl Iterator<Item = (u16, &'b [u8])> {
        std::iter::from_fn(move || {
            let (code, len) = self.u16().zip(self.u16())?;
            if code == 0 { None } else { Some((code, self.padded(len.into())?)) }
        })
    }
}
