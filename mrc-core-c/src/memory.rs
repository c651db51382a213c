//! The memory an endpoint lives in: how much it is, and how it is cut up.
//!
//! ```text
//! mem (aligned to MRC_CORE_ALIGN)
//! | mrc_core_endpoint | every slice of Storage, each aligned for its type | scratch EV entries |
//! ```

use core::slice;

use mrc_core::{
    CcProfile, Completion, CqSlot, Endpoint, EndpointConfig, EvProfileSlot, EventSlot, Export, Immediate, Limits,
    MrSlot, PeerSlot, PlaneSlot, Qp, Qpcc, RecvWqe, Refusal, RouteSlot, RxWord, Seed, Storage, TimerSlot, TxRecord,
    TxWord, Wqe,
    path::{EvEntry, EvSlot},
};

use crate::{
    border,
    codes::*,
    convert::limits_of,
    convert_config::endpoint_config,
    fault::{Fault, fault, text},
    types::*,
    update::mrc_core_import,
};

const _: () = assert!(MRC_CORE_SEED_LEN == Seed::LEN);

/// Marks memory that holds an endpoint.
pub(crate) const ALIVE: u64 = 0x4D52_435F_434F_5245;

/// An endpoint; opaque.
#[repr(C)]
pub struct mrc_core_endpoint {
    /// First, where an import has its own mark.
    alive: u64,
    pub(crate) export: Export,
    pub(crate) engine: Endpoint<'static>,
    /// Where the entries of a new EV profile are put into the engine's form.
    pub(crate) scratch: &'static mut [EvEntry],
    /// What the last refusal was about.
    pub(crate) detail: &'static str,
}

impl mrc_core_endpoint {
    pub(crate) fn new(engine: Endpoint<'static>, scratch: &'static mut [EvEntry]) -> Self {
        Self { alive: ALIVE, export: Export::new(), engine, scratch, detail: "" }
    }
}

/// Bytes at the start of the memory: an endpoint, or what becomes one.
const HEAD: usize = {
    let (endpoint, import) = (size_of::<mrc_core_endpoint>(), size_of::<mrc_core_import>());
    if endpoint > import { endpoint } else { import }
};

/// Hands out parts of a range of bytes, one behind the other.
struct Cursor {
    at: usize,
}

impl Cursor {
    /// Where `count` values of type `T` start; `None` when no address space holds them.
    fn take<T>(&mut self, count: usize) -> Option<usize> {
        const { assert!(align_of::<T>() <= MRC_CORE_ALIGN) };
        let start = self.at.checked_next_multiple_of(align_of::<T>())?;
        self.at = start.checked_add(count.checked_mul(size_of::<T>())?)?;
        Some(start)
    }
}

/// Makes `count` values in lent memory.
///
/// # Safety
/// `mem + start` is aligned for `T` and `count` values fit; nothing else refers to those bytes, ever.
unsafe fn fill<T>(mem: *mut u8, start: usize, count: usize, empty: impl Fn() -> T) -> &'static mut [T] {
    // SAFETY: inside the lent memory, as promised; every value is written before the slice exists.
    unsafe {
        let first = mem.add(start).cast::<T>();
        for n in 0..count {
            first.add(n).write(empty());
        }
        slice::from_raw_parts_mut(first, count)
    }
}

macro_rules! carve {
    ($($(#[$doc:meta])* $field:ident: $ty:ty, $empty:expr, |$l:ident| $count:expr;)*) => {
        /// Bytes that an endpoint of these sizes needs, its own struct included.
        fn total(limits: &Limits) -> Option<usize> {
            let mut cursor = Cursor { at: HEAD };
            $({ let $l = limits; cursor.take::<$ty>($count)?; })*
            cursor.take::<EvEntry>(limits.profile_evs)?;
            Some(cursor.at)
        }

        /// Cuts the memory behind the endpoint's struct.
        ///
        /// # Safety
        /// `mem` is aligned to `MRC_CORE_ALIGN` and has the bytes that `total` asks for; nothing else refers to them, ever.
        unsafe fn cut(mem: *mut u8, limits: Limits) -> Option<(Storage<'static>, &'static mut [EvEntry])> {
            let mut cursor = Cursor { at: HEAD };
            let storage = Storage {
                limits,
                $($field: {
                    let $l = &limits;
                    let count = $count;
                    let start = cursor.take::<$ty>(count)?;
                    // SAFETY: `take` gave an aligned part of its own, and all parts end within `total`.
                    unsafe { fill::<$ty>(mem, start, count, || $empty) }
                },)*
            };
            let start = cursor.take::<EvEntry>(limits.profile_evs)?;
            // SAFETY: as above.
            let scratch = unsafe { fill(mem, start, limits.profile_evs, || EvEntry::EMPTY) };
            Some((storage, scratch))
        }
    };
}

mrc_core::storage_slices!(carve);

fn size_for(limits: &mrc_core_limits) -> Result<(Limits, usize), Fault> {
    let limits = limits_of(limits);
    limits.check()?;
    let total = total(&limits).filter(|&bytes| bytes <= isize::MAX as usize);
    Ok((limits, total.ok_or(fault(MRC_CORE_E_RANGE, "limits"))?))
}

/// Bytes of memory that an endpoint of these sizes needs; 0 when no endpoint can have them or `limits` is NULL.
///
/// # Safety
/// `limits` is NULL or points to limits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_storage_size(limits: *const mrc_core_limits) -> usize {
    // SAFETY: passed on.
    let limits = unsafe { border::read(limits, "limits") };
    limits.and_then(size_for).map_or(0, |(_, bytes)| bytes)
}

/// Bytes that one QP of these sizes costs; 0 when `limits` is NULL.
///
/// # Safety
/// `limits` is NULL or points to limits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_bytes_per_qp(limits: *const mrc_core_limits) -> usize {
    // SAFETY: passed on.
    let limits = unsafe { border::read(limits, "limits") };
    limits.map_or(0, |limits| limits_of(limits).bytes_per_qp())
}

