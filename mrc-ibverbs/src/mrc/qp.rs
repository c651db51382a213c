//! Queue pairs as `mrc.h` has them: those of verbs, and the attributes of MRC beside.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use core::ffi::c_int;

use mrc_core::{RetryConfig, Trimming};
use parking_lot::Mutex;

use super::MrcContext;
use super::abi::{
    MrcQpAttr, MrcQpInitAttr, PROTOCOL_VERSION_1, QP_CAP, QP_CAP_DYNAMIC_MPR, QP_CAP_SVC_TIME_DEST_UNSUPPORTED,
    QP_CAP_TRIM_NACK_DEST_UNSUPPORTED, QP_CC_PROFILE_ID, QP_EV_PROFILE_ID, QP_HINT, QP_MAX_WIMM, QP_MAX_WIMM_DEST,
    QP_MPR, QP_MPR_DEST, QP_RETRY_CNT, QP_TIMEOUT, VENDOR_CFG, VendorCfg,
};
use super::hint::Hint;
use super::profile::{Bindable, Registry};
use crate::abi::{
    self, IbvQp, IbvQpAttr, IbvQpInitAttr, IbvRecvWr, IbvSendWr, QP_ALT_PATH, QP_EX_WRITES, QP_MAX_DEST_RD_ATOMIC,
    QP_MAX_RD_ATOMIC, QP_MIN_RNR_TIMER, QP_PATH_MIG_STATE, QP_PKEY_INDEX, QP_PORT, QP_RNR_RETRY, QP_STATE, QPS_INIT,
    QPS_RTR, QPS_RTS, QPT_RC,
};
use crate::object;
use crate::qp::{self, MAX_WIMM, MPR, Qp};
use crate::query::GIDS;
use crate::work;

/// What `mrc_modify_qp` set; the defaults are those of verbs.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) mpr: u8,
    pub(crate) mpr_dest: u8,
    pub(crate) max_wimm: u16,
    pub(crate) max_wimm_dest: u16,
    /// `None`: the host's.
    timeout: Option<u8>,
    /// Linear and exponential; `None`: the host's.
    retries: Option<(u8, u8)>,
    /// `timeout` and `retry_cnt` of verbs, as far as the application named them.
    pub(crate) verbs_timeout: Option<u8>,
    pub(crate) verbs_retries: Option<u8>,
    /// Numbers of profiles; looked up when the QP begins to receive and to send.
    pub(crate) ev: u64,
    pub(crate) cc: u64,
    /// Keep them ONLINE from INIT on, and until RESET.
    bound: [Option<Arc<()>>; 2],
    hint: Option<(usize, Arc<()>)>,
    /// `None`: not negotiated.
    cap: Option<u32>,
    vendor_cfg: VendorCfg,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mpr: MPR,
            mpr_dest: MPR,
            max_wimm: MAX_WIMM,
            max_wimm_dest: MAX_WIMM,
            timeout: None,
            retries: None,
            verbs_timeout: None,
            verbs_retries: None,
            ev: 0,
            cc: 0,
            bound: [None, None],
            hint: None,
            cap: None,
            vendor_cfg: [0; 128],
        }
    }
}

impl Settings {
    /// The host's timer and retries with what the application set. MRC's own attributes hold as they are; those of verbs
    /// are a lower bound to the time that a silent peer is waited for: `retry_cnt` + 1 times 4.096 us * 2^`timeout`, and for
    /// ever with a `timeout` of 0.
    pub(crate) fn retry(&self, host: RetryConfig) -> RetryConfig {
        let (linear, exponential) = self.retries.unwrap_or((host.linear, host.exponential));
        let retry = RetryConfig { timeout: self.timeout.unwrap_or(host.timeout), linear, exponential };
        match self.verbs_timeout {
            Some(timeout) if self.timeout.is_none() && self.retries.is_none() => {
                let tries = u64::from(self.verbs_retries.unwrap_or(0)) + 1;
                retry.at_least(if timeout == 0 { u64::MAX } else { tries * (4_096 << timeout.min(31)) })
            }
            _ => retry,
        }
    }

