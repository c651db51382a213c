//! MRC over AF_XDP against raw AF_XDP frames of the same size through the same fabric, in interleaved pairs of one run.
//! Prints medians and their ratio; needs root, says so otherwise.
//!
//! Raw: one thread sends full frames round robin over all planes and uplinks as fast as the ports take them, another
//! counts what arrives. No headers are parsed, no bytes are checked or copied at the receiver: the ceiling of the path.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mrc_afxdp::{AnyPort, PacketFilter, Port as _, Sid, XskConfig, XskPort};
use mrc_core::RetryConfig;
use mrc_lab::{Fabric, Shape, enter};
use mrc_verbs_shim::host::HostFile;
use mrc_verbs_shim::{Access, Context, MemRegion, QpAddress, QpAttr, WriteWr};
use mrc_wire::{Ecn, Encap, Ev, FrameTemplate, Outer, Psn, WireConfig};

const PAIRS: usize = 5;
const RUN: Duration = Duration::from_millis(1500);
const WARM_UP: Duration = Duration::from_millis(300);
const PAYLOAD: usize = 4096;
/// BTH, METH, TSETH, RETH, payload, ICRC.
const UDP_PAYLOAD: usize = 12 + 4 + 4 + 16 + PAYLOAD + 4;
const MESSAGE: usize = 1 << 20;
const DEPTH: usize = 8;
const QPS: usize = 2;

