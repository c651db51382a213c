//! QP hints: what an application says about how it will use its QPs. They are kept and given back; the engine measures
//! for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use core::ffi::c_int;

use parking_lot::Mutex;

use super::abi::{HINT_NUM_QPS_PER_PEER, HINT_NUM_REMOTE_RECV_PEERS, HINT_NUM_SEND_PEERS, MrcQpHintAttr, VENDOR_CFG};
use super::{MAX_HINTS, MrcContext};
use crate::object::{self, Kind, Object};

static HINTS: AtomicU32 = AtomicU32::new(0);

/// An `mrc_qp_hint`.
pub(crate) struct Hint {
    attr: Mutex<MrcQpHintAttr>,
    /// One more than the QPs that have it.
    pub(crate) users: Arc<()>,
}

// SAFETY: the application sees it as an opaque pointer only.
unsafe impl Object for Hint {
    type Abi = Self;
    const KIND: Kind = Kind::Hint;
}

impl Drop for Hint {
    fn drop(&mut self) {
        HINTS.fetch_sub(1, Ordering::AcqRel);
    }
}

fn check(attr: &MrcQpHintAttr) -> Result<(), c_int> {
    let counts = [attr.num_qps_per_peer, attr.num_send_peers, attr.num_remote_recv_peers];
    if counts.iter().any(|&count| count < 0) { Err(libc::EINVAL) } else { Ok(()) }
}

const KNOWN: u32 = HINT_NUM_QPS_PER_PEER | HINT_NUM_SEND_PEERS | HINT_NUM_REMOTE_RECV_PEERS | VENDOR_CFG;

fn merge(to: &mut MrcQpHintAttr, from: &MrcQpHintAttr, mask: u32) {
    if mask & HINT_NUM_QPS_PER_PEER != 0 {
        to.num_qps_per_peer = from.num_qps_per_peer;
    }
    if mask & HINT_NUM_SEND_PEERS != 0 {
        to.num_send_peers = from.num_send_peers;
    }
    if mask & HINT_NUM_REMOTE_RECV_PEERS != 0 {
        to.num_remote_recv_peers = from.num_remote_recv_peers;
    }
    if mask & VENDOR_CFG != 0 {
        to.vendor_cfg = from.vendor_cfg;
    }
}

pub(crate) unsafe extern "C" fn create_qp_hint(context: *mut MrcContext, attr: *const MrcQpHintAttr) -> *mut Hint {
    let create = || {
        object::get::<MrcContext>(context)?;
        // SAFETY: null or the application's structure, whose only member this is.
        let attr = *unsafe { attr.as_ref() }.ok_or(libc::EINVAL)?;
        check(&attr)?;
        if HINTS.fetch_add(1, Ordering::AcqRel) >= MAX_HINTS {
            HINTS.fetch_sub(1, Ordering::AcqRel);
            return Err(libc::ENOMEM);
        }
        Ok(object::publish(Box::new(Hint { attr: Mutex::new(attr), users: Arc::default() })))
    };
    object::pointer(create())
}

pub(crate) unsafe extern "C" fn destroy_qp_hint(hint: *mut Hint) -> c_int {
    let destroy = || {
        if Arc::strong_count(&object::get::<Hint>(hint)?.users) > 1 {
            return Err(libc::EBUSY);
        }
        object::retire::<Hint>(hint).map(drop)
    };
    object::minus_one(destroy())
}

pub(crate) unsafe extern "C" fn query_qp_hint(hint: *mut Hint, attr: *mut MrcQpHintAttr, mask: c_int) -> c_int {
    let query = || {
        let known = *object::get::<Hint>(hint)?.attr.lock();
        // SAFETY: null or the application's structure.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        if mask as u32 & !KNOWN != 0 {
            return Err(libc::EINVAL);
        }
        merge(attr, &known, mask as u32);
        Ok(())
    };
    object::minus_one(query())
}

pub(crate) unsafe extern "C" fn modify_qp_hint(hint: *mut Hint, attr: *const MrcQpHintAttr, mask: c_int) -> c_int {
    let modify = || {
        let hint = object::get::<Hint>(hint)?;
        // SAFETY: null or the application's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(libc::EINVAL)?;
        let mut known = hint.attr.lock();
        let mut next = *known;
        merge(&mut next, attr, mask as u32);
        if mask as u32 & !KNOWN != 0 {
            return Err(libc::EINVAL);
        }
        check(&next)?;
        *known = next;
        Ok(())
    };
    object::minus_one(modify())
}
