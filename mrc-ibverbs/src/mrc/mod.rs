//! The calls of `mrc.h` and `mrc_ctl.h`, for `lib_mrc.so` to forward to.
//!
//! The objects are those of verbs: an `mrc_cq` is an `ibv_cq` of this library, an `mrc_qp` an `ibv_qp` with settings of
//! MRC beside it. What masks leave out has working defaults. Profiles live as long as the device is open, and in its
//! engine.
//!
//! | module | owns |
//! |---|---|
//! | `abi` | C structures and numbers |
//! | `hint`, `qp`, `queue` | QP hints; queue pairs; completion queues, channels and events, those of EVs among them |
//! | `profile`, `cc` | the engine's profiles under a controller's numbers, without C |
//! | `ctl`, `endpoint` | the controller's calls: profiles, device; ports and endpoint operations |

use std::sync::Arc;

use core::ffi::c_int;

use crate::abi::IbvContext;
use crate::device::{Context, Shared};
use crate::object::{self, Kind, Object};

mod abi;
mod cc;
pub(crate) mod ctl;
pub(crate) mod endpoint;
pub(crate) mod hint;
pub(crate) mod profile;
pub(crate) mod qp;
pub(crate) mod queue;

use abi::{
    API_VERSION, DEVICE_CAP_DYNAMIC_MPR, DEVICE_CAP_TRIM_NACK, EV_EVENT_OLD, MrcContextAttr, MrcCtlEvEvent,
    MrcDeviceAttr, PROTOCOL_VERSION_1, VENDOR_API_VERSION,
};

pub(crate) use qp::Settings;
pub(crate) use queue::heard;

/// QP hints of a process.
const MAX_HINTS: u32 = 1024;

/// An `mrc_context`.
pub(crate) struct MrcContext {
    verbs: *mut IbvContext,
    shared: Arc<Shared>,
    /// Distance of events in the application's array, bytes: what its version of the header says.
    event_stride: usize,
}

// SAFETY: the application sees it as an opaque pointer only.
unsafe impl Object for MrcContext {
    type Abi = Self;
    const KIND: Kind = Kind::MrcContext;
}

/// 0 and 1 mean the latest; programs in the field give a protocol version here.
fn event_stride(version: u32) -> usize {
    if version <= 1 || version >= 0x0100_0001 { size_of::<MrcCtlEvEvent>() } else { EV_EVENT_OLD }
}

/// Writes a result, unless the application has no use for it.
///
/// # Safety
/// `to` is null or the application's room for a `T`.
unsafe fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller says so.
        unsafe { to.write(value) };
    }
}

pub(crate) unsafe extern "C" fn create_context(
    context: *mut IbvContext,
    attr: *const MrcContextAttr,
) -> *mut MrcContext {
    let create = || {
        let shared = Arc::clone(&object::get::<Context>(context)?.shared);
        // SAFETY: null or the application's structure.
        let version = unsafe { attr.as_ref() }.map_or(0, |attr| attr.mrc_api_version_used);
        let event_stride = event_stride(version);
        Ok(object::publish(Box::new(MrcContext { verbs: context, shared, event_stride })))
    };
    object::pointer(create())
}

pub(crate) unsafe extern "C" fn destroy_context(context: *mut MrcContext) -> c_int {
    object::minus_one(object::retire::<MrcContext>(context).map(drop))
}

fn version(current: u32) -> (u32, u32) {
    (current, 0)
}

/// For both headers: they have the same versions.
pub(crate) unsafe extern "C" fn query_version(
    current: *mut u32,
    last: *mut u32,
    vendor: *mut u32,
    vendor_last: *mut u32,
) {
    let (api, api_last) = version(API_VERSION);
    let (own, own_last) = version(VENDOR_API_VERSION);
    // SAFETY: null or the application's room for a number each.
    unsafe {
        give(current, api);
        give(last, api_last);
        give(vendor, own);
        give(vendor_last, own_last);
    }
}

pub(crate) unsafe extern "C" fn query_device(
    context: *mut IbvContext,
    attr: *mut MrcDeviceAttr,
    supported: *mut c_int,
) -> c_int {
    let query = || {
        if attr.is_null() {
            return Err(libc::EINVAL);
        }
        // Somebody else's device is none of ours, which is what the caller asks.
        let ours = object::get::<Context>(context).is_ok();
        let known = MrcDeviceAttr {
            mrc_protocol_version: PROTOCOL_VERSION_1,
            max_wimm: crate::qp::MAX_WIMM,
            max_wimm_dest: crate::qp::MAX_WIMM,
            max_mpr: crate::qp::MPR,
            mpr_resolution: 1,
            max_qp_hint: MAX_HINTS,
            // Service times: the engine can put them into its timestamps, but which way peers expect them is open.
            cap: DEVICE_CAP_TRIM_NACK | DEVICE_CAP_DYNAMIC_MPR,
        };
        // SAFETY: not null, and null or room for a number.
        unsafe {
            attr.write(if ours { known } else { MrcDeviceAttr::default() });
            give(supported, ours.into());
        }
        Ok(())
    };
    object::minus_one(query())
}

pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut IbvContext,
    mrc: *mut MrcContext,
    attr: *mut MrcDeviceAttr,
    supported: *mut c_int,
) -> c_int {
    if !mrc.is_null()
        && let Err(code) = object::get::<MrcContext>(mrc)
    {
        return object::minus_one(Err(code));
    }
    // SAFETY: the same arguments.
    unsafe { query_device(context, attr, supported) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stride_of_events_is_that_of_the_callers_header() {
        assert_eq!([0, 1, 0x0100_0001, u32::MAX].map(event_stride), [56; 4]);
        assert_eq!(event_stride(0x0100_0000), 48);
    }
}
