//! Completion queues: the plain and the extended way to poll them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};

use mrc_afxdp::device::{self, CompletionRing, CompletionWaker};
use mrc_core::path::EvEntry;
use mrc_core::{Completion, CqHandle, Operation, Status};
use mrc_verbs_shim::host::HostFile;
use parking_lot::{Mutex, MutexGuard};

use crate::abi::{
    IbvCompChannel, IbvContext, IbvCq, IbvCqEx, IbvCqInitAttrEx, IbvWc, WC_EX_STANDARD, WC_RDMA_WRITE,
    WC_RECV_RDMA_WITH_IMM, WC_WITH_IMM,
};
use crate::device::Context;
use crate::engine::{Engine, MAX_CQE, failed};
use crate::events::{Channel, Notify, Unacknowledged};
use crate::object::{self, Kind, Object};

/// A completion queue.
#[repr(C)]
pub(crate) struct Cq {
    abi: UnsafeCell<IbvCqEx>,
    ring: Mutex<CompletionRing>,
    /// Polls in a row that found nothing.
    idle: AtomicU32,
    /// What the extended way reads from, between its start and end; whoever holds the ring's lock owns it.
    current: UnsafeCell<IbvWc>,
    notify: Arc<Notify>,
    pub(crate) handle: CqHandle,
    pub(crate) unacknowledged: Unacknowledged,
    /// QPs that complete here.
    pub(crate) users: AtomicU32,
    pub(crate) engine: Arc<Engine>,
}

// SAFETY: `repr(C)`, the C structure first, which begins as `IbvCq` does; `UnsafeCell` changes no layout.
unsafe impl Object for Cq {
    type Abi = IbvCq;
    const KIND: Kind = Kind::Cq;
}

struct Wanted {
    cqe: u32,
    cq_context: *mut c_void,
    channel: *mut IbvCompChannel,
    vector: u32,
}

fn create(context: *mut IbvContext, wanted: &Wanted) -> Result<*mut IbvCq, c_int> {
    let shared = Arc::clone(&object::get::<Context>(context)?.shared);
    if wanted.cqe == 0 || wanted.cqe as usize > MAX_CQE || wanted.vector != 0 {
        return Err(libc::EINVAL);
    }
    let channel = if wanted.channel.is_null() { None } else { Some(object::get::<Channel>(wanted.channel)?) };
    let engine = shared.engine()?;
    let notify = Arc::new(Notify::new(channel.map(|channel| Arc::clone(&channel.events))));
    let waker: Arc<dyn CompletionWaker> = Arc::clone(&notify) as _;
    let waker = channel.map(|_| waker);
    let ring =
        engine.device.create_cq(wanted.cqe as usize, waker).map_err(|error| failed("completion queue", &error))?;
    let base = IbvCq {
        context,
        channel: wanted.channel,
        cq_context: wanted.cq_context,
        handle: 0,
        cqe: wanted.cqe as c_int,
        mutex: [0; 5],
        cond: [0; 6],
        comp_events_completed: 0,
        async_events_completed: 0,
    };
    let abi = IbvCqEx {
        base,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_zero),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_zero),
        read_sl: Some(read_zero_byte),
        read_dlid_path_bits: Some(read_zero_byte),
        unused: [None; 5],
    };
    let cq = Cq {
        abi: UnsafeCell::new(abi),
        handle: ring.handle(),
        ring: Mutex::new(ring),
        idle: AtomicU32::new(0),
        current: UnsafeCell::default(),
        notify: Arc::clone(&notify),
        unacknowledged: Unacknowledged::default(),
        users: AtomicU32::new(0),
        engine,
    };
    let pointer = object::publish(Box::new(cq));
    notify.set_cq(pointer);
    if let Some(channel) = channel {
        channel.users.fetch_add(1, Ordering::AcqRel);
    }
    Ok(pointer)
}

pub(crate) unsafe extern "C" fn create_cq(
    context: *mut IbvContext,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut IbvCompChannel,
    vector: c_int,
) -> *mut IbvCq {
    let wanted = || {
        let cqe = u32::try_from(cqe).map_err(|_| libc::EINVAL)?;
        let vector = u32::try_from(vector).map_err(|_| libc::EINVAL)?;
        create(context, &Wanted { cqe, cq_context, channel, vector })
    };
    object::pointer(wanted())
}

