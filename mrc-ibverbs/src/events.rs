//! What sleeps and wakes: asynchronous events of a context, completion channels, and how both hear of the engine.

use std::collections::{HashMap, VecDeque};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use core::ffi::{c_int, c_void};

use mrc_afxdp::device::{CompletionWaker, DeviceEvent};
use mrc_core::{ErrorCause, Event, PortMask};
use mrc_verbs_shim::logging;
use mrc_wire::PortNum;
use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::abi::{
    EVENT_COMM_EST, EVENT_PORT_ACTIVE, EVENT_PORT_ERR, EVENT_QP_ACCESS_ERR, EVENT_QP_FATAL, EVENT_QP_REQ_ERR,
    IbvAsyncEvent, IbvCompChannel, IbvContext, IbvCq, IbvQp, QPS_ERR,
};
use crate::cq::Cq;
use crate::device::Context;
use crate::mrc::profile::Registry;
use crate::object::{self, Kind, Object};
use crate::qp::Qp;
use crate::wait::{self, waiting};

/// A queue behind a descriptor: readable while there is something in it, one count per entry.
#[derive(Debug)]
pub(crate) struct Waitable<T> {
    fd: OwnedFd,
    queue: Mutex<VecDeque<T>>,
}

impl<T> Waitable<T> {
    pub(crate) fn new() -> Result<Self, c_int> {
        // Blocking, as verbs promise; applications set O_NONBLOCK themselves.
        let fd =
            eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC).map_err(rustix::io::Errno::raw_os_error)?;
        Ok(Self { fd, queue: Mutex::default() })
    }

    pub(crate) fn fd(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    pub(crate) fn push(&self, entry: T) {
        // Under the lock: who takes the entry back takes its count along.
        let mut queue = self.queue.lock();
        queue.push_back(entry);
        // Only a counter near 2^64 could block.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Hands the entry to `take` whose count the caller has taken ([`crate::wait`]), before anybody else can know that it is gone: who
    /// withdraws entries afterwards sees what `take` did. `None` when it was withdrawn meanwhile.
    pub(crate) fn take<R>(&self, take: impl Fn(T) -> R) -> Option<R> {
        let mut queue = self.queue.lock();
        queue.pop_front().map(take)
    }

    /// Takes back what nobody has read yet, and its counts: who polls the descriptor would find nothing behind them, and sleep.
    pub(crate) fn withdraw(&self, is: impl Fn(&T) -> bool) {
        let mut queue = self.queue.lock();
        let before = queue.len();
        queue.retain(|entry| !is(entry));
        for _ in queue.len()..before {
            // A reader that took the count before the lock finds the queue empty and goes on waiting.
            let mut count = [0; 8];
            let now = ReadWriteFlags::NOWAIT;
            if preadv2(&self.fd, &mut [IoSliceMut::new(&mut count)], u64::MAX, now).is_err() {
                break;
            }
        }
    }
}

/// Events given to the application and not yet acknowledged; destroying their object waits for zero.
#[derive(Debug, Default)]
pub(crate) struct Unacknowledged {
    count: Mutex<u32>,
    changed: Condvar,
}

impl Unacknowledged {
    pub(crate) fn add(&self) {
        *self.count.lock() += 1;
    }

    pub(crate) fn acknowledge(&self, n: u32) {
        let mut count = self.count.lock();
        *count = count.saturating_sub(n);
        self.changed.notify_all();
    }

    pub(crate) fn wait(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.changed.wait(&mut count);
        }
    }
}

/// An asynchronous event on its way to the application.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsyncEvent {
    /// Address of the QP, or a port number.
    pub(crate) element: usize,
    pub(crate) event_type: u32,
}

/// What the hub knows of a QP.
struct Listener {
    qp: usize,
    events: Weak<Waitable<AsyncEvent>>,
    state: Arc<AtomicU32>,
    /// Name of its peer, once it has one.
    peer: Option<String>,
}

impl Listener {
    fn tell(&self, event_type: u32) {
        if let Some(events) = self.events.upgrade() {
            events.push(AsyncEvent { element: self.qp, event_type });
        }
    }
}