fn main() {
    if let Err(missing) = mrc_lab::requirements() {
        println!("afxdp_ratio: SKIP: {missing}");
        return;
    }
    let prefix = format!("mrcbench{}", std::process::id());
    let fabric = match Fabric::up(Shape { prefix, ..Shape::default() }) {
        Ok(fabric) => fabric.guarded(),
        Err(error) => return println!("afxdp_ratio: SKIP: {error}"),
    };
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        let (mrc, raw) = (mrc(&fabric), raw(&fabric));
        println!("pair {pair}: MRC {mrc:.2} Gb/s, raw AF_XDP {raw:.2} Gb/s, ratio {:.2}", mrc / raw);
        ours.push(mrc);
        raws.push(raw);
    }
    let ratio = median(ours.iter().zip(&raws).map(|(mrc, raw)| mrc / raw).collect());
    let verdict = if ratio >= 0.95 {
        "PASS (stretch)"
    } else if ratio >= 0.85 {
        "PASS"
    } else {
        "MISS"
    };
    println!(
        "afxdp_ratio: goodput at 4 KiB, medians of {PAIRS} pairs: MRC {:.2}, raw {:.2} Gb/s, ratio {ratio:.2} (target 0.85, stretch 0.95) {verdict}",
        median(ours),
        median(raws)
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn host(fabric: &Fabric, name: &str) -> HostFile {
    let text = serde_json::to_string(&fabric.host(name).expect("host of the fabric")).expect("a host is JSON");
    HostFile::parse(name, &text).expect("the lab writes host files")
}

/// Goodput of 1 MiB writes, in Gb/s.
fn mrc(fabric: &Fabric) -> f64 {
    let open = |host: &HostFile| {
        let namespace = host.namespace.as_deref().expect("lab hosts have namespaces");
        let context = enter(namespace, || Context::open(host.device())).expect("namespace").expect("device");
        let pd = context.alloc_pd();
        let mr = pd.reg_mr(MemRegion::map(MESSAGE * QPS).expect("memory"), Access::REMOTE_WRITE).expect("region");
        let cq = context.create_cq(256).expect("completion queue");
        let qps: Vec<_> = (0..QPS).map(|_| pd.create_qp(&cq).expect("queue pair")).collect();
        (context, mr, cq, qps)
    };
    let (host_a, host_b) = (host(fabric, "hA"), host(fabric, "hB"));
    let ((context_a, mr_a, mut cq_a, qps_a), (context_b, mr_b, _cq_b, qps_b)) = (open(&host_a), open(&host_b));
    let connect = |from: &HostFile, context: &Context, qps: &[_], to: &HostFile, remote: &[_], mr: &_| {
        let peer = from.peer(to.gid).expect("peer");
        let handle = context.add_peer(from.peer_config(peer).expect("peer")).expect("peer");
        let profile = context.create_ev_profile(from.paths_to(peer).expect("paths")).expect("profile");
        let mut attr = QpAttr::new(handle, profile);
        attr.rts.retry = RetryConfig { timeout: 12, linear: 7, exponential: 8 };
        for (qp, far) in qps.iter().zip(remote) {
            let (qp, far): (&mrc_verbs_shim::QueuePair, &mrc_verbs_shim::QueuePair) = (qp, far);
            let mr: &mrc_verbs_shim::MemoryRegion = mr;
            let address = QpAddress { qpn: far.qpn(), psn: Psn::new(0), mpr_dest: 8, va: mr.addr(), rkey: mr.rkey() };
            qp.connect(&attr, &address).expect("connect");
        }
    };
    connect(&host_b, &context_b, &qps_b, &host_a, &qps_a, &mr_a);
    connect(&host_a, &context_a, &qps_a, &host_b, &qps_b, &mr_b);
    let mut inflight = [0usize; QPS];
    let (mut done, mut counted_from) = (0u64, None);
    let start = Instant::now();
    loop {
        let elapsed = start.elapsed();
        if counted_from.is_none() && elapsed >= WARM_UP {
            (done, counted_from) = (0, Some(Instant::now()));
        }
        if elapsed >= WARM_UP + RUN {
            break;
        }
        for (index, qp) in qps_a.iter().enumerate() {
            let offset = (index * MESSAGE) as u64;
            while inflight[index] < DEPTH {
                let (remote_va, rkey) = (mr_b.addr() + offset, mr_b.rkey());
                let wr_id = index as u64;
                let wr = WriteWr { wr_id, mr: &mr_a, offset, len: MESSAGE as u32, remote_va, rkey, signaled: true };
                assert!(cq_a.post_write(qp, &wr));
                inflight[index] += 1;
            }
        }
        match cq_a.poll() {
            Some(completion) => {
                assert_eq!(completion.status, mrc_verbs_shim::Status::Success);
                inflight[completion.wr_id as usize] -= 1;
                done += MESSAGE as u64;
            }
            None => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    let seconds = counted_from.map_or(1.0, |at: Instant| at.elapsed().as_secs_f64());
    done as f64 * 8.0 / seconds / 1e9
}

fn ports(host: &HostFile) -> Vec<AnyPort> {
    let namespace = host.namespace.as_deref().expect("lab hosts have namespaces");
    let open = || {
        host.planes
            .iter()
            .map(|plane| {
                let filter = PacketFilter::with_sids([Sid::exact(plane.sid)]);
                AnyPort::Xsk(
                    XskPort::open(&plane.interface, &XskConfig { filter, ..XskConfig::default() }).expect("port"),
                )
            })
            .collect()
    };
    enter(namespace, open).expect("namespace")
}

/// Goodput of bare frames that would carry 4 KiB each, in Gb/s.
fn raw(fabric: &Fabric) -> f64 {
    let (host_a, host_b) = (host(fabric, "hA"), host(fabric, "hB"));
    let peer = host_a.peer(host_b.gid).expect("peer").clone();
    let frames = frames(&host_a, &peer);
    let (mut from, mut to) = (ports(&host_a), ports(&host_b));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (port, frames) in from.iter_mut().zip(&frames) {
                    for frame in frames.iter().cycle().take(64) {
                        let Some(mut slot) = port.tx_slot() else { break };
                        slot.buffer()[..frame.len()].copy_from_slice(frame);
                        slot.commit(frame.len());
                    }
                    let _ = port.flush();
                }
            }
        });
        let mut count = 0u64;
        let mut receive_until = |at: Instant| {
            let mut seen = 0u64;
            while Instant::now() < at {
                for port in &mut to {
                    port.rx_batch(64, |frame| seen += u64::from(frame.len() > PAYLOAD));
                    let _ = port.flush();
                }
            }
            seen
        };
        receive_until(Instant::now() + WARM_UP);
        let start = Instant::now();
        count += receive_until(start + RUN);
        let seconds = start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        count as f64 * PAYLOAD as f64 * 8.0 / seconds / 1e9
    })
}

/// One ready frame per uplink, for each plane.
fn frames(host: &HostFile, peer: &mrc_verbs_shim::host::HostPeer) -> Vec<Vec<Vec<u8>>> {
    let config = host.peer_config(peer).expect("peer");
    let mrc_core::Route::Srv6(map) = &config.route else { unreachable!("lab routes are SRv6") };
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
        let mut frame = vec![0u8; template.header_len() + UDP_PAYLOAD];
        template.emit(&mut frame, Ev(entry.ev.0), 0, Ecn::Ect0, UDP_PAYLOAD, None).expect("the frame fits");
        by_plane[plane].push(frame);
    }
    by_plane
}
