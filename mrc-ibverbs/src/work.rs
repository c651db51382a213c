//! Posting: `ibv_post_send`, `ibv_post_recv`, and `ibv_wr_*`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use core::ffi::{c_int, c_void};

use mrc_afxdp::MemRegion;
use mrc_afxdp::device::WorkQueue;
use mrc_core::{Access, MrHandle, Pd, SendWr};
use mrc_wire::Rkey;
use parking_lot::MutexGuard;

use crate::abi::{
    IbvDataBuf, IbvQp, IbvQpEx, IbvRecvWr, IbvSendWr, IbvSge, QP_EX_WRITES, QPS_ERR, QPS_INIT, QPS_RTR, QPS_RTS,
    SEND_INLINE, SEND_SIGNALED, SEND_SOLICITED, WR_RDMA_WRITE, WR_RDMA_WRITE_WITH_IMM,
};
use crate::engine::{ENGINE_QUEUE, Engine, failed};
use crate::object;
use crate::qp::Qp;
use crate::text;

/// Memory for data that work requests carry themselves: one slot for each request that can be in flight.
///
/// A slot is free again when as many requests were accepted after its own as fit into ring and engine together: by then its
/// request is complete, since the engine takes and completes them in order. A request that is not accepted takes no slot.
pub(crate) struct Inline {
    memory: Arc<MemRegion>,
    key: u32,
    slot: usize,
    slots: usize,
    /// The slot of the next request that is accepted.
    next: usize,
    /// `None` in tests.
    registered: Option<Registered>,
}

/// Revokes the memory of [`Inline`] when it goes.
struct Registered {
    engine: Arc<Engine>,
    handle: MrHandle,
}

impl Inline {
    pub(crate) fn new(engine: &Arc<Engine>, pd: Pd, bytes: u32, max_send_wr: u32) -> Result<Self, c_int> {
        let mut inline = Self::unregistered(bytes, max_send_wr)?;
        let registered = engine.device.register(pd, Arc::clone(&inline.memory), Access::LOCAL);
        let (handle, key) = registered.map_err(|error| failed("inline data", &error))?;
        inline.key = key.0;
        inline.registered = Some(Registered { engine: Arc::clone(engine), handle });
        Ok(inline)
    }

    fn unregistered(bytes: u32, max_send_wr: u32) -> Result<Self, c_int> {
        let slot = (bytes as usize).next_multiple_of(64);
        let slots = (max_send_wr as usize).next_power_of_two() + ENGINE_QUEUE + 2;
        let memory = Arc::new(MemRegion::map(slot * slots).map_err(|_| libc::ENOMEM)?);
        Ok(Self { memory, key: 0, slot, slots, next: 0, registered: None })
    }

    /// Copies the pieces into the slot of the request behind `ahead` others that are not accepted yet.
    fn fill(
        &self,
        ahead: usize,
        wr: &mut SendWr,
        pieces: impl Iterator<Item = (*const c_void, usize)>,
    ) -> Result<(), c_int> {
        let (start, mut at) = ((self.next + ahead) % self.slots * self.slot, 0);
        for (pointer, len) in pieces {
            if len > self.slot - at || (pointer.is_null() && len > 0) {
                return Err(libc::EINVAL);
            }
            if len > 0 {
                // SAFETY: the application names `len` readable bytes, and nobody writes them during the call.
                let bytes = unsafe { core::slice::from_raw_parts(pointer.cast::<u8>(), len) };
                self.memory.place((start + at) as u64, bytes).map_err(|_| libc::EINVAL)?;
            }
            at += len;
        }
        (wr.lkey, wr.local_va, wr.len) = (self.key, self.memory.addr() + start as u64, at as u32);
        Ok(())
    }

    /// The ring accepted so many requests.
    fn accept(&mut self, requests: usize) {
        self.next = (self.next + requests) % self.slots;
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A device that is gone has let go of the memory already.
        let _ = self.engine.device.deregister(self.handle);
    }
}

/// Requests between `wr_start` and `wr_complete`, never more than the ring has room for: those behind would write their
/// inline data into slots in flight.
#[derive(Default)]
struct Batch {
    staged: Vec<SendWr>,
    /// What went wrong with the first request that failed; what follows is ignored.
    error: c_int,
}

impl Batch {
    fn start(&mut self, state: Result<(), c_int>) {
        self.staged.clear();
        self.error = state.err().unwrap_or(0);
    }

    fn push(&mut self, wr: SendWr, room: usize) {
        if self.error == 0 && self.staged.len() >= room {
            self.error = libc::ENOMEM;
        }
        if self.error == 0 {
            self.staged.push(wr);
        }
    }

