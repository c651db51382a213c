//! MRC over AF_XDP against raw AF_XDP frames of the same size through the same fabric, in interleaved pairs of one run.
//! Prints medians and their ratio; needs root, says so otherwise.

mod lab;

use std::time::{Duration, Instant};

use lab::{host, median, raw_goodput};
use mrc_core::RetryConfig;
use mrc_lab::{Fabric, Shape, enter};
use mrc_verbs_shim::host::HostFile;
use mrc_verbs_shim::{Access, Context, MemRegion, QpAddress, QpAttr, WriteWr};
use mrc_wire::Psn;

const PAIRS: usize = 5;
const RUN: Duration = Duration::from_millis(1500);
const WARM_UP: Duration = Duration::from_millis(300);
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
        let (mrc, raw) = (mrc(&fabric), raw_goodput(&fabric, WARM_UP, RUN));
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
