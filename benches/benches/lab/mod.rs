//! What the measurements over the lab share: its hosts, and raw AF_XDP frames of the size of MRC's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mrc_afxdp::{AnyPort, PacketFilter, Port as _, Sid, XskConfig, XskPort};
use mrc_lab::{Fabric, enter};
use mrc_verbs_shim::host::{HostFile, HostPeer};
use mrc_wire::{Ecn, Encap, Ev, FrameTemplate, Outer, WireConfig};

/// Payload of a full packet.
pub(crate) const PAYLOAD: usize = 4096;
/// BTH, METH, TSETH, RETH and ICRC.
const OVERHEAD: usize = 12 + 4 + 4 + 16 + 4;

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn host(fabric: &Fabric, name: &str) -> HostFile {
    let text = serde_json::to_string(&fabric.host(name).expect("host of the fabric")).expect("a host is JSON");
    HostFile::parse(name, &text).expect("the lab writes host files")
}

/// The host's planes, opened without an engine.
pub(crate) fn ports(host: &HostFile) -> Vec<AnyPort> {
    let namespace = host.namespace.as_deref().expect("lab hosts have namespaces");
    let open = || {
        host.planes
            .iter()
            .map(|plane| {
                let filter = PacketFilter::with_sids([Sid::exact(plane.sid.unwrap())]);
                AnyPort::Xsk(
                    XskPort::open(&plane.interface, &XskConfig { filter, ..XskConfig::default() }).expect("port"),
                )
            })
            .collect()
    };
    enter(namespace, open).expect("namespace")
}

/// Bare frames per second, as long as writes of `payload` bytes make them: one thread sends round robin over all planes and
/// uplinks as fast as the ports take them, the other counts what arrives. No headers are parsed, no bytes are checked or
/// copied at the receiver: the ceiling of the path. With `memory`, both ends also copy the payload, out of so many bytes and
/// into so many: the ceiling of everything whose bytes somebody uses.
pub(crate) fn raw_rate(
    fabric: &Fabric,
    payload: usize,
    memory: Option<usize>,
    warm_up: Duration,
    run: Duration,
) -> f64 {
    let (host_a, host_b) = (host(fabric, "hA"), host(fabric, "hB"));
    let peer = host_a.peer(host_b.gid).expect("peer").clone();
    let frames = frames(&host_a, &peer, payload);
    let (mut from, mut to) = (ports(&host_a), ports(&host_b));
    let stop = AtomicBool::new(false);
    let places = memory.map_or(1, |bytes| bytes / payload);
    let (source, mut target) = (vec![0x5A; places * payload], vec![0; places * payload]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut from_place = source.chunks_exact(payload).cycle();
            while !stop.load(Ordering::Relaxed) {
                for (port, frames) in from.iter_mut().zip(&frames) {
                    for frame in frames.iter().cycle().take(64) {
                        let Some(mut slot) = port.tx_slot() else { break };
                        let head = if memory.is_some() { frame.len() - payload } else { frame.len() };
                        slot.buffer()[..head].copy_from_slice(&frame[..head]);
                        if let (Some(_), Some(bytes)) = (memory, from_place.next()) {
                            slot.buffer()[head..frame.len()].copy_from_slice(bytes);
                        }
                        slot.commit(frame.len());
                    }
                    let _ = port.flush();
                }
            }
        });
        let (mut count, mut place) = (0u64, 0);
        let mut receive_until = |at: Instant| {
            let mut seen = 0u64;
            while Instant::now() < at {
                for port in &mut to {
                    port.rx_batch(64, |frame| {
                        seen += u64::from(frame.len() > payload);
                        if memory.is_none() || frame.len() <= payload {
                            return;
                        }
                        place = (place + 1) % places;
                        let mut at = place * payload;
                        for piece in frame.pieces(frame.len() - payload..frame.len()) {
                            target[at..at + piece.len()].copy_from_slice(piece);
                            at += piece.len();
                        }
                    });
                    let _ = port.flush();
                }
            }
            seen
        };
        receive_until(Instant::now() + warm_up);
        let start = Instant::now();
        count += receive_until(start + run);
        let seconds = start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        count as f64 / seconds
    })
}

/// One ready frame per uplink, for each plane, as long as a write of `payload` bytes makes it.
pub(crate) fn frames(host: &HostFile, peer: &HostPeer, payload: usize) -> Vec<Vec<Vec<u8>>> {
    let config = host.peer_config(peer).expect("peer");
    let mrc_core::Route::Srv6(map) = &config.route else { unreachable!("lab routes are SRv6") };
    let udp_payload = OVERHEAD + payload;
    let mut by_plane = vec![Vec::new(); host.planes.len()];
    for entry in host.paths_to(peer).expect("paths") {
        let plane = usize::from(entry.port.plane());
        let path = config.planes[plane].expect("a path per plane");
        let outer = path.outer_src.map(|src| Outer { src, dst: map.apply(entry.ev), srh: None });
        let encap = Encap {
            eth_src: [2, 0, 0, 0, 0, 1],
            eth_dst: path.next_hop,
            outer,
            src: config.local,
            dst: config.remote,
            hop_limit: 64,
            outer_hop_limit: 64,
        };
        let template = FrameTemplate::new(&encap, &WireConfig::default());
        let mut frame = vec![0u8; template.header_len() + udp_payload];
        template.emit(&mut frame, Ev(entry.ev.0), 0, Ecn::Ect0, udp_payload, None).expect("the frame fits");
        by_plane[plane].push(frame);
    }
    by_plane
}

/// Half of the median round trip of one frame as long as that of an 8-byte write, in microseconds. Two threads that
/// look at one plane each and do nothing else.
pub(crate) fn raw_ping_pong(a: &HostFile, b: &HostFile, exchanges: usize) -> f64 {
    let one = |from: &HostFile, to: &HostFile| frames(from, from.peer(to.gid).expect("peer"), 8)[0][0].clone();
    let (there, back) = (one(a, b), one(b, a));
    let (mut near, mut far) = (ports(a), ports(b));
    let total = exchanges + exchanges / 10;
    let times = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..total {
                receive(&mut far[0]);
                send(&mut far[0], &back);
            }
        });
        let mut times = Vec::with_capacity(total);
        for _ in 0..total {
            let start = Instant::now();
            send(&mut near[0], &there);
            receive(&mut near[0]);
            times.push(start.elapsed().as_nanos() as f64 / 2e3);
        }
        times
    });
    median(times[exchanges / 10..].to_vec())
}

fn send(port: &mut AnyPort, frame: &[u8]) {
    loop {
        if let Some(mut slot) = port.tx_slot() {
            slot.buffer()[..frame.len()].copy_from_slice(frame);
            slot.commit(frame.len());
            break;
        }
        let _ = port.flush();
    }
    let _ = port.flush();
}

fn receive(port: &mut AnyPort) {
    let (mut seen, patience) = (false, Instant::now() + Duration::from_secs(10));
    while !seen {
        port.rx_batch(1, |_| seen = true);
        assert!(Instant::now() < patience, "a raw frame was lost");
    }
    let _ = port.flush();
}
