//! What a device owes the process it lives in: its thread, signals, forks.
//!
//! Needs root; each test skips by name and reason otherwise.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Pair, eventually, in_namespace, ip, receive};
use mrc_afxdp::device::{
    Attachment, CompletionWaker, Device, DeviceConfig, DeviceError, DeviceEvent, PlaneConfig, Queue,
};
use mrc_afxdp::{AnyPort, Attach, Interface, Mode, PacketFilter, RawConfig, RawPort};
use mrc_core::path::EvEntry;
use mrc_core::{Event, MAX_PORTS, OpRequest, Pd, PeerConfig, PlanePath, PortMask, QpInit, Route, SendWr, Status};
use mrc_wire::{EndpointOp, Ev, Ip, PortNum, Rkey};

/// One test at a time: they look at what the process has open.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn open(namespace: &str, name: &str, attachment: Attachment) -> Device {
    let plane = PlaneConfig { interface: "p0".to_owned(), sid: None, addr: Some([0xfd; 16]) };
    let config = DeviceConfig { attachment, ..DeviceConfig::new(name, vec![plane], [0xfd; 16]) };
    in_namespace(namespace, || Device::open(config)).unwrap()
}

#[test]
fn the_last_handle_may_go_on_the_devices_own_thread() {
    let _alone = alone();
    let Some(pair) = Pair::new("the_last_handle_may_go_on_the_devices_own_thread", 9000) else { return };
    let device = Arc::new(open(&pair.a, "last", Attachment::Raw));
    let (last, gone) = (Mutex::new(Some(Arc::clone(&device))), Arc::new(AtomicBool::new(false)));
    let hook = {
        let gone = Arc::clone(&gone);
        move |_| {
            drop(last.lock().unwrap().take());
            gone.store(true, Ordering::Release);
        }
    };
    device.on_event(hook).unwrap();
    drop(device);
    ip(&format!("-n {} link set p0 down", pair.a)).unwrap();
    while !gone.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The interface is free again: its thread ended.
    ip(&format!("-n {} link set p0 up", pair.a)).unwrap();
    drop(open(&pair.a, "next", Attachment::Xdp(Mode::Skb)));
}

#[test]
fn the_devices_thread_runs_no_signal_handlers() {
    let _alone = alone();
    let Some(pair) = Pair::new("the_devices_thread_runs_no_signal_handlers", 9000) else { return };
    let _device = open(&pair.a, "signals", Attachment::Raw);
    let named = || -> Vec<u64> {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|entry| {
            let status = std::fs::read_to_string(entry.ok()?.path().join("status")).ok()?;
            status.starts_with("Name:\tmrc-signals\n").then_some(status)
        });
        threads
            .map(|status| {
                let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim().to_owned();
                u64::from_str_radix(&line, 16).unwrap()
            })
            .collect()
    };
    // A thread takes its name when it first runs.
    let give_up = std::time::Instant::now() + Duration::from_secs(10);
    let mut blocked = named();
    while blocked.is_empty() && std::time::Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(1));
        blocked = named();
    }
    assert_eq!(blocked.len(), 1);
    for signal in
        [libc::SIGINT, libc::SIGTERM, libc::SIGCHLD, libc::SIGALRM, libc::SIGUSR1, libc::SIGPIPE, libc::SIGPROF]
    {
        assert!(blocked[0] & 1 << (signal - 1) != 0, "{signal}: {:#x}", blocked[0]);
    }
    // A fault of its own is for whoever handles faults.
    assert!(blocked[0] & 1 << (libc::SIGSEGV - 1) == 0);
}

/// Sockets and BPF objects that this process has open.
fn descriptors() -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.ok()?.path().read_link().ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:") || link.to_string_lossy().contains("bpf")).count()
}

/// Whether a ring of a socket is mapped.
fn maps_a_socket() -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains("socket:")
}

/// What `f` returns in a child, which dies after a minute.
fn in_child(f: impl FnOnce() -> i32) -> Option<i32> {
    // SAFETY: the child uses memory, files and devices only, none of whose locks another thread of this test holds.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: sets a timer; ends the child.
            unsafe {
                libc::alarm(60);
                libc::_exit(f());
            }
        }
        child => {
            let mut status = 0;
            // SAFETY: our child, and room for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
        }
    }
}

