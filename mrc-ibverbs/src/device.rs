//! The device list, contexts, and the tables of operations that the header's inlines call.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::raw::c_char;
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use mrc_verbs_shim::host::{HostError, HostFile};
use parking_lot::Mutex;

use crate::abi::{IbvContext, IbvContextOps, IbvDevice, IbvPd, IbvQp, IbvRecvWr, VerbsContext};
use crate::engine::Engine;
use crate::events::{AsyncEvent, Waitable};
use crate::object::{self, Kind, Object};
use crate::{cq, qp, query, share, stderr, work};

/// The one device of a configured host. Never freed: programs keep pointers to it after they freed the list.
struct Known {
    host: HostFile,
    device: Box<UnsafeCell<IbvDevice>>,
}

// SAFETY: the structure is written before it is shared; the application only reads it.
unsafe impl Send for Known {}
// SAFETY: as above.
unsafe impl Sync for Known {}

static KNOWN: LazyLock<Option<Known>> = LazyLock::new(|| {
    mrc_verbs_shim::logging::start("libibverbs (mrc)", stderr::say);
    match HostFile::configured() {
        Ok(host) => Some(Known { device: Box::new(UnsafeCell::new(describe(&host))), host }),
        Err(error @ HostError::None { .. }) => {
            log::warn!("{error}");
            None
        }
        Err(error) => {
            log::error!("{error}; `mrc doctor --config FILE` checks it");
            None
        }
    }
});

fn describe(host: &HostFile) -> IbvDevice {
    let mut device = IbvDevice {
        ops: [None; 2],
        node_type: 1,      // IBV_NODE_CA
        transport_type: 0, // IBV_TRANSPORT_IB
        name: [0; 64],
        dev_name: [0; 64],
        dev_path: [0; 256],
        ibdev_path: [0; 256],
        slack: [0; 32],
    };
    put(&mut device.name, &host.device);
    put(&mut device.dev_name, "uverbs0");
    put(&mut device.dev_path, "/sys/class/infiniband_verbs/uverbs0");
    put(&mut device.ibdev_path, &format!("/sys/class/infiniband/{}", host.device));
    device
}

fn put(field: &mut [c_char], text: &str) {
    let room = field.len() - 1;
    for (to, from) in field.iter_mut().zip(text.bytes().take(room)) {
        *to = from as c_char;
    }
}

/// The host that `device` stands for.
fn host_of(device: *const IbvDevice) -> Result<&'static HostFile, c_int> {
    let known = KNOWN.as_ref().ok_or(libc::ENODEV)?;
    if core::ptr::eq(known.device.get(), device) { Ok(&known.host) } else { Err(libc::EINVAL) }
}

pub(crate) unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut IbvDevice {
    let devices: Vec<*mut IbvDevice> = KNOWN.iter().map(|known| known.device.get()).collect();
    if !count.is_null() {
        // SAFETY: not null; the application gives room for the number.
        unsafe { count.write(devices.len() as c_int) };
    }
    // SAFETY: plain allocation of zeroed pointers, checked below.
    let list = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut IbvDevice>()) }.cast::<*mut IbvDevice>();
    if list.is_null() {
        return object::pointer(Err(libc::ENOMEM));
    }
    for (index, device) in devices.into_iter().enumerate() {
        // SAFETY: inside the allocation, which has one more place than there are devices.
        unsafe { list.add(index).write(device) };
    }
    list
}

pub(crate) unsafe extern "C" fn free_device_list(list: *mut *mut IbvDevice) {
    // SAFETY: from `get_device_list`, or null.
    unsafe { libc::free(list.cast()) };
}

pub(crate) unsafe extern "C" fn get_device_name(device: *mut IbvDevice) -> *const c_char {
    if host_of(device).is_err() {
        return null_mut();
    }
    // SAFETY: the device is ours and lives as long as the process.
    unsafe { (&raw const (*device).name).cast() }
}

pub(crate) unsafe extern "C" fn get_device_index(device: *mut IbvDevice) -> c_int {
    // The kernel's number of an RDMA device; ours is none of the kernel's.
    if host_of(device).is_ok() { 0 } else { -1 }
}

