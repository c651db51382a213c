//! Queue pairs: creating, the state machine, querying. RESET to INIT to RTR to RTS as for any RC queue pair; attributes
//! that MRC has no use for (timers of verbs, RNR, reads) are accepted and ignored, since programs always set them.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use core::cell::UnsafeCell;
use core::ffi::c_int;

use mrc_core::{Access, QpHandle, QpInit, QpState, RtrAttr, RtsAttr};
use mrc_verbs_shim::shared_keepalive_ns;
use mrc_wire::{Psn, Qpn};
use parking_lot::Mutex;

use crate::abi::{
    ACCESS_REMOTE_WRITE, IbvContext, IbvPd, IbvQp, IbvQpAttr, IbvQpCap, IbvQpEx, IbvQpInitAttr, IbvQpInitAttrEx,
    QP_ACCESS_FLAGS, QP_ALT_PATH, QP_AV, QP_CUR_STATE, QP_DEST_QPN, QP_EX_WRITES, QP_INIT_ATTR_CREATE_FLAGS,
    QP_INIT_ATTR_PD, QP_INIT_ATTR_SEND_OPS_FLAGS, QP_MAX_DEST_RD_ATOMIC, QP_MAX_RD_ATOMIC, QP_MIN_RNR_TIMER,
    QP_PATH_MIG_STATE, QP_PATH_MTU, QP_PKEY_INDEX, QP_PORT, QP_RETRY_CNT, QP_RNR_RETRY, QP_RQ_PSN, QP_SQ_PSN, QP_STATE,
    QP_TIMEOUT, QPS_ERR, QPS_INIT, QPS_RESET, QPS_RTR, QPS_RTS, QPS_SQD, QPT_RC,
};
use crate::cq::Cq;
use crate::device::Context;
use crate::engine::{Engine, MAX_WR, destroyed, failed};
use crate::events::{AsyncEvent, Unacknowledged, Waitable};
use crate::memory::Pd;
use crate::mrc::Settings;
use crate::object::{self, Kind, Object};
use crate::query::GIDS;
use crate::work::{self, Inline, ReceiveSide, SendSide};

/// Bytes that the work requests of a QP may carry themselves, if it asks for any: programs ask for one message of theirs
/// and then post several in one.
pub(crate) const MAX_INLINE: u32 = 512;
/// Pieces of memory of a work request, to send or to receive.
pub(crate) const MAX_SGE: u32 = 1;
/// Our responder's window and our wish for the peer's, in units of 128 PSNs. Both sides run this library or agree.
pub(crate) const MPR: u8 = 8;
/// Writes with immediate in flight.
pub(crate) const MAX_WIMM: u16 = 256;

/// A queue pair.
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) abi: UnsafeCell<IbvQpEx>,
    /// `wr_flush`, which newer headers have at the end of the structure.
    wr_flush: crate::abi::WrOp,
    pub(crate) handle: QpHandle,
    /// `IBV_QPS_*`; the progress thread sets ERR.
    pub(crate) state: Arc<AtomicU32>,
    pub(crate) sends: Mutex<SendSide>,
    pub(crate) receives: Mutex<ReceiveSide>,
    pub(crate) cap: IbvQpCap,
    pub(crate) signal_all: bool,
    pub(crate) extended: bool,
    /// What `mrc_modify_qp` set.
    pub(crate) mrc: Mutex<crate::mrc::Settings>,
    attr: Mutex<IbvQpAttr>,
    pub(crate) unacknowledged: Unacknowledged,
    events: Arc<Waitable<AsyncEvent>>,
    /// The users of its domain, of whom it is one.
    domain: Arc<AtomicU32>,
    pub(crate) engine: Arc<Engine>,
}

// SAFETY: `repr(C)`, the C structure first, which begins with `IbvQp`; `UnsafeCell` changes no layout.
unsafe impl Object for Qp {
    type Abi = IbvQp;
    const KIND: Kind = Kind::Qp;
}