pub(crate) unsafe extern "C" fn create_cq_ex(context: *mut IbvContext, attr: *const IbvCqInitAttrEx) -> *mut IbvCqEx {
    let wanted = || {
        // SAFETY: null or the application's structure, which never shrank.
        let attr = unsafe { attr.as_ref() }.ok_or(libc::EINVAL)?;
        // Flags and a parent domain are all that the mask knows; the two flags there are ask for less than we do.
        if attr.comp_mask & !3 != 0 {
            return Err(libc::EINVAL);
        }
        let flags = if attr.comp_mask & 1 != 0 { attr.flags } else { 0 };
        if attr.wc_flags & !WC_EX_STANDARD != 0 || flags & !3 != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let (cqe, cq_context, channel, vector) = (attr.cqe, attr.cq_context, attr.channel, attr.comp_vector);
        create(context, &Wanted { cqe, cq_context, channel, vector })
    };
    object::pointer(wanted()).cast()
}

pub(crate) unsafe extern "C" fn destroy_cq(cq: *mut IbvCq) -> c_int {
    let destroy = || {
        let object = object::get::<Cq>(cq)?;
        if object.users.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        // In a child these are the parent's: events that wait for it, and locks that its threads may have held.
        if !object.engine.device.is_forked() {
            object.notify.end();
            object.unacknowledged.wait();
        }
        let cq = object::retire::<Cq>(cq)?;
        if let Ok(channel) = object::get::<Channel>(cq.abi.into_inner().base.channel) {
            channel.users.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(())
    };
    object::code(destroy())
}

pub(crate) unsafe extern "C" fn resize_cq(cq: *mut IbvCq, cqe: c_int) -> c_int {
    let resize = || {
        let object = object::get::<Cq>(cq)?;
        object.engine.in_this_process()?;
        let wanted = usize::try_from(cqe).ok().filter(|wanted| (1..=MAX_CQE).contains(wanted)).ok_or(libc::EINVAL)?;
        let mut ring = object.ring.lock();
        if ring.len() > wanted {
            return Err(libc::EINVAL);
        }
        object.engine.device.enlarge_cq(&mut ring, wanted).map_err(|error| failed("completion queue", &error))?;
        // SAFETY: the application reads this field; verbs order it with this call only.
        unsafe { (*object.abi.get()).base.cqe = cqe };
        Ok(())
    };
    object::code(resize())
}

pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut IbvCq, solicited_only: c_int) -> c_int {
    let arm = || {
        let cq = object::get::<Cq>(cq)?;
        cq.engine.in_this_process()?;
        cq.notify.arm(solicited_only != 0);
        Ok(())
    };
    object::code(arm())
}

fn work_completion(completion: &Completion) -> IbvWc {
    let status = match completion.status {
        Status::Success => 0,
        Status::LocalLength => 1,
        Status::LocalOperation => 2,
        Status::LocalProtection => 4,
        Status::Flushed => 5,
        Status::RemoteInvalidRequest => 9,
        Status::RemoteAccess => 10,
        Status::RemoteOperation => 11,
        Status::RetryExceeded => 12,
        _ => 21, // IBV_WC_GENERAL_ERR
    };
    if !matches!(completion.status, Status::Success | Status::Flushed) {
        log::error!(
            "QP {:#x}, work request {:#x}: {}; first PSN {:#x}, {} retries, {}, last path {}",
            completion.qp.value(),
            completion.wr_id,
            completion.status.text(),
            completion.first_psn.value(),
            completion.retries,
            completion.last_heard(),
            completion
                .last_path
                .map_or_else(|| "none".into(), |(ev, port)| HostFile::path_name(&EvEntry::new(ev, port))),
        );
    }
    let received = completion.operation == Operation::Receive;
    IbvWc {
        wr_id: completion.wr_id,
        status,
        opcode: if received { WC_RECV_RDMA_WITH_IMM } else { WC_RDMA_WRITE },
        vendor_err: u32::from(completion.retries),
        byte_len: completion.byte_len,
        imm_data: completion.imm.unwrap_or(0).to_be(),
        qp_num: completion.qp.value(),
        wc_flags: if completion.imm.is_some() { WC_WITH_IMM } else { 0 },
        ..IbvWc::default()
    }
}

/// The hot path: no look-up of the handle, which the header's inline dereferences anyway.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut IbvCq, entries: c_int, mut out: *mut IbvWc) -> c_int {
    if cq.is_null() || entries < 0 || (out.is_null() && entries > 0) {
        object::set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: a live CQ, by the contract of `ibv_poll_cq`.
    let cq = unsafe { object::direct::<Cq>(cq) };
    let mut take = || {
        cq.ring.lock().drain(entries as usize, |completion| {
            // SAFETY: the application gives room for `entries`, and `drain` calls at most that often; the second time only
            // if the first one took nothing.
            unsafe {
                out.write(work_completion(&completion));
                out = out.add(1);
            }
        })
    };
    let mut taken = take();
    if taken == 0 && cq.nothing_came() {
        taken = take();
    }
    if taken > 0 {
        cq.idle.store(0, Ordering::Relaxed);
    }
    taken as c_int
}

