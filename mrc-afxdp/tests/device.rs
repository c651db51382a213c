//! What a device owes the process it lives in: its thread, signals, forks.
//!
//! Needs root; each test skips by name and reason otherwise.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Pair, in_namespace, ip};
use mrc_afxdp::Mode;
use mrc_afxdp::device::{Attachment, Device, DeviceConfig, DeviceError, PlaneConfig};

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
    let threads = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|entry| {
        let status = std::fs::read_to_string(entry.ok()?.path().join("status")).ok()?;
        status.starts_with("Name:\tmrc-signals\n").then_some(status)
    });
    let blocked: Vec<u64> = threads
        .map(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim().to_owned();
            u64::from_str_radix(&line, 16).unwrap()
        })
        .collect();
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