/// The first of these that is too much: name, value, and how much may be asked for.
fn excess(asked: &IbvQpCap) -> Option<(&'static str, u32, u32)> {
    let limits = [
        ("max_send_wr", asked.max_send_wr, MAX_WR as u32),
        ("max_recv_wr", asked.max_recv_wr, MAX_WR as u32),
        ("max_send_sge", asked.max_send_sge, MAX_SGE),
        ("max_recv_sge", asked.max_recv_sge, MAX_SGE),
        ("max_inline_data", asked.max_inline_data, MAX_INLINE),
    ];
    limits.into_iter().find(|(_, wanted, most)| wanted > most)
}

/// Checks and rounds what is asked for.
fn capabilities(asked: &IbvQpCap) -> Result<IbvQpCap, c_int> {
    if let Some((name, wanted, most)) = excess(asked) {
        // Programs find out by trying how much fits inline: nobody needs to know more than once.
        if name != "max_inline_data" || object::first(name) {
            log::error!("queue pair: {name} {wanted} is too much: at most {most}");
        }
        return Err(libc::EINVAL);
    }
    let max_inline_data = if asked.max_inline_data > 0 { MAX_INLINE } else { 0 };
    Ok(IbvQpCap { max_send_wr: asked.max_send_wr.max(1), max_send_sge: MAX_SGE, max_inline_data, ..*asked })
}

pub(crate) fn create(pd: *mut IbvPd, attr: &IbvQpInitAttr, extended: bool) -> Result<(*mut IbvQp, IbvQpCap), c_int> {
    let domain = object::get::<Pd>(pd)?;
    let (send_cq, recv_cq) = (object::get::<Cq>(attr.send_cq)?, object::get::<Cq>(attr.recv_cq)?);
    if attr.qp_type != QPT_RC || !attr.srq.is_null() {
        return Err(object::unsupported("queue pairs other than RC, shared receive queues"));
    }
    let cap = capabilities(&attr.cap)?;
    let (engine, device) = (Arc::clone(&domain.engine), &domain.engine.device);
    let wrong = |error| failed("queue pair", &error);
    let init = QpInit { pd: domain.number, send_cq: send_cq.handle, recv_cq: recv_cq.handle };
    let handle = device.create_qp_in_reset(&init).map_err(wrong)?;
    let sides = || -> Result<_, c_int> {
        let writes = device.create_work_queue(send_cq.handle, cap.max_send_wr as usize).map_err(wrong)?;
        let receives = device.create_work_queue(recv_cq.handle, cap.max_recv_wr.max(1) as usize).map_err(wrong)?;
        let inline = match cap.max_inline_data {
            0 => None,
            bytes => Some(Inline::new(&engine, domain.number, bytes, cap.max_send_wr)?),
        };
        Ok((SendSide::new(writes, inline), ReceiveSide::new(receives)))
    };
    let (sends, receives) = sides().inspect_err(|_| drop(device.destroy_qp(handle)))?;
    // SAFETY: the domain lives.
    let context = unsafe { (*pd).context };
    let base = IbvQp {
        context,
        qp_context: attr.qp_context,
        pd,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: core::ptr::null_mut(),
        handle: handle.qpn().value(),
        qp_num: handle.qpn().value(),
        state: QPS_RESET,
        qp_type: QPT_RC,
        mutex: [0; 5],
        cond: [0; 6],
        events_completed: 0,
    };
    let state = Arc::new(AtomicU32::new(QPS_RESET));
    let events = Arc::clone(&domain.context.events);
    let qp = Qp {
        abi: UnsafeCell::new(work::extended_operations(base)),
        wr_flush: Some(work::not_an_operation),
        handle,
        state: Arc::clone(&state),
        sends: Mutex::new(sends),
        receives: Mutex::new(receives),
        cap,
        signal_all: attr.sq_sig_all != 0,
        extended,
        mrc: Mutex::default(),
        attr: Mutex::default(),
        unacknowledged: Unacknowledged::default(),
        events: Arc::clone(&events),
        domain: Arc::clone(&domain.users),
        engine: Arc::clone(&engine),
    };
    debug_assert!(qp.wr_flush.is_some());
    for users in [&*domain.users, &send_cq.users, &recv_cq.users] {
        users.fetch_add(1, Ordering::AcqRel);
    }
    let pointer = object::publish(Box::new(qp));
    engine.hub.add_qp(handle.qpn().value(), pointer, &events, &state);
    Ok((pointer, cap))
}

