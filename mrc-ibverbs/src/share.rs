//! One device, protection domain or region under several handles: `ibv_import_device` and its kin, within the process that
//! opened the device. The descriptors that name a device are those of a file without content.

use std::os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::Arc;

use core::cell::UnsafeCell;
use core::ffi::c_int;

use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, fstat, memfd_create};

use crate::abi::{IbvContext, IbvMr, IbvPd};
use crate::device::{self, Context};
use crate::memory::{Mr, Pd};
use crate::object;

/// The file whose descriptors name the device. All contexts of a process are of one device.
static COMMAND: Mutex<Option<OwnedFd>> = Mutex::new(None);

fn inode(fd: BorrowedFd<'_>) -> Result<(u64, u64), c_int> {
    let stat = fstat(fd).map_err(rustix::io::Errno::raw_os_error)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// A descriptor for the `cmd_fd` of a context, which programs duplicate to name the device.
pub(crate) fn command_descriptor() -> Result<OwnedFd, c_int> {
    let mut command = COMMAND.lock();
    let first = match command.take() {
        Some(fd) => fd,
        None => memfd_create(c"mrc", MemfdFlags::CLOEXEC).map_err(rustix::io::Errno::raw_os_error)?,
    };
    let copy = first.try_clone().map_err(|error| error.raw_os_error().unwrap_or(libc::EMFILE));
    *command = Some(first);
    copy
}

pub(crate) unsafe extern "C" fn import_device(cmd_fd: c_int) -> *mut IbvContext {
    let import = || {
        if cmd_fd < 0 {
            return Err(libc::EBADF);
        }
        // SAFETY: a number that the kernel checks; the descriptor stays open during the call.
        let named = inode(unsafe { BorrowedFd::borrow_raw(cmd_fd) })?;
        let ours = COMMAND.lock().as_ref().map(|fd| inode(fd.as_fd())).transpose()?;
        if ours != Some(named) {
            log::error!(
                "ibv_import_device: descriptor {cmd_fd} is no device of this process; a device is open in one process"
            );
            return Err(libc::EOPNOTSUPP);
        }
        // SAFETY: it becomes ours when the call succeeds, as verbs say, and nothing fails behind that.
        device::open(device::only()?, || Ok(unsafe { OwnedFd::from_raw_fd(cmd_fd) }))
    };
    object::pointer(import())
}

pub(crate) unsafe extern "C" fn import_pd(context: *mut IbvContext, handle: u32) -> *mut IbvPd {
    let import = || {
        let shared = Arc::clone(&object::get::<Context>(context)?.shared);
        let engine = shared.engine()?;
        let same = |pd: &Pd| pd.number.0 == handle && Arc::ptr_eq(&pd.engine, &engine);
        let (number, users) = object::find::<Pd, _>(|pd| same(pd).then(|| (pd.number, Arc::clone(&pd.users))))?;
        let abi = UnsafeCell::new(IbvPd { context, handle });
        Ok(object::publish(Box::new(Pd { abi, engine, context: shared, number, users })))
    };
    object::pointer(import())
}

pub(crate) unsafe extern "C" fn unimport_pd(pd: *mut IbvPd) {
    drop(object::retire::<Pd>(pd));
}

pub(crate) unsafe extern "C" fn import_mr(pd: *mut IbvPd, handle: u32) -> *mut IbvMr {
    let import = || {
        let domain = object::get::<Pd>(pd)?;
        // SAFETY: the domain lives.
        let context = unsafe { (*pd).context };
        let copy = object::find::<Mr, _>(|mr| mr.is(handle, &domain.users).then(|| mr.under(context, pd)))?;
        Ok(object::publish(Box::new(copy)))
    };
    object::pointer(import())
}

pub(crate) unsafe extern "C" fn unimport_mr(mr: *mut IbvMr) {
    drop(object::retire::<Mr>(mr));
}
