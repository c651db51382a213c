//! `mrc doctor`: what this machine offers, what is missing, and the cure.
//!
//! Exit code 0 when all that is required is there, 1 otherwise. Nothing is changed, except that root tries a micro-SID
//! route in a network namespace made for it and removed at once.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::out::{count, outln};
use mrc_afxdp::{Interface, probe};
use mrc_verbs_shim::host::{self, HostFile, HostPlane};
use serde::Serialize;

mod paths;

/// Arguments of `mrc doctor`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc doctor                                this machine: rights, kernel, tools
  mrc doctor eth1 eth2                      and these interfaces
  mrc doctor --config /etc/mrc/mrc.toml     and a device: every destination it would send to, with a probe along each path

Exit codes: 0 all that is required is there (warnings may remain), 1 something is missing, 2 usage.")]
pub struct Args {
    /// Interfaces to check as well
    #[arg(value_name = "IFACE")]
    interfaces: Vec<String>,
    /// Configuration of a verbs device to check as well; default: the file `MRC_CONFIG` names, or /etc/mrc/mrc.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut checks = machine();
    for name in &args.interfaces {
        checks.extend(interface(name));
    }
    // Nothing configured is no fault; a name that leads nowhere is.
    if let Some(path) = args.config.or_else(|| HostFile::configured_path().ok()) {
        checks.extend(configuration(&path));
    }
    let report = Report { ok: !checks.iter().any(|check| check.status == Status::Fail), checks };
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.to_string().lines().for_each(|line| outln!("{}", crate::color::verdict(line.to_string())));
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// As it should be.
    Ok,
    /// Works, with less; or could not be found out.
    Warn,
    /// Required and missing.
    Fail,
}

#[derive(Debug, Serialize)]
struct Check {
    /// What was looked at: the machine, or an interface.
    subject: String,
    name: String,
    status: Status,
    detail: String,
    cure: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut subject = "";
        for check in &self.checks {
            if check.subject != subject {
                subject = &check.subject;
                writeln!(f, "{subject}")?;
            }
            let mark = match check.status {
                Status::Ok => "ok  ",
                Status::Warn => "warn",
                Status::Fail => "FAIL",
            };
            writeln!(f, "  {mark}  {:<20} {}", check.name, check.detail)?;
            if let Some(cure) = &check.cure {
                writeln!(f, "        {:<20} cure: {cure}", "")?;
            }
        }
        f.write_str(if self.ok {
            "All that is required is there.\n"
        } else {
            "Something required is missing. The simulator (`mrc demo` as an ordinary user) works without it.\n"
        })
    }
}

/// A check that passed, or that failed with `status` and a cure.
fn check(subject: &str, name: impl Into<String>, result: Result<String, (Status, String, impl Into<String>)>) -> Check {
    let (subject, name) = (subject.to_owned(), name.into());
    match result {
        Ok(detail) => Check { subject, name, status: Status::Ok, detail, cure: None },
        Err((status, detail, cure)) => Check { subject, name, status, detail, cure: Some(cure.into()) },
    }
}