/// Turns the engine's events into those of verbs. Runs on the progress thread; its locks are never held across a call to
/// the device.
pub(crate) struct Hub {
    qps: Mutex<HashMap<u32, Listener>>,
    /// `None` until the device was asked.
    ports_up: Mutex<Option<PortMask>>,
    profiles: Arc<Mutex<Registry>>,
}

impl Hub {
    pub(crate) fn new(profiles: Arc<Mutex<Registry>>) -> Self {
        Self { qps: Mutex::default(), ports_up: Mutex::default(), profiles }
    }

    /// The ports that are up when the device begins to tell of changes.
    pub(crate) fn begin(&self, ports_up: PortMask) {
        *self.ports_up.lock() = Some(ports_up);
    }

    pub(crate) fn add_qp(&self, qpn: u32, qp: *mut IbvQp, events: &Arc<Waitable<AsyncEvent>>, state: &Arc<AtomicU32>) {
        let listener =
            Listener { qp: qp as usize, events: Arc::downgrade(events), state: Arc::clone(state), peer: None };
        self.qps.lock().insert(qpn, listener);
    }

    /// Names the peer of a QP, for the log.
    pub(crate) fn name_peer(&self, qpn: u32, peer: &str) {
        if let Some(listener) = self.qps.lock().get_mut(&qpn) {
            listener.peer = Some(peer.to_owned());
        }
    }

    pub(crate) fn remove_qp(&self, qpn: u32) {
        self.qps.lock().remove(&qpn);
    }

    pub(crate) fn hear(&self, event: DeviceEvent) {
        logging::tell(&event, |qp| self.qps.lock().get(&qp.value()).and_then(|listener| listener.peer.clone()));
        match event {
            DeviceEvent::Engine(Event::QpError { qp, cause }) => self.qp_failed(qp.value(), cause),
            DeviceEvent::Established { qp } => self.established(qp.value()),
            DeviceEvent::Engine(Event::Port { port, up }) => self.port(port, up),
            DeviceEvent::Engine(Event::EvProfile { profile, entry, state, dropped, .. }) => {
                let named = self.profiles.lock().named(profile, entry);
                if let Some((id, ev)) = named {
                    crate::mrc::heard(id, ev, state, dropped);
                }
            }
            _ => {}
        }
    }

    fn qp_failed(&self, qpn: u32, cause: ErrorCause) {
        let qps = self.qps.lock();
        let Some(listener) = qps.get(&qpn) else { return };
        listener.state.store(QPS_ERR, Ordering::Release);
        // A requester's failure is told by its completions; one that a queue pair which only receives may find has an event.
        let event_type = match cause {
            ErrorCause::RequestInvalid | ErrorCause::RequestWimm | ErrorCause::RequestNoReceive => EVENT_QP_REQ_ERR,
            ErrorCause::RequestAccess => EVENT_QP_ACCESS_ERR,
            ErrorCause::RequestFailed | ErrorCause::PeerSilent | ErrorCause::NoUsablePort => EVENT_QP_FATAL,
            ErrorCause::Application => return,
            _ => return,
        };
        listener.tell(event_type);
    }

    fn established(&self, qpn: u32) {
        if let Some(listener) = self.qps.lock().get(&qpn) {
            listener.tell(EVENT_COMM_EST);
        }
    }

    fn port(&self, port: PortNum, up: bool) {
        if let Some(event_type) = self.port_event(port, up) {
            for events in object::find_all(Context::own_events) {
                events.push(AsyncEvent { element: 1, event_type });
            }
        }
    }

    /// What a change of one port is to verbs, whose port is all planes together: down only when none is left.
    fn port_event(&self, port: PortNum, up: bool) -> Option<u32> {
        let mut known = self.ports_up.lock();
        let before = (*known)?;
        let after = if up { before.with(port) } else { before.without(port) };
        *known = Some(after);
        match (before.is_empty(), after.is_empty()) {
            (true, false) => Some(EVENT_PORT_ACTIVE),
            (false, true) => Some(EVENT_PORT_ERR),
            _ => None,
        }
    }
}