    /// Whether both sides agreed that the responder's window may change.
    pub(crate) fn dynamic_mpr(&self) -> bool {
        self.cap.is_some_and(|cap| cap & QP_CAP_DYNAMIC_MPR != 0)
    }

    /// Packets may be trimmed where the application knows that the peer says so. Without a word of it they are not: the
    /// peer may be any program of verbs.
    pub(crate) fn trimming(&self) -> Trimming {
        let answered = self.cap.is_some_and(|cap| cap & QP_CAP_TRIM_NACK_DEST_UNSUPPORTED == 0);
        if answered { Trimming::On } else { Trimming::Off }
    }
}

const KNOWN: u32 = QP_MAX_WIMM
    | QP_MAX_WIMM_DEST
    | QP_MPR
    | QP_MPR_DEST
    | QP_TIMEOUT
    | QP_EV_PROFILE_ID
    | QP_CC_PROFILE_ID
    | QP_HINT
    | QP_RETRY_CNT
    | QP_CAP
    | VENDOR_CFG;

/// Attributes of verbs without a meaning here, which programs name all the same.
const IGNORED: u32 = QP_PORT
    | abi::QP_TIMEOUT
    | abi::QP_RETRY_CNT
    | QP_RNR_RETRY
    | QP_MIN_RNR_TIMER
    | QP_MAX_RD_ATOMIC
    | QP_MAX_DEST_RD_ATOMIC;

/// Whether the values that the mask names can be.
fn check(attr: &MrcQpAttr, mask: u32) -> Result<(), c_int> {
    let window = |mpr: u8| (1..=MPR).contains(&mpr);
    let named = |bit: u32| mask & bit != 0;
    let wrong = mask & !KNOWN != 0
        || named(QP_MPR) && !window(attr.mpr)
        || named(QP_MPR_DEST) && !window(attr.mpr_dest)
        || named(QP_MAX_WIMM) && attr.max_wimm > MAX_WIMM
        || named(QP_MAX_WIMM_DEST) && attr.max_wimm_dest > MAX_WIMM
        || named(QP_TIMEOUT) && attr.timeout > 24
        || named(QP_RETRY_CNT) && (attr.linear_cnt > 7 || attr.exp_cnt > 25);
    if wrong {
        return Err(libc::EINVAL);
    }
    if named(QP_CAP) {
        let known = QP_CAP_TRIM_NACK_DEST_UNSUPPORTED | QP_CAP_DYNAMIC_MPR | QP_CAP_SVC_TIME_DEST_UNSUPPORTED;
        if attr.cap & !known != 0 {
            return Err(libc::EINVAL);
        }
    }
    Ok(())
}

/// Of the attributes that the mask names, those whose values differ from the QP's although a step from `from` to `to` comes too
/// late for them. The window of the responder (`MPR_DEST`) may always change; hint and vendor's words have no such time.
fn too_late(now: &MrcQpAttr, attr: &MrcQpAttr, mask: u32, from: u32, to: u32) -> u32 {
    if !matches!((from, to), (QPS_RTR | QPS_RTS, QPS_RTR | QPS_RTS)) {
        return 0;
    }
    let cap = now.cap ^ attr.cap;
    let changes = [
        (QPS_RTR, QP_MAX_WIMM_DEST, now.max_wimm_dest != attr.max_wimm_dest),
        (QPS_RTR, QP_EV_PROFILE_ID, now.ev_profile_id != attr.ev_profile_id),
        (QPS_RTR, QP_CAP, cap & QP_CAP_DYNAMIC_MPR != 0),
        (QPS_RTS, QP_CAP, cap != 0),
        (QPS_RTS, QP_MPR, now.mpr != attr.mpr),
        (QPS_RTS, QP_MAX_WIMM, now.max_wimm != attr.max_wimm),
        (QPS_RTS, QP_TIMEOUT, now.timeout != attr.timeout),
        (QPS_RTS, QP_RETRY_CNT, (now.linear_cnt, now.exp_cnt) != (attr.linear_cnt, attr.exp_cnt)),
        (QPS_RTS, QP_CC_PROFILE_ID, now.cc_profile_id != attr.cc_profile_id),
    ];
    let late = changes.iter().filter(|(since, _, changes)| from >= *since && *changes);
    late.fold(0, |bits, (_, bit, _)| bits | bit) & mask
}

