//! Captures as they come: pcap and pcapng, packet by packet, so that a live one is read while it grows and a broken one up
//! to where it breaks.

use std::io::{ErrorKind, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Context as _, bail};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};

/// A captured frame: possibly only its beginning.
#[derive(Debug, PartialEq, Eq)]
pub struct Captured {
    pub at: Option<Duration>,
    pub wire_len: usize,
    pub bytes: Vec<u8>,
    /// What the capture says about it.
    pub comments: Vec<String>,
}

/// Calls `each` with every packet of `source`, which errors call `name`, until there are no more or `each` breaks.
pub fn read(
    mut source: impl Read,
    name: &str,
    mut each: impl FnMut(&Captured) -> ControlFlow<()>,
) -> anyhow::Result<()> {
    let mut magic = [0; 4];
    source.read_exact(&mut magic).or_else(|error| match error.kind() {
        ErrorKind::UnexpectedEof => bail!("{name} holds less than a capture's first four bytes"),
        _ => Err(error).with_context(|| format!("cannot read {name}")),
    })?;
    let source = magic.as_slice().chain(source);
    let mut count = 0;
    let result = match magic {
        [0x0A, 0x0D, 0x0D, 0x0A] => pcapng(source, &mut count, &mut each),
        [0xD4, 0xC3, 0xB2, 0xA1] | [0xA1, 0xB2, 0xC3, 0xD4] | [0x4D, 0x3C, 0xB2, 0xA1] | [0xA1, 0xB2, 0x3C, 0x4D] => {
            pcap(source, &mut count, &mut each)
        }
        _ => bail!("{name} is neither pcap nor pcapng"),
    };
    result.with_context(|| match count {
        0 => format!("{name}, before the first packet"),
        _ => format!("{name}, after packet {count}"),
    })
}

type Each<'a> = &'a mut dyn FnMut(&Captured) -> ControlFlow<()>;

fn broken(error: PcapError) -> anyhow::Error {
    match error {
        PcapError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
            anyhow::anyhow!("the capture ends in the middle of a record")
        }
        PcapError::IoError(error) => error.into(),
        error => anyhow::anyhow!("broken capture: {error}"),
    }
}

fn pcap(source: impl Read, count: &mut u64, each: Each<'_>) -> anyhow::Result<()> {
    let mut reader = PcapReader::new(source).map_err(broken)?;
    let header = reader.header();
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    // Raw, because the checked ones take a packet longer than the snapshot length, which is what that is for, for broken.
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet.map_err(broken)?;
        let at = Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(u64::from(packet.ts_frac) * unit);
        let packet = captured(header.datalink, Some(at), packet.orig_len, &packet.data)?;
        *count += 1;
        if each(&packet).is_break() {
            break;
        }
    }
    Ok(())
}

/// What a pcapng interface says about its packets.
struct Interface {
    link: DataLink,
    /// Ticks per second.
    ticks: u128,
    /// Seconds to add.
    offset: i64,
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut interface = Self { link: block.linktype, ticks: 1_000_000, offset: 0 };
        for option in &block.options {
            match *option {
                // A power of two when the upper bit is set, else of ten; one past all time stamps makes them all 0.
                InterfaceDescriptionOption::IfTsResol(power @ 0x80..) => interface.ticks = 1 << (power & 0x7F),
                InterfaceDescriptionOption::IfTsResol(power) => {
                    interface.ticks = 10u128.checked_pow(power.into()).unwrap_or(u128::MAX);
                }
                InterfaceDescriptionOption::IfTsOffset(seconds) => interface.offset = seconds.cast_signed(),
                _ => {}
            }
        }
        interface
    }

    /// The time of a packet. The crate takes the ticks of every interface for nanoseconds.
    fn time(&self, ticks: Duration) -> Duration {
        let ticks = ticks.as_nanos();
        let seconds = u64::try_from(ticks / self.ticks).unwrap_or(u64::MAX).saturating_add_signed(self.offset);
        let nanoseconds = (ticks % self.ticks).saturating_mul(1_000_000_000) / self.ticks;
        Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or(0))
    }
}