/// The descriptor of a context's events.
pub(crate) fn async_fd(context: *mut IbvContext, event: *mut IbvAsyncEvent) -> c_int {
    let fd = object::with::<Context, _>(context, |context| context.shared.events.fd());
    object::not_negative(fd.and_then(|fd| if event.is_null() { Err(libc::EINVAL) } else { Ok(fd) }))
}

/// Gives the event whose count was taken.
///
/// # Safety
/// `event` has room for one.
pub(crate) unsafe fn take_async_event(context: *mut IbvContext, event: *mut IbvAsyncEvent) -> c_int {
    let take = || {
        // Another thread may have closed the context while this one waited.
        let events = object::with::<Context, _>(context, |context| Arc::clone(&context.shared.events))?;
        let next = events.take(|event| {
            // A port is no queue pair.
            let _ = object::with::<Qp, _>(event.element as *mut IbvQp, |qp| qp.unacknowledged.add());
            event
        });
        let Some(AsyncEvent { element, event_type }) = next else { return Ok(wait::AGAIN) };
        // SAFETY: the caller says so.
        unsafe { event.write(IbvAsyncEvent { element: element as *mut c_void, event_type }) };
        Ok(0)
    };
    object::not_negative(take())
}

unsafe extern "C" fn async_ready(context: *mut IbvContext, event: *mut IbvAsyncEvent) -> c_int {
    async_fd(context, event)
}

unsafe extern "C" fn async_take(context: *mut IbvContext, event: *mut IbvAsyncEvent) -> c_int {
    // SAFETY: not null, as `async_ready` saw; the application gives room for one event.
    unsafe { take_async_event(context, event) }
}

waiting! {
    fn get_async_event(context: *mut IbvContext, event: *mut IbvAsyncEvent) = async_ready, async_take, wait::minus_one
}

pub(crate) unsafe extern "C" fn ack_async_event(event: *mut IbvAsyncEvent) {
    if event.is_null() {
        return;
    }
    // SAFETY: not null; an event that `get_async_event` filled.
    let element = unsafe { (*event).element };
    if let Ok(qp) = object::get::<Qp>(element.cast()) {
        qp.unacknowledged.acknowledge(1);
    }
}

/// A completion channel.
#[repr(C)]
pub(crate) struct Channel {
    abi: core::cell::UnsafeCell<IbvCompChannel>,
    pub(crate) events: Arc<Waitable<usize>>,
    pub(crate) users: AtomicU32,
}

// SAFETY: `repr(C)`, the C structure first; `UnsafeCell` has the layout of what it holds.
unsafe impl Object for Channel {
    type Abi = IbvCompChannel;
    const KIND: Kind = Kind::Channel;
}

pub(crate) unsafe extern "C" fn create_comp_channel(context: *mut IbvContext) -> *mut IbvCompChannel {
    let create = || {
        object::get::<Context>(context)?;
        let events = Arc::new(Waitable::new()?);
        let abi = core::cell::UnsafeCell::new(IbvCompChannel { context, fd: events.fd(), refcnt: 0 });
        Ok(object::publish(Box::new(Channel { abi, events, users: AtomicU32::new(0) })))
    };
    object::pointer(create())
}

pub(crate) unsafe extern "C" fn destroy_comp_channel(channel: *mut IbvCompChannel) -> c_int {
    let destroy = || {
        if object::get::<Channel>(channel)?.users.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        object::retire::<Channel>(channel).map(drop)
    };
    object::code(destroy())
}

/// Nobody asked.
const UNARMED: u8 = 0;
/// The application wants to hear of solicited or failed completions.
const SOLICITED: u8 = 1;
/// The application wants to hear of any completion.
const ANY: u8 = 2;

/// Whether a CQ's next completion makes an event.
#[derive(Debug)]
pub(crate) struct Notify {
    /// Held while completions become visible: a completion comes either before a request for an event or after it.
    armed: Mutex<u8>,
    cq: AtomicUsize,
    channel: Option<Arc<Waitable<usize>>>,
}

impl Notify {
    pub(crate) fn new(channel: Option<Arc<Waitable<usize>>>) -> Self {
        Self { armed: Mutex::new(UNARMED), cq: AtomicUsize::new(0), channel }
    }

