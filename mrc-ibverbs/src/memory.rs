//! Protection domains and memory regions.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};

use mrc_afxdp::MemRegion;
use mrc_afxdp::device::DeviceError;
use mrc_core::{Access, MrHandle, Pd as PdNumber};
use parking_lot::Mutex;

use crate::abi::{
    ACCESS_KNOWN_TO_VERBS, ACCESS_LOCAL_WRITE, ACCESS_OPTIONAL, ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ,
    ACCESS_REMOTE_WRITE, IbvContext, IbvMr, IbvPd, REREG_ACCESS, REREG_FLAGS, REREG_PD, REREG_TRANSLATION,
};
use crate::device::{Context, Shared};
use crate::engine::{Engine, MAX_MR, destroyed, failed};
use crate::object::{self, Kind, Object};

/// A protection domain.
#[repr(C)]
pub(crate) struct Pd {
    pub(crate) abi: UnsafeCell<IbvPd>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) context: Arc<Shared>,
    pub(crate) number: PdNumber,
    /// Regions and QPs in it, under all its handles.
    pub(crate) users: Arc<AtomicU32>,
}

// SAFETY: `repr(C)`, the C structure first; `UnsafeCell` changes no layout.
unsafe impl Object for Pd {
    type Abi = IbvPd;
    const KIND: Kind = Kind::Pd;
}

pub(crate) unsafe extern "C" fn alloc_pd(context: *mut IbvContext) -> *mut IbvPd {
    let alloc = || {
        let shared = Arc::clone(&object::get::<Context>(context)?.shared);
        let engine = shared.engine()?;
        let number = engine.next_pd();
        let abi = UnsafeCell::new(IbvPd { context, handle: number });
        let (number, users) = (PdNumber(number), Arc::default());
        Ok(object::publish(Box::new(Pd { abi, engine, context: shared, number, users })))
    };
    object::pointer(alloc())
}

pub(crate) unsafe extern "C" fn dealloc_pd(pd: *mut IbvPd) -> c_int {
    let dealloc = || {
        if object::get::<Pd>(pd)?.users.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        object::retire::<Pd>(pd).map(drop)
    };
    object::code(dealloc())
}

/// A memory region.
#[repr(C)]
pub(crate) struct Mr {
    abi: UnsafeCell<IbvMr>,
    engine: Arc<Engine>,
    /// Never locked across a call to the device.
    registered: Mutex<Registered>,
}

/// What the engine knows of a region; `ibv_rereg_mr` changes it.
#[derive(Clone)]
struct Registered {
    handle: MrHandle,
    key: u32,
    access: u32,
    /// The users of its domain, of whom it is one.
    domain: Arc<AtomicU32>,
}

impl Mr {
    pub(crate) fn is(&self, number: u32, domain: &Arc<AtomicU32>) -> bool {
        let registered = self.registered.lock();
        registered.handle.index() as u32 == number && Arc::ptr_eq(&registered.domain, domain)
    }

    /// Another handle of the region. As verbs have it, that does not know address and length.
    pub(crate) fn under(&self, context: *mut IbvContext, pd: *mut IbvPd) -> Self {
        let registered = self.registered.lock().clone();
        let (handle, key) = (registered.handle.index() as u32, registered.key);
        let abi = IbvMr { context, pd, addr: core::ptr::null_mut(), length: 0, handle, lkey: key, rkey: key };
        Self { abi: UnsafeCell::new(abi), engine: Arc::clone(&self.engine), registered: Mutex::new(registered) }
    }
}

// SAFETY: `repr(C)`, the C structure first; `UnsafeCell` changes no layout.
unsafe impl Object for Mr {
    type Abi = IbvMr;
    const KIND: Kind = Kind::Mr;
}

/// Whether these rights can be given, and what the engine must know of them.
fn rights(access: u32) -> Result<Access, c_int> {
    let known = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC;
    if access & !(known | ACCESS_KNOWN_TO_VERBS | ACCESS_OPTIONAL) != 0 {
        log::error!("memory region: access flags {access:#x}: verbs have no such flag");
        return Err(libc::EINVAL);
    }
    // Programs that ask for more than they need go on without it.
    if access & ACCESS_KNOWN_TO_VERBS != 0 {
        log::info!(
            "memory region: access flags {access:#x}: only local and remote access and relaxed ordering are supported"
        );
        return Err(libc::EOPNOTSUPP);
    }
    // What others may write, its owner may.
    if access & (ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC) != 0 && access & ACCESS_LOCAL_WRITE == 0 {
        return Err(libc::EINVAL);
    }
    Ok(if access & ACCESS_REMOTE_WRITE != 0 { Access::REMOTE_WRITE } else { Access::LOCAL })
}