impl Settings {
    /// Makes a change of the QP in `slot` that may be refused: then the settings are as before.
    pub(crate) fn attempt<R>(slot: &Mutex<Self>, change: impl FnOnce() -> Result<R, c_int>) -> Result<R, c_int> {
        let before = slot.lock().clone();
        change().inspect_err(|_| *slot.lock() = before)
    }

    fn apply(&mut self, profiles: &Registry, attr: &MrcQpAttr, mask: u32) -> Result<(), c_int> {
        check(attr, mask)?;
        let named = |bit: u32| mask & bit != 0;
        // What can fail comes first.
        if named(QP_EV_PROFILE_ID) {
            profiles.online_ev_profile(attr.ev_profile_id)?;
        }
        if named(QP_CC_PROFILE_ID) {
            profiles.online_cc_profile(attr.cc_profile_id)?;
        }
        if named(QP_HINT) {
            self.hint = match attr.qp_hint {
                hint if hint.is_null() => None,
                hint => Some((hint as usize, Arc::clone(&object::get::<Hint>(hint)?.users))),
            };
        }
        if named(QP_EV_PROFILE_ID) {
            self.ev = attr.ev_profile_id;
        }
        if named(QP_CC_PROFILE_ID) {
            self.cc = attr.cc_profile_id;
        }
        if named(QP_EV_PROFILE_ID | QP_CC_PROFILE_ID) {
            self.bind(profiles);
        }
        if named(QP_MPR) {
            self.mpr = attr.mpr;
        }
        if named(QP_MPR_DEST) {
            self.mpr_dest = attr.mpr_dest;
        }
        if named(QP_MAX_WIMM) {
            self.max_wimm = attr.max_wimm;
        }
        if named(QP_MAX_WIMM_DEST) {
            self.max_wimm_dest = attr.max_wimm_dest;
        }
        if named(QP_TIMEOUT) {
            self.timeout = Some(attr.timeout);
        }
        if named(QP_RETRY_CNT) {
            self.retries = Some((attr.linear_cnt, attr.exp_cnt));
        }
        if named(QP_CAP) {
            self.cap = Some(attr.cap);
        }
        if named(VENDOR_CFG) {
            self.vendor_cfg = attr.vendor_cfg;
        }
        Ok(())
    }

    /// The profiles that the QP has named stay ONLINE.
    pub(crate) fn bind(&mut self, profiles: &Registry) {
        self.bound = [profiles.bind(Bindable::Ev, self.ev), profiles.bind(Bindable::Cc, self.cc)];
    }

    fn tell(&self, host: RetryConfig) -> MrcQpAttr {
        let retry = self.retry(host);
        MrcQpAttr {
            mpr: self.mpr,
            mpr_dest: self.mpr_dest,
            max_wimm: self.max_wimm,
            max_wimm_dest: self.max_wimm_dest,
            timeout: retry.timeout,
            ev_profile_id: self.ev,
            cc_profile_id: self.cc,
            linear_cnt: retry.linear,
            exp_cnt: retry.exponential,
            qp_hint: self.hint.as_ref().map_or(0, |hint| hint.0) as *mut Hint,
            cap: self.cap.unwrap_or(0),
            vendor_cfg: self.vendor_cfg,
        }
    }
}

pub(crate) unsafe extern "C" fn create_qp(context: *mut MrcContext, attr: *mut MrcQpInitAttr) -> *mut IbvQp {
    let create = || {
        object::get::<MrcContext>(context)?;
        // SAFETY: null or the application's structure.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        if attr.protocol_version & !PROTOCOL_VERSION_1 != 0 || attr.send_ops_flags & !QP_EX_WRITES != 0 {
            return Err(libc::EINVAL);
        }
        let init = IbvQpInitAttr {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: core::ptr::null_mut(),
            cap: attr.cap,
            qp_type: QPT_RC,
            sq_sig_all: attr.sq_sig_all,
        };
        let (qp, cap) = qp::create(attr.pd, &init, attr.send_ops_flags != 0)?;
        attr.cap = cap;
        Ok(qp)
    };
    object::pointer(create())
}