#[test]
fn a_child_has_nothing_of_the_device() {
    let _alone = alone();
    let Some(pair) = Pair::new("a_child_has_nothing_of_the_device", 9000) else { return };
    for attachment in [Attachment::Xdp(Mode::Skb), Attachment::Raw] {
        let before = descriptors();
        let device = open(&pair.a, "fork", attachment);
        let queue = device.create_queue(8).unwrap();
        assert!(descriptors() > before);
        let mut both = Some((device, queue));
        let child = in_child(|| {
            let (device, queue) = both.take().unwrap();
            if !matches!(device.stats(), Err(DeviceError::Forked)) {
                return 1;
            }
            if descriptors() != before {
                return 2;
            }
            if maps_a_socket() {
                return 3;
            }
            drop(queue);
            drop(device);
            0
        });
        assert_eq!(child, Some(0), "{attachment:?}");
        // The parent's goes on.
        assert!(both.unwrap().0.stats().is_ok());
    }
}

/// Numbers of all completions that can be polled now, and whether they were flushed.
fn polled(queue: &mut Queue) -> Vec<(u64, bool)> {
    core::iter::from_fn(|| queue.poll()).map(|c| (c.wr_id, c.status == Status::Flushed)).collect()
}

/// As [`polled`], once `count` have come, or after 5 s.
fn polled_within(queue: &mut Queue, count: usize) -> Vec<(u64, bool)> {
    let mut all = polled(queue);
    eventually(Duration::from_secs(5), || {
        all.extend(polled(queue));
        all.len() >= count
    });
    all
}

/// More receive requests than the engine has room for, so that some stay in the ring; a program that connects its queue pair
/// again found them in the next connection.
#[test]
fn a_reset_takes_all_posts_along_and_destroying_too() {
    let _alone = alone();
    let Some(pair) = Pair::new("a_reset_takes_all_posts_along_and_destroying_too", 9000) else { return };
    let device = open(&pair.a, "reset", Attachment::Raw);
    let mut queue = device.create_queue(1024).unwrap();
    let (qp, other) = (device.create_qp(Pd(1), &queue).unwrap(), device.create_qp(Pd(1), &queue).unwrap());
    for round in 0..20 {
        // Those of another queue pair stay, in front and behind.
        for wr_id in 0..300 {
            assert!(queue.post_recv(qp, wr_id) && queue.post_recv(other, 1000 + wr_id));
        }
        if round % 2 == 1 {
            device.modify_to_error(qp).unwrap();
        }
        device.modify_to_reset(qp).unwrap();
        let early = polled(&mut queue);
        assert!(early.iter().all(|(wr_id, flushed)| *flushed && *wr_id < 300), "{early:?}");
        device.modify_to_init(qp).unwrap();
        assert!(queue.post_recv(qp, 7777));
        device.modify_to_error(other).unwrap();
        let late = polled_within(&mut queue, 300);
        let kept: Vec<_> = (1000..1300).map(|wr_id| (wr_id, true)).collect();
        assert_eq!(late, kept, "round {round}");
        device.modify_to_error(qp).unwrap();
        assert_eq!(polled_within(&mut queue, 1), [(7777, true)], "round {round}");
        for qp in [qp, other] {
            device.modify_to_reset(qp).unwrap();
            device.modify_to_init(qp).unwrap();
        }
    }
    for wr_id in 0..300 {
        assert!(queue.post_recv(qp, wr_id));
    }
    device.modify_to_error(qp).unwrap();
    device.destroy_qp(qp).unwrap();
    polled(&mut queue);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(polled(&mut queue), [], "completions of a queue pair that is gone");
}

fn plane(interface: &str) -> PlaneConfig {
    PlaneConfig { interface: interface.to_owned(), sid: None, addr: Some([0xfd; 16]) }
}

/// The second plane of a pair of namespaces, up at both ends.
fn add_p1(pair: &Pair) {
    let queues = "numtxqueues 1 numrxqueues 1";
    let made = format!("link add p1 netns {} mtu 9000 {queues} type veth peer name p1 netns {}", pair.a, pair.b);
    ip(&format!("{made} mtu 9000 {queues}")).unwrap();
    for namespace in [&pair.b, &pair.a] {
        ip(&format!("-n {namespace} link set p1 up")).unwrap();
    }
}