pub(crate) unsafe extern "C" fn get_device_guid(device: *mut IbvDevice) -> u64 {
    host_of(device).map_or(0, |host| u64::from_ne_bytes(host.guid()))
}

/// What outlives a context while objects made in it live.
pub(crate) struct Shared {
    pub(crate) host: &'static HostFile,
    /// Apart from the engine: the device's thread holds these while it adds to them, and must never hold the last handle
    /// of what it belongs to.
    pub(crate) events: Arc<Waitable<AsyncEvent>>,
    /// Read without a lock: one that a thread held while another forked stays locked in the child.
    engine: OnceLock<Arc<Engine>>,
    opening: Mutex<()>,
}

impl Shared {
    /// The engine, if an object needed it already.
    pub(crate) fn opened(&self) -> Option<Arc<Engine>> {
        self.engine.get().cloned()
    }

    /// The engine: opened by the first object that needs it, so that looking at a device costs nothing and needs no right.
    pub(crate) fn engine(self: &Arc<Self>) -> Result<Arc<Engine>, c_int> {
        if let Some(engine) = self.engine.get() {
            return engine.in_this_process().map(|()| Arc::clone(engine));
        }
        let _alone = self.opening.lock();
        if let Some(engine) = self.opened() {
            return Ok(engine);
        }
        let engine = Engine::obtain(self.host)?;
        Ok(Arc::clone(self.engine.get_or_init(|| engine)))
    }
}

/// An open device.
#[repr(C)]
pub(crate) struct Context {
    /// Interposers replace operations here.
    verbs: UnsafeCell<VerbsContext>,
    pub(crate) shared: Arc<Shared>,
    /// The process that opened it.
    process: u32,
    /// What programs know as `cmd_fd`.
    _command: OwnedFd,
}

impl Context {
    /// Its events, unless a parent process opened it: who reads them there would be woken for nothing.
    pub(crate) fn own_events(&self) -> Option<Arc<Waitable<AsyncEvent>>> {
        (self.process == std::process::id()).then(|| Arc::clone(&self.shared.events))
    }
}

// SAFETY: `repr(C)`, `VerbsContext` first and `IbvContext` where it says; `UnsafeCell` changes no layout.
unsafe impl Object for Context {
    type Abi = IbvContext;
    const KIND: Kind = Kind::Context;
    const OFFSET: usize = core::mem::offset_of!(VerbsContext, context);
}

unsafe extern "C" fn alloc_mw(_: *mut IbvPd, _: c_int) -> *mut c_void {
    object::pointer(Err(object::unsupported("memory windows")))
}

unsafe extern "C" fn bind_mw(_: *mut IbvQp, _: *mut c_void, _: *mut c_void) -> c_int {
    object::code(Err(object::unsupported("memory windows")))
}

unsafe extern "C" fn dealloc_mw(_: *mut c_void) -> c_int {
    object::code(Err(object::unsupported("memory windows")))
}

unsafe extern "C" fn create_srq_ex(_: *mut IbvContext, _: *mut c_void) -> *mut c_void {
    object::pointer(Err(object::unsupported("shared receive queues")))
}

unsafe extern "C" fn open_xrcd(_: *mut IbvContext, _: *mut c_void) -> *mut c_void {
    object::pointer(Err(object::unsupported("XRC domains")))
}

/// `ibv_create_srq`.
pub(crate) unsafe extern "C" fn create_srq(_: *mut IbvPd, _: *mut c_void) -> *mut c_void {
    object::pointer(Err(object::unsupported("shared receive queues")))
}

/// `ibv_create_ah` and `ibv_create_ah_from_wc`.
pub(crate) unsafe extern "C" fn create_ah() -> *mut c_void {
    object::pointer(Err(object::unsupported("address handles")))
}

unsafe extern "C" fn post_srq_recv(_: *mut c_void, _: *mut IbvRecvWr, _: *mut *mut IbvRecvWr) -> c_int {
    object::code(Err(object::unsupported("shared receive queues")))
}

