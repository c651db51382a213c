//! Queue pairs in RTR that have received nothing. The first data of the peer is an event of the device. The engine has none for
//! it: a placement names its queue pair, and for data without bytes the device asks how much each of them has received.

use mrc_core::{QpHandle, QpInfo, QpState};
use mrc_wire::Qpn;

/// Queue pairs that one turn looks at where data without bytes came: the others wait for the next turns.
const LOOKS: usize = 8;

#[derive(Default)]
pub(super) struct Awaited {
    /// By the slot of the queue pair.
    qps: Vec<Option<QpHandle>>,
    /// Entries of `qps`.
    count: usize,
    /// Slots whose queue pairs had bytes placed since the last turn.
    heard: Vec<usize>,
    /// Placements since the last turn.
    placed: u64,
    /// Slot to look at next.
    next: usize,
    /// Slots that are left until each was looked at behind the last data without bytes.
    due: usize,
    /// Data packets that the device had received at the last turn.
    rx_data: u64,
}

impl Awaited {
    /// A queue pair went to RTR.
    pub(super) fn add(&mut self, qp: QpHandle) {
        if self.qps.len() <= qp.index() {
            self.qps.resize(qp.index() + 1, None);
        }
        if self.qps[qp.index()].replace(qp).is_none() {
            self.count += 1;
        }
    }

    /// Bytes of a write to `qp` arrived.
    #[inline]
    pub(super) fn placed(&mut self, qp: QpHandle) {
        self.placed += 1;
        if self.count > 0 && self.has(qp) {
            self.heard.push(qp.index());
        }
    }

    /// Tells `established` about those that received their first data. Whether there are more to look at.
    pub(super) fn turn(
        &mut self,
        rx_data: u64,
        info: impl Fn(QpHandle) -> Option<QpInfo>,
        mut established: impl FnMut(Qpn),
    ) -> bool {
        let came = rx_data.wrapping_sub(core::mem::replace(&mut self.rx_data, rx_data));
        let without_bytes = came != core::mem::take(&mut self.placed);
        if self.count == 0 {
            return false;
        }
        while let Some(slot) = self.heard.pop() {
            self.look(slot, &info).into_iter().for_each(&mut established);
        }
        if without_bytes {
            self.due = self.qps.len();
        }
        for _ in 0..LOOKS.min(self.due) {
            self.due -= 1;
            self.next = if self.next + 1 < self.qps.len() { self.next + 1 } else { 0 };
            self.look(self.next, &info).into_iter().for_each(&mut established);
        }
        self.due > 0
    }

    /// Whether `qp` has received data that no turn has told of. No later turn tells of it then.
    pub(super) fn take(&mut self, qp: QpHandle, info: impl Fn(QpHandle) -> Option<QpInfo>) -> bool {
        self.has(qp) && self.look(qp.index(), &info).is_some()
    }

    /// A queue pair left RTR.
    pub(super) fn remove(&mut self, qp: QpHandle) {
        if self.has(qp) {
            self.qps[qp.index()] = None;
            self.count -= 1;
        }
    }

    fn has(&self, qp: QpHandle) -> bool {
        self.qps.get(qp.index()).is_some_and(|awaited| *awaited == Some(qp))
    }

