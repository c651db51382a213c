//! One AF_XDP socket: UMEM registration, rings, bind; with the XDP program that feeds it.
//!
//! Set-up only; moving frames is `xsk_port.rs`. Order: program on the interface, socket with its rings, bind, and last
//! the entry in the XSKMAP, so that no packet is taken before its socket can hold it.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpOptionsFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::bpf::xdp;
use crate::config::{Attach, Mode, Obtained, XskConfig};
use crate::error::{Problem, SetupError};
use crate::interface::Interface;
use crate::probe;
use crate::ring::kernel::{Descriptor, KernelMem};
use crate::ring::{Consumer, Producer};
use crate::sys::private_fd::PrivateFd;
use crate::sys::{bpf, packet};
use crate::umem::Umem;

const RETRY_STEP: Duration = Duration::from_micros(200);

const PAGE_RX: u64 = 0;
const PAGE_TX: u64 = 0x8000_0000;
const PAGE_FILL: u64 = 0x1_0000_0000;
const PAGE_COMPLETION: u64 = 0x1_8000_0000;

/// Socket, rings and program. Dropping it gives interface and queue back.
#[derive(Debug)]
pub(crate) struct XskSocket {
    pub(crate) fill: Producer<KernelMem<u64>>,
    pub(crate) completion: Consumer<KernelMem<u64>>,
    pub(crate) rx: Consumer<KernelMem<Descriptor>>,
    pub(crate) tx: Producer<KernelMem<Descriptor>>,
    fd: PrivateFd,
    _map: PrivateFd,
    /// Detaches the program when it closes.
    _link: PrivateFd,
    pub(crate) obtained: Obtained,
}

/// A refusal with the step it happened in.
struct Refusal {
    step: &'static str,
    errno: Errno,
}

fn at(step: &'static str) -> impl FnOnce(Errno) -> Refusal {
    move |errno| Refusal { step, errno }
}

