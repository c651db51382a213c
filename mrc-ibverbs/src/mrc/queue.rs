//! Completion queues, channels and events as `mrc.h` has them, and the queue of EV events.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use core::ffi::{c_int, c_uint, c_void};

use mrc_afxdp::Owner;
use mrc_afxdp::device::CompletionWaker as _;
use mrc_core::path::EvState;
use parking_lot::Mutex;

use super::abi::{MrcCtlEv, MrcCtlEvEvent};
use super::{MrcContext, ctl, profile};
use crate::abi::{IbvAsyncEvent, IbvCompChannel, IbvContext, IbvCq, IbvWc};
use crate::cq;
use crate::events::{self, Channel, Notify, Unacknowledged};
use crate::object::{self, Kind, Object};
use crate::wait::{self, waiting};

/// Events that wait for a controller. A new one of the same EV takes the place of the old one; a full queue loses the oldest.
/// The next one that is delivered counts those that were not.
struct Events {
    waiting: Mutex<Waiting>,
    room: usize,
    notify: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<MrcCtlEvEvent>,
    dropped: u32,
}

impl Events {
    /// `dropped`: events that the engine had no room for before this one.
    fn push(&self, profile_id: u64, ev: MrcCtlEv, state: u32, dropped: u32) {
        self.notify.completed(true, &mut || {
            let mut waiting = self.waiting.lock();
            let before = waiting.events.len();
            waiting.events.retain(|event| event.profile_id != profile_id || event.ev != ev);
            if waiting.events.len() >= self.room {
                waiting.events.pop_front();
                log::warn!("EV events: a controller does not poll; the oldest is lost");
            }
            let lost = before - waiting.events.len();
            waiting.dropped = waiting.dropped.saturating_add(dropped).saturating_add(lost as u32);
            waiting.events.push_back(MrcCtlEvEvent { profile_id, ev, drop_count: 0, state });
        });
    }

    fn pop(&self, most: usize) -> Vec<MrcCtlEvEvent> {
        let mut waiting = self.waiting.lock();
        let count = waiting.events.len().min(most);
        let mut events: Vec<_> = waiting.events.drain(..count).collect();
        if let Some(first) = events.first_mut() {
            first.drop_count = core::mem::take(&mut waiting.dropped);
        }
        events
    }
}

static QUEUES: Mutex<Vec<Weak<Events>>> = Mutex::new(Vec::new());

/// From the progress thread: an EV of a profile entered a state that its event mask names.
pub(crate) fn heard(profile_id: u64, ev: MrcCtlEv, state: EvState, dropped: u32) {
    for queue in QUEUES.lock().iter().filter_map(Weak::upgrade) {
        queue.push(profile_id, ev, profile::ev_state(state), dropped);
    }
}

/// The CQ of EV events. To the application it is an `mrc_cq` like others; one without a context of verbs, which a CQ of
/// completions always has.
#[repr(C)]
pub(crate) struct EvCq {
    /// Null.
    verbs: *mut IbvContext,
    events: Arc<Events>,
    cq_context: usize,
    channel: Option<usize>,
    unacknowledged: Unacknowledged,
    owner: Owner,
    polled: AtomicU32,
    event_stride: usize,
}

// SAFETY: the application sees it as an opaque pointer only. `IbvCq` stands for it; its first field alone is read, which is ours.
unsafe impl Object for EvCq {
    type Abi = IbvCq;
    const KIND: Kind = Kind::EvCq;
}

pub(crate) unsafe extern "C" fn create_ev_event_cq(
    context: *mut MrcContext,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut IbvCompChannel,
    vector: c_int,
) -> *mut IbvCq {
    let create = || {
        ctl::allowed()?;
        let event_stride = object::get::<MrcContext>(context)?.event_stride;
        if cqe <= 0 || cqe as usize > crate::engine::MAX_CQE || vector != 0 {
            return Err(libc::EINVAL);
        }
        let hears = if channel.is_null() { None } else { Some(object::get::<Channel>(channel)?) };
        let notify = Notify::new(hears.map(|channel| Arc::clone(&channel.events)));
        let events = Arc::new(Events { waiting: Mutex::default(), room: cqe as usize, notify });
        let cq = object::publish(Box::new(EvCq {
            verbs: core::ptr::null_mut(),
            events: Arc::clone(&events),
            cq_context: cq_context as usize,
            channel: hears.map(|_| channel as usize),
            unacknowledged: Unacknowledged::default(),
            owner: Owner::this(),
            polled: AtomicU32::new(0),
            event_stride,
        }));
        events.notify.set_cq(cq);
        if let Some(channel) = hears {
            channel.users.fetch_add(1, Ordering::AcqRel);
        }
        let mut queues = QUEUES.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&events));
        Ok(cq)
    };
    object::pointer(create())
}