    pub(crate) fn set_cq(&self, cq: *mut IbvCq) {
        self.cq.store(cq as usize, Ordering::Release);
    }

    /// Asks for one event, for a completion that becomes visible after this call. The application polls once more
    /// afterwards, since what came before makes none. A request for any completion is not lowered by a later one for
    /// solicited completions only.
    pub(crate) fn arm(&self, solicited_only: bool) {
        let level = if solicited_only { SOLICITED } else { ANY };
        let mut armed = self.armed.lock();
        *armed = level.max(*armed);
    }

    /// No more events of this CQ; those that wait are taken back.
    pub(crate) fn end(&self) {
        // No completion is half-way between its event and the channel.
        let _armed = self.armed.lock();
        let cq = self.cq.swap(0, Ordering::AcqRel);
        if let Some(channel) = &self.channel {
            channel.withdraw(|&waiting| waiting == cq);
        }
    }
}

impl CompletionWaker for Notify {
    fn completed(&self, solicited: bool, publish: &mut dyn FnMut()) {
        let mut armed = self.armed.lock();
        publish();
        if *armed == UNARMED || (*armed == SOLICITED && !solicited) {
            return;
        }
        *armed = UNARMED;
        let cq = self.cq.load(Ordering::Acquire);
        if cq != 0
            && let Some(channel) = &self.channel
        {
            channel.push(cq);
        }
    }
}

/// Counts an event of a CQ as delivered and tells the CQ's context; `None` when it is no live CQ.
pub(crate) fn deliver(pointer: *mut IbvCq) -> Option<*mut c_void> {
    let deliver = |cq: &Cq| {
        cq.unacknowledged.add();
        // SAFETY: the CQ lives.
        unsafe { (*pointer).cq_context }
    };
    object::with::<Cq, _>(pointer, deliver).ok()
}

/// The descriptor of a channel.
pub(crate) unsafe extern "C" fn cq_ready(
    channel: *mut IbvCompChannel,
    cq: *mut *mut IbvCq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let fd = object::with::<Channel, _>(channel, |channel| channel.events.fd());
    object::not_negative(
        fd.and_then(|fd| if cq.is_null() || cq_context.is_null() { Err(libc::EINVAL) } else { Ok(fd) }),
    )
}

/// Gives the CQ whose count was taken, which lives by the word of `deliver`.
///
/// # Safety
/// `cq` and `cq_context` have room for one pointer each.
pub(crate) unsafe fn take_cq(
    channel: *mut IbvCompChannel,
    cq: *mut *mut IbvCq,
    cq_context: *mut *mut c_void,
    deliver: impl Fn(*mut IbvCq) -> Option<*mut c_void>,
) -> c_int {
    let take = || {
        let events = object::with::<Channel, _>(channel, |channel| Arc::clone(&channel.events))?;
        let next =
            events.take(|pointer| deliver(pointer as *mut IbvCq).map(|context| (pointer as *mut IbvCq, context)));
        let Some((pointer, context)) = next.flatten() else { return Ok(wait::AGAIN) };
        // SAFETY: the caller says so.
        unsafe {
            cq.write(pointer);
            cq_context.write(context);
        }
        Ok(0)
    };
    object::not_negative(take())
}

unsafe extern "C" fn cq_take(channel: *mut IbvCompChannel, cq: *mut *mut IbvCq, cq_context: *mut *mut c_void) -> c_int {
    // SAFETY: neither is null, as `cq_ready` saw; the application gives room for one pointer each.
    unsafe { take_cq(channel, cq, cq_context, deliver) }
}

waiting! {
    fn get_cq_event(channel: *mut IbvCompChannel, cq: *mut *mut IbvCq, cq_context: *mut *mut c_void)
        = cq_ready, cq_take, wait::minus_one
}