    /// A request that cannot be: the batch fails, and what follows is ignored.
    fn fail(&mut self, code: c_int) {
        if self.error == 0 {
            self.error = code;
        }
    }

    /// Gives data to the request begun last, which has so many before it.
    fn give(&mut self, with: impl FnOnce(usize, &mut SendWr) -> Result<(), c_int>) {
        if self.error == 0 {
            let ahead = self.staged.len().saturating_sub(1);
            let given = self.staged.last_mut().ok_or(libc::EINVAL).and_then(|wr| with(ahead, wr));
            self.error = given.err().unwrap_or(0);
        }
    }
}

/// The sending half of a QP.
pub(crate) struct SendSide {
    ring: WorkQueue,
    inline: Option<Inline>,
    batch: Batch,
}

impl SendSide {
    pub(crate) fn new(ring: WorkQueue, inline: Option<Inline>) -> Self {
        Self { ring, inline, batch: Batch::default() }
    }
}

/// The receiving half of a QP.
pub(crate) struct ReceiveSide {
    ring: WorkQueue,
}

impl ReceiveSide {
    pub(crate) fn new(ring: WorkQueue) -> Self {
        Self { ring }
    }
}

impl Qp {
    /// A QP in ERROR takes requests and flushes them.
    fn may_send(&self) -> Result<(), c_int> {
        match self.state.load(Ordering::Acquire) {
            QPS_RTS | QPS_ERR => Ok(()),
            _ => Err(libc::EINVAL),
        }
    }

    /// One request of a list, without posting it.
    ///
    /// # Safety
    /// `wr` and what it points to are the application's and readable.
    unsafe fn translate(&self, sends: &SendSide, wr: &IbvSendWr) -> Result<SendWr, c_int> {
        if wr.opcode != WR_RDMA_WRITE && wr.opcode != WR_RDMA_WRITE_WITH_IMM {
            return Err(object::unsupported(text::opcode(wr.opcode)));
        }
        let entries = usize::try_from(wr.num_sge).map_err(|_| libc::EINVAL)?;
        if entries > 0 && wr.sg_list.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the application says that there are so many.
        let list = if entries == 0 { &[][..] } else { unsafe { core::slice::from_raw_parts(wr.sg_list, entries) } };
        let with_imm = wr.opcode == WR_RDMA_WRITE_WITH_IMM;
        let mut send = SendWr {
            wr_id: wr.wr_id,
            remote_va: wr.remote_addr,
            rkey: Rkey(wr.rkey),
            signaled: self.signal_all || wr.send_flags & SEND_SIGNALED != 0,
            imm: with_imm.then_some(u32::from_be(wr.imm_data)),
            solicited: with_imm && wr.send_flags & SEND_SOLICITED != 0,
            ..SendWr::default()
        };
        if wr.send_flags & SEND_INLINE != 0 {
            let pieces = list.iter().map(|entry| (entry.addr as *const c_void, entry.length as usize));
            place_inline(sends.inline.as_ref(), self.cap.max_inline_data, 0, &mut send, pieces)?;
        } else {
            place_entries(&mut send, list)?;
        }
        Ok(send)
    }
}

/// At most one entry: the engine sends a message from one piece of memory.
fn place_entries(send: &mut SendWr, list: &[IbvSge]) -> Result<(), c_int> {
    match list {
        [] => {}
        [entry] => (send.lkey, send.local_va, send.len) = (entry.lkey, entry.addr, entry.length),
        _ => return Err(libc::EINVAL),
    }
    Ok(())
}

/// The pieces of inline data, `most` bytes together. No bytes need no memory for them.
fn place_inline(
    inline: Option<&Inline>,
    most: u32,
    ahead: usize,
    send: &mut SendWr,
    pieces: impl Iterator<Item = (*const c_void, usize)> + Clone,
) -> Result<(), c_int> {
    let bytes = pieces.clone().fold(0usize, |bytes, (_, len)| bytes.saturating_add(len));
    if bytes > most as usize {
        return Err(libc::EINVAL);
    }
    match inline {
        Some(inline) => inline.fill(ahead, send, pieces),
        None => {
            (send.lkey, send.local_va, send.len) = (0, 0, 0);
            Ok(())
        }
    }
}