/// Empty polls in a row after which the CPU is offered to others.
const PATIENCE: u32 = 48;

impl Cq {
    /// A program that spins on an empty CQ does the device's work meanwhile. And it may hold the CPU that the peer, or the
    /// network underneath, needs. Whether it did work: the CQ may not be empty any more.
    #[cold]
    fn nothing_came(&self) -> bool {
        // Several threads may poll: an increment lost is an increment late.
        let polls = self.idle.load(Ordering::Relaxed).wrapping_add(1);
        self.idle.store(polls, Ordering::Relaxed);
        let helped = device::waits(polls) && self.engine.device.help();
        if polls >= PATIENCE && polls.is_multiple_of(16) {
            std::thread::yield_now();
        }
        helped
    }
}

/// The CQ behind an extended one.
///
/// # Safety
/// A live CQ.
unsafe fn extended<'a>(cq: *mut IbvCqEx) -> &'a Cq {
    // SAFETY: the caller says so; both structures begin alike.
    unsafe { object::direct::<Cq>(cq.cast()) }
}

/// Takes the next completion while the ring's lock is held.
fn advance(cq: &Cq, ring: &mut CompletionRing) -> c_int {
    let Some(completion) = ring.poll() else { return libc::ENOENT };
    let wc = work_completion(&completion);
    // SAFETY: the lock is held, and the application reads these between start and end only, in the thread that holds it.
    unsafe {
        *cq.current.get() = wc;
        (*cq.abi.get()).status = wc.status as c_int;
        (*cq.abi.get()).wr_id = wc.wr_id;
    }
    0
}

unsafe extern "C" fn start_poll(cq: *mut IbvCqEx, attr: *const u32) -> c_int {
    // SAFETY: null or the application's; its only field is a mask of extensions, of which there is none.
    if unsafe { attr.as_ref() }.is_some_and(|mask| *mask != 0) {
        return libc::EINVAL;
    }
    // SAFETY: a live CQ, by the contract of `ibv_start_poll`.
    let cq = unsafe { extended(cq) };
    let mut ring = cq.ring.lock();
    let mut answer = advance(cq, &mut ring);
    if answer == libc::ENOENT {
        drop(ring);
        let helped = cq.nothing_came();
        ring = cq.ring.lock();
        if helped {
            answer = advance(cq, &mut ring);
        }
    }
    if answer == 0 {
        cq.idle.store(0, Ordering::Relaxed);
        // `end_poll` unlocks.
        MutexGuard::leak(ring);
    }
    answer
}

unsafe extern "C" fn next_poll(cq: *mut IbvCqEx) -> c_int {
    // SAFETY: a live CQ, between start and end.
    let cq = unsafe { extended(cq) };
    // SAFETY: `start_poll` left the lock taken, in the name of this caller.
    advance(cq, unsafe { &mut *cq.ring.data_ptr() })
}

unsafe extern "C" fn end_poll(cq: *mut IbvCqEx) {
    // SAFETY: a live CQ, and the lock that `start_poll` left taken.
    unsafe { extended(cq).ring.force_unlock() };
}

/// What was polled last.
///
/// # Safety
/// A live CQ between start and end.
unsafe fn current(cq: *mut IbvCqEx) -> IbvWc {
    // SAFETY: the caller says so; nobody else writes meanwhile.
    unsafe { *extended(cq).current.get() }
}

macro_rules! readers {
    ($($name:ident: $type:ty = $field:ident;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut IbvCqEx) -> $type {
            // SAFETY: by the contract of the header's inline: between start and end.
            unsafe { current(cq) }.$field as $type
        }
    )*};
}

readers! {
    read_opcode: c_int = opcode;
    read_vendor_err: u32 = vendor_err;
    read_byte_len: u32 = byte_len;
    read_imm_data: u32 = imm_data;
    read_qp_num: u32 = qp_num;
    read_wc_flags: u32 = wc_flags;
}

unsafe extern "C" fn read_zero(_: *mut IbvCqEx) -> u32 {
    0
}

unsafe extern "C" fn read_zero_byte(_: *mut IbvCqEx) -> u8 {
    0
}
