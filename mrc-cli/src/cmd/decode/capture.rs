//! Captures as they come: pcap and pcapng, packet by packet, so that a live one is read while it grows and a broken one up
//! to where it breaks.

use std::io::{self, BufReader, ErrorKind, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use pcap_file::pcap::PcapReader;
use pcap_file::{DataLink, PcapError, TsResolution};

use super::pcapng::{Packet, Packets};
use crate::usage::usage;

/// A captured frame: possibly only its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    pub at: Option<Duration>,
    pub wire_len: usize,
    pub bytes: Vec<u8>,
    /// Bytes before its IP header or VLAN tags in the capture, where `bytes` has the 14 of Ethernet.
    pub link_len: usize,
    /// What the capture says about it.
    pub comments: Vec<String>,
    /// It comes from an interface of another link type, and its bytes are left out.
    pub foreign: bool,
    /// It has no Ethernet header of its own: that of `bytes` is made up.
    pub bare: bool,
    /// The tunnels that it was in, from the outermost on.
    pub tunnels: Vec<&'static str>,
}

/// Bytes of an Ethernet header.
pub const ETH_LEN: usize = 14;

impl Captured {
    /// A place in the captured packet, from the place in `bytes`.
    pub fn place(&self, at: usize) -> usize {
        (at + self.link_len).saturating_sub(ETH_LEN)
    }
}

/// Calls `each` with every packet of `source`, which errors call `name`, until there are no more or `each` breaks.
pub fn read(
    mut source: impl Read,
    name: &str,
    mut each: impl FnMut(&Captured) -> ControlFlow<()>,
) -> anyhow::Result<()> {
    let mut magic = [0; 4];
    source.read_exact(&mut magic).or_else(|error| match error.kind() {
        ErrorKind::UnexpectedEof => Err(usage(anyhow!("{name} holds less than a capture's first four bytes"))),
        _ => Err(error).with_context(|| format!("cannot read {name}")).map_err(usage),
    })?;
    let source = magic.as_slice().chain(BufReader::new(source));
    let mut count = 0;
    let result = match magic {
        [0x0A, 0x0D, 0x0D, 0x0A] => pcapng(source, &mut count, &mut each),
        [0xD4, 0xC3, 0xB2, 0xA1] | [0xA1, 0xB2, 0xC3, 0xD4] | [0x4D, 0x3C, 0xB2, 0xA1] | [0xA1, 0xB2, 0x3C, 0x4D] => {
            pcap(source, &mut count, &mut each)
        }
        _ => match compressed(magic) {
            Some(tool) => {
                return Err(usage(anyhow!("{name} is compressed: `{tool} -dc FILE | mrc decode -` reads it")));
            }
            None => {
                return Err(usage(anyhow!(
                    "{name} is neither pcap nor pcapng; if Wireshark opens it, `editcap FILE OUT.pcapng` converts it"
                )));
            }
        },
    };
    result.with_context(|| match count {
        0 => format!("{name}, before the first packet"),
        _ => format!("{name}, after packet {count}"),
    })
}

/// The program that reads a compressed file which begins like this.
fn compressed(magic: [u8; 4]) -> Option<&'static str> {
    match magic {
        [0x1F, 0x8B, ..] => Some("gzip"),
        [0x28, 0xB5, 0x2F, 0xFD] => Some("zstd"),
        [0xFD, b'7', b'z', b'X'] => Some("xz"),
        [b'B', b'Z', b'h', _] => Some("bzip2"),
        [0x04, 0x22, 0x4D, 0x18] => Some("lz4"),
        _ => None,
    }
}

type Each<'a> = &'a mut dyn FnMut(&Captured) -> ControlFlow<()>;

fn broken(error: PcapError) -> anyhow::Error {
    match error {
        PcapError::IoError(error) => ended(error.into()),
        error => anyhow::anyhow!("broken capture: {error}"),
    }
}

fn ended(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == ErrorKind::UnexpectedEof => {
            anyhow::anyhow!("the capture ends in the middle of a record")
        }
        _ => error,
    }
}