pub(crate) unsafe extern "C" fn modify_qp(
    qp: *mut IbvQp,
    attr: *mut IbvQpAttr,
    mask: c_int,
    mrc: *const MrcQpAttr,
    mrc_mask: c_int,
) -> c_int {
    let modify = || {
        let object = object::get::<Qp>(qp)?;
        object.engine.in_this_process()?;
        let (mask, mrc_mask) = (mask as u32 & !IGNORED, mrc_mask as u32);
        // These two promise something.
        if mask & (QP_ALT_PATH | QP_PATH_MIG_STATE) != 0 || (mask != 0 && attr.is_null()) {
            return Err(libc::EINVAL);
        }
        Settings::attempt(&object.mrc, || {
            let window = object.mrc.lock().mpr_dest;
            if mrc_mask != 0 {
                // SAFETY: null or the application's structure.
                let mrc = unsafe { mrc.as_ref() }.ok_or(libc::EINVAL)?;
                let from = object.state.load(Ordering::Acquire);
                // SAFETY: not null where the mask names anything.
                let to = if mask & QP_STATE != 0 { unsafe { (*attr).qp_state } } else { from };
                let mut settings = object.mrc.lock();
                let late = too_late(&settings.tell(object.engine.host.retry()), mrc, mrc_mask, from, to);
                if late != 0 {
                    log::error!("QP {:#x}: attributes {late:#x} of MRC come too late", object.number());
                    return Err(libc::EINVAL);
                }
                settings.apply(&object.engine.profiles.lock(), mrc, mrc_mask)?;
                if settings.mpr_dest != window {
                    object.set_mpr(settings.mpr_dest)?;
                }
            }
            if mask == 0 {
                return Ok(());
            }
            // SAFETY: not null; the application's structure.
            let mut attr = unsafe { attr.read() };
            // There is one port and one partition; verbs want them named. The source GID is the device's, whatever is said.
            attr.port_num = 1;
            attr.ah_attr.grh.sgid_index = attr.ah_attr.grh.sgid_index.min(GIDS as u8 - 1);
            if mask & QP_PKEY_INDEX == 0 {
                attr.pkey_index = 0;
            }
            let named = mask & QP_STATE != 0 && attr.qp_state == QPS_INIT;
            let mask = if named { mask | QP_PORT | QP_PKEY_INDEX } else { mask };
            // SAFETY: a live QP and a structure of ours.
            match unsafe { qp::modify_qp(qp, &raw mut attr, mask as c_int) } {
                0 => Ok(()),
                code => {
                    // The window that the call gave to a QP which has one.
                    if object.mrc.lock().mpr_dest != window {
                        let _ = object.set_mpr(window);
                    }
                    Err(code)
                }
            }
        })
    };
    object::code(modify())
}

pub(crate) unsafe extern "C" fn query_qp(
    qp: *mut IbvQp,
    attr: *mut IbvQpAttr,
    mask: c_int,
    mrc: *mut MrcQpAttr,
    _mrc_mask: c_int,
    init: *mut MrcQpInitAttr,
) -> c_int {
    let query = || {
        let object = object::get::<Qp>(qp)?;
        let mut known = IbvQpAttr::default();
        // SAFETY: a live QP and a structure of ours; the last may be null.
        match unsafe { qp::query_qp(qp, &raw mut known, mask, core::ptr::null_mut()) } {
            0 => {}
            code => return Err(code),
        }
        // SAFETY: the QP lives.
        let base = unsafe { &(*object.abi.get()).qp_base };
        // SAFETY: null or the application's room for one structure each.
        unsafe {
            super::give(attr, known);
            super::give(mrc, object.mrc.lock().tell(object.engine.host.retry()));
            super::give(
                init,
                MrcQpInitAttr {
                    qp_context: base.qp_context,
                    send_cq: base.send_cq,
                    recv_cq: base.recv_cq,
                    cap: object.cap,
                    sq_sig_all: object.signal_all.into(),
                    pd: base.pd,
                    send_ops_flags: if object.extended { QP_EX_WRITES } else { 0 },
                    protocol_version: PROTOCOL_VERSION_1,
                },
            );
        }
        Ok(())
    };
    object::code(query())
}

