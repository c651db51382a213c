//! Handles: every object given to the application is in a table until it is destroyed. On the control path a null,
//! foreign or stale pointer is therefore EINVAL and not a crash. Also `errno`.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex as StdMutex, MutexGuard, PoisonError};

use core::ffi::c_int;
use core::mem::ManuallyDrop;

use parking_lot::Mutex;

/// What a handle is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Context,
    Pd,
    Mr,
    Channel,
    Cq,
    Qp,
    MrcContext,
    Hint,
    EvCq,
}

type Table = HashMap<usize, Kind>;

/// A mutex of the standard library: a child after `fork` can unlock it without what other threads were waiting in.
static LIVE: LazyLock<StdMutex<Table>> = LazyLock::new(|| {
    // SAFETY: the handlers take and give back a lock, which only the thread that forks uses in the child. It fails for want of
    // memory only.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    StdMutex::default()
});

fn live() -> MutexGuard<'static, Table> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The table, while this thread forks. Without a destructor, which would keep the library loaded.
    static FORKING: Cell<Option<ManuallyDrop<MutexGuard<'static, Table>>>> = const { Cell::new(None) };
}

/// No other thread has the table while this one forks: a child destroys its copies of objects, and has no thread that would unlock it.
extern "C" fn before_fork() {
    FORKING.set(Some(ManuallyDrop::new(live())));
}

extern "C" fn after_fork() {
    drop(FORKING.take().map(ManuallyDrop::into_inner));
}

/// A Rust value that the application knows by a pointer to the C structure inside it.
///
/// # Safety
/// `Self` is `repr(C)` and has an `Abi` at offset `OFFSET`.
pub(crate) unsafe trait Object: Sized {
    type Abi;
    const KIND: Kind;
    const OFFSET: usize = 0;
}

/// Gives an object to the application.
pub(crate) fn publish<T: Object>(object: Box<T>) -> *mut T::Abi {
    let pointer = Box::into_raw(object).cast::<u8>().wrapping_add(T::OFFSET);
    live().insert(pointer as usize, T::KIND);
    pointer.cast()
}

/// The object behind a pointer that the application gave us; EINVAL when it is none of ours.
pub(crate) fn get<'a, T: Object>(pointer: *mut T::Abi) -> Result<&'a T, c_int> {
    if live().get(&(pointer as usize)) != Some(&T::KIND) {
        return Err(libc::EINVAL);
    }
    // SAFETY: it came from `publish` of the same kind and was not retired. An application that destroys an object in one
    // thread while it uses it in another breaks the verbs contract.
    Ok(unsafe { direct::<T>(pointer) })
}

/// Takes something out of an object that another thread may destroy meanwhile: `f` runs while nobody can, and must neither
/// block nor look for objects.
pub(crate) fn with<T: Object, R>(pointer: *mut T::Abi, f: impl FnOnce(&T) -> R) -> Result<R, c_int> {
    let live = live();
    if live.get(&(pointer as usize)) != Some(&T::KIND) {
        return Err(libc::EINVAL);
    }
    // SAFETY: it came from `publish` of the same kind, and `retire` waits for the table.
    Ok(f(unsafe { direct::<T>(pointer) }))
}