/// What only the lab needs is no fault of a machine with a NIC.
fn for_the_lab(name: &str, result: Result<String, (Status, String, &'static str)>) -> Check {
    let optional = |(_, detail, cure)| (Status::Warn, detail, cure);
    check("the lab on this machine (`mrc lab`, `mrc demo`)", name, result.map_err(optional))
}

fn machine() -> Vec<Check> {
    let this = |name, result| check("this machine", name, result);
    let lab = for_the_lab;
    vec![
        this("rights", rights()),
        this("kernel", kernel()),
        this(
            "AF_XDP",
            probe::af_xdp().map(|()| "sockets can be opened".into()).map_err(|error| {
                (Status::Fail, format!("no socket: {error}"), "run as root; the kernel needs CONFIG_XDP_SOCKETS")
            }),
        ),
        this(
            "bpf(2)",
            probe::bpf().map(|()| "the XDP program loads".into()).map_err(|error| {
                (
                    Status::Fail,
                    format!("the XDP program does not load: {error}"),
                    "run as root; the kernel needs CONFIG_BPF_SYSCALL",
                )
            }),
        ),
        this(
            "packet socket",
            probe::packet_socket()
                .map(|()| "the raw-socket port works".into())
                .map_err(|error| (Status::Warn, format!("no raw-socket port: {error}"), AS_ROOT)),
        ),
        this("locked memory", locked_memory()),
        lab("iproute2", iproute2()),
        lab("clsact, cls_bpf", impairments()),
        lab("network namespaces", namespaces()),
        lab("SRv6 micro-SIDs", micro_sids()),
    ]
}

const AS_ROOT: &str = "run as root, or with ambient capabilities: docs/verbs.md, \"Rights\", has the command";

/// Capabilities this process needs, by bit.
const CAPABILITIES: [(u32, &str); 4] =
    [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (14, "CAP_IPC_LOCK"), (39, "CAP_BPF")];
const CAP_SYS_ADMIN: u32 = 21;

fn rights() -> Result<String, (Status, String, &'static str)> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = effective_capabilities(&status);
    let missing = missing_capabilities(held);
    let who = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    match missing.as_slice() {
        [] => Ok(format!("{who}, with all capabilities needed")),
        ["CAP_IPC_LOCK"] => Err((
            Status::Warn,
            format!("{who}, without CAP_IPC_LOCK: packet memory is limited by `ulimit -l`"),
            "run as root, grant it as well, or raise `ulimit -l` by 24576 for each plane",
        )),
        missing => Err((Status::Fail, format!("{who}, without {}", missing.join(", ")), AS_ROOT)),
    }
}

fn effective_capabilities(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}

fn missing_capabilities(held: u64) -> Vec<&'static str> {
    let has = |bit: u32| held >> bit & 1 == 1;
    // Before Linux 5.8, CAP_SYS_ADMIN was what CAP_BPF is now; it still includes it.
    let covered = |bit| has(bit) || (bit == 39 && has(CAP_SYS_ADMIN));
    CAPABILITIES.iter().filter(|(bit, _)| !covered(*bit)).map(|(_, name)| *name).collect()
}

/// The first two numbers in `text`, as major and minor version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel() -> Result<String, (Status, String, &'static str)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    match version(release) {
        Some(found) if found >= (6, 6) => Ok(format!("Linux {release}")),
        Some(found) if found >= (5, 9) => Err((
            Status::Warn,
            format!("Linux {release}: no AF_XDP frames beyond 3840 bytes (6.6), so no 4096-byte payloads"),
            "update to Linux 6.6, use a PMTU of 2048, or the raw-socket port",
        )),
        Some(_) => Err((Status::Fail, format!("Linux {release}: no XDP links (5.9)"), "update to Linux 6.6 or newer")),
        None => Err((Status::Warn, "no version in /proc/sys/kernel/osrelease".into(), "mount /proc")),
    }
}

fn locked_memory() -> Result<String, (Status, String, &'static str)> {
    let need = mrc_afxdp::XskConfig::default().umem_bytes() as u64;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if effective_capabilities(&status) >> 14 & 1 == 1 {
        return Ok("unlimited (CAP_IPC_LOCK)".into());
    }
    match rustix::process::getrlimit(rustix::process::Resource::Memlock).current {
        None => Ok("unlimited".into()),
        Some(limit) if limit < need => Err((
            Status::Fail,
            format!("limited to {} KiB; a plane takes {} KiB", limit >> 10, need >> 10),
            "grant CAP_IPC_LOCK, or raise `ulimit -l` by 24576 for each plane",
        )),
        Some(limit) if limit >= 2 * need => Ok(format!("{} MiB", limit >> 20)),
        Some(limit) => Err((
            Status::Warn,
            format!("limited to {} KiB, enough for one plane of {} KiB", limit >> 10, need >> 10),
            "grant CAP_IPC_LOCK, or raise `ulimit -l` by 24576 for each plane",
        )),
    }
}

/// Standard output of a program that succeeded, or why not.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// The version in the answer of `ip -V`, e.g. `ip utility, iproute2-6.1.0, libbpf 1.1.2`.
fn iproute2_version(answer: &str) -> Option<(u32, u32)> {
    version(answer.split("iproute2-").nth(1)?.split(',').next()?)
}

