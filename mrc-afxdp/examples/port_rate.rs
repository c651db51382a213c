//! Measures a port on one core, sender and receiver in one thread: frames per second, and system calls per frame.
//!
//! ```text
//! port_rate NS_A NS_B INTERFACE [native|skb|raw] [FRAME_BYTES] [SECONDS]
//! ```
//! Both namespaces hold one end, called INTERFACE, of a veth pair:
//! `ip link add p0 netns A mtu 9000 type veth peer name p0 netns B mtu 9000`.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mrc_afxdp::{AnyPort, MemRegion, Mode, PacketFilter, Port, RawConfig, RawPort, Sid, XskConfig, XskPort};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

fn open(namespace: &str, interface: &str, kind: &str) -> Result<AnyPort, Box<dyn Error>> {
    let file = File::open(format!("/run/netns/{namespace}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    let filter = PacketFilter::with_sids([Sid::exact("fcbb:bb00:1002::".parse()?)]);
    let mode = match kind {
        "native" => Mode::Native,
        "skb" => Mode::Skb,
        "raw" => {
            return Ok(AnyPort::Raw(RawPort::open(interface, &RawConfig { filter, ..RawConfig::default() })?));
        }
        other => return Err(format!("unknown kind {other}: native, skb or raw").into()),
    };
    Ok(AnyPort::Xsk(XskPort::open(interface, &XskConfig { filter, mode, ..XskConfig::default() })?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, interface, rest @ ..] = arguments.as_slice() else {
        return Err("usage: port_rate NS_A NS_B INTERFACE [native|skb|raw] [FRAME_BYTES] [SECONDS]".into());
    };
    let kind = rest.first().map_or("native", String::as_str);
    let len: usize = rest.get(1).map_or(Ok(4250), |text| text.parse())?;
    let seconds: f64 = rest.get(2).map_or(Ok(2.0), |text| text.parse())?;
    let (mut a, mut b) = (open(from, interface, kind)?, open(to, interface, kind)?);

    let mut template = vec![0u8; len];
    template[..6].copy_from_slice(&b.mac());
    template[12..14].copy_from_slice(&[0x86, 0xdd]);
    template[14] = 0x60;
    template[20..22].copy_from_slice(&[41, 64]);
    template[38..44].copy_from_slice(&[0xfc, 0xbb, 0xbb, 0, 0x10, 0x02]);

    let (start, mut received, mut sum) = (Instant::now(), 0u64, 0u64);
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        for _ in 0..32 {
            let Some(mut slot) = a.tx_slot() else { break };
            // Headers only, as the raw figure it is compared with: the rest of the buffer is what it was.
            slot.buffer()[..54].copy_from_slice(&template[..54]);
            slot.commit(len);
        }
        a.flush()?;
        received += b.rx_batch(256, |frame| sum += u64::from(frame.head()[53]) + frame.len() as u64) as u64;
    }
    let elapsed = start.elapsed().as_secs_f64();
    let rate = received as f64 / elapsed;
    println!(
        "{kind:6} {len:5} bytes: {:.3} Mpps {:.2} Gb/s, {:.3} sends per frame; {}",
        rate / 1e6,
        rate * len as f64 * 8.0 / 1e9,
        a.stats().tx_kicks as f64 / a.stats().tx_frames as f64,
        b.obtained()
    );
    black_box(sum);
    memory()
}

/// Cost of one 4 KiB placement and gather, hot in the cache, beside memcpy.
fn memory() -> Result<(), Box<dyn Error>> {
    const ROUNDS: u32 = 2_000_000;
    let region = MemRegion::map(1 << 16)?;
    let mut bytes = vec![7u8; 4096];
    let mut other = vec![7u8; 4096];
    let time = |f: &mut dyn FnMut(u64)| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|round| f(u64::from(round & 7) * 4096));
        start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    };
    let place = time(&mut |at| region.place(at, black_box(&bytes)).unwrap_or_default());
    let odd = time(&mut |at| region.place(at + 3, black_box(&bytes)).unwrap_or_default());
    let gather = time(&mut |at| region.gather(at, black_box(&mut bytes)).unwrap_or_default());
    let copy = time(&mut |_| black_box(&mut other).copy_from_slice(black_box(&bytes)));
    println!("4 KiB: place {place:.0} ns, at an odd address {odd:.0} ns, gather {gather:.0} ns, memcpy {copy:.0} ns");
    Ok(())
}