pub(crate) unsafe extern "C" fn ack_cq_events(cq: *mut IbvCq, n: u32) {
    if let Ok(cq) = object::get::<Cq>(cq) {
        cq.unacknowledged.acknowledge(n);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    impl<T> Waitable<T> {
        /// Waits for an entry, as the calls do.
        fn pop<R>(&self, take: impl Fn(T) -> R) -> Result<R, c_int> {
            loop {
                if wait::take_count(self.fd()) != 0 {
                    return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
                }
                if let Some(taken) = self.take(&take) {
                    return Ok(taken);
                }
            }
        }
    }

    /// A CQ that is a count of completions, with a channel.
    struct Model {
        notify: Notify,
        channel: Arc<Waitable<usize>>,
        visible: AtomicUsize,
    }

    impl Model {
        fn new() -> Self {
            let channel = Arc::new(Waitable::new().unwrap());
            let notify = Notify::new(Some(Arc::clone(&channel)));
            notify.set_cq(64 as *mut IbvCq);
            Self { notify, channel, visible: AtomicUsize::new(0) }
        }

        fn complete(&self, solicited: bool) {
            self.notify.completed(solicited, &mut || {
                self.visible.fetch_add(1, Ordering::AcqRel);
                // Who sees it now has time to ask for an event before this call ends, unless that waits.
                for _ in 0..20 {
                    std::thread::yield_now();
                }
            });
        }

        fn events(&self) -> usize {
            self.channel.queue.lock().len()
        }
    }

    /// What a responder refuses is an event of its queue pair; what a requester meets, its completions tell.
    //= ERR-002 test
    #[test]
    fn a_responder_that_refuses_tells_its_application() {
        let hub = Hub::new(Arc::new(Mutex::new(Registry::new(Vec::new(), 0))));
        let (events, state) = (Arc::new(Waitable::new().unwrap()), Arc::default());
        hub.add_qp(7, 64 as *mut IbvQp, &events, &state);
        for (cause, want) in [
            (ErrorCause::RequestInvalid, Some(EVENT_QP_REQ_ERR)),
            (ErrorCause::RequestWimm, Some(EVENT_QP_REQ_ERR)),
            (ErrorCause::RequestNoReceive, Some(EVENT_QP_REQ_ERR)),
            (ErrorCause::RequestAccess, Some(EVENT_QP_ACCESS_ERR)),
            (ErrorCause::RequestFailed, Some(EVENT_QP_FATAL)),
            (ErrorCause::PeerSilent, Some(EVENT_QP_FATAL)),
            (ErrorCause::NoUsablePort, Some(EVENT_QP_FATAL)),
            (ErrorCause::RemoteAccess, None),
            (ErrorCause::RetryExceeded, None),
            (ErrorCause::PostRefused, None),
            (ErrorCause::Application, None),
        ] {
            hub.qp_failed(7, cause);
            assert_eq!(events.queue.lock().pop_front().map(|event| event.event_type), want, "{cause:?}");
            assert_eq!(state.load(Ordering::Acquire), QPS_ERR);
        }
    }

    /// All planes are one port of verbs. A device that was opened without any told nothing when the first one came.
    #[test]
    fn the_port_is_active_while_a_plane_is_up() {
        let hub = Hub::new(Arc::new(Mutex::new(Registry::new(Vec::new(), 0))));
        let [first, second] = [0, 1].map(PortNum::from_plane);
        assert_eq!(hub.port_event(first, true), None, "nobody has said which planes are up");
        hub.begin(PortMask::NONE);
        let steps = [(first, true), (second, true), (first, false), (second, false), (second, false), (second, true)];
        let told = steps.map(|(port, up)| hub.port_event(port, up));
        assert_eq!(told, [Some(EVENT_PORT_ACTIVE), None, None, Some(EVENT_PORT_ERR), None, Some(EVENT_PORT_ACTIVE)]);
    }

    /// A program that polls the descriptor and then takes an event slept for ever behind one that was taken back.
    #[test]
    fn what_is_taken_back_leaves_nothing_to_poll_for() {
        let channel = Waitable::new().unwrap();
        let readable = || {
            let mut fds = [PollFd::new(&channel.fd, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
        };
        for entry in [1, 2, 1, 3] {
            channel.push(entry);
        }
        channel.withdraw(|&entry| entry == 1);
        for entry in [2, 3] {
            assert!(readable());
            assert_eq!(channel.pop(|entry| entry), Ok(entry));
        }
        assert!(!readable());
        channel.withdraw(|_| true);
        channel.push(4);
        assert_eq!(channel.pop(|entry| entry), Ok(4));
    }

    /// Destroying a queue withdraws its events and then waits for the acknowledgement of those that were taken. One that was taken
    /// and not counted yet let the queue go, and its pointer came later.
    #[test]
    fn who_withdraws_finds_every_event_in_the_queue_or_counted() {
        for _ in 0..if cfg!(miri) { 3 } else { 30 } {
            let (channel, counted) = (Waitable::new().unwrap(), Unacknowledged::default());
            std::thread::scope(|scope| {
                channel.push(1);
                channel.push(2);
                let reader = scope.spawn(|| {
                    let count = |entry| {
                        std::thread::yield_now();
                        counted.add();
                        entry
                    };
                    assert_eq!(channel.pop(count), Ok(1));
                });
                while channel.queue.lock().len() == 2 {
                    std::thread::yield_now();
                }
                channel.withdraw(|_| true);
                assert_eq!(*counted.count.lock(), 1);
                reader.join().unwrap();
            });
        }
    }

    /// An event that came behind the end of its queue made the channel readable, and a reader slept behind it.
    #[test]
    fn no_event_follows_the_end_of_its_queue() {
        const ROUNDS: usize = if cfg!(miri) { 3 } else { 1_000 };
        let channel = Arc::new(Waitable::new().unwrap());
        let queue = |number: usize| {
            let notify = Notify::new(Some(Arc::clone(&channel)));
            notify.set_cq((64 * number) as *mut IbvCq);
            notify.arm(false);
            notify
        };
        let queues: Vec<Notify> = (1..=ROUNDS).map(queue).collect();
        let begun = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let engine = scope.spawn(|| {
                for (round, cq) in queues.iter().enumerate() {
                    begun.store(round + 1, Ordering::Release);
                    cq.completed(false, &mut || {});
                    // Gives the other side time to begin with the next one.
                    std::thread::yield_now();
                }
            });
            for (round, cq) in queues.iter().enumerate() {
                while begun.load(Ordering::Acquire) <= round {
                    std::hint::spin_loop();
                }
                cq.end();
            }
            engine.join().unwrap();
        });
        assert!(channel.queue.lock().is_empty());
    }

    #[test]
    fn an_event_belongs_to_a_completion_after_the_request_for_it() {
        let cq = Model::new();
        cq.complete(true);
        cq.notify.arm(false);
        assert_eq!(cq.events(), 0);
        cq.complete(false);
        cq.complete(false);
        assert_eq!(cq.events(), 1);
        // Solicited only: others make none and do not use the request up.
        cq.notify.arm(true);
        cq.complete(false);
        assert_eq!(cq.events(), 1);
        cq.complete(true);
        assert_eq!(cq.events(), 2);
        // The wider of two requests holds, whatever their order.
        cq.notify.arm(false);
        cq.notify.arm(true);
        cq.complete(false);
        assert_eq!(cq.events(), 3);
        cq.complete(true);
        assert_eq!(cq.events(), 3);
    }

    #[test]
    fn a_completion_that_was_polled_before_the_request_makes_no_event() {
        const ROUNDS: usize = 300;
        let cq = Model::new();
        let (wanted, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    while wanted.load(Ordering::Acquire) < round && !failed.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                    cq.complete(false);
                    done.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                wanted.store(round, Ordering::Release);
                // The application polls until it finds the completion, then asks for an event.
                while cq.visible.load(Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
                cq.notify.arm(false);
                while done.load(Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
                if cq.events() != round - 1 {
                    failed.store(true, Ordering::Relaxed);
                }
                assert!(!failed.load(Ordering::Relaxed), "an event without a completion in round {round}");
                // The request holds: the next completion, which nobody asks for, makes the event.
                cq.complete(false);
                cq.visible.fetch_sub(1, Ordering::AcqRel);
                assert_eq!(cq.events(), round);
            }
        });
    }
}
