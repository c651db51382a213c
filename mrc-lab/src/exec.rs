//! Runs `ip`, enters namespaces, and checks that this machine has what the lab needs.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

/// What the fabric needs and this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Not root.
    #[error("root is needed for network namespaces: run as root or with sudo")]
    Root,
    /// No `ip` program.
    #[error("`ip` is missing: install the package iproute2 (6.1 or newer)")]
    Iproute2,
    /// `ip` is too old for micro-SIDs.
    #[error("iproute2 {0} is too old for SRv6 micro-SIDs: 6.1 or newer is needed")]
    OldIproute2(String),
    /// Kernel without SRv6.
    #[error(
        "this kernel has no SRv6 (no /proc/sys/net/ipv6/conf/all/seg6_enabled): one with CONFIG_IPV6_SEG6_LWTUNNEL is needed"
    )]
    Seg6,
    /// No eBPF.
    #[error(
        "the kernel does not load the impairment program ({0}): root and a kernel with CONFIG_BPF_SYSCALL are needed"
    )]
    Bpf(String),
    /// No clsact or no eBPF filters.
    #[error(
        "this kernel has no eBPF packet filters: one with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF is needed \
         (`modprobe sch_ingress cls_bpf`)"
    )]
    ClsBpf,
}

/// Why the lab failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The machine lacks something.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The shape is impossible.
    #[error("impossible fabric: {0}")]
    Shape(String),
    /// No such link.
    #[error("no link `{name}`: links are called like `{example}`; `mrc lab status` lists them")]
    UnknownLink {
        /// Asked for.
        name: String,
        /// One that exists.
        example: String,
    },
    /// No fabric with this prefix.
    #[error("no fabric with prefix `{0}` is up: `mrc lab up` builds one")]
    NotUp(String),
    /// No such host.
    #[error("no host `{0}` in the fabric: hosts are called hA, hB, ...")]
    UnknownHost(String),
    /// A command failed.
    #[error("`{command}` failed: {text}")]
    Command {
        /// What was run.
        command: String,
        /// What it said.
        text: String,
    },
    /// The operating system refused.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// Whether a fabric can be built here.
///
/// # Errors
/// The first thing that is missing, with its cure.
pub fn requirements() -> Result<(), Missing> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Missing::Root);
    }
    let output = Command::new("ip").arg("-V").output().map_err(|_| Missing::Iproute2)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // "ip utility, iproute2-6.1.0, libbpf 1.1.2"
    let version = text.split("iproute2-").nth(1).and_then(|rest| rest.split([',', ' ', '\n']).next()).unwrap_or("");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if number < (6, 1) {
        return Err(Missing::OldIproute2(if version.is_empty() { text } else { version.to_owned() }));
    }
    if !Path::new("/proc/sys/net/ipv6/conf/all/seg6_enabled").exists() {
        return Err(Missing::Seg6);
    }
    Ok(())
}

/// For tests: whether `test` must be skipped here; says so by name and reason. Writes to standard error itself, since the
/// test harness swallows what `eprintln!` prints in a test that passes.
pub fn skip(test: &str) -> bool {
    let Err(missing) = requirements() else { return false };
    let _ = std::io::stderr().write_all(format!("SKIP {test}: {missing}\n").as_bytes());
    true
}

fn os(what: impl Into<String>, source: std::io::Error) -> LabError {
    LabError::Os { what: what.into(), source }
}

fn checked(command: String, output: Output) -> Result<String, LabError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(LabError::Command { command, text: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}

/// Runs `ip` with `args`.
pub(crate) fn ip(args: &[&str]) -> Result<String, LabError> {
    let output = Command::new("ip").args(args).output().map_err(|error| os("running `ip`", error))?;
    checked(format!("ip {}", args.join(" ")), output)
}

/// Runs `tc`, which comes with `ip`, inside `namespace`.
pub(crate) fn tc(namespace: &str, args: &[&str]) -> Result<String, LabError> {
    let output =
        Command::new("tc").args(["-n", namespace]).args(args).output().map_err(|error| os("running `tc`", error))?;
    checked(format!("tc -n {namespace} {}", args.join(" ")), output)
}

/// Runs many `ip` commands in one process, inside `namespace` if given; stops at the first that fails.
pub(crate) fn ip_batch(namespace: Option<&str>, lines: &[String]) -> Result<(), LabError> {
    batch("-6", namespace, lines)
}

/// As [`ip_batch`], for IPv4 addresses.
pub(crate) fn ip4_batch(namespace: &str, lines: &[String]) -> Result<(), LabError> {
    batch("-4", Some(namespace), lines)
}

fn batch(family: &str, namespace: Option<&str>, lines: &[String]) -> Result<(), LabError> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    let mut child = command
        .args([family, "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| os("running `ip -batch`", error))?;
    if let Some(mut input) = child.stdin.take() {
        // `ip` may stop reading early when a line fails; its message says more than the broken pipe.
        let _ = input.write_all((lines.join("\n") + "\n").as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| os("running `ip -batch`", error))?;
    checked(format!("ip -batch in {}", namespace.unwrap_or("this namespace")), output).map(drop)
}

/// What was tried; where it takes a right, with the cure.
fn entering(name: &str, errno: Errno) -> String {
    match errno {
        Errno::EPERM => format!(
            "entering network namespace {name} takes CAP_SYS_ADMIN: run as root, or start the program inside it and leave \
             `namespace` out of the host file"
        ),
        _ => format!("entering network namespace {name}"),
    }
}

/// Runs `f` in a thread inside the network namespace `name` and returns its result. The caller stays where it is.
///
/// # Errors
/// The namespace does not exist or may not be entered.
pub fn enter<R: Send>(name: &str, f: impl FnOnce() -> R + Send) -> Result<R, LabError> {
    let path = format!("/run/netns/{name}");
    let file = File::open(&path).map_err(|error| os(format!("network namespace {name} ({path})"), error))?;
    std::thread::scope(|scope| {
        let work = || {
            setns(&file, CloneFlags::CLONE_NEWNET).map_err(|errno| os(entering(name, errno), errno.into()))?;
            Ok(f())
        };
        let inside = std::thread::Builder::new().spawn_scoped(scope, work);
        let inside = inside.map_err(|error| os(format!("a thread in {name}"), error))?;
        match inside.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Errno, entering};

    #[test]
    fn a_missing_right_is_named() {
        let says = entering("web", Errno::EPERM);
        assert!(says.contains("web takes CAP_SYS_ADMIN"), "{says}");
        assert!(!entering("web", Errno::EINVAL).contains("CAP_SYS_ADMIN"));
    }
}