fn pcap(source: impl Read, count: &mut u64, each: Each<'_>) -> anyhow::Result<()> {
    let mut reader = PcapReader::new(source).map_err(broken)?;
    let header = reader.header();
    // The upper half may tell how long the check sequences behind frames are.
    let link = DataLink::from(u32::from(header.datalink) & 0xFFFF);
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    // Raw, because the checked ones take a packet longer than the snapshot length, which is what that is for, for broken.
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet.map_err(broken)?;
        let at = Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(u64::from(packet.ts_frac) * unit);
        let packet = captured(link, Some(at), packet.orig_len, &packet.data).with_context(|| {
            format!("link type {link:?}: captures of Ethernet, Linux cooked (-i any) and raw IP can be decoded")
        })?;
        *count += 1;
        if each(&packet).is_break() {
            break;
        }
    }
    Ok(())
}

fn pcapng(source: impl Read, count: &mut u64, each: Each<'_>) -> anyhow::Result<()> {
    let mut packets = Packets::new(source);
    while let Some(packet) = packets.next().map_err(ended)? {
        let Packet { link, at, wire_len, data, comments } = packet;
        // Other interfaces of the same capture may be readable.
        let frame = captured(link, at, wire_len, &data)
            .unwrap_or_else(|| Captured { foreign: true, ..frame(at, wire_len as usize, Vec::new()) });
        *count += 1;
        if each(&Captured { comments, ..frame }).is_break() {
            break;
        }
    }
    Ok(())
}

/// A captured packet as the Ethernet frame that it was, or could have been: captures of all interfaces at once (`-i any`)
/// and of tunnels hold another link header, or none. `None` if nobody here knows the link header.
fn captured(link: DataLink, at: Option<Duration>, wire_len: u32, data: &[u8]) -> Option<Captured> {
    let short = || data.len().min(2);
    let version = |at: usize| match data.get(at) {
        Some(byte) if byte >> 4 == 4 => &[0x08, 0x00][..],
        _ => &[0x86, 0xDD][..],
    };
    let (header, ethertype) = match link {
        DataLink::ETHERNET => return Some(frame(at, wire_len as usize, data.to_vec())),
        DataLink::LINUX_SLL => (16, data.get(14..16).unwrap_or(&data[..short()])),
        DataLink::LINUX_SLL2 => (20, data.get(..2).unwrap_or(&data[..short()])),
        // 12 and 14: raw IP where the system's own number went into the file. NULL and LOOP: loopback of BSD and macOS.
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 | DataLink::Unknown(12 | 14) => (0, version(0)),
        DataLink::NULL | DataLink::LOOP => (4, version(4)),
        _ => return None,
    };
    let mut bytes = vec![0; 12];
    bytes.extend_from_slice(ethertype);
    bytes.extend_from_slice(data.get(header..).unwrap_or_default());
    let wire_len = (wire_len as usize + ETH_LEN).saturating_sub(header);
    Some(Captured { link_len: header, bare: true, ..frame(at, wire_len, bytes) })
}