pub(crate) unsafe extern "C" fn post_send(qp: *mut IbvQp, mut wr: *mut IbvSendWr, bad: *mut *mut IbvSendWr) -> c_int {
    if qp.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: a live QP, by the contract of `ibv_post_send`.
    let qp = unsafe { object::direct::<Qp>(qp) };
    let mut sends = qp.sends.lock();
    let mut answer = qp.may_send();
    // SAFETY: null or the application's, for each of the list.
    while let (Ok(()), Some(request)) = (answer, unsafe { wr.as_ref() }) {
        // SAFETY: as above.
        answer = unsafe { qp.translate(&sends, request) }.and_then(|send| {
            if !sends.ring.stage(qp.handle, send) {
                return Err(libc::ENOMEM);
            }
            if let Some(inline) = &mut sends.inline
                && request.send_flags & SEND_INLINE != 0
            {
                inline.accept(1);
            }
            wr = request.next;
            Ok(())
        });
    }
    if answer.is_err() && !bad.is_null() {
        // SAFETY: not null; the application gives room for a pointer.
        unsafe { bad.write(wr) };
    }
    drop(sends);
    qp.engine.device.posted();
    object::code(answer)
}

pub(crate) unsafe extern "C" fn post_recv(qp: *mut IbvQp, mut wr: *mut IbvRecvWr, bad: *mut *mut IbvRecvWr) -> c_int {
    if qp.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: a live QP, by the contract of `ibv_post_recv`.
    let qp = unsafe { object::direct::<Qp>(qp) };
    let mut receives = qp.receives.lock();
    let mut answer = match qp.state.load(Ordering::Acquire) {
        QPS_INIT | QPS_RTR | QPS_RTS | QPS_ERR if qp.cap.max_recv_wr > 0 => Ok(()),
        _ => Err(libc::EINVAL),
    };
    // SAFETY: null or the application's, for each of the list.
    while let (Ok(()), Some(request)) = (answer, unsafe { wr.as_ref() }) {
        if request.num_sge < 0 || request.num_sge as u32 > qp.cap.max_recv_sge {
            answer = Err(libc::EINVAL);
        } else if !receives.ring.post_recv(qp.handle, request.wr_id) {
            answer = Err(libc::ENOMEM);
        } else {
            wr = request.next;
        }
    }
    if answer.is_err() && !bad.is_null() {
        // SAFETY: not null; the application gives room for a pointer.
        unsafe { bad.write(wr) };
    }
    object::code(answer)
}

/// For operations that an extended QP was not created with; also what MRC lacks.
pub(crate) unsafe extern "C" fn not_an_operation(qp: *mut IbvQpEx) {
    let code = object::unsupported("ibv_wr_* other than writes");
    object::set_errno(code);
    // SAFETY: between start and end, by the contract of each of them.
    unsafe { started(extended(qp)) }.batch.fail(code);
}

/// The operations of an extended QP.
pub(crate) fn extended_operations(qp_base: IbvQp) -> IbvQpEx {
    let no: crate::abi::WrOp = Some(not_an_operation);
    IbvQpEx {
        qp_base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp: no,
        wr_atomic_fetch_add: no,
        wr_bind_mw: no,
        wr_local_inv: no,
        wr_rdma_read: no,
        wr_rdma_write: Some(wr_rdma_write),
        wr_rdma_write_imm: Some(wr_rdma_write_imm),
        wr_send: [no; 4],
        wr_set_ud_addr: no,
        wr_set_xrc_srqn: no,
        wr_set_inline_data: Some(wr_set_inline_data),
        wr_set_inline_data_list: Some(wr_set_inline_data_list),
        wr_set_sge: Some(wr_set_sge),
        wr_set_sge_list: Some(wr_set_sge_list),
        wr_start: Some(wr_start),
        wr_complete: Some(wr_complete),
        wr_abort: Some(wr_abort),
        wr_atomic_write: no,
    }
}

/// The QP behind an extended one.
///
/// # Safety
/// A live QP.
unsafe fn extended<'a>(qp: *mut IbvQpEx) -> &'a Qp {
    // SAFETY: the caller says so; the extended structure begins with the plain one.
    unsafe { object::direct::<Qp>(qp.cast()) }
}

unsafe extern "C" fn wr_start(qp: *mut IbvQpEx) {
    // SAFETY: a live QP, by the contract of `ibv_wr_start`.
    let qp = unsafe { extended(qp) };
    let mut sends = qp.sends.lock();
    sends.batch.start(qp.may_send());
    // `wr_complete` or `wr_abort` unlocks.
    MutexGuard::leak(sends);
}

/// The sending half between `wr_start` and its end.
///
/// # Safety
/// The caller is the thread that called `wr_start` and has not ended it.
#[allow(clippy::mut_from_ref, reason = "the lock that `wr_start` took makes it unique")]
unsafe fn started(qp: &Qp) -> &mut SendSide {
    // SAFETY: the lock is held in the name of the caller.
    unsafe { &mut *qp.sends.data_ptr() }
}

