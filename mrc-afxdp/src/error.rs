//! Why a port could not be opened: which interface, queue and mode, what the kernel said, and what helps.

use core::fmt;

use rustix::io::Errno;

use crate::config::Mode;

/// A port was not opened. `Display` is one line: object, cause, cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupError {
    /// Interface asked for.
    pub interface: String,
    /// Queue asked for; `None` for a raw-socket port.
    pub queue: Option<u32>,
    /// Mode asked for; `None` for a raw-socket port.
    pub mode: Option<Mode>,
    /// What went wrong.
    pub problem: Problem,
}

/// The causes of a [`SetupError`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// No interface of this name in the network namespace of the calling thread.
    UnknownInterface,
    /// The interface has fewer queues.
    NoSuchQueue {
        /// Queues in use, where known.
        have: u32,
    },
    /// The configuration contradicts itself or the kernel's limits.
    BadConfig(&'static str),
    /// A right is missing for `step`.
    MissingRight {
        /// What was attempted.
        step: &'static str,
        /// Capabilities that allow it.
        rights: &'static str,
    },
    /// Another AF_XDP socket holds the queue, still after retrying.
    QueueBusy {
        /// Milliseconds spent retrying.
        waited_ms: u64,
    },
    /// Another XDP program is attached, still after retrying.
    ProgramBusy {
        /// Milliseconds spent retrying.
        waited_ms: u64,
        /// Process that holds the program, where it could be found.
        holder: Option<String>,
    },
    /// The MTU is below what the configuration requires.
    MtuTooSmall {
        /// MTU of the interface.
        have: u32,
        /// MTU required.
        need: u32,
    },
    /// Frames of the required MTU do not fit one buffer, and the port obtained no more.
    SingleBuffer {
        /// MTU required.
        need: u32,
        /// Bytes of the longest frame that arrives.
        longest: u32,
    },
    /// The interface cannot do the mode asked.
    ModeUnsupported {
        /// What the kernel said.
        errno: i32,
    },
    /// The kernel is too old for `what`.
    KernelTooOld {
        /// The missing feature and the release that brought it.
        what: &'static str,
    },
    /// Locked memory is limited.
    LockedMemory {
        /// Bytes of UMEM asked for.
        bytes: u64,
    },
    /// The kernel's verifier refused the XDP program.
    Verifier {
        /// What it said.
        log: String,
    },
    /// Any other refusal.
    Os {
        /// What was attempted.
        step: &'static str,
        /// The error number.
        errno: i32,
    },
}

impl std::error::Error for SetupError {}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interface {}", self.interface)?;
        if let Some(queue) = self.queue {
            write!(f, ", queue {queue}")?;
        }
        match self.mode {
            Some(mode) => write!(f, ", mode {mode}: ")?,
            None => f.write_str(", raw socket: ")?,
        }
        let name = &self.interface;
        match &self.problem {
            Problem::UnknownInterface => write!(
                f,
                "no such interface in this network namespace: `ip link` lists those that exist, `ip netns exec NS ...` \
                 enters another namespace"
            ),
            Problem::NoSuchQueue { have } => write!(
                f,
                "no such queue, the interface uses {have}: choose one below {have}, or add queues with \
                 `ethtool -L {name} combined N`"
            ),
            Problem::BadConfig(what) => write!(f, "bad configuration: {what}"),
            Problem::MissingRight { step, rights } if rustix::process::geteuid().is_root() => write!(
                f,
                "not allowed to {step}, though this is root: it lacks {rights}, which containers get as added capabilities; in a \
                 user namespace of its own only the raw-socket port works"
            ),
            Problem::MissingRight { step, rights } => {
                // Not `setcap`: for a program with file capabilities the loader ignores LD_LIBRARY_PATH.
                write!(
                    f,
                    "not allowed to {step}: run as root, or grant {rights} as ambient capabilities (`setpriv \
                     --inh-caps=+net_admin,... --ambient-caps=+net_admin,... PROGRAM`)"
                )
            }
            Problem::QueueBusy { waited_ms } => write!(
                f,
                "another AF_XDP socket holds the queue (tried for {waited_ms} ms): stop the other program that uses this \
                 interface (another `mrc`, or any user of AF_XDP), or choose another queue"
            ),
            Problem::ProgramBusy { waited_ms, holder } => {
                write!(f, "another XDP program is attached (tried for {waited_ms} ms)")?;
                match holder {
                    Some(holder) => write!(f, ", held by {holder}: stop that process"),
                    None => write!(
                        f,
                        ": stop its owner (`mrc doctor {name}` looks for it), or `ip link set {name} xdp off`"
                    ),
                }
            }
            Problem::MtuTooSmall { have, need } => {
                write!(
                    f,
                    "MTU {have} is too small, {need} is needed: `ip link set {name} mtu {need}`, or a smaller PMTU"
                )
            }
            Problem::SingleBuffer { need, longest } => write!(
                f,
                "frames beyond {longest} bytes would be lost, an MTU of {need} has longer ones: this kernel or driver has no \
                 multi-buffer AF_XDP (Linux 6.6); set `pmtu` to 2048, or use the raw-socket port"
            ),
            Problem::ModeUnsupported { errno } => write!(
                f,
                "the interface cannot do this ({}): use mode auto, which takes the best there is, or the raw-socket port",
                Errno::from_raw_os_error(*errno)
            ),
            Problem::KernelTooOld { what } => {
                write!(f, "this kernel lacks {what}: update it, or use the raw-socket port")
            }
            Problem::LockedMemory { bytes } => write!(
                f,
                "the UMEM of {bytes} bytes exceeds the limit of locked memory: grant CAP_IPC_LOCK as an ambient capability, or raise \
                 `ulimit -l` by 24576 for each plane"
            ),
            Problem::Verifier { log } => {
                write!(f, "the kernel's verifier refused the XDP program (a defect, please report): {}", log.trim())
            }
            Problem::Os { step, errno } => {
                let errno = Errno::from_raw_os_error(*errno);
                write!(f, "cannot {step}: {errno}; ")?;
                match errno {
                    Errno::MFILE => f.write_str("raise `ulimit -n`"),
                    Errno::NFILE => f.write_str("raise the machine's `fs.file-max`"),
                    _ => write!(f, "`mrc doctor {name}` may tell why"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_object_cause_and_cure() {
        let error = |problem| {
            let error = SetupError { interface: "p0".into(), queue: Some(3), mode: Some(Mode::ZeroCopy), problem };
            error.to_string()
        };
        let text = error(Problem::NoSuchQueue { have: 1 });
        assert!(text.starts_with("interface p0, queue 3, mode zero-copy: no such queue"), "{text}");
        assert!(text.contains("ethtool -L p0"), "{text}");
        let text = error(Problem::MtuTooSmall { have: 1500, need: 4270 });
        assert!(text.contains("1500") && text.contains("ip link set p0 mtu 4270"), "{text}");
        let text = error(Problem::MissingRight { step: "load the XDP program", rights: "CAP_BPF and CAP_NET_ADMIN" });
        assert!(text.contains("load the XDP program") && text.contains("CAP_BPF"), "{text}");
    }
}