/// Whether the device uses plane 1; plane 0 it always does.
fn has_p1(device: &Device) -> bool {
    let up = device.with_engine(|engine, _| engine.ports_up()).unwrap();
    assert!(up.contains(PortNum::from_plane(0)));
    up.contains(PortNum::from_plane(1))
}

/// What the other end of plane 1 receives when the device sends one probe there.
fn probe_p1(pair: &Pair, device: &Device) -> Vec<Vec<u8>> {
    let peer = Ip::V6([0xfe; 16]);
    let mut planes = [None; MAX_PORTS];
    planes[..2].fill(Some(PlanePath { next_hop: [2; 6], outer_src: None }));
    let config = PeerConfig { local: Ip::V6([0xfd; 16]), remote: peer, planes, route: Route::Plain, hop_limit: 64 };
    let filter = PacketFilter::with_addresses([[0xfe; 16].into()]);
    let mut end = in_namespace(&pair.b, || {
        AnyPort::Raw(RawPort::open("p1", &RawConfig { filter, ..RawConfig::default() }).unwrap())
    });
    let peer = device.add_peer(config).unwrap();
    let path = EvEntry::new(Ev(1), PortNum::from_plane(1));
    let request = OpRequest {
        cookie: 1,
        op: EndpointOp::EvProbe,
        ports: PortMask::NONE,
        path,
        dscp: None,
        timeout_ns: 1_000_000_000,
    };
    device.post_endpoint_op(peer, request).unwrap().unwrap();
    let frames = receive(&mut end, 1);
    assert!(eventually(Duration::from_secs(5), || device.poll_endpoint_op().unwrap().is_some()));
    device.with_engine(move |engine, _| engine.remove_peer(peer)).unwrap().unwrap();
    frames
}

#[test]
fn a_plane_without_an_interface_is_taken_when_it_comes() {
    let _alone = alone();
    let name = "a_plane_without_an_interface_is_taken_when_it_comes";
    for attachment in [Attachment::Xdp(Mode::Skb), Attachment::Raw] {
        let Some(pair) = Pair::new(name, 9000) else { return };
        let config = DeviceConfig {
            attachment,
            required_mtu: 4252,
            ..DeviceConfig::new("absent", vec![plane("p0"), plane("p1")], [0xfd; 16])
        };
        let device = in_namespace(&pair.a, || Device::open(config)).unwrap();
        assert_eq!((device.obtained()[1].0.as_str(), device.obtained()[1].1.attach), ("p1", Attach::Absent));
        assert!(!has_p1(&device), "{attachment:?}");
        for round in 0..2 {
            add_p1(&pair);
            assert!(eventually(Duration::from_secs(5), || has_p1(&device)), "{attachment:?}, round {round}");
            // Frames go out of the interface that there is now.
            let frames = probe_p1(&pair, &device);
            let mac = in_namespace(&pair.a, || Interface::by_name("p1").unwrap().mac);
            assert!(!frames.is_empty(), "{attachment:?}, round {round}");
            assert!(frames.iter().all(|frame| frame[6..12] == mac), "{attachment:?}, round {round}");
            ip(&format!("-n {} link del p1", pair.a)).unwrap();
            assert!(eventually(Duration::from_secs(5), || !has_p1(&device)), "{attachment:?}, round {round}");
        }
    }
}