pub(crate) unsafe extern "C" fn get_qpn(qp: *mut IbvQp, qpn: *mut u32) -> c_int {
    let get = || {
        let object = object::get::<Qp>(qp)?;
        if qpn.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: not null; the application gives room for a number.
        unsafe { qpn.write(object.number()) };
        Ok(())
    };
    object::minus_one(get())
}

pub(crate) unsafe extern "C" fn post_send(qp: *mut IbvQp, wr: *mut IbvSendWr, bad: *mut *mut IbvSendWr) -> c_int {
    // SAFETY: the contract is the same.
    match unsafe { work::post_send(qp, wr, bad) } {
        // What `mrc.h` has no operation for is a wrong argument there.
        libc::EOPNOTSUPP => object::code(Err(libc::EINVAL)),
        answer => answer,
    }
}

pub(crate) unsafe extern "C" fn post_recv(qp: *mut IbvQp, wr: *mut IbvRecvWr, bad: *mut *mut IbvRecvWr) -> c_int {
    // SAFETY: the contract is the same.
    match unsafe { work::post_recv(qp, wr, bad) } {
        0 => 0,
        code => object::minus_one(Err(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{QPS_ERR, QPS_INIT, QPS_RESET};

    #[test]
    fn values_outside_their_range_are_refused_and_all_masks_may_be_empty() {
        let host = RetryConfig { timeout: 12, linear: 7, exponential: 8 };
        let (mut settings, none) = (Settings::default(), Registry::new(vec![], 0));
        let base = settings.tell(host);
        settings.apply(&none, &base, 0).unwrap();
        assert_eq!(settings.retry(host), host);
        // What verbs name is a lower bound: it never shortens, and counts only where MRC's attributes are silent.
        for (timeout, retries, want) in [(14, 7, 8), (20, 1, 9), (20, 7, 11), (0, 7, 25), (31, 7, 25)] {
            let (timeout, retries) = (Some(timeout), Some(retries));
            let verbs = Settings { verbs_timeout: timeout, verbs_retries: retries, ..Settings::default() };
            assert_eq!(verbs.retry(host), RetryConfig { exponential: want, ..host }, "{timeout:?} {retries:?}");
            let exact = Settings { timeout: Some(9), ..verbs };
            assert_eq!(exact.retry(host), RetryConfig { timeout: 9, ..host });
        }
        for (mask, bad) in [
            (QP_MPR, MrcQpAttr { mpr: 0, ..base }),
            (QP_MPR_DEST, MrcQpAttr { mpr_dest: MPR + 1, ..base }),
            (QP_MAX_WIMM, MrcQpAttr { max_wimm: MAX_WIMM + 1, ..base }),
            (QP_TIMEOUT, MrcQpAttr { timeout: 25, ..base }),
            (QP_RETRY_CNT, MrcQpAttr { linear_cnt: 8, ..base }),
            (QP_RETRY_CNT, MrcQpAttr { exp_cnt: 26, ..base }),
            (QP_CAP, MrcQpAttr { cap: 8, ..base }),
            (1 << 20, base),
            (QP_EV_PROFILE_ID, MrcQpAttr { ev_profile_id: 99, ..base }),
            (QP_CC_PROFILE_ID, MrcQpAttr { cc_profile_id: 99, ..base }),
        ] {
            assert_eq!(settings.apply(&none, &bad, mask), Err(libc::EINVAL), "{mask:#x}");
        }
        settings.apply(&none, &MrcQpAttr { timeout: 20, mpr: 2, ..base }, QP_TIMEOUT | QP_MPR).unwrap();
        assert_eq!((settings.retry(host).timeout, settings.mpr), (20, 2));
    }

    /// A refused call changes nothing, whichever of its attributes was wrong.
    #[test]
    fn what_is_refused_changes_nothing() {
        let none = Registry::new(vec![], 0);
        let mut settings = Settings { ev: 5, ..Settings::default() };
        let attr =
            MrcQpAttr { cc_profile_id: 99, ev_profile_id: 0, timeout: 3, ..settings.tell(RetryConfig::default()) };
        let mask = QP_EV_PROFILE_ID | QP_CC_PROFILE_ID | QP_TIMEOUT;
        assert_eq!(settings.apply(&none, &attr, mask), Err(libc::EINVAL));
        assert_eq!((settings.ev, settings.timeout), (5, None));
        let settings = Mutex::new(settings);
        let refused = Settings::attempt(&settings, || {
            settings.lock().apply(&none, &attr, QP_TIMEOUT)?;
            assert_eq!(settings.lock().timeout, Some(3));
            Err::<(), _>(libc::EBUSY)
        });
        assert_eq!((refused, settings.lock().timeout), (Err(libc::EBUSY), None));
        let taken = Settings::attempt(&settings, || settings.lock().apply(&none, &attr, QP_TIMEOUT));
        assert_eq!((taken, settings.lock().timeout), (Ok(()), Some(3)));
    }

    /// What takes effect with a transition is refused behind it, unless it says what the QP has.
    #[test]
    fn what_comes_too_late_is_refused() {
        const RTR: u32 = QP_MAX_WIMM_DEST | QP_EV_PROFILE_ID;
        const RTS: u32 = QP_MPR | QP_MAX_WIMM | QP_TIMEOUT | QP_RETRY_CNT | QP_CC_PROFILE_ID | QP_CAP;
        let now = Settings::default().tell(RetryConfig::default());
        let other = MrcQpAttr {
            mpr: now.mpr - 1,
            mpr_dest: now.mpr_dest - 1,
            max_wimm: now.max_wimm - 1,
            max_wimm_dest: now.max_wimm_dest - 1,
            timeout: now.timeout - 1,
            linear_cnt: now.linear_cnt - 1,
            ev_profile_id: 1,
            cc_profile_id: 1,
            cap: QP_CAP_TRIM_NACK_DEST_UNSUPPORTED,
            qp_hint: core::ptr::dangling_mut(),
            vendor_cfg: [1; 128],
            ..now
        };
        for (from, to, late) in [
            (QPS_RESET, QPS_INIT, 0),
            (QPS_INIT, QPS_INIT, 0),
            (QPS_INIT, QPS_RTR, 0),
            (QPS_RTR, QPS_RTR, RTR),
            (QPS_RTR, QPS_RTS, RTR),
            (QPS_RTS, QPS_RTS, RTR | RTS),
            // Of the next life, or of none.
            (QPS_RTS, QPS_RESET, 0),
            (QPS_RTS, QPS_ERR, 0),
            (QPS_ERR, QPS_RESET, 0),
        ] {
            assert_eq!(too_late(&now, &other, KNOWN, from, to), late, "{from} {to}");
            assert_eq!(too_late(&now, &other, KNOWN & !QP_MPR, from, to), late & !QP_MPR, "{from} {to}: not named");
            assert_eq!(too_late(&now, &now, KNOWN, from, to), 0, "{from} {to}: the same");
        }
        let dynamic = MrcQpAttr { cap: QP_CAP_DYNAMIC_MPR, ..now };
        assert_eq!(too_late(&now, &dynamic, KNOWN, QPS_RTR, QPS_RTS), QP_CAP, "the responder has begun without");
        let longer = MrcQpAttr { exp_cnt: now.exp_cnt + 1, ..now };
        assert_eq!(too_late(&now, &longer, KNOWN, QPS_RTS, QPS_RTS), QP_RETRY_CNT);
    }

    #[test]
    fn what_is_not_negotiated_is_off() {
        let (mut settings, none) = (Settings::default(), Registry::new(vec![], 0));
        let base = settings.tell(RetryConfig::default());
        assert_eq!((settings.dynamic_mpr(), settings.trimming()), (false, Trimming::Off));
        let mut with = |cap| {
            settings.apply(&none, &MrcQpAttr { cap, ..base }, QP_CAP).unwrap();
            (settings.dynamic_mpr(), settings.trimming())
        };
        assert_eq!(with(0), (false, Trimming::On));
        assert_eq!(with(QP_CAP_DYNAMIC_MPR), (true, Trimming::On));
        assert_eq!(with(QP_CAP_TRIM_NACK_DEST_UNSUPPORTED), (false, Trimming::Off));
    }
}