fn iproute2() -> Result<String, (Status, String, &'static str)> {
    let install = "install iproute2 6.1 or newer (`apt-get install iproute2`)";
    let answer = output("ip", &["-V"]).map_err(|error| (Status::Fail, error, install))?;
    match iproute2_version(&answer) {
        Some(found) if found >= (6, 1) => Ok(answer),
        _ => Err((Status::Fail, format!("{answer}: micro-SID routes need 6.1"), install)),
    }
}

fn impairments() -> Result<String, (Status, String, &'static str)> {
    mrc_lab::impair_requirements().map(|()| "the lab's switches can lose, trim and mark".into()).map_err(|error| {
        let cure = "run as root; the kernel needs CONFIG_BPF_SYSCALL, CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF \
                    (`modprobe sch_ingress cls_bpf`)";
        (Status::Warn, format!("the lab's switches cannot lose, trim or mark: {error}"), cure)
    })
}

/// A namespace that exists while this value does.
struct Scratch(String);

impl Scratch {
    fn new(purpose: &str) -> Result<Self, String> {
        let name = format!("mrc-doctor-{purpose}-{}", std::process::id());
        output("ip", &["netns", "add", &name]).map(|_| Self(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = output("ip", &["netns", "del", &self.0]);
    }
}

fn namespaces() -> Result<String, (Status, String, &'static str)> {
    match Scratch::new("ns") {
        Ok(_scratch) => Ok("can be made".into()),
        Err(error) => Err((
            Status::Fail,
            format!("cannot be made: {error}"),
            "run as root (CAP_SYS_ADMIN); in a container, allow it (`--privileged`)",
        )),
    }
}

fn micro_sids() -> Result<String, (Status, String, &'static str)> {
    let cure = "Linux 6.1 or newer with CONFIG_IPV6_SEG6_LWTUNNEL, and iproute2 6.1";
    if !std::path::Path::new("/proc/sys/net/ipv6/conf/all/seg6_enabled").exists() {
        return Err((Status::Fail, "the kernel has no IPv6 segment routing".into(), cure));
    }
    let Ok(scratch) = Scratch::new("sid") else {
        return Err((Status::Warn, "not tried: no network namespace to try it in".into(), "run as root"));
    };
    let ns = scratch.0.as_str();
    let route = "-6 route add fcbb:bb00:1::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev lo";
    let arguments: Vec<&str> = ["-n", ns].into_iter().chain(route.split(' ')).collect();
    output("ip", &["-n", ns, "link", "set", "lo", "up"])
        .and_then(|_| output("ip", &arguments))
        .map(|_| "the kernel forwards by micro-SID (End with next-csid)".into())
        .map_err(|error| (Status::Fail, format!("no route with next-csid: {error}"), cure))
}

/// A configuration file and the interfaces it names, in the namespace it names.
fn configuration(path: &Path) -> Vec<Check> {
    let subject = format!("configuration {}", path.display());
    let host = match HostFile::read(path) {
        Ok(host) => host,
        Err(error) => {
            let cure = "`mrc lab host hA --toml` prints one that works in the lab; docs/verbs.md lists the keys";
            return vec![check(&subject, "file", Err((Status::Fail, error.to_string(), cure)))];
        }
    };
    let detail = format!(
        "device {}, {}, {}, host {}",
        host.device,
        count(host.planes.len(), "plane"),
        count(host.peers.len(), "peer"),
        host.name
    );
    let mut checks = vec![
        check(&subject, "file", Ok::<_, (_, _, String)>(detail)),
        check(&subject, "peers", peers(&host)),
        check(&subject, "IPv4-mapped GID", ipv4_gid(&host)),
    ];
    let look = || {
        let mut checks: Vec<Check> = host.planes.iter().flat_map(|plane| plane_checks(&host, plane)).collect();
        checks.extend(paths::checks(&host));
        checks
    };
    match &host.namespace {
        None => checks.extend(look()),
        Some(name) => match mrc_lab::enter(name, look) {
            Ok(found) => checks.extend(found),
            Err(error) => {
                let cure = "run as root; `ip netns list` shows the namespaces, `mrc lab up` makes those of the lab";
                checks.push(check(&subject, "namespace", Err((Status::Fail, error.to_string(), cure))));
            }
        },
    }
    checks
}

fn peers(host: &HostFile) -> Result<String, (Status, String, &'static str)> {
    if host.peers.is_empty() {
        return Err((Status::Warn, "none".into(), "add a `[[peers]]` table for each host to talk to"));
    }
    let bad = host.peers.iter().find_map(|peer| host.peer_config(peer).and(host.paths_to(peer)).err());
    match bad {
        Some(error) => Err((Status::Fail, error.to_string(), "correct the peer's `template` or `uplinks`")),
        None => Ok(host.peers.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

fn ipv4_gid(host: &HostFile) -> Result<String, (Status, String, &'static str)> {
    match host.ipv4 {
        Some(ipv4) => Ok(format!("index 3: ::ffff:{ipv4}")),
        None => Err((
            Status::Warn,
            "none: programs that insist on index 3 or on an IPv4 GID find it empty".into(),
            "set `ipv4` of the host and of its peers",
        )),
    }
}

/// An interface, whether the configured payload fits it, and whether its kernel answers for our addresses.
fn plane_checks(host: &HostFile, plane: &HostPlane) -> Vec<Check> {
    let name = plane.interface.as_str();
    let mut checks = interface(name);
    let Ok(found) = Interface::by_name(name) else { return checks };
    let subject = format!("interface {name}");
    if let Ok(pmtu) = host.path_mtu() {
        let need = host::required_mtu(pmtu);
        let result = if found.mtu >= need {
            Ok(format!("{pmtu} bytes of payload fit"))
        } else {
            let cure = format!("`ip link set {name} mtu {need}`, or set `pmtu` to less");
            Err((Status::Fail, format!("{pmtu} bytes of payload need an MTU of {need}, it is {}", found.mtu), cure))
        };
        checks.push(check(&subject, "configured PMTU", result));
    }
    let addresses = bare_addresses(host, plane);
    if !addresses.is_empty() {
        checks.push(check(&subject, "neighbours", neighbours(name, &addresses)));
    }
    checks
}

/// The addresses to which packets come on a plane without an outer header.
fn bare_addresses(host: &HostFile, plane: &HostPlane) -> Vec<Ipv6Addr> {
    let uses = |own: bool| plane.sid.is_none() && host.peers.iter().any(|peer| peer.addrs.is_empty() != own);
    let own = plane.addr.filter(|_| uses(true));
    uses(false).then_some(host.gid).into_iter().chain(own).collect()
}

/// Whether routers learn who has our addresses: the kernel answers them, and for addresses of that interface alone.
fn neighbours(name: &str, addresses: &[Ipv6Addr]) -> Result<String, (Status, String, String)> {
    // That of this thread, which may have entered another namespace.
    let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    let list: Vec<String> = addresses.iter().map(Ipv6Addr::to_string).collect();
    match addresses.iter().find(|address| !has_address(&table, name, **address)) {
        None => Ok(format!("the kernel answers for {}", list.join(", "))),
        Some(address) => Err((
            Status::Warn,
            format!(
                "{address} is not on this interface: neighbour discovery for it is not answered, and routers do not find it"
            ),
            format!("`ip addr add {address}/128 dev {name} nodad`, or a static neighbour on the router"),
        )),
    }
}

/// Whether `table`, as `/proc/net/if_inet6` is, gives an interface this address.
fn has_address(table: &str, name: &str, address: Ipv6Addr) -> bool {
    let digits = format!("{:032x}", u128::from(address));
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.any(|words| words.first() == Some(&digits.as_str()) && words.last() == Some(&name))
}

fn interface(name: &str) -> Vec<Check> {
    let subject = format!("interface {name}");
    let interface = match Interface::by_name(name) {
        Ok(interface) => interface,
        Err(error) => {
            let cure =
                "`ip link` lists the interfaces of this namespace, `ip netns exec NS mrc doctor` looks into another";
            return vec![check(&subject, "exists", Err((Status::Fail, format!("not found: {error}"), cure)))];
        }
    };
    let driver = interface.driver().unwrap_or_else(|| "unknown".into());
    vec![
        check(&subject, "exists", Ok::<_, (_, _, String)>(format!("index {}, driver {driver}", interface.index))),
        check(&subject, "link", link(&interface)),
        check(&subject, "MTU", mtu(&interface)),
        check(&subject, "queues", queues(&interface)),
        check(&subject, "VLAN tags", vlan_tags(&interface)),
        check(&subject, "XDP", xdp(&interface)),
        check(&subject, "in use", holder(&interface)),
    ]
}

fn link(interface: &Interface) -> Result<String, (Status, String, String)> {
    match (interface.admin_up, interface.carrier) {
        (true, true) => Ok("up, with carrier".into()),
        (true, false) => {
            Err((Status::Fail, "up, but no carrier".into(), "check the cable, or set the far end up".into()))
        }
        (false, _) => Err((Status::Fail, "down".into(), format!("`ip link set {} up`", interface.name))),
    }
}

fn mtu(interface: &Interface) -> Result<String, (Status, String, String)> {
    let (mtu, name) = (interface.mtu, &interface.name);
    let need = host::required_mtu(4096);
    let cure = format!("`ip link set {name} mtu {need}` or more, on every interface of the path");
    match host::largest_path_mtu(mtu) {
        Some(4096) => Ok(format!("{mtu}: 4096 bytes of payload per packet")),
        Some(pmtu) => Err((Status::Warn, format!("{mtu}: at most {pmtu} bytes of payload per packet"), cure)),
        None => Err((Status::Fail, format!("{mtu}: too small for any packet"), cure)),
    }
}

fn queues(interface: &Interface) -> Result<String, (Status, String, String)> {
    match interface.queues_in_use() {
        1 => Ok("1".into()),
        queues => Err((
            Status::Warn,
            format!("{queues}: a port serves one, packets on the others stay with the kernel"),
            format!("`ethtool -L {} combined 1`, or steer MRC to queue 0 with `ethtool -N`", interface.name),
        )),
    }
}

fn vlan_tags(interface: &Interface) -> Result<String, (Status, String, String)> {
    let vlans = interface.vlans_without_tag();
    if vlans.is_empty() {
        return Ok("no VLAN interface is affected".into());
    }
    Err((
        Status::Warn,
        format!("taken out: packets of {} to a port's own destinations go to the port", vlans.join(", ")),
        format!("`ethtool -K {} rxvlan off`", interface.name),
    ))
}

fn xdp(interface: &Interface) -> Result<String, (Status, String, &'static str)> {
    let Some(features) = probe::xdp_features(interface.index) else {
        return Err((Status::Warn, "the kernel does not tell what the driver can do".into(), "update to Linux 6.3"));
    };
    if !features.native() {
        return Err((
            Status::Warn,
            "SKB mode only".into(),
            "works; a driver with native XDP is faster on real hardware",
        ));
    }
    let multi_buffer = if features.multi_buffer() { ", multi-buffer" } else { "" };
    let zero_copy = if features.zero_copy() { ", zero-copy" } else { ", copy only" };
    Ok(format!("native{multi_buffer}{zero_copy}"))
}

fn holder(interface: &Interface) -> Result<String, (Status, String, String)> {
    let Some(attached) = interface.xdp else {
        return Ok("free: no XDP program attached".into());
    };
    let id = attached.program_id;
    let mode = if attached.native { "native" } else { "SKB-mode" };
    Err(match probe::holder_of_program(id) {
        Some(holder) => (
            Status::Fail,
            format!("{mode} XDP program {id}, held by {holder}"),
            "stop that process, or use another interface".into(),
        ),
        None => (
            Status::Fail,
            format!("{mode} XDP program {id}, of a process that cannot be seen"),
            format!("stop its owner, or `ip link set {} xdp off`", interface.name),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_programs_say() {
        assert_eq!(version("6.18.5-amd64"), Some((6, 18)));
        assert_eq!(version("none"), None);
        assert_eq!(iproute2_version("ip utility, iproute2-6.1.0, libbpf 1.1.2"), Some((6, 1)));
        assert_eq!(iproute2_version("ip utility, iproute2-5.10.0, libbpf 0.3.0"), Some((5, 10)));
        assert!(iproute2_version("ip utility, iproute2-ss200127").is_none());
    }

    #[test]
    fn what_only_the_lab_needs_is_no_failure() {
        let missing = for_the_lab("SRv6", Err((Status::Fail, "no module".into(), "another kernel")));
        assert_eq!((missing.status, missing.cure.as_deref()), (Status::Warn, Some("another kernel")));
        assert_eq!(machine().iter().filter(|check| check.subject == missing.subject).count(), 4);
    }

    #[test]
    fn capabilities_are_named() {
        let all = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39;
        assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n"), 0x1ff_ffff_ffff);
        assert!(missing_capabilities(all).is_empty());
        assert!(missing_capabilities(1 << 12 | 1 << 13 | 1 << 14 | 1 << 21).is_empty());
        assert_eq!(missing_capabilities(all & !(1 << 14)), ["CAP_IPC_LOCK"]);
        assert_eq!(missing_capabilities(0).len(), 4);
    }

    #[test]
    fn an_unknown_interface_fails_with_a_cure() {
        let checks = interface("nosuch0");
        assert_eq!((checks.len(), checks[0].status), (1, Status::Fail));
        assert!(checks[0].cure.as_ref().unwrap().contains("ip link"));
    }

    /// One address of the loopback interface counts on no other.
    #[test]
    fn an_address_that_no_kernel_answers_for_is_named() {
        let table = "fd000000000000000000000000000001 01 80 00 80       lo\nfd000000000000000000000000000002 02 40 00 80       p0\n";
        let has = |name, address: &str| has_address(table, name, address.parse().unwrap());
        assert!(has("p0", "fd00::2") && has("lo", "fd00::1") && !has("p0", "fd00::1") && !has("0", "fd00::2"));
        assert_eq!(neighbours("lo", &["fd00::77".parse().unwrap()]).unwrap_err().0, Status::Warn);
        let file = |sid: &str, addrs: &str| {
            let text = format!(
                "name = \"a\"\ngid = \"fd00::1\"\nmtu = 9000\n[[planes]]\ninterface = \"p0\"\n{sid}addr = \"fd00::2\"\n\
                 next_hop = \"02:00:00:00:00:01\"\n[[peers]]\nname = \"b\"\ngid = \"fd00::3\"\n{addrs}"
            );
            let host = HostFile::parse("a", &text).unwrap();
            bare_addresses(&host, &host.planes[0]).iter().map(Ipv6Addr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(file("", "uplinks = 4\n"), ["fd00::1"]);
        assert_eq!(file("", "uplinks = 4\naddrs = [\"fd00::4\"]\n"), ["fd00::2"]);
        let template = "uplinks = 0\ntemplate = \"fcbb:bb00:3001::\"\n";
        assert_eq!(file("sid = \"fcbb:bb00:3000::\"\n", template), [""; 0]);
    }

    #[test]
    fn a_configuration_with_an_error_says_where() {
        let path = std::env::temp_dir().join(format!("mrc-doctor-{}.toml", std::process::id()));
        std::fs::write(&path, "name = \"hA\"\ngid = \"nonsense\"\n").unwrap();
        let checks = configuration(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!((checks.len(), checks[0].status), (1, Status::Fail));
        assert!(checks[0].detail.contains("line 2, `gid`"), "{:?}", checks[0]);
        assert!(configuration(Path::new("/nonexistent"))[0].detail.contains("cannot read"));
    }

    #[test]
    fn the_report_prints_as_table_and_as_json() {
        let checks = vec![
            check("this machine", "kernel", Ok::<_, (_, _, String)>("Linux 6.18".into())),
            check("interface p0", "MTU", Err((Status::Fail, "100: too small".into(), "raise it"))),
        ];
        let report = Report { ok: false, checks };
        let text = report.to_string();
        assert!(
            text.contains("ok    kernel") && text.contains("FAIL  MTU") && text.contains("cure: raise it"),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(json["ok"], false);
        assert_eq!(json["checks"][1]["status"], "fail");
        assert_eq!(json["checks"][0]["cure"], serde_json::Value::Null);
    }
}