impl XskSocket {
    /// Opens `config.queue` of `interface` over `umem`.
    pub(crate) fn open(interface: &Interface, config: &XskConfig, umem: &Umem) -> Result<Self, SetupError> {
        let fail = |problem| SetupError {
            interface: interface.name.clone(),
            queue: Some(config.queue),
            mode: Some(config.mode),
            problem,
        };
        let explain = |refusal: Refusal| fail(explain(refusal, config));

        let map = bpf::create_xskmap(config.queue + 1).map_err(at("create a BPF map")).map_err(explain)?;
        let map = PrivateFd::from(map);
        let program = xdp::program(&config.filter, map.as_raw_fd());
        let program = bpf::load_xdp(&program).map_err(|(errno, log)| match errno {
            Errno::INVAL | Errno::ACCESS if !log.is_empty() => fail(Problem::Verifier { log }),
            errno => explain(Refusal { step: "load the XDP program", errno }),
        })?;
        let (link, attach) = attach(&program, interface, config).map_err(fail)?;

        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(at("open an AF_XDP socket"))
            .map_err(explain)?;
        let fd = PrivateFd::from(fd);
        sockopt::set_xdp_umem_reg(&fd, umem.registration(config.headroom))
            .map_err(at("register the UMEM"))
            .map_err(explain)?;
        let (fill, completion, rx, tx) = rings(&fd, config.ring_entries).map_err(explain)?;
        // Frames that queue behind a slow switch stay charged to the socket; the slots bound them already.
        let _ = packet::set_send_buffer(fd.as_fd(), config.tx_slots.saturating_mul(16384).min(1 << 30));
        let multi_buffer = bind_queue(&fd, interface, config, attach).map_err(fail)?;
        bpf::set_xskmap(map.as_fd(), config.queue, fd.as_fd())
            .map_err(at("enter the socket into the XSKMAP"))
            .map_err(explain)?;

        let options = sockopt::xdp_options(&fd).unwrap_or(XdpOptionsFlags::empty());
        let obtained = Obtained {
            asked: Some(config.mode),
            attach,
            zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
            multi_buffer,
            mtu: interface.mtu,
        };
        Ok(Self { fill, completion, rx, tx, fd, _map: map, _link: link, obtained })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

type Rings = (
    Producer<KernelMem<u64>>,
    Consumer<KernelMem<u64>>,
    Consumer<KernelMem<Descriptor>>,
    Producer<KernelMem<Descriptor>>,
);

fn rings(fd: &PrivateFd, entries: u32) -> Result<Rings, Refusal> {
    sockopt::set_xdp_umem_fill_ring_size(fd, entries).map_err(at("size the fill ring"))?;
    sockopt::set_xdp_umem_completion_ring_size(fd, entries).map_err(at("size the completion ring"))?;
    sockopt::set_xdp_rx_ring_size(fd, entries).map_err(at("size the receive ring"))?;
    sockopt::set_xdp_tx_ring_size(fd, entries).map_err(at("size the transmit ring"))?;
    let offsets = sockopt::xdp_mmap_offsets(fd).map_err(at("ask for the ring layout"))?;
    let step = "map a ring";
    let fill = KernelMem::map(fd.as_fd(), entries, &offsets.fr, PAGE_FILL).map_err(at(step))?;
    let completion = KernelMem::map(fd.as_fd(), entries, &offsets.cr, PAGE_COMPLETION).map_err(at(step))?;
    let rx = KernelMem::map(fd.as_fd(), entries, &offsets.rx, PAGE_RX).map_err(at(step))?;
    let tx = KernelMem::map(fd.as_fd(), entries, &offsets.tx, PAGE_TX).map_err(at(step))?;
    Ok((Producer::kernel(fill), Consumer::kernel(completion), Consumer::kernel(rx), Producer::kernel(tx)))
}

/// Calls `attempt` until it succeeds, fails otherwise than "busy", or time is up: a closed socket releases its queue, and a
/// closed link its interface, a few milliseconds later.
fn retry<T>(wait: Duration, mut attempt: impl FnMut() -> Result<T, Errno>) -> (Result<T, Errno>, u64) {
    let start = Instant::now();
    loop {
        let result = attempt();
        let waited = start.elapsed();
        if !matches!(result, Err(Errno::BUSY)) || waited >= wait {
            return (result, waited.as_millis() as u64);
        }
        thread::sleep(RETRY_STEP);
    }
}

fn attach(program: &OwnedFd, interface: &Interface, config: &XskConfig) -> Result<(PrivateFd, Attach), Problem> {
    let hooks: &[(u32, Attach)] = match config.mode {
        Mode::Auto => &[(bpf::DRIVER_MODE, Attach::NativeXdp), (bpf::SKB_MODE, Attach::SkbXdp)],
        Mode::Native | Mode::ZeroCopy => &[(bpf::DRIVER_MODE, Attach::NativeXdp)],
        Mode::Skb => &[(bpf::SKB_MODE, Attach::SkbXdp)],
    };
    let mut last = Problem::ModeUnsupported { errno: Errno::OPNOTSUPP.raw_os_error() };
    for (flags, attach) in hooks {
        let (result, waited_ms) = retry(config.busy_wait, || {
            // A program on the other hook is "exists" rather than "busy"; for us it is the same.
            bpf::attach_xdp(program.as_fd(), interface.index, *flags)
                .map_err(|errno| if errno == Errno::EXIST { Errno::BUSY } else { errno })
        });
        last = match result {
            Ok(link) => return Ok((link.into(), *attach)),
            Err(Errno::BUSY) => {
                let holder = Interface::by_name(&interface.name)
                    .ok()
                    .and_then(|now| now.xdp)
                    .and_then(|xdp| probe::holder_of_program(xdp.program_id));
                return Err(Problem::ProgramBusy { waited_ms, holder });
            }
            Err(errno @ (Errno::PERM | Errno::ACCESS)) => {
                return Err(Problem::MissingRight { step: "attach the XDP program", rights: rights(errno) });
            }
            Err(Errno::NODEV) => return Err(Problem::UnknownInterface),
            // The process or the machine has nothing left, whatever the interface can do.
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                return Err(Problem::Os { step: "attach the XDP program", errno: errno.raw_os_error() });
            }
            // The driver has no hook, or not for this MTU, or (EINVAL) the kernel has no XDP links.
            Err(errno) => Problem::ModeUnsupported { errno: errno.raw_os_error() },
        };
    }
    Err(last)
}

/// Binds and returns whether frames may span chunks.
fn bind_queue(fd: &PrivateFd, interface: &Interface, config: &XskConfig, attach: Attach) -> Result<bool, Problem> {
    let mut flags = match (config.mode, attach) {
        (Mode::ZeroCopy, _) => SocketAddrXdpFlags::XDP_ZEROCOPY,
        (_, Attach::SkbXdp) => SocketAddrXdpFlags::XDP_COPY,
        // Neither flag: the kernel takes zero-copy where the driver has it.
        _ => SocketAddrXdpFlags::empty(),
    };
    flags.set(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, config.need_wakeup);
    // Linux before 6.6 does not know the multi-buffer flag; a zero-copy driver may not either.
    let tries: &[bool] = match (config.multi_buffer, config.mode) {
        (true, Mode::Auto) => &[true, false],
        (true, _) => &[true],
        (false, _) => &[false],
    };
    let mut last = Errno::INVAL;
    for &multi_buffer in tries {
        flags.set(SocketAddrXdpFlags::XDP_USE_SG, multi_buffer);
        let address = SocketAddrXdp::new(flags, interface.index, config.queue);
        let (result, waited_ms) = retry(config.busy_wait, || bind(fd, &address));
        match result {
            Ok(()) => return Ok(multi_buffer),
            Err(Errno::BUSY) => return Err(Problem::QueueBusy { waited_ms }),
            Err(errno) => last = errno,
        }
    }
    let have = interface.queues_in_use();
    Err(match last {
        Errno::INVAL if config.queue >= have => Problem::NoSuchQueue { have },
        Errno::INVAL if config.multi_buffer && config.mode != Mode::Auto => {
            Problem::KernelTooOld { what: "multi-buffer AF_XDP (Linux 6.6)" }
        }
        Errno::OPNOTSUPP => Problem::ModeUnsupported { errno: last.raw_os_error() },
        Errno::NODEV => Problem::UnknownInterface,
        Errno::NETDOWN => Problem::Os { step: "bind while the interface is down", errno: last.raw_os_error() },
        errno => explain(Refusal { step: "bind the AF_XDP socket", errno }, config),
    })
}

fn rights(errno: Errno) -> &'static str {
    match errno {
        Errno::ACCESS => "CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW (or lift the lockdown or security policy)",
        _ => "CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW",
    }
}

fn explain(refusal: Refusal, config: &XskConfig) -> Problem {
    let Refusal { step, errno } = refusal;
    match errno {
        Errno::PERM | Errno::ACCESS => Problem::MissingRight { step, rights: rights(errno) },
        Errno::NOBUFS if step == "register the UMEM" => Problem::LockedMemory { bytes: config.umem_bytes() as u64 },
        Errno::AFNOSUPPORT => Problem::KernelTooOld { what: "AF_XDP (Linux 5.4, CONFIG_XDP_SOCKETS)" },
        Errno::NOSYS => Problem::KernelTooOld { what: "bpf(2) (CONFIG_BPF_SYSCALL)" },
        errno => Problem::Os { step, errno: errno.raw_os_error() },
    }
}