pub(crate) unsafe extern "C" fn poll_ev_event(cq: *mut IbvCq, entries: c_int, out: *mut u8) -> c_int {
    let poll = || {
        ctl::allowed()?;
        let cq = object::get::<EvCq>(cq)?;
        if entries < 0 || (out.is_null() && entries > 0) {
            return Err(libc::EINVAL);
        }
        let events = cq.events.pop(entries as usize);
        let count = events.len();
        for (index, event) in events.into_iter().enumerate() {
            // SAFETY: the application gives room for `entries` events of its version's size, the beginning of ours.
            unsafe {
                let to = out.add(index * cq.event_stride);
                core::ptr::copy_nonoverlapping((&raw const event).cast::<u8>(), to, cq.event_stride);
            }
        }
        cq.polled.fetch_add(count as u32, Ordering::Relaxed);
        Ok(count as c_int)
    };
    poll().unwrap_or_else(|code: c_int| -code)
}

pub(crate) unsafe extern "C" fn create_cq(
    context: *mut MrcContext,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut IbvCompChannel,
    vector: c_int,
) -> *mut IbvCq {
    match object::get::<MrcContext>(context) {
        // SAFETY: the contract is the same; the call checks its context.
        Ok(context) => unsafe { cq::create_cq(context.verbs, cqe, cq_context, channel, vector) },
        Err(code) => object::pointer(Err(code)),
    }
}

pub(crate) unsafe extern "C" fn poll_cq(cq: *mut IbvCq, entries: c_int, out: *mut IbvWc) -> c_int {
    // SAFETY: null or a live CQ, of completions or of EV events; both begin with this pointer.
    if !cq.is_null() && unsafe { (*cq).context.is_null() } {
        return object::minus_one(Err(libc::EINVAL));
    }
    // SAFETY: null or a live CQ of completions.
    unsafe { cq::poll_cq(cq, entries, out) }
}

pub(crate) unsafe extern "C" fn destroy_cq(cq: *mut IbvCq) -> c_int {
    let Ok(object) = object::get::<EvCq>(cq) else {
        // SAFETY: the call checks its argument.
        return unsafe { cq::destroy_cq(cq) };
    };
    let destroy = || {
        // In a child these are the parent's.
        if !object.owner.is_a_parent() {
            object.events.notify.end();
            object.unacknowledged.wait();
        }
        let object = object::retire::<EvCq>(cq)?;
        log::debug!("EV events: {} were polled", object.polled.load(Ordering::Relaxed));
        if let Some(channel) = object.channel
            && let Ok(channel) = object::get::<Channel>(channel as *mut IbvCompChannel)
        {
            channel.users.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(())
    };
    object::code(destroy())
}

pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut IbvCq, solicited_only: c_int) -> c_int {
    let Ok(object) = object::get::<EvCq>(cq) else {
        // SAFETY: the call checks its argument.
        return unsafe { cq::req_notify_cq(cq, solicited_only) };
    };
    object.events.notify.arm(solicited_only != 0);
    0
}

pub(crate) unsafe extern "C" fn create_comp_channel(
    context: *mut MrcContext,
    channel: *mut *mut IbvCompChannel,
) -> c_int {
    let create = || {
        let context = object::get::<MrcContext>(context)?;
        if channel.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the call checks its argument.
        let made = unsafe { events::create_comp_channel(context.verbs) };
        if made.is_null() {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
        }
        // SAFETY: not null; the application gives room for a pointer.
        unsafe { channel.write(made) };
        Ok(())
    };
    object::code(create())
}

pub(crate) unsafe extern "C" fn get_comp_channel_fd(channel: *mut IbvCompChannel, fd: *mut c_int) -> c_int {
    let get = || {
        let channel = object::get::<Channel>(channel)?;
        if fd.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: not null; the application gives room for a number.
        unsafe { fd.write(channel.events.fd()) };
        Ok(())
    };
    object::minus_one(get())
}