fn operations() -> IbvContextOps {
    IbvContextOps {
        compat_before: [None; 7],
        alloc_mw: Some(alloc_mw),
        bind_mw: Some(bind_mw),
        dealloc_mw: Some(dealloc_mw),
        compat_create_cq: None,
        poll_cq: Some(cq::poll_cq),
        req_notify_cq: Some(cq::req_notify_cq),
        compat_cq: [None; 7],
        post_srq_recv: Some(post_srq_recv),
        compat_qp: [None; 4],
        post_send: Some(work::post_send),
        post_recv: Some(work::post_recv),
        compat_after: [None; 5],
    }
}

/// The device of the configuration.
pub(crate) fn only() -> Result<*mut IbvDevice, c_int> {
    KNOWN.as_ref().map(|known| known.device.get()).ok_or(libc::ENODEV)
}

/// A context of the device. It keeps the descriptor that `command` gives, which programs know as `cmd_fd`; nothing fails behind that.
pub(crate) fn open(
    device: *mut IbvDevice,
    command: impl FnOnce() -> Result<OwnedFd, c_int>,
) -> Result<*mut IbvContext, c_int> {
    let host = host_of(device)?;
    let events = Arc::new(Waitable::new()?);
    let command = command()?;
    let context = IbvContext {
        device,
        ops: operations(),
        cmd_fd: command.as_raw_fd(),
        async_fd: events.fd(),
        num_comp_vectors: 1,
        mutex: [0; 5],
        // Says that a `verbs_context` is in front.
        abi_compat: usize::MAX as *mut c_void,
    };
    let verbs = VerbsContext {
        query_port: Some(query::query_port),
        before_cq: [None; 24],
        create_cq_ex: Some(cq::create_cq_ex),
        private: null_mut(),
        query_device_ex: Some(query::query_device_ex),
        before_qp: [None; 5],
        create_qp_ex: Some(qp::create_qp_ex),
        get_srq_num: None,
        create_srq_ex: Some(create_srq_ex),
        open_xrcd: Some(open_xrcd),
        after_xrcd: [None; 2],
        sz: size_of::<VerbsContext>(),
        context,
    };
    let shared = Arc::new(Shared { host, events, engine: OnceLock::new(), opening: Mutex::default() });
    let (verbs, process) = (UnsafeCell::new(verbs), std::process::id());
    Ok(object::publish(Box::new(Context { verbs, shared, process, _command: command })))
}

pub(crate) unsafe extern "C" fn open_device(device: *mut IbvDevice) -> *mut IbvContext {
    object::pointer(open(device, share::command_descriptor))
}

pub(crate) unsafe extern "C" fn close_device(context: *mut IbvContext) -> c_int {
    // Objects that the application did not destroy keep the engine, not the context.
    object::code(object::retire::<Context>(context).map(drop))
}

pub(crate) unsafe extern "C" fn fork_init() -> c_int {
    // Nothing is pinned: copy-on-write after a fork moves the child's pages or ours, and we use virtual addresses.
    0
}

pub(crate) unsafe extern "C" fn is_fork_initialized() -> c_int {
    // IBV_FORK_UNNEEDED
    2
}

pub(crate) unsafe extern "C" fn get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads `directory/file`; also what `ibv_devinfo` looks for a board identity with.
pub(crate) unsafe extern "C" fn read_sysfs_file(
    directory: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    let read = || {
        if directory.is_null() || file.is_null() || buffer.is_null() || size == 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: neither is null; both are strings by contract.
        let (directory, file) = unsafe { (core::ffi::CStr::from_ptr(directory), core::ffi::CStr::from_ptr(file)) };
        let path = Path::new(directory.to_str().map_err(|_| libc::EINVAL)?);
        let path = path.join(file.to_str().map_err(|_| libc::EINVAL)?);
        let bytes = std::fs::read(path).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let len = text.len().min(size - 1);
        // SAFETY: the application gives room for `size` bytes.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), len);
            buffer.add(len).write(0);
        }
        Ok(len as c_int)
    };
    read().unwrap_or_else(|code| {
        object::set_errno(code);
        -1
    })
}
