//! The controller's calls on profiles and on the device: from C to `profile`, and back.

use std::ffi::CStr;
use std::sync::Arc;

use core::ffi::{c_char, c_int};

use libc::{E2BIG, EINVAL, EIO, ENOENT, EPERM};
use mrc_core::PortMask;
use mrc_wire::{EvField, PortNum};

use super::MrcContext;
use super::abi::*;
use super::profile::{CcProfileChange, EvChange, EvProfileChange, FormatChange, MAX_EVS, MAX_PROFILES, State};
use crate::abi::IbvContext;
use crate::device::Context;
use crate::engine::Engine;
use crate::object;

/// CAP_NET_ADMIN in the effective set of this thread.
pub(crate) fn allowed() -> Result<(), c_int> {
    const NET_ADMIN: u64 = 1 << 12;
    let status = std::fs::read_to_string("/proc/thread-self/status").map_err(|_| EPERM)?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    if set & NET_ADMIN == 0 {
        log::error!("controller calls need CAP_NET_ADMIN");
        return Err(EPERM);
    }
    Ok(())
}

/// The context of a controller, and its structure.
///
/// # Safety
/// `attr` is null or the application's.
unsafe fn enter<'a, T>(context: *mut MrcContext, attr: *mut T) -> Result<(&'a MrcContext, &'a mut T), c_int> {
    allowed()?;
    let context = object::get::<MrcContext>(context)?;
    // SAFETY: the caller says so.
    Ok((context, unsafe { attr.as_mut() }.ok_or(EINVAL)?))
}

const NSCC: &CStr = c"uet-1.0-nscc";

struct Algorithms([*const c_char; 2]);
// SAFETY: pointers to constants.
unsafe impl Sync for Algorithms {}
static ALGORITHMS: Algorithms = Algorithms([NSCC.as_ptr(), core::ptr::null()]);

pub(crate) unsafe extern "C" fn query_device(context: *mut IbvContext, attr: *mut MrcCtlDeviceAttr) -> c_int {
    let query = || {
        allowed()?;
        let shared = &object::get::<Context>(context)?.shared;
        let host = shared.host;
        if attr.is_null() {
            return Err(EINVAL);
        }
        // A device that nobody uses has no profiles, and need not be opened to know it.
        let used = match shared.opened() {
            Some(engine) => engine.control(|registry, engine, _| registry.evs_in_use(engine))?,
            None => 0,
        };
        let known = MrcCtlDeviceAttr {
            mrc_ctl_protocol_version: PROTOCOL_VERSION_1,
            ev_max_fmt_profiles: MAX_PROFILES as u32,
            ev_max_profiles: MAX_PROFILES as u32,
            ev_max_count: (MAX_PROFILES * MAX_EVS) as u32,
            ev_free_count: (MAX_PROFILES * MAX_EVS - used) as u32,
            ev_max_count_profile: MAX_EVS as u32,
            ev_count_align: 1,
            ev_max_width: 256,
            ev_fmt_mode_mask: FMT_MODE_STEV | FMT_MODE_SRV6 | FMT_MODE_UDP,
            ev_mode_mask: EV_MODE_AUTO | EV_MODE_EXP | EV_MODE_GEN,
            ev_op_max_entries: 0,
            padding: 0,
            cc_max_profiles: MAX_PROFILES as u32,
            algorithms: ALGORITHMS.0.as_ptr(),
            phy_port_mask: PortMask::first(host.planes.len() as u8).bits(),
            opt_attr: OPT_CAP_EV_EVENT | OPT_CAP_EV_EVENT_PRECISE_DROP_CNT | OPT_CAP_EP_OP_EV_PROBE,
        };
        // SAFETY: not null; the application gives room for the structure.
        unsafe { attr.write(known) };
        Ok(())
    };
    object::minus_one(query())
}

pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut IbvContext,
    mrc: *mut MrcContext,
    attr: *mut MrcCtlDeviceAttr,
    supported: *mut c_int,
) -> c_int {
    let ours = object::get::<Context>(context).is_ok();
    if !mrc.is_null()
        && let Err(code) = object::get::<MrcContext>(mrc)
    {
        return object::minus_one(Err(code));
    }
    // SAFETY: null or the application's room for a number.
    unsafe { super::give(supported, ours.into()) };
    if !ours {
        return object::minus_one(allowed());
    }
    // SAFETY: the same arguments.
    unsafe { query_device(context, attr) }
}