/// Begins a request with what the application put into the structure.
///
/// # Safety
/// As [`started`].
unsafe fn stage(qp: *mut IbvQpEx, rkey: u32, remote_va: u64, imm: Option<u32>) {
    // SAFETY: a live QP, by the contract of `ibv_wr_rdma_write`; the application wrote these fields in this thread.
    let (wr_id, flags, qp) = unsafe { ((*qp).wr_id, (*qp).wr_flags, extended(qp)) };
    // SAFETY: the caller says so.
    let sends = unsafe { started(qp) };
    let wr = SendWr {
        wr_id,
        remote_va,
        rkey: Rkey(rkey),
        signaled: qp.signal_all || flags & SEND_SIGNALED != 0,
        imm,
        solicited: imm.is_some() && flags & SEND_SOLICITED != 0,
        ..SendWr::default()
    };
    sends.batch.push(wr, sends.ring.free());
}

unsafe extern "C" fn wr_rdma_write(qp: *mut IbvQpEx, rkey: u32, remote_va: u64) {
    // SAFETY: between start and end, by contract.
    unsafe { stage(qp, rkey, remote_va, None) };
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut IbvQpEx, rkey: u32, remote_va: u64, imm: u32) {
    // SAFETY: between start and end, by contract.
    unsafe { stage(qp, rkey, remote_va, Some(u32::from_be(imm))) };
}

/// Gives data to the request begun last.
///
/// # Safety
/// As [`started`].
unsafe fn give(qp: *mut IbvQpEx, with: impl FnOnce(&Qp, Option<&Inline>, usize, &mut SendWr) -> Result<(), c_int>) {
    // SAFETY: the caller says so.
    let qp = unsafe { extended(qp) };
    // SAFETY: as above.
    let sends = unsafe { started(qp) };
    let inline = sends.inline.as_ref();
    sends.batch.give(|ahead, wr| with(qp, inline, ahead, wr));
}

unsafe extern "C" fn wr_set_sge(qp: *mut IbvQpEx, lkey: u32, addr: u64, length: u32) {
    // SAFETY: between start and end, by contract.
    unsafe { give(qp, |_, _, _, wr| place_entries(wr, &[IbvSge { addr, length, lkey }])) };
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut IbvQpEx, count: usize, list: *const IbvSge) {
    // SAFETY: between start and end, by contract; the application says how many entries there are.
    unsafe {
        give(qp, |_, _, _, wr| match count {
            0 => Ok(()),
            _ if list.is_null() => Err(libc::EINVAL),
            _ => place_entries(wr, core::slice::from_raw_parts(list, count)),
        });
    };
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut IbvQpEx, addr: *const c_void, length: usize) {
    let buffer = IbvDataBuf { addr: addr.cast_mut(), length };
    // SAFETY: between start and end, by contract.
    unsafe { wr_set_inline_data_list(qp, 1, &raw const buffer) };
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut IbvQpEx, count: usize, list: *const IbvDataBuf) {
    // SAFETY: between start and end, by contract; the application says how many buffers there are.
    unsafe {
        give(qp, |qp, inline, ahead, wr| {
            if list.is_null() && count > 0 {
                return Err(libc::EINVAL);
            }
            let buffers = if count == 0 { &[][..] } else { core::slice::from_raw_parts(list, count) };
            let pieces = buffers.iter().map(|buffer| (buffer.addr.cast_const(), buffer.length));
            place_inline(inline, qp.cap.max_inline_data, ahead, wr, pieces)
        });
    };
}

unsafe extern "C" fn wr_complete(qp: *mut IbvQpEx) -> c_int {
    // SAFETY: a live QP, started by this thread.
    let qp = unsafe { extended(qp) };
    // SAFETY: as above.
    let sends = unsafe { started(qp) };
    let answer = if sends.batch.error == 0 { Ok(()) } else { Err(sends.batch.error) };
    if answer.is_ok() {
        let count = sends.batch.staged.len();
        for wr in sends.batch.staged.drain(..) {
            // There is room for all of them: only the progress thread changes it, and it makes more.
            sends.ring.stage(qp.handle, wr);
        }
        if let Some(inline) = &mut sends.inline {
            inline.accept(count);
        }
    }
    // SAFETY: `wr_start` left the lock taken.
    unsafe { qp.sends.force_unlock() };
    qp.engine.device.posted();
    object::code(answer)
}