    /// The number of the queue pair in a slot, if it has received data in RTR. One that has, or left RTR, is awaited no longer.
    fn look(&mut self, slot: usize, info: &impl Fn(QpHandle) -> Option<QpInfo>) -> Option<Qpn> {
        let awaited = self.qps.get_mut(slot)?;
        let qp = (*awaited)?;
        let received = info(qp).filter(|info| info.state == QpState::Rtr).map(|info| info.received_bytes);
        if received == Some(0) {
            return None;
        }
        *awaited = None;
        self.count -= 1;
        received.map(|_| qp.qpn())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mrc_core::{Endpoint, EndpointConfig, Limits, OwnedStorage, Pd, PortConfig, QpInit};
    use mrc_wire::Ip;

    use super::*;

    /// Queue pairs of an endpoint, and a picture of one in RTR.
    fn queue_pairs<const N: usize>() -> ([QpHandle; N], QpInfo) {
        let mut storage = OwnedStorage::new(Limits { qps: N, ..Limits::default() }).unwrap();
        let mut config = EndpointConfig::software();
        config.gids[0] = Some(Ip::V6([1; 16]));
        config.ports[0] = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
        let mut engine = Endpoint::new(config, storage.lend(), 7).unwrap();
        let cq = engine.create_cq().unwrap();
        let init = QpInit { pd: Pd(1), send_cq: cq, recv_cq: cq };
        let qps = core::array::from_fn(|_| engine.create_qp(&init).unwrap());
        let info = QpInfo { state: QpState::Rtr, ..engine.qp_info(qps[0]).unwrap() };
        (qps, info)
    }

    /// An awaited set of these, and what it tells in a turn.
    fn awaiting(qps: &[QpHandle]) -> Awaited {
        let mut awaited = Awaited::default();
        qps.iter().chain(qps).for_each(|&qp| awaited.add(qp));
        awaited
    }

    #[test]
    fn each_is_told_once_when_bytes_are_placed() {
        let (qps, idle) = queue_pairs::<20>();
        let mut awaited = awaiting(&qps[1..]);
        let info = |_| Some(QpInfo { received_bytes: 64, ..idle });
        let mut told = Vec::new();
        for (data, slot) in [(1, 0), (2, 7), (3, 19), (4, 7)] {
            awaited.placed(qps[slot]);
            assert!(!awaited.turn(data, info, |qp| told.push(qp)), "nobody else is looked at");
        }
        assert_eq!(told, [qps[7].qpn(), qps[19].qpn()]);
        assert_eq!(awaited.count, 17);
    }

    #[test]
    fn data_without_bytes_is_found_within_a_few_turns() {
        let (qps, idle) = queue_pairs::<20>();
        let mut awaited = awaiting(&qps);
        let heard = [qps[2], qps[9], qps[10], qps[19]];
        let info = |qp| Some(QpInfo { received_bytes: if heard.contains(&qp) { 64 } else { 0 }, ..idle });
        let mut told = Vec::new();
        assert!(!awaited.turn(0, info, |qp| told.push(qp)), "no data, nothing to look at");
        assert_eq!([(); 4].map(|()| awaited.turn(4, info, |qp| told.push(qp))), [true, true, false, false]);
        assert_eq!(told, heard.map(QpHandle::qpn));
        assert!(awaited.turn(5, info, |_| unreachable!("told before")));
        assert_eq!(awaited.count, 16);
    }

    /// Data without end must not keep the last ones from their turn.
    #[test]
    fn turns_go_around_while_data_comes() {
        let (qps, idle) = queue_pairs::<20>();
        let mut awaited = awaiting(&qps);
        let info = |qp| Some(QpInfo { received_bytes: u32::from(qp == qps[19]), ..idle });
        let mut told = 0;
        (1..4).for_each(|data| assert!(awaited.turn(data, info, |_| told += 1)));
        assert_eq!(told, 1);
    }

    #[test]
    fn one_that_leaves_rtr_is_not_awaited() {
        let (qps, idle) = queue_pairs::<3>();
        let mut awaited = awaiting(&qps);
        let info = |qp| match qp {
            qp if qp == qps[0] => None,
            qp if qp == qps[1] => Some(QpInfo { state: QpState::Error, received_bytes: 9, ..idle }),
            _ => Some(QpInfo { received_bytes: 9, ..idle }),
        };
        assert!(!awaited.take(qps[1], info) && awaited.take(qps[2], info) && !awaited.take(qps[2], info));
        assert!(!awaited.turn(1, info, |_| unreachable!("taken, or not in RTR")));
        assert_eq!(awaited.count, 0);
        awaited.add(qps[2]);
        awaited.remove(qps[2]);
        awaited.remove(qps[2]);
        awaited.placed(qps[2]);
        assert!(!awaited.turn(2, info, |_| unreachable!("removed")));
        assert_eq!(awaited.count, 0);
    }
}
