//! EV profiles from INIT to ONLINE and back, what a controller programs and asks, and congestion-control profiles: the
//! engine's own life cycle, step by step. Rare calls.

use mrc_core::{CcProfileHandle, EvEventMask, EvProfileHandle, EvReport};

use crate::{
    border,
    codes::*,
    control_types::*,
    convert::{self, qp},
    convert_control,
    fault::fault,
    memory::mrc_core_endpoint,
    types::*,
};

/// Entries that mrc_core_query_evs() fetches at a time: what it needs of the stack.
const CHUNK: usize = 16;

fn handle(profile: mrc_core_ev_profile) -> EvProfileHandle {
    EvProfileHandle::from_parts(profile.index, profile.generation)
}

/// Creates an EV profile that is ONLINE at once, from `count` entries as they are on the wire, at most
/// `limits.profile_evs`.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `entries` points to `count` entries, `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_create_ev_profile(
    endpoint: *mut mrc_core_endpoint,
    entries: *const mrc_core_ev_entry,
    count: usize,
    out: *mut mrc_core_ev_profile,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let entries = border::slice(entries, count, "entries")?;
            let room = convert_control::ev_entries(entries, e.scratch)?;
            border::write(out, "out", mrc_core_ev_profile { index: 0, generation: 0 })?;
            let profile = e.engine.create_ev_profile(room)?;
            border::write(
                out,
                "out",
                mrc_core_ev_profile { index: profile.index() as u16, generation: profile.generation() },
            )?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Opens an EV profile in INIT. `id` keys the order in which values are made, and comes back in a query.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_open_ev_profile(
    endpoint: *mut mrc_core_endpoint,
    id: u64,
    out: *mut mrc_core_ev_profile,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            border::write(out, "out", mrc_core_ev_profile { index: 0, generation: 0 })?;
            let profile = e.engine.open_ev_profile(id)?;
            border::write(
                out,
                "out",
                mrc_core_ev_profile { index: profile.index() as u16, generation: profile.generation() },
            )?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Configures a profile that is not ONLINE, which is OFFLINE then. AUTO and GENERATED values are made at once, the entries
/// of an EXPLICIT profile start without values. After a refusal the profile is as before.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `config` NULL or readable, and so are its `path_count` paths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_configure_ev_profile(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_ev_profile,
    config: *const mrc_core_ev_profile_config,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let config = border::read(config, "config")?;
            let paths = border::slice(config.paths, config.path_count as usize, "paths")?;
            let paths = convert_control::ev_entries(paths, e.scratch)?;
            let fields = convert_control::ev_fields(config)?;
            let config = convert_control::ev_profile_config(config, fields.as_slice(), paths)?;
            e.engine.configure_ev_profile(handle(profile), &config)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Moves a profile one step along INIT, OFFLINE, ONLINE or back; INIT to OFFLINE is mrc_core_configure_ev_profile().
/// MRC_CORE_E_BUSY while QPs are bound to it.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_ev_profile_state(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_ev_profile,
    state: u8,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.set_ev_profile_state(handle(profile), convert_control::profile_state(state)?)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Destroys an EV profile that no QP uses, in shard 0 none of another shard either.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_destroy_ev_profile(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_ev_profile,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.destroy_ev_profile(handle(profile))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// A picture of an EV profile.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_query_ev_profile(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_ev_profile,
    out: *mut mrc_core_ev_profile_info,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let info = e.engine.ev_profile_info(handle(profile)).ok_or(fault(MRC_CORE_E_UNKNOWN, "EV profile"))?;
            border::write(out, "out", convert_control::ev_profile_info(&info))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Programs an entry of an EXPLICIT profile that is OFFLINE: the first that equals `old`, or with `all` each of them,
/// becomes `value` in `state`, MRC_CORE_EV_GOOD or MRC_CORE_EV_DENIED. An entry without a value is all zero with port 0.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `old` and `value` NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_replace_ev(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_ev_profile,
    old: *const mrc_core_ev,
    value: *const mrc_core_ev,
    state: u8,
    all: u8,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let (old, value) = (
                convert_control::ev_spec(border::read(old, "old")?),
                convert_control::ev_spec(border::read(value, "value")?),
            );
            e.engine.replace_ev(handle(profile), &old, &value, convert_control::ev_state_of(state)?, all != 0)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Denies an EV for all QPs of a profile (MRC_CORE_EV_DENIED), or makes it MRC_CORE_EV_GOOD in whatever state they have it;
/// with `all` each entry that equals it. In effect at once, for QPs that are in RTS already once `call_budget` has let them
/// hear of it. MRC_CORE_E_BUSY: eight commands are on their way to QPs.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `ev` NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_ev_state(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    profile: mrc_core_ev_profile,
    ev: *const mrc_core_ev,
    state: u8,
    all: u8,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let ev = convert_control::ev_spec(border::read(ev, "ev")?);
            let (now, state) = (border::time(now_ns), convert_control::ev_state_of(state)?);
            e.engine.set_ev_state(now, handle(profile), &ev, state, all != 0)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Fills the `room` elements at `out` with the entries of a profile from number `first` on, and `count` with the number of
/// entries there are from there. A state is DENIED if denied, else ASSUMED_BAD if any QP has it so, else GOOD.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` points to `room` writable elements, `count` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_query_evs(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_ev_profile,
    first: u32,
    out: *mut mrc_core_ev_report,
    room: usize,
    count: *mut u32,
) -> i32 {
    // SAFETY: passed on; no element beyond `room` is written.
    unsafe {
        border::call(endpoint, |e| {
            border::write(count, "count", 0)?;
            if room > 0 {
                border::check(out, "out")?;
            }
            let first = u16::try_from(first).map_err(|_| fault(MRC_CORE_E_RANGE, "first"))?;
            let mut chunk = [EvReport::EMPTY; CHUNK];
            let total = e.engine.query_evs(handle(profile), first, &mut [])?;
            let mut done = 0usize;
            while done < total.min(room) {
                let there = e.engine.query_evs(handle(profile), first.saturating_add(done as u16), &mut chunk)?;
                for report in chunk.iter().take(there.min(room.saturating_sub(done))) {
                    out.add(done).write(convert_control::ev_report(report));
                    done = done.saturating_add(1);
                }
            }
            border::write(count, "count", total as u32)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Changes what events a profile raises, ONLINE or not: entries that become GOOD, and that become ASSUMED_BAD.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_ev_events(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_ev_profile,
    good: u8,
    assumed_bad: u8,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let events = EvEventMask { good: good != 0, assumed_bad: assumed_bad != 0 };
            e.engine.set_ev_events(handle(profile), events)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Changes how many EVs of an OFFLINE profile stay in rotation; its entries stay as they are.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_ev_min_active(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_ev_profile,
    min_active: u32,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let min_active = u16::try_from(min_active).map_err(|_| fault(MRC_CORE_E_RANGE, "min_active"))?;
            e.engine.set_ev_min_active(handle(profile), min_active)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Creates a congestion-control profile. QPs to one peer that name the same profile share a controller.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `cc` NULL or a profile, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_create_cc_profile(
    endpoint: *mut mrc_core_endpoint,
    cc: *const mrc_core_cc,
    out: *mut mrc_core_cc_profile,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let config = convert::cc(border::read(cc, "cc")?)?;
            border::write(out, "out", mrc_core_cc_profile { index: 0, generation: 0 })?;
            let profile = e.engine.create_cc_profile(&config)?;
            border::write(
                out,
                "out",
                mrc_core_cc_profile { index: profile.index() as u16, generation: profile.generation() },
            )?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Changes a congestion-control profile that no QP in RTS uses, the endpoint's own among them.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `cc` NULL or a profile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_modify_cc_profile(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_cc_profile,
    cc: *const mrc_core_cc,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let config = convert::cc(border::read(cc, "cc")?)?;
            e.engine.modify_cc_profile(CcProfileHandle::from_parts(profile.index, profile.generation), &config)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// What a congestion-control profile was given last; fields of other algorithms have their defaults.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_query_cc_profile(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_cc_profile,
    out: *mut mrc_core_cc,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let config = e.engine.cc_profile(CcProfileHandle::from_parts(profile.index, profile.generation));
            let config = config.ok_or(fault(MRC_CORE_E_UNKNOWN, "congestion-control profile"))?;
            border::write(out, "out", convert::cc_of(&config))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Forgets a congestion-control profile that no QP uses; not the endpoint's own.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_destroy_cc_profile(
    endpoint: *mut mrc_core_endpoint,
    profile: mrc_core_cc_profile,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.destroy_cc_profile(CcProfileHandle::from_parts(profile.index, profile.generation))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// A picture of the congestion controller that a QP in RTS shares with those of the same peer and profile.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_query_cc(
    endpoint: *mut mrc_core_endpoint,
    pair: mrc_core_qp,
    out: *mut mrc_core_cc_info,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let info = e.engine.qpcc_info(qp(pair)).ok_or(fault(MRC_CORE_E_STATE, "queue pair"))?;
            border::write(out, "out", convert_control::cc_info(&info))?;
            Ok(MRC_CORE_OK)
        })
    }
}