unsafe extern "C" fn cq_take(channel: *mut IbvCompChannel, cq: *mut *mut IbvCq, cq_context: *mut *mut c_void) -> c_int {
    let of_evs = |cq: &EvCq| {
        cq.unacknowledged.add();
        cq.cq_context as *mut c_void
    };
    let deliver = |pointer| object::with::<EvCq, _>(pointer, of_evs).ok().or_else(|| events::deliver(pointer));
    // SAFETY: neither is null, as `cq_ready` saw; the application gives room for one pointer each.
    unsafe { events::take_cq(channel, cq, cq_context, deliver) }
}

waiting! {
    fn get_cq_event(channel: *mut IbvCompChannel, cq: *mut *mut IbvCq, cq_context: *mut *mut c_void)
        = events::cq_ready, cq_take, wait::minus_one
}

pub(crate) unsafe extern "C" fn ack_cq_events(cq: *mut IbvCq, n: c_uint) {
    match object::get::<EvCq>(cq) {
        Ok(cq) => cq.unacknowledged.acknowledge(n),
        // SAFETY: the call checks its argument.
        Err(_) => unsafe { events::ack_cq_events(cq, n) },
    }
}

/// The verbs context behind one of MRC; null when there is none.
fn verbs_of(context: *mut MrcContext) -> *mut IbvContext {
    object::with::<MrcContext, _>(context, |context| context.verbs).unwrap_or(core::ptr::null_mut())
}

unsafe extern "C" fn async_ready(context: *mut MrcContext, event: *mut IbvAsyncEvent) -> c_int {
    events::async_fd(verbs_of(context), event)
}

unsafe extern "C" fn async_take(context: *mut MrcContext, event: *mut IbvAsyncEvent) -> c_int {
    // SAFETY: not null, as `async_ready` saw; the application gives room for one event. The structures are alike.
    unsafe { events::take_async_event(verbs_of(context), event) }
}

waiting! {
    fn get_async_event(context: *mut MrcContext, event: *mut IbvAsyncEvent) = async_ready, async_take, wait::error_number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mrc::abi::{EV_ASSUMED_BAD, EV_GOOD};

    #[test]
    fn polling_a_queue_of_ev_events_for_completions_is_einval() {
        let events = Arc::new(Events { waiting: Mutex::default(), room: 2, notify: Notify::new(None) });
        let cq = object::publish(Box::new(EvCq {
            verbs: core::ptr::null_mut(),
            events,
            cq_context: 0,
            channel: None,
            unacknowledged: Unacknowledged::default(),
            owner: Owner::this(),
            polled: AtomicU32::new(0),
            event_stride: 56,
        }));
        let mut wc = IbvWc::default();
        // SAFETY: a live queue, and none.
        unsafe {
            assert_eq!(poll_cq(cq, 1, &raw mut wc), -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
            assert_eq!(poll_cq(core::ptr::null_mut(), 1, &raw mut wc), -1);
            assert_eq!(destroy_cq(cq), 0);
        }
    }

    #[test]
    fn a_full_queue_keeps_the_latest_of_each_ev() {
        let events = Events { waiting: Mutex::default(), room: 2, notify: Notify::new(None) };
        let ev = |n: u8| MrcCtlEv { port: n, ..MrcCtlEv::UNPOPULATED };
        events.push(1, ev(1), EV_ASSUMED_BAD, 0);
        events.push(1, ev(2), EV_ASSUMED_BAD, 0);
        events.push(1, ev(1), EV_GOOD, 0);
        let seen = |most| events.pop(most).iter().map(|e| (e.ev.port, e.state, e.drop_count)).collect::<Vec<_>>();
        // The first news of EV 1 never came; the next that does says so.
        assert_eq!(seen(1), [(2, EV_ASSUMED_BAD, 1)]);
        assert_eq!(seen(9), [(1, EV_GOOD, 0)]);
        for port in 3..6 {
            events.push(1, ev(port), EV_GOOD, if port == 5 { 7 } else { 0 });
        }
        assert_eq!(seen(9), [(4, EV_GOOD, 8), (5, EV_GOOD, 0)]);
        assert_eq!(seen(9), []);
    }
}