#[test]
fn an_interface_that_cannot_be_opened_yet_is_tried_again() {
    let _alone = alone();
    let Some(pair) = Pair::new("an_interface_that_cannot_be_opened_yet_is_tried_again", 9000) else { return };
    let planes = vec![plane("p0"), plane("p1")];
    let config = DeviceConfig { required_mtu: 4252, ..DeviceConfig::new("small", planes, [0xfd; 16]) };
    let device = in_namespace(&pair.a, || Device::open(config)).unwrap();
    add_p1(&pair);
    assert!(eventually(Duration::from_secs(5), || has_p1(&device)));
    ip(&format!("-n {} link del p1", pair.a)).unwrap();
    assert!(eventually(Duration::from_secs(5), || !has_p1(&device)));
    // As scripts do it: the MTU comes after the interface is up.
    ip(&format!("link add p1 netns {} type veth peer name p1 netns {}", pair.a, pair.b)).unwrap();
    for namespace in [&pair.b, &pair.a] {
        ip(&format!("-n {namespace} link set p1 up")).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(!has_p1(&device), "an MTU of 1500 is too small");
    ip(&format!("-n {} link set p1 mtu 9000", pair.a)).unwrap();
    assert!(eventually(Duration::from_secs(10), || has_p1(&device)));
}

#[test]
fn a_plane_whose_mtu_becomes_too_small_is_down_until_it_is_large_again() {
    let _alone = alone();
    let name = "a_plane_whose_mtu_becomes_too_small_is_down_until_it_is_large_again";
    for attachment in [Attachment::Xdp(Mode::Auto), Attachment::Raw] {
        let Some(pair) = Pair::new(name, 9000) else { return };
        add_p1(&pair);
        let planes = vec![plane("p0"), plane("p1")];
        let config =
            DeviceConfig { attachment, required_mtu: 4252, ..DeviceConfig::new("shrinks", planes, [0xfd; 16]) };
        let device = in_namespace(&pair.a, || Device::open(config)).unwrap();
        assert!(eventually(Duration::from_secs(5), || has_p1(&device)));
        ip(&format!("-n {} link set p1 mtu 4252", pair.a)).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(has_p1(&device), "{attachment:?}: that is enough");
        ip(&format!("-n {} link set p1 mtu 1500", pair.a)).unwrap();
        assert!(eventually(Duration::from_secs(5), || !has_p1(&device)), "{attachment:?}");
        // The carrier alone does not make it good.
        for state in ["down", "up"] {
            ip(&format!("-n {} link set p1 {state}", pair.b)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(300));
        assert!(!has_p1(&device), "{attachment:?}");
        ip(&format!("-n {} link set p1 mtu 9000", pair.a)).unwrap();
        assert!(eventually(Duration::from_secs(10), || has_p1(&device)), "{attachment:?}");
        assert!(!probe_p1(&pair, &device).is_empty(), "{attachment:?}");
    }
}

#[test]
fn a_device_without_any_interface_is_refused() {
    let _alone = alone();
    let Some(pair) = Pair::new("a_device_without_any_interface_is_refused", 9000) else { return };
    let config = DeviceConfig::new("none", vec![plane("q0"), plane("q1")], [0xfd; 16]);
    let error = in_namespace(&pair.a, || Device::open(config)).unwrap_err().to_string();
    assert!(error.contains("interface q0") && error.contains("no such interface"), "{error}");
}

/// The process's own limit of open files, given back at the end.
struct FileLimit(libc::rlimit);

impl FileLimit {
    fn set(files: u64) -> Self {
        let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: room for the answer.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut old) }, 0);
        let new = libc::rlimit { rlim_cur: files, ..old };
        // SAFETY: only reads its argument.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const new) }, 0);
        Self(old)
    }
}

impl Drop for FileLimit {
    fn drop(&mut self) {
        // SAFETY: only reads its argument.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const self.0) };
    }
}

#[test]
fn a_plane_is_closed_and_opened_again_though_descriptors_ran_out() {
    let _alone = alone();
    let name = "a_plane_is_closed_and_opened_again_though_descriptors_ran_out";
    let Some(pair) = Pair::new(name, 9000) else { return };
    add_p1(&pair);
    let config = DeviceConfig::new("files", vec![plane("p0"), plane("p1")], [0xfd; 16]);
    let device = in_namespace(&pair.a, || Device::open(config)).unwrap();
    assert!(eventually(Duration::from_secs(5), || has_p1(&device)));
    let mut later = std::process::Command::new("sh");
    let mut gone = later.arg("-c").arg(format!("sleep 0.5; ip -n {} link del p1", pair.a)).spawn().unwrap();
    let none_left = FileLimit::set(1);
    assert!(gone.wait().unwrap().success());
    assert!(eventually(Duration::from_secs(5), || !has_p1(&device)));
    // It is down before it is gone.
    std::thread::sleep(Duration::from_millis(300));
    drop(none_left);
    add_p1(&pair);
    assert!(eventually(Duration::from_secs(5), || has_p1(&device)));
    assert!(!probe_p1(&pair, &device).is_empty());
}