/// A frame of Ethernet.
pub fn frame(at: Option<Duration>, wire_len: usize, bytes: Vec<u8>) -> Captured {
    let (comments, tunnels) = (Vec::new(), Vec::new());
    Captured { at, wire_len, bytes, link_len: ETH_LEN, comments, foreign: false, bare: false, tunnels }
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
            packets.push(packet.clone());
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
        assert!(
            all(&b"GIF89a"[..])
                .1
                .is_err_and(|error| error.to_string().contains("x is neither pcap nor pcapng; if Wireshark"))
        );
    }

    #[test]
    fn a_compressed_capture_is_named_with_what_reads_it() {
        for (head, tool) in [(b"\x1f\x8b\x08\x00", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zX", "xz")] {
            let says = all(&head[..]).1.unwrap_err().to_string();
            assert!(says.contains(&format!("`{tool} -dc FILE | mrc decode -`")), "{says}");
        }
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
        let loopback = [&[0, 0, 0, 24][..], &ip].concat();
        for (link, data) in [
            (113, &cooked[..]),
            (276, &cooked2),
            (101, &ip),
            (229, &ip),
            (12, &ip),
            (14, &ip),
            (0, &loopback),
            (108, &loopback),
            (0x2400_0065, &ip),
        ] {
            let (packets, result) = all(&pcap_of(200, link, &[data])[..]);
            result.unwrap();
            assert_eq!((packets[0].wire_len, &packets[0].bytes[14..]), (94, &ip[..]), "{link}");
            assert_eq!((packets[0].place(94), packets[0].place(14)), (data.len(), data.len() - 80), "{link}");
            assert!(packets[0].bare, "{link}");
            assert_eq!(packets[0].bytes[12..14], [0x86, 0xDD], "{link}");
            for len in 0..data.len() {
                assert!(all(&pcap_of(len, link, &[data])[..]).1.is_ok(), "{link} {len}");
            }
        }
        let radio = all(&pcap_of(200, 105, &[&ip])[..]).1.unwrap_err();
        assert!(format!("{radio:#}").contains("-i any"), "{radio:#}");
    }

    /// The upper half of the link type says that a check sequence of four bytes is behind each frame.
    #[test]
    fn frames_with_their_check_sequence_are_read() {
        let (packets, result) = all(&pcap_of(200, 0x2400_0001, &[&[7; 64]])[..]);
        result.unwrap();
        assert_eq!(packets[0], frame(Some(Duration::from_secs(100)), 64, vec![7; 64]));
    }

    #[test]
    fn packets_of_unreadable_interfaces_are_passed_over() {
        let mut file = pcapng_of(&[], 0);
        // IEEE 802.11, then its packet, then one of Ethernet.
        file.extend(block(1, &[105, 0, 0, 0, 0, 0, 0, 0]));
        file.extend(block(6, &[&[1, 0, 0, 0][..], &[0; 8], &[4, 0, 0, 0, 4, 0, 0, 0], b"wifi"].concat()));
        file.extend(block(3, b"\x05\0\0\0third\0\0\0"));
        let (packets, result) = all(&file[..]);
        result.unwrap();
        let foreign: Vec<_> = packets.iter().map(|packet| packet.foreign).collect();
        assert_eq!(foreign, [false, false, true, false]);
        assert_eq!((packets[2].wire_len, &packets[3].bytes[..]), (4, &b"third"[..]));
    }

    /// A comment in another encoding made all packets behind it unreadable, as did a hardware name.
    #[test]
    fn text_that_is_no_utf_8_breaks_nothing() {
        let text = |code: u8| [&[code, 0, 2, 0][..], b"\xfcx\0\0", &[0; 4]].concat();
        let mut file = pcapng_of(&text(3), 1_000_000);
        let packet = [&[0; 12][..], &[3, 0, 0, 0, 3, 0, 0, 0], b"abc\0", &text(1)].concat();
        file.extend(block(6, &packet));
        // A name in the resolution block, an unknown block.
        file.extend(block(4, b"\x01\0\x06\0\x01\x02\x03\x04\xff\0\0\0\0\0\0\0"));
        file.extend(block(0x4000_0BAD, b"anything"));
        file.extend(block(6, &packet));
        let (packets, result) = all(&file[..]);
        result.unwrap();
        assert_eq!(packets.len(), 4);
        assert_eq!(packets[3].comments, ["\u{fffd}x"]);
    }

    #[test]
    fn obsolete_and_snapped_packets_are_read() {
        let mut file = pcapng_of(&[], 0);
        let old = [&[0, 0, 7, 0][..], &[0; 8], &[3, 0, 0, 0, 9, 0, 0, 0], b"old\0"].concat();
        file.extend(block(2, &old));
        let section = [&0x1A2B_3C4Du32.to_be_bytes()[..], &[0, 1, 0, 0], &[0xFF; 8]].concat();
        let big = |kind: u32, body: &[u8]| {
            let len = (12 + body.len() as u32).to_be_bytes();
            [&kind.to_be_bytes()[..], &len, body, &len].concat()
        };
        file.extend(big(0x0A0D_0D0A, &section));
        file.extend(big(1, &[0, 1, 0, 0, 0, 0, 0, 5]));
        file.extend(big(3, b"\0\0\0\x09short\0\0\0"));
        let (packets, result) = all(&file[..]);
        result.unwrap();
        assert_eq!(packets[2], frame(Some(Duration::ZERO), 9, b"old".to_vec()));
        assert_eq!(packets[3], frame(None, 9, b"short".to_vec()), "the pad behind the snapshot is no data");
        for len in 4..file.len() {
            // No prefix of it is a reason to panic.
            let _ = all(&file[..len]);
        }
        let broken = all(&[&file[..], &big(6, &[0; 8])].concat()[..]).1.unwrap_err();
        assert!(format!("{broken:#}").contains("shorter than what it says"), "{broken:#}");
        let broken = all(&[&file[..], &[0, 0, 0, 6, 0, 0, 0, 4]].concat()[..]).1.unwrap_err();
        assert!(format!("{broken:#}").contains("a block of 4 bytes"), "{broken:#}");
    }
}