unsafe extern "C" fn wr_abort(qp: *mut IbvQpEx) {
    // SAFETY: a live QP, started by this thread; `wr_start` left the lock taken.
    unsafe { extended(qp).sends.force_unlock() };
}

const _: () = assert!(QP_EX_WRITES == 3);

#[cfg(test)]
mod tests {
    use super::*;

    /// What requests in flight carry, as the engine would read it: `(address, what it must be)`.
    type InFlight = std::collections::VecDeque<(u64, u8)>;

    fn bytes_at(inline: &Inline, va: u64) -> [u8; 8] {
        let mut bytes = [0; 8];
        inline.memory.gather(va - inline.memory.addr(), &mut bytes).unwrap();
        bytes
    }

    /// One request of a batch with eight bytes of `tag`.
    fn request(batch: &mut Batch, inline: &Inline, room: usize, tag: u8) {
        batch.push(SendWr::default(), room);
        let data = [tag; 8];
        batch.give(|ahead, wr| inline.fill(ahead, wr, std::iter::once((data.as_ptr().cast(), data.len()))));
    }

    fn untouched(inline: &Inline, in_flight: &InFlight) {
        for &(va, tag) in in_flight {
            assert_eq!(bytes_at(inline, va), [tag; 8]);
        }
    }

    #[test]
    fn requests_that_are_not_accepted_leave_those_in_flight_alone() {
        const RING: usize = 8;
        const MOST: usize = RING + ENGINE_QUEUE + 1;
        let mut inline = Inline::unregistered(8, RING as u32).unwrap();
        let (mut batch, mut in_flight) = (Batch::default(), InFlight::new());
        for tag in 0..=255u8 {
            // One that is accepted, into the last place there is.
            if in_flight.len() == MOST {
                in_flight.pop_front();
            }
            batch.start(Ok(()));
            request(&mut batch, &inline, 1, tag);
            assert_eq!(batch.error, 0);
            in_flight.push_back((batch.staged[0].local_va, tag));
            inline.accept(1);
            // Aborted ones, then a batch that the ring has no room for.
            for _ in 0..3 {
                batch.start(Ok(()));
                request(&mut batch, &inline, RING, 0xEE);
                request(&mut batch, &inline, RING, 0xEE);
            }
            let room = (MOST - in_flight.len()).min(RING);
            batch.start(Ok(()));
            for _ in 0..MOST + 9 {
                request(&mut batch, &inline, room, 0xEE);
            }
            assert_eq!(batch.error, libc::ENOMEM);
            untouched(&inline, &in_flight);
        }
    }

    #[test]
    fn the_pieces_of_inline_data_are_counted_together() {
        let (inline, byte) = (Inline::unregistered(64, 4).unwrap(), [7u8; 64]);
        let place = |inline: Option<&Inline>, most, lens: &[usize]| {
            let mut send = SendWr { len: 9, ..SendWr::default() };
            let pieces = lens.iter().map(|&len| (byte.as_ptr().cast::<c_void>(), len));
            place_inline(inline, most, 0, &mut send, pieces).map(|()| send.len)
        };
        assert_eq!(place(Some(&inline), 64, &[32, 0, 32]), Ok(64));
        assert_eq!(place(Some(&inline), 64, &[32, 33]), Err(libc::EINVAL));
        assert_eq!(place(Some(&inline), 64, &[usize::MAX, 2]), Err(libc::EINVAL));
        // As hardware has it: a queue pair without inline data takes none of it.
        assert_eq!(place(None, 0, &[]), Ok(0));
        assert_eq!(place(None, 0, &[0]), Ok(0));
        assert_eq!(place(None, 0, &[1]), Err(libc::EINVAL));
    }

    #[test]
    fn data_given_twice_takes_one_slot_and_later_errors_change_nothing() {
        let inline = Inline::unregistered(64, 4).unwrap();
        let mut batch = Batch::default();
        batch.start(Ok(()));
        request(&mut batch, &inline, 4, 1);
        let first = batch.staged[0].local_va;
        let again = [2u8; 8];
        batch.give(|ahead, wr| inline.fill(ahead, wr, std::iter::once((again.as_ptr().cast(), 8))));
        assert_eq!((batch.staged[0].local_va, bytes_at(&inline, first)), (first, [2; 8]));
        batch.give(|_, _| Err(libc::EINVAL));
        request(&mut batch, &inline, 4, 3);
        assert_eq!((batch.staged.len(), batch.error), (1, libc::EINVAL));
        assert_eq!(bytes_at(&inline, first), [2; 8]);
    }
}