pub(crate) unsafe extern "C" fn create_qp(pd: *mut IbvPd, attr: *mut IbvQpInitAttr) -> *mut IbvQp {
    let make = || {
        // SAFETY: null or the application's structure.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        let (qp, cap) = create(pd, attr, false)?;
        attr.cap = cap;
        Ok(qp)
    };
    object::pointer(make())
}

pub(crate) unsafe extern "C" fn create_qp_ex(context: *mut IbvContext, attr: *mut IbvQpInitAttrEx) -> *mut IbvQp {
    let make = || {
        object::get::<Context>(context)?;
        if attr.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the application's structure; fields behind the mask are read only when it says that they are there.
        let (base, mask) = unsafe {
            let (cap, qp_type, sq_sig_all) = ((*attr).cap, (*attr).qp_type, (*attr).sq_sig_all);
            let (qp_context, send_cq, recv_cq, srq) =
                ((*attr).qp_context, (*attr).send_cq, (*attr).recv_cq, (*attr).srq);
            (IbvQpInitAttr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }, (*attr).comp_mask)
        };
        if mask & QP_INIT_ATTR_PD == 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: the mask says that the field is there.
        let flagged = mask & QP_INIT_ATTR_CREATE_FLAGS != 0 && unsafe { (*attr).create_flags } != 0;
        if flagged || mask & !(QP_INIT_ATTR_PD | QP_INIT_ATTR_CREATE_FLAGS | QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let extended = mask & QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
        // SAFETY: the mask says that the field is there.
        if extended && unsafe { (*attr).send_ops_flags } & !QP_EX_WRITES != 0 {
            return Err(object::unsupported("send operations other than writes"));
        }
        // SAFETY: the mask says so of this one too.
        let (qp, cap) = create(unsafe { (*attr).pd }, &base, extended)?;
        // SAFETY: not null; the application learns what it was granted, as from `ibv_create_qp`.
        unsafe { (*attr).cap = cap };
        Ok(qp)
    };
    object::pointer(make())
}

pub(crate) unsafe extern "C" fn qp_to_qp_ex(qp: *mut IbvQp) -> *mut IbvQpEx {
    match object::get::<Qp>(qp) {
        Ok(object) if object.extended => qp.cast(),
        _ => core::ptr::null_mut(),
    }
}

pub(crate) unsafe extern "C" fn destroy_qp(qp: *mut IbvQp) -> c_int {
    let destroy = || {
        let object = object::get::<Qp>(qp)?;
        let qpn = object.handle.qpn().value();
        // In a child these are the parent's: events that wait for it, and locks that its threads may have held.
        let forked = object.engine.device.is_forked();
        if !forked {
            object.engine.hub.remove_qp(qpn);
        }
        let result = object.engine.device.destroy_qp(object.handle);
        if !forked {
            object.events.withdraw(|event| event.element == qp as usize);
            object.unacknowledged.wait();
        }
        let object = object::retire::<Qp>(qp)?;
        let base = object.abi.into_inner().qp_base;
        drop(object.sends);
        for cq in [base.send_cq, base.recv_cq] {
            if let Ok(cq) = object::get::<Cq>(cq) {
                cq.users.fetch_sub(1, Ordering::AcqRel);
            }
        }
        object.domain.fetch_sub(1, Ordering::AcqRel);
        destroyed("queue pair", result)
    };
    object::code(destroy())
}

/// What each transition cannot do without.
fn required(to: u32) -> u32 {
    match to {
        QPS_INIT => QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS,
        QPS_RTR => QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN,
        QPS_RTS => QP_SQ_PSN,
        _ => 0,
    }
}

/// What a connection is made of, which a step from `from` to `to` cannot change any more.
fn settled(from: u32, to: u32) -> u32 {
    let peer = QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN;
    match (from, to) {
        (QPS_RTR, QPS_RTR | QPS_RTS) => peer,
        (QPS_RTS, QPS_RTR | QPS_RTS) => peer | QP_SQ_PSN,
        _ => 0,
    }
}