/// Bytes of a page on this machine, a power of two: 4096 on x86, up to 65536 elsewhere. From libc: rustix follows what the kernel
/// says of the vDSO, which is not mapped under valgrind.
fn page_size() -> usize {
    // SAFETY: reads a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// First byte of the page of `addr`.
fn page_of(addr: usize, page: usize) -> usize {
    addr & !(page - 1)
}

/// The place of memory that can be registered. As the kernel has it, a range that is none is EINVAL, and one without memory EFAULT,
/// also at address 0 (`ib_umem_get`).
fn place(addr: *mut c_void, length: usize, writable: bool) -> Result<NonNull<u8>, c_int> {
    if length == 0 || length > isize::MAX as usize {
        return Err(libc::EINVAL);
    }
    populate(addr as usize, length, writable)?;
    NonNull::new(addr.cast()).ok_or(libc::EFAULT)
}

/// Brings all pages in, as hardware would pin them. Memory that is not there, or may not be written, is EFAULT now rather
/// than a fault in the progress thread later.
fn populate(addr: usize, len: usize, writable: bool) -> Result<(), c_int> {
    let start = page_of(addr, page_size());
    let end = addr.checked_add(len).ok_or(libc::EINVAL)?;
    let advice = if writable { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    match advise(start, end - start, advice) {
        Ok(()) => Ok(()),
        Err(libc::EAGAIN | libc::ENOMEM) if mapped(start, end - start).is_ok() => Err(libc::ENOMEM),
        // A kernel before 5.14 knows no such advice.
        Err(libc::EINVAL) if advise(here(), page_size(), libc::MADV_POPULATE_READ) == Err(libc::EINVAL) => {
            mapped(start, end - start)
        }
        Err(_) => Err(libc::EFAULT),
    }
}

/// The page of something that is certainly readable.
fn here() -> usize {
    static SOMETHING: u8 = 1;
    page_of((&raw const SOMETHING) as usize, page_size())
}

fn advise(start: usize, len: usize, advice: c_int) -> Result<(), c_int> {
    // SAFETY: the advice to populate changes no contents and unmaps nothing, whatever the range.
    match unsafe { libc::madvise(start as *mut c_void, len, advice) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// Pages that are asked about at once: a range may be as long as the address space.
const PAGES: usize = 4096;

fn mapped(start: usize, len: usize) -> Result<(), c_int> {
    let mut pages = [0u8; PAGES];
    let step = PAGES * page_size();
    (start..start + len).step_by(step).try_for_each(|part| {
        let len = step.min(start + len - part);
        // SAFETY: the array has one byte for each page of the part.
        match unsafe { libc::mincore(part as *mut c_void, len, pages.as_mut_ptr()) } {
            0 => Ok(()),
            _ => Err(libc::EFAULT),
        }
    })
}

/// Registers memory in a domain, which has one more user then.
fn enter(domain: &Pd, addr: *mut c_void, length: usize, iova: u64, access: u32) -> Result<Registered, c_int> {
    let rights = rights(access)?;
    let base = place(addr, length, access & ACCESS_LOCAL_WRITE != 0)?;
    // SAFETY: mapped, as `populate` found; the application keeps it so until it deregisters, and accesses it as it would
    // memory that a device writes.
    let memory = Arc::new(unsafe { MemRegion::from_raw(base, length) });
    let regions = &domain.engine.regions;
    let one_more = |count| (count < MAX_MR).then_some(count + 1);
    if regions.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_err() {
        log::error!("memory region: all {MAX_MR} regions of this process are in use: deregister one");
        return Err(libc::ENOMEM);
    }
    let registered = domain.engine.device.register_at(domain.number, memory, iova, rights);
    let (handle, key) = registered.map_err(|error| {
        regions.fetch_sub(1, Ordering::AcqRel);
        failed("memory region", &error)
    })?;
    domain.users.fetch_add(1, Ordering::AcqRel);
    Ok(Registered { handle, key: key.0, access, domain: Arc::clone(&domain.users) })
}

/// Revokes what [`enter`] registered. When this returns the progress thread has let go of the memory: the application may unmap it.
fn leave(engine: &Engine, registered: &Registered) -> Result<(), c_int> {
    let result = engine.device.deregister(registered.handle);
    // Else it went under another handle.
    if !matches!(result, Err(DeviceError::Table(_))) {
        registered.domain.fetch_sub(1, Ordering::AcqRel);
        engine.regions.fetch_sub(1, Ordering::AcqRel);
    }
    destroyed("memory region", result)
}

fn register(pd: *mut IbvPd, addr: *mut c_void, length: usize, iova: u64, access: u32) -> Result<*mut IbvMr, c_int> {
    let domain = object::get::<Pd>(pd)?;
    let registered = enter(domain, addr, length, iova, access)?;
    // SAFETY: the domain lives.
    let context = unsafe { (*pd).context };
    let (handle, key) = (registered.handle.index() as u32, registered.key);
    let abi = UnsafeCell::new(IbvMr { context, pd, addr, length, handle, lkey: key, rkey: key });
    let engine = Arc::clone(&domain.engine);
    Ok(object::publish(Box::new(Mr { abi, engine, registered: Mutex::new(registered) })))
}

/// `enum ibv_rereg_mr_err_code`: nothing was done, since the arguments are wrong; or the device refused.
const REREG_INPUT: c_int = -1;
const REREG_COMMAND: c_int = -4;

/// Gives a region another domain and other rights. Its memory and keys stay.
fn change(old: &Registered, domain: &Pd, memory: (*mut c_void, usize), access: u32) -> Result<Registered, c_int> {
    let rights = rights(access)?;
    place(memory.0, memory.1, access & ACCESS_LOCAL_WRITE != 0)?;
    let changed = domain.engine.device.change_region(old.handle, domain.number, rights);
    changed.map_err(|error| failed("memory region", &error))?;
    domain.users.fetch_add(1, Ordering::AcqRel);
    old.domain.fetch_sub(1, Ordering::AcqRel);
    Ok(Registered { access, domain: Arc::clone(&domain.users), ..*old })
}

/// A region as verbs let it change: memory, domain or rights, by `flags`. With other memory it has other keys. Until the new
/// registration stands the old one does, so that a refusal changes nothing.
fn reregister(
    mr: *mut IbvMr,
    flags: c_int,
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> Result<(), (c_int, c_int)> {
    let (input, command) = (|code| (REREG_INPUT, code), |code| (REREG_COMMAND, code));
    let region = object::get::<Mr>(mr).map_err(input)?;
    let changes = |flag| flags & flag != 0;
    let nowhere = changes(REREG_TRANSLATION) && (addr.is_null() || length == 0);
    if flags & !REREG_FLAGS != 0 || nowhere || access != 0 && !changes(REREG_ACCESS) {
        return Err(input(libc::EINVAL));
    }
    // SAFETY: the region lives; only this call changes these fields, which verbs do not let two threads make at once.
    let known = unsafe { &mut *region.abi.get() };
    let old = region.registered.lock().clone();
    let pd = if changes(REREG_PD) { pd } else { known.pd };
    let domain = object::get::<Pd>(pd).map_err(input)?;
    let moved = changes(REREG_TRANSLATION);
    let access = if changes(REREG_ACCESS) { access as u32 } else { old.access };
    if !moved {
        let new = change(&old, domain, (known.addr, known.length), access).map_err(command)?;
        known.pd = pd;
        *region.registered.lock() = new;
        return Ok(());
    }
    let new = enter(domain, addr, length, addr as u64, access).map_err(command)?;
    let left = leave(&region.engine, &old);
    (known.pd, known.addr, known.length) = (pd, addr, length);
    (known.handle, known.lkey, known.rkey) = (new.handle.index() as u32, new.key, new.key);
    *region.registered.lock() = new;
    left.map_err(command)
}

pub(crate) unsafe extern "C" fn rereg_mr(
    mr: *mut IbvMr,
    flags: c_int,
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    match reregister(mr, flags, pd, addr, length, access) {
        Ok(()) => 0,
        Err((verdict, code)) => {
            object::set_errno(code);
            verdict
        }
    }
}

pub(crate) unsafe extern "C" fn reg_mr(pd: *mut IbvPd, addr: *mut c_void, length: usize, access: c_int) -> *mut IbvMr {
    object::pointer(register(pd, addr, length, addr as u64, access as u32))
}

pub(crate) unsafe extern "C" fn reg_mr_iova(
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut IbvMr {
    object::pointer(register(pd, addr, length, iova, access as u32))
}

pub(crate) unsafe extern "C" fn reg_mr_iova2(
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> *mut IbvMr {
    object::pointer(register(pd, addr, length, iova, access))
}

pub(crate) unsafe extern "C" fn dereg_mr(mr: *mut IbvMr) -> c_int {
    let deregister = || {
        let region = object::retire::<Mr>(mr)?;
        leave(&region.engine, &region.registered.lock())
    };
    object::code(deregister())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_that_make_no_sense_are_refused() {
        assert_eq!(rights(0), Ok(Access::LOCAL));
        assert_eq!(rights(0x10_0003), Ok(Access::REMOTE_WRITE));
        assert_eq!(rights(0x10_000f), Ok(Access::REMOTE_WRITE));
        assert_eq!(rights(ACCESS_REMOTE_WRITE), Err(libc::EINVAL));
        for known in [4, 5, 6, 7, 8, 9] {
            assert_eq!(rights(ACCESS_LOCAL_WRITE | 1 << known), Err(libc::EOPNOTSUPP), "{known}");
        }
        assert_eq!(rights(1 << 10), Err(libc::EINVAL));
    }

    #[test]
    fn ranges_begin_with_a_page_whatever_its_size() {
        for page in [4096, 16_384, 65_536] {
            assert_eq!(
                [page - 1, page, 3 * page + 4096].map(|addr| page_of(addr, page) / page),
                [0, 1, 3 + 4096 / page]
            );
        }
        // `madvise` and `mincore` refuse what is not a page of this machine.
        let bytes = vec![1u8; 3 * page_size()];
        let inside = bytes.as_ptr() as usize + page_size() / 2 + 1;
        assert_eq!(populate(inside, page_size(), false), Ok(()));
        assert_eq!(mapped(page_of(inside, page_size()), page_size()), Ok(()));
    }

    /// What the kernel answers. Address 0 was EINVAL, and a range of petabytes ended the program for want of memory.
    #[test]
    fn a_range_without_memory_is_efault_and_one_that_is_none_einval() {
        let mut here = vec![1u8; 10_000];
        let here: *mut c_void = here.as_mut_ptr().cast();
        let none = core::ptr::null_mut();
        assert!(place(here, 10_000, true).is_ok_and(|base| base.as_ptr().cast() == here));
        for (addr, length, code) in [
            (none, 4096, libc::EFAULT),
            (none, 0, libc::EINVAL),
            (here, 0, libc::EINVAL),
            (here, usize::MAX, libc::EINVAL),
            (here, isize::MAX as usize, libc::EFAULT),
            (none, isize::MAX as usize, libc::EFAULT),
        ] {
            assert_eq!(place(addr, length, false), Err(code), "{addr:?} {length}");
        }
        let len = 2 * PAGES * page_size();
        let large = vec![1u8; len];
        let start = page_of(large.as_ptr() as usize, page_size());
        assert_eq!(mapped(start, len), Ok(()));
    }

    #[test]
    fn memory_that_is_not_there_is_efault() {
        let mut here = vec![1u8; 10_000];
        assert_eq!(populate(here.as_mut_ptr() as usize, here.len(), true), Ok(()));
        assert!(here.iter().all(|&byte| byte == 1));
        assert_eq!(populate(page_size(), 2 * page_size(), true), Err(libc::EFAULT));
        // SAFETY: a fresh mapping of two pages, of which the second is closed. (Unmapped, another test might get it.)
        let map = unsafe {
            let none = core::ptr::null_mut();
            let map =
                libc::mmap(none, 2 * page_size(), libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            libc::mprotect(map.byte_add(page_size()), page_size(), libc::PROT_NONE);
            map as usize
        };
        assert_eq!(populate(map, page_size(), false), Ok(()));
        assert_eq!(populate(map, page_size() + 1, false), Err(libc::EFAULT));
        assert_eq!(populate(map, page_size(), true), Err(libc::EFAULT));
    }
}