fn pcapng(source: impl Read, count: &mut u64, each: Each<'_>) -> anyhow::Result<()> {
    let mut reader = PcapNgReader::new(source).map_err(broken)?;
    let mut interfaces = Vec::new();
    while let Some(block) = reader.next_block() {
        let packet = match block.map_err(broken)? {
            Block::InterfaceDescription(block) => {
                interfaces.push(Interface::new(&block));
                continue;
            }
            Block::SectionHeader(_) => {
                interfaces.clear();
                continue;
            }
            Block::EnhancedPacket(packet) => {
                let interface =
                    interfaces.get(packet.interface_id as usize).context("a packet of an unknown interface")?;
                let comments = packet.options.iter().filter_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                    _ => None,
                });
                let comments = comments.collect();
                let at = Some(interface.time(packet.timestamp));
                Captured { comments, ..captured(interface.link, at, packet.original_len, &packet.data)? }
            }
            Block::SimplePacket(packet) => {
                let interface = interfaces.first().context("a packet of an unknown interface")?;
                // What is beyond its length pads the block.
                let len = packet.data.len().min(packet.original_len as usize);
                captured(interface.link, None, packet.original_len, &packet.data[..len])?
            }
            _ => continue,
        };
        *count += 1;
        if each(&packet).is_break() {
            break;
        }
    }
    Ok(())
}

/// A captured packet as the Ethernet frame that it was, or could have been: captures of all interfaces at once (`-i any`)
/// and of tunnels hold another link header, or none.
fn captured(link: DataLink, at: Option<Duration>, wire_len: u32, data: &[u8]) -> anyhow::Result<Captured> {
    let short = || data.len().min(2);
    let (header, ethertype) = match link {
        DataLink::ETHERNET => return Ok(frame(at, wire_len as usize, data.to_vec())),
        DataLink::LINUX_SLL => (16, data.get(14..16).unwrap_or(&data[..short()])),
        DataLink::LINUX_SLL2 => (20, data.get(..2).unwrap_or(&data[..short()])),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => {
            let v4 = data.first().is_some_and(|byte| byte >> 4 == 4);
            (0, if v4 { &[0x08, 0x00][..] } else { &[0x86, 0xDD][..] })
        }
        other => bail!("link type {other:?}: captures of Ethernet, Linux cooked (-i any) and raw IP can be decoded"),
    };
    let mut bytes = vec![0; 12];
    bytes.extend_from_slice(ethertype);
    bytes.extend_from_slice(data.get(header..).unwrap_or_default());
    Ok(frame(at, (wire_len as usize + 14).saturating_sub(header), bytes))
}