/// What a step may name besides: the table of the kernel's `ib_modify_qp_is_ok` for RC.
fn optional(from: u32, to: u32) -> u32 {
    let rights = QP_ACCESS_FLAGS | QP_PKEY_INDEX;
    match (from, to) {
        (QPS_INIT, QPS_INIT) => rights | QP_PORT,
        (QPS_INIT, QPS_RTR) => rights | QP_ALT_PATH | QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER,
        (QPS_RTR | QPS_RTS, QPS_RTS) => {
            let connect = QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_RD_ATOMIC;
            let late = QP_ACCESS_FLAGS | QP_ALT_PATH | QP_PATH_MIG_STATE | QP_MIN_RNR_TIMER;
            if from == QPS_RTR { late | connect } else { late }
        }
        _ => 0,
    }
}

/// Why a step from `from` to `to` with these attributes cannot be.
fn refused(from: u32, to: u32, mask: u32) -> Option<String> {
    let required = if from == to { 0 } else { required(to) };
    let (missing, late) = (required & !mask, mask & settled(from, to));
    let extra = mask & !(QP_STATE | QP_CUR_STATE | required | optional(from, to));
    let step = match to {
        QPS_RESET | QPS_ERR => true,
        _ if from == to => from != QPS_RTR,
        _ => to <= QPS_RTS && from.wrapping_add(1) == to,
    };
    if !step {
        return Some(format!("from {} to {} is no transition", state_name(from), state_name(to)));
    }
    if missing != 0 {
        return Some(format!("from {} to {} without {}", state_name(from), state_name(to), names(missing)));
    }
    if late != 0 {
        return Some(format!("in {} it is too late for {}", state_name(from), names(late)));
    }
    let why = || format!("from {} to {} takes no {}", state_name(from), state_name(to), names(extra));
    (extra != 0).then(why)
}

fn state_name(state: u32) -> &'static str {
    const NAMES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];
    NAMES.get(state as usize).copied().unwrap_or("a state that is none")
}

