//! Two devices on a real fabric. Needs root; skipped by name and reason otherwise.

use std::time::{Duration, Instant};

use mrc_afxdp::device::Attachment;
use mrc_core::RetryConfig;
use mrc_lab::{Fabric, Shape, enter, skip};
use mrc_verbs_shim::host::HostFile;
use mrc_verbs_shim::{
    Access, Completion, CompletionQueue, Context, MemRegion, MemoryRegion, Operation, QpAddress, QpAttr, QpState,
    QueuePair, Status, WriteWr,
};
use mrc_wire::{Psn, Rkey};

const BYTES: usize = 1 << 16;

fn fabric(test: &str) -> Option<Fabric> {
    if skip(test) {
        return None;
    }
    let prefix = format!("mrcv{}{test}", std::process::id());
    Some(Fabric::up(Shape { prefix, t1: 2, ..Shape::default() }).unwrap().guarded())
}

struct Side {
    host: HostFile,
    qp: QueuePair,
    mr: MemoryRegion,
    cq: CompletionQueue,
    context: Context,
}

fn side(fabric: &Fabric, name: &str, access: Access, attachment: Attachment) -> Side {
    let host = HostFile::parse(name, &serde_json::to_string(&fabric.host(name).unwrap()).unwrap()).unwrap();
    let mut config = host.device();
    config.attachment = attachment;
    let context = enter(host.namespace.as_ref().unwrap(), || Context::open(config)).unwrap().unwrap();
    let pd = context.alloc_pd();
    let mr = pd.reg_mr(MemRegion::map(BYTES).unwrap(), access).unwrap();
    let cq = context.create_cq(64).unwrap();
    let qp = pd.create_qp(&cq).unwrap();
    Side { host, qp, mr, cq, context }
}

impl Side {
    fn address(&self) -> QpAddress {
        let (qpn, va, rkey) = (self.qp.qpn(), self.mr.addr(), self.mr.rkey());
        QpAddress { qpn, psn: Psn::new(0xFF_FFFE), mpr_dest: 8, va, rkey }
    }

    fn connect(&self, remote: &QpAddress) {
        let peer = &self.host.peers[0];
        let handle = self.context.add_peer(self.host.peer_config(peer).unwrap()).unwrap();
        let profile = self.context.create_ev_profile(self.host.paths_to(peer).unwrap()).unwrap();
        let mut attr = QpAttr::new(handle, profile);
        attr.rts.sq_psn = Psn::new(0xFF_FFFE);
        attr.rts.retry = RetryConfig { timeout: 12, linear: 3, exponential: 4 };
        self.qp.connect(&attr, remote).unwrap();
    }