#[test]
fn a_device_that_finds_no_descriptors_says_so() {
    let _alone = alone();
    let Some(pair) = Pair::new("a_device_that_finds_no_descriptors_says_so", 9000) else { return };
    in_namespace(&pair.a, || {
        for files in 1..1024 {
            let _few = FileLimit::set(files);
            let config = DeviceConfig::new("few", vec![plane("p0")], [0xfd; 16]);
            let text = match Device::open(config) {
                Ok(device) => return device.stats().map(drop).unwrap(),
                Err(error) => error.to_string(),
            };
            assert!(text.contains("Too many open files") && !text.contains("cannot do this"), "{files}: {text}");
        }
        panic!("1023 descriptors do not do");
    });
}

#[test]
fn events_that_nobody_takes_are_bounded_and_the_newest_stay() {
    let _alone = alone();
    let Some(pair) = Pair::new("events_that_nobody_takes_are_bounded_and_the_newest_stay", 9000) else { return };
    let device = open(&pair.a, "events", Attachment::Raw);
    let toggle = |up| {
        device.with_engine(move |engine, now| engine.set_port(now, PortNum::from_plane(0), up)).unwrap();
    };
    for _ in 0..2500 {
        toggle(false);
        toggle(true);
    }
    toggle(false);
    // What happened before a call is heard before it.
    device.stats().unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| device.poll_event()).collect();
    assert_eq!(taken.len(), 4096);
    assert!(format!("{:?}", taken.last()).contains("up: false"), "{:?}", taken.last());
}

/// How many events that explain a failure were there whenever completions became visible.
#[derive(Debug, Default)]
struct EventsBefore {
    heard: Arc<AtomicUsize>,
    at_completions: Mutex<Vec<usize>>,
}

impl CompletionWaker for EventsBefore {
    fn completed(&self, _solicited: bool, publish: &mut dyn FnMut()) {
        self.at_completions.lock().unwrap().push(self.heard.load(Ordering::Acquire));
        publish();
    }
}

/// A program that polled a failed completion and then asked for events now and then found none, and could not say why.
#[test]
fn the_event_that_explains_a_failed_completion_is_there_before_it() {
    let _alone = alone();
    let Some(pair) = Pair::new("the_event_that_explains_a_failed_completion_is_there_before_it", 9000) else { return };
    let device = open(&pair.a, "order", Attachment::Raw);
    let waker = Arc::new(EventsBefore::default());
    let heard = Arc::clone(&waker.heard);
    let hook = move |event: DeviceEvent| {
        if matches!(event, DeviceEvent::PostRefused { .. } | DeviceEvent::Engine(Event::QpError { .. })) {
            heard.fetch_add(1, Ordering::AcqRel);
        }
    };
    device.on_event(hook).unwrap();
    let mut completions = device.create_cq(8, Some(Arc::clone(&waker) as _)).unwrap();
    let cq = completions.handle();
    let mut posts = device.create_work_queue(cq, 8).unwrap();
    let qp = device.create_qp_in_reset(&QpInit { pd: Pd(1), send_cq: cq, recv_cq: cq }).unwrap();
    device.modify_to_init(qp).unwrap();
    let mut completed = || {
        let mut completion = None;
        eventually(Duration::from_secs(5), || {
            completion = completions.poll();
            completion.is_some()
        });
        completion.map(|completion| (completion.wr_id, completion.status))
    };
    // Refused, because the queue pair does not send yet.
    let wr = SendWr {
        wr_id: 6,
        lkey: 0,
        local_va: 0,
        len: 8,
        remote_va: 0,
        rkey: Rkey(0),
        signaled: true,
        imm: None,
        solicited: false,
    };
    assert!(posts.post(qp, wr));
    assert_eq!(completed(), Some((6, Status::Flushed)));
    assert_eq!(*waker.at_completions.lock().unwrap(), [1]);
    // Flushed, because the queue pair fails.
    assert!(posts.post_recv(qp, 7));
    assert!(eventually(Duration::from_secs(5), || device.qp_info(qp).unwrap().is_some_and(|info| info.receives == 1)));
    device.modify_to_error(qp).unwrap();
    assert_eq!(completed(), Some((7, Status::Flushed)));
    assert_eq!(*waker.at_completions.lock().unwrap(), [1, 2]);
}