fn frame(at: Option<Duration>, wire_len: usize, bytes: Vec<u8>) -> Captured {
    Captured { at, wire_len, bytes, comments: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A classic capture in microseconds, little-endian, snapped.
    fn pcap_of(snaplen: usize, link: u32, packets: &[&[u8]]) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let mut file = words(&[0xA1B2_C3D4, 4 << 16 | 2, 0, 0, snaplen as u32, link]);
        for (number, packet) in packets.iter().enumerate() {
            let kept = &packet[..packet.len().min(snaplen)];
            file.extend(words(&[100, number as u32, kept.len() as u32, packet.len() as u32]));
            file.extend(kept);
        }
        file
    }

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let len = (12 + body.len() as u32).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, body, &len].concat()
    }

    /// A capture of one packet of five bytes at `ticks`, its interface with these options.
    fn pcapng_of(options: &[u8], ticks: u64) -> Vec<u8> {
        let section = [&0x1A2B_3C4Du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xFF; 8]].concat();
        let interface = [&[1, 0, 0, 0, 0, 0, 0, 0], options].concat();
        let ticks = [((ticks >> 32) as u32).to_le_bytes(), (ticks as u32).to_le_bytes()].concat();
        let packet = [&[0; 4], &ticks[..], &[5, 0, 0, 0, 9, 0, 0, 0], b"bytes", &[0; 3]].concat();
        [block(0x0A0D_0D0A, &section), block(1, &interface), block(6, &packet), block(3, b"\x05\0\0\0again\0\0\0")]
            .concat()
    }

    fn all(source: impl Read) -> (Vec<Captured>, anyhow::Result<()>) {
        let mut packets = Vec::new();
        let result = read(source, "x", |packet| {
            packets.push(Captured { bytes: packet.bytes.clone(), comments: packet.comments.clone(), ..*packet });
            ControlFlow::Continue(())
        });
        (packets, result)
    }

    #[test]
    fn a_snapshot_length_shortens_packets_and_breaks_nothing() {
        let (packets, result) = all(&pcap_of(64, 1, &[&[7; 200], &[8; 60]])[..]);
        result.unwrap();
        assert_eq!(packets[0], frame(Some(Duration::from_secs(100)), 200, vec![7; 64]));
        assert_eq!(packets[1], frame(Some(Duration::new(100, 1000)), 60, vec![8; 60]));
    }

    #[test]
    fn pcapng_ticks_are_what_their_interface_says() {
        let five = Some(Duration::new(5, 500_000_000));
        for (options, ticks, at) in [
            (&[][..], 5_500_000, five),
            (b"\x09\0\x01\0\x09\0\0\0\0\0\0\0", 5_500_000_000, five),
            (b"\x09\0\x01\0\x03\0\0\0\0\0\0\0", 5_500, five),
            (b"\x09\0\x01\0\x8a\0\0\0\0\0\0\0", 5_632, five),
            // Two seconds less, and a resolution past all time stamps.
            (b"\x0e\0\x08\0\xfe\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 7_500_000, five),
            (b"\x09\0\x01\0\x7f\0\0\0\0\0\0\0", u64::MAX, Some(Duration::ZERO)),
        ] {
            let (packets, result) = all(&pcapng_of(options, ticks)[..]);
            result.unwrap();
            assert_eq!(packets[0], frame(at, 9, b"bytes".to_vec()), "{options:?}");
            assert_eq!(packets[1], frame(None, 5, b"again".to_vec()), "the pad is no data");
        }
    }

    #[test]
    fn what_came_before_the_end_of_a_cut_capture_is_read() {
        let (whole, last) = (pcap_of(100, 1, &[&[7; 50][..]; 3]), 16 + 50);
        for cut in 1..last {
            let (packets, result) = all(&whole[..whole.len() - cut]);
            let says = format!("{:#}", result.unwrap_err());
            assert!(packets.len() == 2 && says.contains("after packet 2: the capture ends"), "{cut}: {says}");
        }
        for len in 0..24 {
            assert!(all(&whole[..len]).1.is_err_and(|error| error.to_string().contains('x')), "{len}");
        }
        assert!(all(&b"GIF89a"[..]).1.is_err_and(|error| error.to_string().contains("x is neither")));
    }

    #[test]
    fn a_live_capture_is_read_while_it_grows() {
        struct Growing<'a>(&'a [u8], usize);
        impl Read for Growing<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let len = self.1.min(self.0.len()).min(buffer.len());
                assert!(len > 0, "nobody reads on when all that is there was refused");
                let (now, later) = self.0.split_at(len);
                buffer[..len].copy_from_slice(now);
                self.0 = later;
                Ok(len)
            }
        }
        let whole = pcap_of(100, 1, &[&[7; 50][..]; 3]);
        // Whoever leaves after the first packet was not kept waiting for the third.
        let growing = Growing(&whole[..24 + 66], 10);
        let mut count = 0;
        read(growing, "x", |_| {
            count += 1;
            ControlFlow::Break(())
        })
        .unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn other_link_headers_give_way_to_ethernet() {
        let ip = [0x60; 80];
        let cooked = [&[0; 14][..], &[0x86, 0xDD], &ip].concat();
        let cooked2 = [&[0x86, 0xDD][..], &[0; 18], &ip].concat();
        for (link, data) in [(113, &cooked[..]), (276, &cooked2), (101, &ip), (229, &ip)] {
            let (packets, result) = all(&pcap_of(200, link, &[data])[..]);
            result.unwrap();
            assert_eq!((packets[0].wire_len, &packets[0].bytes[14..]), (94, &ip[..]), "{link}");
            assert_eq!(packets[0].bytes[12..14], [0x86, 0xDD], "{link}");
            for len in 0..data.len() {
                assert!(all(&pcap_of(len, link, &[data])[..]).1.is_ok(), "{link} {len}");
            }
        }
        let radio = all(&pcap_of(200, 105, &[&ip])[..]).1.unwrap_err();
        assert!(format!("{radio:#}").contains("-i any"), "{radio:#}");
    }
}