    fn write(&mut self, wr_id: u64, len: u32, remote_va: u64, rkey: Rkey) -> Completion {
        let wr = WriteWr { wr_id, mr: &self.mr, offset: 0, len, remote_va, rkey, signaled: true };
        assert!(self.cq.post_write(&self.qp, &wr));
        let give_up = Instant::now() + Duration::from_secs(5);
        loop {
            if let Some(completion) = self.cq.poll() {
                assert_eq!(completion.wr_id, wr_id);
                return completion;
            }
            assert!(Instant::now() < give_up, "no completion: {:?}", self.context.stats());
            std::thread::yield_now();
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        self.mr.memory().gather(0, &mut bytes).unwrap();
        bytes
    }
}

fn pair(fabric: &Fabric, attachment: Attachment) -> (Side, Side) {
    let a = side(fabric, "hA", Access::LOCAL, attachment);
    let b = side(fabric, "hB", Access::REMOTE_WRITE, attachment);
    let (of_a, of_b) = (a.address(), b.address());
    b.connect(&of_a);
    a.connect(&of_b);
    let pattern: Vec<u8> = (0..BYTES).map(|n| ((n * 31) >> 3) as u8).collect();
    a.mr.memory().place(0, &pattern).unwrap();
    (a, b)
}

#[test]
fn bytes_arrive_through_xdp_and_through_packet_sockets() {
    let Some(fabric) = fabric("bytes") else { return };
    for attachment in [Attachment::Xdp(mrc_afxdp::Mode::Auto), Attachment::Xdp(mrc_afxdp::Mode::Skb), Attachment::Raw] {
        let (mut a, b) = pair(&fabric, attachment);
        let to = b.address();
        for (wr_id, len) in [0u32, 1, 63, 4096, 4097, BYTES as u32].into_iter().enumerate() {
            let completion = a.write(wr_id as u64, len, to.va, to.rkey);
            assert_eq!(completion.status, Status::Success, "{attachment:?} {len}");
            let (sent, received) = (a.bytes(), b.bytes());
            assert_eq!(sent[..len as usize], received[..len as usize], "{attachment:?} {len}");
        }
    }
}

#[test]
fn immediates_arrive_after_their_data_also_when_receives_come_late() {
    let Some(fabric) = fabric("imm") else { return };
    let (mut a, mut b) = pair(&fabric, Attachment::Xdp(mrc_afxdp::Mode::Auto));
    let to = b.address();
    for n in 0..8u32 {
        let wr = WriteWr {
            wr_id: u64::from(n),
            mr: &a.mr,
            offset: 0,
            len: 8 * n,
            remote_va: to.va,
            rkey: to.rkey,
            signaled: true,
        };
        assert!(a.cq.post_write_imm(&a.qp, &wr, 0x1000 + n, n == 7));
    }
    // No receive request: nothing completes on either side, and the QP does not fail.
    std::thread::sleep(Duration::from_millis(300));
    assert!(a.cq.poll().is_none() && b.cq.poll().is_none());
    for n in 0..8 {
        assert!(b.cq.post_recv(&b.qp, 100 + n));
    }
    let give_up = Instant::now() + Duration::from_secs(20);
    for (side, first) in [(&mut b, 100), (&mut a, 0)] {
        for n in 0..8u32 {
            let completion = loop {
                if let Some(completion) = side.cq.poll() {
                    break completion;
                }
                assert!(Instant::now() < give_up, "no completion: {:?}", side.context.stats());
                std::thread::yield_now();
            };
            assert_eq!((completion.wr_id, completion.status), (first + u64::from(n), Status::Success));
            if first == 100 {
                assert_eq!((completion.operation, completion.imm), (Operation::Receive, Some(0x1000 + n)));
                assert_eq!((completion.byte_len, completion.solicited), (8 * n, n == 7));
            }
        }
    }
    assert_eq!(a.bytes()[..56], b.bytes()[..56]);
}

#[test]
fn a_wrong_local_key_or_range_completes_with_an_error() {
    let Some(fabric) = fabric("lkey") else { return };
    let (mut a, b) = pair(&fabric, Attachment::Xdp(mrc_afxdp::Mode::Auto));
    let to = b.address();
    assert_eq!(a.write(3, BYTES as u32 + 1, to.va, to.rkey).status, Status::LocalProtection);
    assert_eq!(a.write(4, 8, to.va, to.rkey).status, Status::Flushed);
}

#[test]
fn a_wrong_key_or_range_writes_nothing_and_fails_the_qp() {
    let Some(fabric) = fabric("rkey") else { return };
    for case in 0..3 {
        let (mut a, b) = pair(&fabric, Attachment::Xdp(mrc_afxdp::Mode::Auto));
        let to = b.address();
        let (va, rkey) = match case {
            0 => (to.va, Rkey(to.rkey.0 ^ 0x8000_0000)),
            1 => (to.va + BYTES as u64 - 1, to.rkey),
            _ => (to.va - 1, to.rkey),
        };
        let completion = a.write(7, 4_000, va, rkey);
        assert_eq!(completion.status, Status::RemoteAccess, "case {case}");
        assert!(b.bytes().iter().all(|&byte| byte == 0), "case {case}");
        assert_eq!(a.qp.info().unwrap().unwrap().state, QpState::Error);
        assert_eq!(b.qp.info().unwrap().unwrap().state, QpState::Error);
        assert_eq!(a.write(8, 8, to.va, to.rkey).status, Status::Flushed);
    }
}

#[test]
fn a_vanished_peer_is_an_error_not_a_hang() {
    let Some(fabric) = fabric("gone") else { return };
    let (mut a, b) = pair(&fabric, Attachment::Xdp(mrc_afxdp::Mode::Auto));
    let to = b.address();
    assert_eq!(a.write(1, 4096, to.va, to.rkey).status, Status::Success);
    drop(b);
    let completion = a.write(2, 4096, to.va, to.rkey);
    assert_eq!(completion.status, Status::RetryExceeded);
    assert!(completion.retries > 7 && completion.last_path.is_some() && completion.since_ack_ns > 0, "{completion:?}");
}

#[test]
fn a_busy_interface_says_who_holds_it() {
    let Some(fabric) = fabric("busy") else { return };
    let first = side(&fabric, "hA", Access::LOCAL, Attachment::Xdp(mrc_afxdp::Mode::Auto));
    let again = enter(first.host.namespace.as_ref().unwrap(), || Context::open(first.host.device()).map(drop));
    let text = again.unwrap().unwrap_err().to_string();
    assert!(text.contains("plane0") && text.contains(&std::process::id().to_string()), "{text}");
}