/// An array of the application.
///
/// # Safety
/// `pointer` is null or leads to `count` elements that nobody else changes during the call.
unsafe fn list<'a, T>(pointer: *const T, count: c_int) -> Result<&'a [T], c_int> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        Ok(count) if !pointer.is_null() => {
            // SAFETY: not null, and the caller says the rest.
            Ok(unsafe { core::slice::from_raw_parts(pointer, count) })
        }
        _ => Err(EINVAL),
    }
}

/// Gives an array to the application and says how long it is; E2BIG when there is no room.
///
/// # Safety
/// `to` is null or room for `*count` elements.
unsafe fn fill<T: Copy>(to: *mut T, count: &mut c_int, values: &[T]) -> Result<(), c_int> {
    let room = usize::try_from(*count).map_err(|_| EINVAL)?;
    *count = values.len() as c_int;
    if room < values.len() {
        return Err(E2BIG);
    }
    if to.is_null() && !values.is_empty() {
        return Err(EINVAL);
    }
    // SAFETY: there is room for as many.
    unsafe { core::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
    Ok(())
}

/// What a bit of the mask names.
fn named<T>(mask: u32, bit: u32, value: T) -> Option<T> {
    (mask & bit != 0).then_some(value)
}

/// Writes an attribute that the mask of a query names. The others stay as the caller has them: it may go on with the structure.
fn tell<T>(mask: u32, bit: u32, to: &mut T, value: T) {
    if mask & bit != 0 {
        *to = value;
    }
}

/// The state to go to, and the one that the caller believes in.
fn states(mask: u32, to: u32, now: u32) -> Result<(Option<State>, Option<State>), c_int> {
    let state = |bit, value| named(mask, bit, value).map(State::from_c).transpose();
    Ok((state(PROFILE_STATE, to)?, state(PROFILE_CUR_STATE, now)?))
}

impl MrcContext {
    /// The device, opened if it is not yet: profiles and ports are the engine's.
    fn engine(&self) -> Result<Arc<Engine>, c_int> {
        self.shared.engine().map_err(|code| if code == EINVAL { EIO } else { code })
    }
}

const FORMAT_KNOWN: u32 = PROFILE_STATE | PROFILE_CUR_STATE | FMT_PROFILE_MODE | FMT_PROFILE_OP | VENDOR_CFG;

pub(crate) unsafe extern "C" fn modify_ev_fmt_profile(
    context: *mut MrcContext,
    id: u64,
    attr: *mut MrcCtlEvFmtProfileAttr,
    mask: c_int,
) -> c_int {
    let modify = || {
        // SAFETY: null or the application's structure.
        let (context, attr) = unsafe { enter(context, attr) }?;
        let mask = mask as u32;
        if mask & !FORMAT_KNOWN != 0 || (mask & FMT_PROFILE_OP != 0 && attr.ev_fmt_op.op != OP_MODIFY_FIELDS) {
            return Err(EINVAL);
        }
        let mut widths = None;
        if mask & FMT_PROFILE_OP != 0 {
            let given = &attr.ev_fmt_op;
            // SAFETY: the application says how many there are.
            widths = Some(unsafe { list(given.fmt_fields.cast_const(), given.fmt_field_count) }?.to_vec());
        }
        let (state, cur_state) = states(mask, attr.profile_state, attr.cur_profile_state)?;
        let mode = named(mask, FMT_PROFILE_MODE, attr.ev_fmt_mode);
        let engine = context.engine()?;
        let mut registry = engine.profiles.lock();
        registry.change_format(id, &FormatChange { cur_state, state, mode, widths })
    };
    object::minus_one(modify())
}

pub(crate) unsafe extern "C" fn query_ev_fmt_profile(
    context: *mut MrcContext,
    id: u64,
    attr: *mut MrcCtlEvFmtProfileAttr,
    mask: c_int,
) -> c_int {
    let query = || {
        // SAFETY: null or the application's structure.
        let (context, attr) = unsafe { enter(context, attr) }?;
        let mask = mask as u32;
        if mask & !FORMAT_KNOWN != 0 || (mask & FMT_PROFILE_OP != 0 && attr.ev_fmt_op.op != OP_QUERY_FIELDS) {
            return Err(EINVAL);
        }
        let format = context.engine()?.profiles.lock().format(id);
        tell(mask, PROFILE_STATE, &mut attr.profile_state, format.state as u32);
        tell(mask, PROFILE_CUR_STATE, &mut attr.cur_profile_state, format.state as u32);
        tell(mask, FMT_PROFILE_MODE, &mut attr.ev_fmt_mode, format.mode());
        match mask & FMT_PROFILE_OP {
            0 => Ok(()),
            // SAFETY: the application says how much room there is.
            _ => unsafe { fill(attr.ev_fmt_op.fmt_fields, &mut attr.ev_fmt_op.fmt_field_count, format.widths()) },
        }
    };
    object::minus_one(query())
}

const EV_KNOWN: u32 = PROFILE_STATE
    | PROFILE_CUR_STATE
    | EV_PROFILE_MODE
    | EV_PROFILE_FMT_ID
    | EV_PROFILE_COUNT
    | EV_PROFILE_MIN_ACTIVE
    | EV_PROFILE_EVENT_MASK
    | EV_PROFILE_EV_OP
    | EV_PROFILE_EV_FIELDS_OP
    | VENDOR_CFG;

fn ev_mask(mask: c_int) -> Result<u32, c_int> {
    let (mask, both) = (mask as u32, EV_PROFILE_EV_OP | EV_PROFILE_EV_FIELDS_OP);
    if mask & !EV_KNOWN != 0 || mask & both == both { Err(EINVAL) } else { Ok(mask) }
}

fn field(field: &MrcCtlEvField) -> Result<EvField, c_int> {
    let width = u8::try_from(field.width).ok().filter(|&width| width <= 32).ok_or(EINVAL)?;
    let MrcCtlEvField { init_val, min_val, max_val, mask, .. } = *field;
    Ok(EvField { width, init_val, min_val, max_val, mask })
}

fn ev_change(op: u32, entry: &MrcCtlEvOpEntry) -> Result<EvChange, c_int> {
    let new = match op {
        EV_OP_REPLACE_EV => Some(entry.ev_new),
        EV_OP_MODIFY_EV_STATE => None,
        _ => return Err(EINVAL),
    };
    Ok(EvChange { ev: entry.ev, new, state: entry.state, all: entry.flags & EV_OP_F_ALL_COPIES != 0 })
}

pub(crate) unsafe extern "C" fn modify_ev_profile(
    context: *mut MrcContext,
    id: u64,
    attr: *mut MrcCtlEvProfileAttr,
    mask: c_int,
) -> c_int {
    let modify = || {
        // SAFETY: null or the application's structure.
        let (context, attr) = unsafe { enter(context, attr) }?;
        let mask = ev_mask(mask)?;
        let mut change = EvProfileChange {
            mode: named(mask, EV_PROFILE_MODE, attr.ev_mode),
            format: named(mask, EV_PROFILE_FMT_ID, attr.ev_fmt_profile_id),
            count: named(mask, EV_PROFILE_COUNT, attr.ev_count),
            min_active: named(mask, EV_PROFILE_MIN_ACTIVE, attr.ev_min_active),
            event_mask: named(mask, EV_PROFILE_EVENT_MASK, attr.ev_event_mask),
            ..EvProfileChange::default()
        };
        if mask & EV_PROFILE_EV_OP != 0 {
            // SAFETY: the application says how many there are.
            let entries = unsafe { list(attr.ev_op.entries.cast_const(), attr.ev_op.entry_count) }?;
            change.evs = entries.iter().map(|entry| ev_change(attr.ev_op.op, entry)).collect::<Result<_, _>>()?;
        }
        if mask & EV_PROFILE_EV_FIELDS_OP != 0 {
            if attr.ev_fields_op.op != OP_MODIFY_FIELDS {
                return Err(EINVAL);
            }
            // SAFETY: as above.
            let fields = unsafe { list(attr.ev_fields_op.fields.cast_const(), attr.ev_fields_op.field_count) }?;
            change.fields = Some(fields.iter().map(field).collect::<Result<_, _>>()?);
        }
        (change.state, change.cur_state) = states(mask, attr.profile_state, attr.cur_profile_state)?;
        context.engine()?.control(move |registry, engine, now| registry.change_ev_profile(engine, now, id, &change))?
    };
    object::minus_one(modify())
}

pub(crate) unsafe extern "C" fn query_ev_profile(
    context: *mut MrcContext,
    id: u64,
    attr: *mut MrcCtlEvProfileAttr,
    mask: c_int,
) -> c_int {
    let query = || {
        // SAFETY: null or the application's structure.
        let (context, attr) = unsafe { enter(context, attr) }?;
        let mask = ev_mask(mask)?;
        let profile = context.engine()?.control(move |registry, engine, _| registry.ev_profile(engine, id))?;
        tell(mask, PROFILE_STATE, &mut attr.profile_state, profile.state as u32);
        tell(mask, PROFILE_CUR_STATE, &mut attr.cur_profile_state, profile.state as u32);
        tell(mask, EV_PROFILE_MODE, &mut attr.ev_mode, profile.mode);
        tell(mask, EV_PROFILE_FMT_ID, &mut attr.ev_fmt_profile_id, profile.format);
        tell(mask, EV_PROFILE_COUNT, &mut attr.ev_count, profile.count);
        tell(mask, EV_PROFILE_MIN_ACTIVE, &mut attr.ev_min_active, profile.min_active);
        tell(mask, EV_PROFILE_EVENT_MASK, &mut attr.ev_event_mask, profile.event_mask as c_int);
        if mask & EV_PROFILE_EV_FIELDS_OP != 0 {
            if attr.ev_fields_op.op != OP_QUERY_FIELDS {
                return Err(EINVAL);
            }
            let field = |field: &EvField| MrcCtlEvField {
                width: field.width.into(),
                init_val: field.init_val,
                min_val: field.min_val,
                max_val: field.max_val,
                mask: field.mask,
            };
            let fields: Vec<_> = profile.fields.iter().map(field).collect();
            // SAFETY: the application says how much room there is.
            unsafe { fill(attr.ev_fields_op.fields, &mut attr.ev_fields_op.field_count, &fields) }?;
        }
        if mask & EV_PROFILE_EV_OP == 0 {
            return Ok(());
        }
        match attr.ev_op.op {
            EV_OP_QUERY_EV_ARRAY => {
                let entry = |&(ev, state): &(MrcCtlEv, u32)| MrcCtlEvOpEntry {
                    ev,
                    ev_new: MrcCtlEv::UNPOPULATED,
                    state,
                    flags: 0,
                };
                let entries: Vec<_> = profile.entries.iter().map(entry).collect();
                // SAFETY: the application says how much room there is.
                unsafe { fill(attr.ev_op.entries, &mut attr.ev_op.entry_count, &entries) }
            }
            EV_OP_QUERY_EV_STATE => {
                let count = usize::try_from(attr.ev_op.entry_count).map_err(|_| EINVAL)?;
                for index in 0..count {
                    if attr.ev_op.entries.is_null() {
                        return Err(EINVAL);
                    }
                    // SAFETY: not null; the application says that there are so many.
                    let asked = unsafe { &mut *attr.ev_op.entries.add(index) };
                    let found = profile.entries.iter().find(|(ev, _)| *ev == asked.ev);
                    asked.state = found.ok_or(ENOENT)?.1;
                }
                Ok(())
            }
            _ => Err(EINVAL),
        }
    };
    object::minus_one(query())
}

const CC_KNOWN: u32 = PROFILE_STATE | PROFILE_CUR_STATE | CC_PROFILE_ALGORITHM | CC_PROFILE_CONFIG | VENDOR_CFG;

pub(crate) unsafe extern "C" fn modify_cc_profile(
    context: *mut MrcContext,
    id: u64,
    attr: *mut MrcCtlCcProfileAttr,
    mask: c_int,
) -> c_int {
    let modify = || {
        // SAFETY: null or the application's structure.
        let (context, attr) = unsafe { enter(context, attr) }?;
        let mask = mask as u32;
        if mask & !CC_KNOWN != 0 {
            return Err(EINVAL);
        }
        let nscc = match named(mask, CC_PROFILE_ALGORITHM, attr.algorithm) {
            Some(name) if name.is_null() => Some(false),
            // SAFETY: not null; a string by contract.
            Some(name) if unsafe { CStr::from_ptr(name) } == NSCC => Some(true),
            Some(_) => return Err(EINVAL),
            None => None,
        };
        let config = named(mask, CC_PROFILE_CONFIG, attr.cc_config.cast::<MrcCtlCcNsccCfg>());
        // SAFETY: null, which is all defaults, or the application's structure; NSCC's is the only one.
        let config = config.map(|config| unsafe { config.as_ref() }.copied().unwrap_or_default());
        let (state, cur_state) = states(mask, attr.profile_state, attr.cur_profile_state)?;
        let change = CcProfileChange { cur_state, state, nscc, config };
        context.engine()?.control(move |registry, engine, _| registry.change_cc_profile(engine, id, &change))?
    };
    object::minus_one(modify())
}

pub(crate) unsafe extern "C" fn query_cc_profile(
    context: *mut MrcContext,
    id: u64,
    attr: *mut MrcCtlCcProfileAttr,
    mask: c_int,
) -> c_int {
    let query = || {
        // SAFETY: null or the application's structure.
        let (context, attr) = unsafe { enter(context, attr) }?;
        let mask = mask as u32;
        if mask & !CC_KNOWN != 0 {
            return Err(EINVAL);
        }
        let profile = context.engine()?.profiles.lock().cc_profile(id);
        let algorithm = if profile.nscc == Some(true) { NSCC.as_ptr() } else { core::ptr::null() };
        tell(mask, PROFILE_STATE, &mut attr.profile_state, profile.state as u32);
        tell(mask, PROFILE_CUR_STATE, &mut attr.cur_profile_state, profile.state as u32);
        tell(mask, CC_PROFILE_ALGORITHM, &mut attr.algorithm, algorithm);
        if mask & CC_PROFILE_CONFIG != 0 {
            // SAFETY: null or the application's room, although the structure says const of it.
            unsafe {
                super::give(attr.cc_config.cast::<MrcCtlCcNsccCfg>().cast_mut(), profile.config.unwrap_or_default())
            };
        }
        Ok(())
    };
    object::minus_one(query())
}

/// Whether a port is in use by the controller's wish; whether it has a link is verbs' matter.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut MrcContext,
    port: u8,
    attr: *mut MrcCtlPortAttr,
    mask: c_int,
) -> c_int {
    let query = || {
        // SAFETY: null or the application's structure.
        let (context, attr) = unsafe { enter(context, attr) }?;
        let port = port_of(context, port, mask)?;
        let enabled = context.engine()?.ports_enabled()?.contains(port);
        let state = if enabled { PORT_ADMIN_ENABLED } else { PORT_ADMIN_DISABLED };
        tell(mask as u32, PORT_ADMIN_STATE, &mut attr.port_admin_state, state);
        Ok(())
    };
    object::minus_one(query())
}

pub(crate) unsafe extern "C" fn modify_port(
    context: *mut MrcContext,
    port: u8,
    attr: *mut MrcCtlPortAttr,
    mask: c_int,
) -> c_int {
    let modify = || {
        // SAFETY: null or the application's structure.
        let (context, attr) = unsafe { enter(context, attr) }?;
        let port = port_of(context, port, mask)?;
        let enabled = match attr.port_admin_state {
            _ if mask == 0 => return Ok(()),
            PORT_ADMIN_ENABLED => true,
            PORT_ADMIN_DISABLED => false,
            _ => return Err(EINVAL),
        };
        context.engine()?.control(move |_, engine, now| engine.set_port_admin(now, port, enabled))
    };
    object::minus_one(modify())
}

fn port_of(context: &MrcContext, port: u8, mask: c_int) -> Result<PortNum, c_int> {
    let exists = usize::from(port) <= context.shared.host.planes.len();
    if !exists || mask as u32 & !PORT_ADMIN_STATE != 0 {
        return Err(EINVAL);
    }
    PortNum::new(port).ok_or(EINVAL)
}