/// Makes an endpoint in `mem`, which is aligned to MRC_CORE_ALIGN, has the `len` bytes that mrc_core_storage_size() asks
/// for, and belongs to the endpoint from now on, until nobody calls it any more. Its content does not matter.
///
/// All randomness (keys, QP numbers, identifiers, path order) comes from the MRC_CORE_SEED_LEN bytes of `seed`: draw them from
/// the device's random generator, anew for each endpoint. Who knows them knows every R_Key. All zeros are refused.
/// `detail`, where it is not NULL, receives the name of the field at fault.
///
/// # Safety
/// `mem` points to `len` bytes that nobody else uses; `config`, `seed` and `out` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_init(
    mem: *mut u8,
    len: usize,
    config: *const mrc_core_config,
    seed: *const u8,
    out: *mut *mut mrc_core_endpoint,
    detail: *mut mrc_core_text,
) -> i32 {
    // SAFETY: passed on.
    let made = unsafe { init(mem, len, config, seed) };
    // SAFETY: `out` is NULL or valid.
    let made = made.and_then(|endpoint| unsafe { border::write(out, "out", endpoint) });
    // SAFETY: passed on.
    unsafe { conclude(made.map(|()| MRC_CORE_OK), detail) }
}

/// # Safety
/// As `mrc_core_init`.
unsafe fn init(
    mem: *mut u8,
    len: usize,
    config: *const mrc_core_config,
    seed: *const u8,
) -> Result<*mut mrc_core_endpoint, Fault> {
    // SAFETY: NULL or MRC_CORE_SEED_LEN bytes.
    let seed = unsafe { border::read(seed.cast::<[u8; Seed::LEN]>(), "seed") };
    // SAFETY: passed on.
    let (engine_config, storage, scratch) = unsafe { lent(mem, len, config) }?;
    let seed = seed?;
    if *seed == [0; Seed::LEN] {
        return Err(fault(MRC_CORE_E_RANGE, "seed"));
    }
    let engine = Endpoint::new(engine_config, storage, *seed)?;
    let endpoint = mem.cast::<mrc_core_endpoint>();
    // SAFETY: the first bytes of the memory, which `cut` left free; aligned by the assertion in `Cursor::take` and here.
    unsafe {
        const { assert!(align_of::<mrc_core_endpoint>() <= MRC_CORE_ALIGN) };
        endpoint.write(mrc_core_endpoint::new(engine, scratch));
    }
    Ok(endpoint)
}

/// What an endpoint is made of: its configuration, and the memory lent, checked and cut.
///
/// # Safety
/// As `mrc_core_init`.
pub(crate) unsafe fn lent(
    mem: *mut u8,
    len: usize,
    config: *const mrc_core_config,
) -> Result<(EndpointConfig, Storage<'static>, &'static mut [EvEntry]), Fault> {
    // SAFETY: NULL or valid.
    let config = unsafe { border::read(config, "config") }?;
    if config.abi != MRC_CORE_ABI {
        return Err(fault(MRC_CORE_E_ABI, "abi"));
    }
    if mem.is_null() {
        return Err(fault(MRC_CORE_E_NULL, "mem"));
    }
    if mem.align_offset(MRC_CORE_ALIGN) != 0 {
        return Err(fault(MRC_CORE_E_ALIGN, "mem"));
    }
    let (limits, total) = size_for(&config.limits)?;
    if len < total {
        return Err(fault(MRC_CORE_E_MEMORY, "mem"));
    }
    let engine_config = endpoint_config(config)?;
    // SAFETY: aligned, long enough, and nobody else's.
    let (storage, scratch) = unsafe { cut(mem, limits) }.ok_or(fault(MRC_CORE_E_RANGE, "limits"))?;
    Ok((engine_config, storage, scratch))
}

/// Tells `detail`, where it is not NULL, what a call was refused for, and returns its code.
///
/// # Safety
/// `detail` is NULL or valid.
pub(crate) unsafe fn conclude(made: Result<i32, Fault>, detail: *mut mrc_core_text) -> i32 {
    let (code, what) = match made {
        Ok(code) => (code, ""),
        Err(fault) => (fault.code, fault.what),
    };
    if !detail.is_null() {
        // SAFETY: NULL or valid; a misaligned one is refused and has no further effect.
        let _ = unsafe { border::write(detail, "detail", text(what)) };
    }
    code
}