/// The objects of this kind that live.
fn of_kind<'a, T: Object + 'a>(live: &'a Table) -> impl Iterator<Item = &'a T> {
    let pointers = live.iter().filter(|(_, kind)| **kind == T::KIND).map(|(pointer, _)| *pointer as *mut T::Abi);
    // SAFETY: they came from `publish` of the same kind, and `retire` waits for the table, which is borrowed.
    pointers.map(|pointer| unsafe { direct::<T>(pointer) })
}

/// What `f` finds in an object of this kind, of those that live; ENOENT when it finds nothing. As for [`with`].
pub(crate) fn find<T: Object, R>(f: impl Fn(&T) -> Option<R>) -> Result<R, c_int> {
    of_kind(&live()).find_map(f).ok_or(libc::ENOENT)
}

/// What `f` finds in all objects of this kind that live. As for [`with`].
pub(crate) fn find_all<T: Object, R>(f: impl Fn(&T) -> Option<R>) -> Vec<R> {
    of_kind(&live()).filter_map(f).collect()
}

/// As [`get`] without looking the pointer up, for the data path.
///
/// # Safety
/// `pointer` came from [`publish`] of a `T` that lives.
pub(crate) unsafe fn direct<'a, T: Object>(pointer: *mut T::Abi) -> &'a T {
    // SAFETY: the caller says so.
    unsafe { &*pointer.cast::<u8>().wrapping_sub(T::OFFSET).cast::<T>() }
}

/// Takes an object back from the application.
pub(crate) fn retire<T: Object>(pointer: *mut T::Abi) -> Result<Box<T>, c_int> {
    let mut live = live();
    if live.get(&(pointer as usize)) != Some(&T::KIND) {
        return Err(libc::EINVAL);
    }
    live.remove(&(pointer as usize));
    // SAFETY: it came from `Box::into_raw` in `publish`, and leaves the table once.
    Ok(unsafe { Box::from_raw(pointer.cast::<u8>().wrapping_sub(T::OFFSET).cast::<T>()) })
}

/// Sets `errno`.
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: the location is valid for this thread.
    unsafe { *libc::__errno_location() = code };
}

/// For calls that answer a pointer: null and `errno`.
pub(crate) fn pointer<T>(result: Result<*mut T, c_int>) -> *mut T {
    result.unwrap_or_else(|code| {
        set_errno(code);
        core::ptr::null_mut()
    })
}

/// For calls that answer zero or an error number; `errno` as well, as the providers do.
pub(crate) fn code(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(code) => {
            set_errno(code);
            code
        }
    }
}

/// For calls that answer zero or -1 and `errno`.
pub(crate) fn minus_one(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(code) => {
            set_errno(code);
            -1
        }
    }
}

/// For calls that answer a number, or -1 and `errno`.
pub(crate) fn not_negative(result: Result<c_int, c_int>) -> c_int {
    result.unwrap_or_else(|code| {
        set_errno(code);
        -1
    })
}

/// Refuses something that MRC does not have; the first time it says why. A program may find out by trying that there is none
/// of one thing, and fail for want of another: each is said.
pub(crate) fn unsupported(what: &'static str) -> c_int {
    if first(what) {
        log::error!(
            "{what}: not supported. MRC has two operations, RDMA WRITE and RDMA WRITE WITH IMMEDIATE, on RC queue pairs"
        );
    }
    libc::EOPNOTSUPP
}

/// Whether this is the first time that a program hears of `what`.
pub(crate) fn first(what: &'static str) -> bool {
    static SAID: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut said = SAID.lock();
    let new = !said.contains(&what);
    if new {
        said.push(what);
    }
    new
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{Kind, Object, get, publish, retire, with};

    #[repr(C)]
    struct Thing(u32);

    // SAFETY: `repr(C)`, its own only field.
    unsafe impl Object for Thing {
        type Abi = u32;
        const KIND: Kind = Kind::Hint;
    }

    #[test]
    fn a_child_finds_its_objects_whatever_other_threads_did_at_the_fork() {
        let thing = publish(Box::new(Thing(7)));
        let (thing_at, busy) = (thing as usize, AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slow = |_: &Thing| {
                    busy.store(true, Ordering::Release);
                    std::thread::sleep(std::time::Duration::from_millis(200));
                };
                with::<Thing, _>(thing_at as *mut u32, slow).unwrap();
            });
            while !busy.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            // SAFETY: the child only looks its object up, and ends.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::alarm(10);
                    libc::_exit(i32::from(get::<Thing>(thing).is_err() || retire::<Thing>(thing).is_err()));
                }
                let mut status = -1;
                assert_eq!((libc::waitpid(child, &raw mut status, 0), status), (child, 0));
            }
        });
        assert_eq!(retire::<Thing>(thing).unwrap().0, 7);
    }

    #[test]
    fn each_thing_that_is_not_there_is_said_once() {
        let first = ["address handles", "SRQs", "address handles", "SRQs"].map(super::first);
        assert_eq!(first, [true, true, false, false]);
    }
}