/// The attributes of a mask, by the names that applications give them.
fn names(mask: u32) -> String {
    const NAMES: [(u32, &str); 16] = [
        (QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS"),
        (QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX"),
        (QP_PORT, "IBV_QP_PORT"),
        (QP_AV, "IBV_QP_AV"),
        (QP_PATH_MTU, "IBV_QP_PATH_MTU"),
        (QP_RQ_PSN, "IBV_QP_RQ_PSN"),
        (QP_SQ_PSN, "IBV_QP_SQ_PSN"),
        (QP_DEST_QPN, "IBV_QP_DEST_QPN"),
        (QP_TIMEOUT, "IBV_QP_TIMEOUT"),
        (QP_RETRY_CNT, "IBV_QP_RETRY_CNT"),
        (QP_RNR_RETRY, "IBV_QP_RNR_RETRY"),
        (QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER"),
        (QP_MAX_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC"),
        (QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC"),
        (QP_ALT_PATH, "IBV_QP_ALT_PATH"),
        (QP_PATH_MIG_STATE, "IBV_QP_PATH_MIG_STATE"),
    ];
    NAMES.iter().filter(|(bit, _)| mask & bit != 0).map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// Attributes that may be named in a modification; what MRC does without is ignored.
const KNOWN: u32 = QP_STATE
    | QP_CUR_STATE
    | QP_ACCESS_FLAGS
    | QP_PKEY_INDEX
    | QP_PORT
    | QP_AV
    | QP_PATH_MTU
    | QP_TIMEOUT
    | QP_RETRY_CNT
    | QP_RNR_RETRY
    | QP_RQ_PSN
    | QP_MAX_RD_ATOMIC
    | QP_ALT_PATH
    | QP_MIN_RNR_TIMER
    | QP_SQ_PSN
    | QP_MAX_DEST_RD_ATOMIC
    | QP_PATH_MIG_STATE
    | QP_DEST_QPN;

pub(crate) unsafe extern "C" fn modify_qp(qp: *mut IbvQp, attr: *mut IbvQpAttr, mask: c_int) -> c_int {
    let modify = || {
        let object = object::get::<Qp>(qp)?;
        object.engine.in_this_process()?;
        // SAFETY: null or the application's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(libc::EINVAL)?;
        let mask = mask as u32;
        let from = object.state.load(Ordering::Acquire);
        let to = if mask & QP_STATE != 0 { attr.qp_state } else { from };
        if mask & !KNOWN != 0 || (mask & QP_CUR_STATE != 0 && attr.cur_qp_state != from) {
            return Err(libc::EINVAL);
        }
        if mask & QP_PORT != 0 && attr.port_num != 1 || mask & QP_PKEY_INDEX != 0 && attr.pkey_index != 0 {
            return Err(libc::EINVAL);
        }
        if mask & QP_AV != 0 && attr.ah_attr.is_global != 0 && u32::from(attr.ah_attr.grh.sgid_index) >= GIDS {
            return Err(libc::EINVAL);
        }
        if (from, to) == (QPS_RTS, QPS_SQD) {
            return Err(object::unsupported("SQD, the state that drains a send queue"));
        }
        if let Some(why) = refused(from, to, mask) {
            log::error!("QP {:#x}: {why}", object.number());
            return Err(libc::EINVAL);
        }
        let mut known = object.attr.lock();
        let mut next = *known;
        merge(&mut next, attr, mask);
        Settings::attempt(&object.mrc, || {
            if mask & QP_TIMEOUT != 0 {
                object.mrc.lock().verbs_timeout = Some(attr.timeout);
            }
            if mask & QP_RETRY_CNT != 0 {
                object.mrc.lock().verbs_retries = Some(attr.retry_cnt);
            }
            if mask & QP_ACCESS_FLAGS != 0 {
                object.set_access(next.qp_access_flags & ACCESS_REMOTE_WRITE != 0)?;
            }
            object.transit(from, to, &next).inspect_err(|_| {
                // Where nobody has named a right yet, the QP has it.
                if mask & QP_ACCESS_FLAGS != 0 {
                    let _ = object.set_access(from == QPS_RESET || known.qp_access_flags & ACCESS_REMOTE_WRITE != 0);
                }
            })
        })?;
        match to {
            // As created: what the next connection does not name has its default again.
            QPS_RESET => {
                *object.mrc.lock() = Settings::default();
                next = IbvQpAttr::default();
            }
            QPS_INIT => object.mrc.lock().bind(&object.engine.profiles.lock()),
            _ => {}
        }
        *known = next;
        // An error that the progress thread saw meanwhile stays.
        if to == QPS_RESET || to == QPS_ERR {
            object.state.store(to, Ordering::Release);
        } else {
            let _ = object.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        }
        // SAFETY: the application reads this field; verbs order it with this call only.
        unsafe { (*object.abi.get()).qp_base.state = to };
        Ok(())
    };
    object::code(modify())
}

/// Takes over the attributes that the mask names.
fn merge(known: &mut IbvQpAttr, attr: &IbvQpAttr, mask: u32) {
    macro_rules! take {
        ($($bit:ident: $($field:ident),+;)*) => {$(
            if mask & $bit != 0 {
                $(known.$field = attr.$field;)+
            }
        )*};
    }
    take! {
        QP_ACCESS_FLAGS: qp_access_flags;
        QP_PKEY_INDEX: pkey_index;
        QP_PORT: port_num;
        QP_AV: ah_attr;
        QP_PATH_MTU: path_mtu;
        QP_TIMEOUT: timeout;
        QP_RETRY_CNT: retry_cnt;
        QP_RNR_RETRY: rnr_retry;
        QP_MAX_RD_ATOMIC: max_rd_atomic;
        QP_MIN_RNR_TIMER: min_rnr_timer;
        QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
    }
    // Of these the wire has 24 bits, and so has a query.
    macro_rules! take_24 {
        ($($bit:ident: $field:ident;)*) => {$(
            if mask & $bit != 0 {
                known.$field = attr.$field & 0xFF_FFFF;
            }
        )*};
    }
    take_24! {
        QP_RQ_PSN: rq_psn;
        QP_SQ_PSN: sq_psn;
        QP_DEST_QPN: dest_qp_num;
    }
}

impl Qp {
    pub(crate) fn number(&self) -> u32 {
        self.handle.qpn().value()
    }

    /// Lets the peer write, or not.
    fn set_access(&self, remote_write: bool) -> Result<(), c_int> {
        let set = self.engine.device.set_qp_access(self.handle, Access { remote_write });
        set.map_err(|error| failed("queue pair", &error))
    }

    /// Changes the responder's window. Before RTR it is taken with it; then only where both sides agreed on that.
    pub(crate) fn set_mpr(&self, mpr: u8) -> Result<(), c_int> {
        if matches!(self.state.load(Ordering::Acquire), QPS_RESET | QPS_INIT) {
            return Ok(());
        }
        let handle = self.handle;
        let done = self.engine.control(move |_, engine, _| engine.set_mpr(handle, mpr))?;
        done.map_err(|error| failed("queue pair", &error.into()))
    }

    fn transit(&self, from: u32, to: u32, attr: &IbvQpAttr) -> Result<(), c_int> {
        let device = &self.engine.device;
        let done = match (from, to) {
            (from, to) if from == to && from != QPS_RTR => Ok(()),
            (_, QPS_RESET) => device.modify_to_reset(self.handle),
            (_, QPS_ERR) => device.modify_to_error(self.handle),
            (QPS_RESET, QPS_INIT) => device.modify_to_init(self.handle),
            (QPS_INIT, QPS_RTR) => device.modify_to_rtr(self.handle, self.receive_attributes(attr)?),
            (QPS_RTR, QPS_RTS) => device.modify_to_rts(self.handle, self.send_attributes(attr)?),
            _ => return Err(libc::EINVAL),
        };
        done.map_err(|error| failed("queue pair", &error))
    }

    fn receive_attributes(&self, attr: &IbvQpAttr) -> Result<RtrAttr, c_int> {
        if attr.ah_attr.is_global == 0 {
            log::error!(
                "QP {:#x}: the address vector has no GID (is_global = 0); with perftest give -x 3",
                self.number()
            );
            return Err(libc::EINVAL);
        }
        let largest = self.engine.host.path_mtu().map_err(|_| libc::EINVAL)?;
        let path_mtu = match attr.path_mtu {
            exponent @ 1..=5 => 128u16 << exponent,
            _ => return Err(libc::EINVAL),
        };
        if path_mtu > largest {
            log::error!("QP {:#x}: path MTU {path_mtu}, but the interfaces carry {largest}", self.number());
            return Err(libc::EINVAL);
        }
        let gid = Ipv6Addr::from(attr.ah_attr.grh.dgid);
        if let Some(peer) = self.engine.host.peer_by_gid(gid) {
            self.engine.hub.name_peer(self.number(), &peer.name);
        }
        let mrc = self.mrc.lock();
        let bound = self.engine.profiles.lock().online_ev_profile(mrc.ev)?;
        let (peer, profile) = match bound {
            None => self.engine.peer_and_paths(gid)?,
            Some((profile, routed)) => (self.engine.peer(gid, routed)?, profile),
        };
        let dest_qp = Qpn::new(attr.dest_qp_num);
        let mut rtr = RtrAttr::software(peer, dest_qp, Psn::new(attr.rq_psn), profile);
        (rtr.path_mtu, rtr.mpr_dest, rtr.max_wimm_dest) = (path_mtu, mrc.mpr_dest, mrc.max_wimm_dest);
        rtr.dynamic_mpr = mrc.dynamic_mpr();
        self.engine.host.protocol().receive(&mut rtr);
        Ok(rtr)
    }

    fn send_attributes(&self, attr: &IbvQpAttr) -> Result<RtsAttr, c_int> {
        // Asked of the device before anything is locked.
        let keepalive_ns = shared_keepalive_ns(self.engine.host.keepalive_ns(), self.engine.sending_qps() + 1);
        let mrc = self.mrc.lock();
        let protocol = self.engine.host.protocol();
        let mut rts = protocol.send(Psn::new(attr.sq_psn));
        (rts.mpr, rts.max_wimm) = (mrc.mpr, mrc.max_wimm);
        rts.retry = mrc.retry(self.engine.host.retry());
        if !protocol.knobs.contains_key("keepalive") {
            rts.keepalive_ns = keepalive_ns;
        }
        (rts.dynamic_mpr, rts.trimming) = (mrc.dynamic_mpr(), mrc.trimming());
        rts.cc = self.engine.profiles.lock().online_cc_profile(mrc.cc)?;
        Ok(rts)
    }
}

pub(crate) unsafe extern "C" fn query_qp(
    qp: *mut IbvQp,
    attr: *mut IbvQpAttr,
    mask: c_int,
    init: *mut IbvQpInitAttr,
) -> c_int {
    let query = || {
        let object = object::get::<Qp>(qp)?;
        object.engine.in_this_process()?;
        if attr.is_null() {
            return Err(libc::EINVAL);
        }
        let mut known = *object.attr.lock();
        let info = object.engine.device.qp_info(object.handle).map_err(|error| failed("queue pair", &error))?;
        known.qp_state = match info.map(|info| info.state) {
            Some(QpState::Reset) => QPS_RESET,
            Some(QpState::Init) => QPS_INIT,
            Some(QpState::Rtr) => QPS_RTR,
            Some(QpState::Rts) => QPS_RTS,
            _ => QPS_ERR,
        };
        known.cur_qp_state = known.qp_state;
        known.cap = object.cap;
        // SAFETY: not null; the application gives room for both structures, the second if it wants it. It reads the state in
        // the queue pair, which verbs order with this call.
        unsafe {
            if mask as u32 & QP_STATE != 0 {
                (*object.abi.get()).qp_base.state = known.qp_state;
            }
            attr.write(known);
            if !init.is_null() {
                let base = &(*object.abi.get()).qp_base;
                init.write(IbvQpInitAttr {
                    qp_context: base.qp_context,
                    send_cq: base.send_cq,
                    recv_cq: base.recv_cq,
                    srq: base.srq,
                    cap: object.cap,
                    qp_type: QPT_RC,
                    sq_sig_all: c_int::from(object.signal_all),
                });
            }
        }
        Ok(())
    };
    object::code(query())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_refused_and_too_little_is_rounded() {
        let cap = capabilities(&IbvQpCap::default()).unwrap();
        assert_eq!((cap.max_send_wr, cap.max_send_sge), (1, 1));
        let base =
            IbvQpCap { max_send_wr: 128, max_recv_wr: 512, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
        assert_eq!(capabilities(&base).unwrap().max_inline_data, 0);
        assert_eq!(capabilities(&IbvQpCap { max_inline_data: 64, ..base }).unwrap().max_inline_data, 512);
        for bad in [
            IbvQpCap { max_send_sge: 2, ..base },
            IbvQpCap { max_recv_sge: 2, ..base },
            IbvQpCap { max_send_wr: 1 << 20, ..base },
            IbvQpCap { max_inline_data: MAX_INLINE + 1, ..base },
        ] {
            assert_eq!(capabilities(&bad).err(), Some(libc::EINVAL));
            assert!(excess(&bad).is_some_and(|(_, wanted, most)| wanted > most && most > 0));
        }
    }

    #[test]
    fn a_refused_step_says_what_it_lacks_by_name() {
        let why = |from, to, mask| refused(from, to, mask).unwrap();
        assert_eq!(why(QPS_RESET, QPS_RTS, QP_STATE), "from RESET to RTS is no transition");
        assert_eq!(why(QPS_RTR, QPS_RTR, 0), "from RTR to RTR is no transition");
        assert_eq!(why(QPS_RTR, QPS_RTS, QP_STATE), "from RTR to RTS without IBV_QP_SQ_PSN");
        assert_eq!(
            why(QPS_INIT, QPS_RTR, QP_AV | QP_RQ_PSN),
            "from INIT to RTR without IBV_QP_PATH_MTU, IBV_QP_DEST_QPN"
        );
        assert_eq!(why(QPS_RTS, QPS_RTS, QP_SQ_PSN), "in RTS it is too late for IBV_QP_SQ_PSN");
        assert_eq!(why(QPS_RTS, 9, 0), "from RTS to a state that is none is no transition");
        for (from, to) in [(QPS_RTS, QPS_RESET), (QPS_RESET, QPS_ERR), (QPS_ERR, QPS_RESET), (QPS_RTS, QPS_RTS)] {
            assert_eq!(refused(from, to, QP_STATE), None);
        }
    }

    /// What the kernel's table refuses for RC; it was taken for the attribute's own step, or kept without effect.
    #[test]
    fn a_step_takes_no_attributes_of_another() {
        const RIGHTS: u32 = QP_ACCESS_FLAGS | QP_PKEY_INDEX;
        const INIT: u32 = RIGHTS | QP_PORT;
        const RTR: u32 = QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN;
        const RTR_TAKES: u32 = RTR | RIGHTS | QP_ALT_PATH | QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER;
        const RTS_TAKES: u32 = QP_ACCESS_FLAGS | QP_ALT_PATH | QP_PATH_MIG_STATE | QP_MIN_RNR_TIMER;
        const CONNECT: u32 = QP_SQ_PSN | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_RD_ATOMIC;
        for (from, to, takes) in [
            (QPS_RESET, QPS_INIT, INIT),
            (QPS_INIT, QPS_INIT, INIT),
            (QPS_INIT, QPS_RTR, RTR_TAKES),
            (QPS_RTR, QPS_RTS, RTS_TAKES | CONNECT),
            (QPS_RTS, QPS_RTS, RTS_TAKES),
            (QPS_RTS, QPS_ERR, 0),
            (QPS_ERR, QPS_RESET, 0),
        ] {
            let needs = if from == to { 0 } else { required(to) };
            let attributes = (0..32).map(|bit| KNOWN & 1 << bit).filter(|&bit| bit != 0);
            let taken = attributes.filter(|bit| refused(from, to, needs | bit).is_none());
            assert_eq!(taken.sum::<u32>(), takes | QP_STATE | QP_CUR_STATE, "{from} {to}");
        }
        let why = refused(QPS_RESET, QPS_INIT, INIT | QP_TIMEOUT).unwrap();
        assert_eq!(why, "from RESET to INIT takes no IBV_QP_TIMEOUT");
    }

    #[test]
    fn a_connection_is_settled_by_its_transitions() {
        const PEER: u32 = QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN;
        for (from, to, want) in [
            (QPS_RESET, QPS_INIT, 0),
            (QPS_INIT, QPS_INIT, 0),
            (QPS_INIT, QPS_RTR, 0),
            (QPS_RTR, QPS_RTS, PEER),
            (QPS_RTS, QPS_RTS, PEER | QP_SQ_PSN),
            (QPS_RTS, QPS_RESET, 0),
            (QPS_RTS, QPS_ERR, 0),
            (QPS_ERR, QPS_RESET, 0),
        ] {
            assert_eq!(settled(from, to), want, "{from} {to}");
            assert!(from == to || settled(from, to) & required(to) == 0, "{from} {to}: what it cannot do without");
        }
    }

    #[test]
    fn only_named_attributes_are_taken() {
        let mut known = IbvQpAttr::default();
        let attr = IbvQpAttr { rq_psn: 7, sq_psn: 8, dest_qp_num: 9, ..IbvQpAttr::default() };
        merge(&mut known, &attr, QP_RQ_PSN | QP_DEST_QPN);
        assert_eq!((known.rq_psn, known.sq_psn, known.dest_qp_num), (7, 0, 9));
        let long = IbvQpAttr { rq_psn: 0x100_0007, sq_psn: u32::MAX, dest_qp_num: 0x500_0009, ..IbvQpAttr::default() };
        merge(&mut known, &long, QP_RQ_PSN | QP_SQ_PSN | QP_DEST_QPN);
        assert_eq!((known.rq_psn, known.sq_psn, known.dest_qp_num), (7, 0xFF_FFFF, 9));
    }
}
