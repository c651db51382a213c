//! Programs over verbs against everything else on the same fabric, interleaved in one run. `ib_write_bw` with 1 MiB runs
//! against `mrc write-bw`, raw AF_XDP frames of the same size, and kernel TCP. TCP has its offloads off and sends segments that
//! make frames of that size, one by one, and for comparison many at a time. `ib_write_lat` with 8 bytes runs against a
//! ping-pong of raw AF_XDP frames.
//!
//!   cargo build --release -p mrc-transport -p mrc-ibverbs -p mrc-libmrc
//!   cargo bench -p mrc-benches --bench verbs_ratio [-- --json] [--rounds N]
//!
//! Needs root, `perftest`, `ethtool` and the release build, and says which one is missing. `MRC_BIN` names the directory of
//! `mrc` and the libraries; by default it is that of the build.

mod lab;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::{PAYLOAD, host, median, raw_ping_pong, raw_rate};
use mrc_lab::{Fabric, Shape, enter};
use mrc_verbs_shim::host::HostFile;

const ROUNDS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(300);
const RUN: Duration = Duration::from_millis(1500);
const MESSAGE: usize = 1 << 20;
/// Of 1 MiB each, about two seconds; the same number in flight for both programs.
const MESSAGES: &str = "1200";
const IN_FLIGHT: &str = "16";
/// Writes of a latency run, and exchanges of raw frames.
const EXCHANGES: usize = 5000;
/// Port of both programs' exchange of addresses.
const PORT: u16 = 18515;
const TCP_PORT: u16 = 18700;
/// Bytes of an MRC frame with 4 KiB behind the Ethernet header, less the outer IPv6 header.
const INNER_MTU: u32 = 40 + 8 + 40 + 4096;

/// One thing measured, in every round.
struct Row {
    name: &'static str,
    unit: &'static str,
    values: Vec<f64>,
}

/// A ratio of two rows with its budget.
struct Budget {
    name: &'static str,
    of: usize,
    to: usize,
    limit: f64,
    at_least: bool,
}

const IB_WRITE_BW: usize = 0;
const WRITE_BW: usize = 1;
const RAW: usize = 2;
const TCP: usize = 3;
const TCP_GSO: usize = 4;
const IB_WRITE_LAT: usize = 5;
const PING_PONG: usize = 6;

const BUDGETS: [Budget; 4] = [
    Budget { name: "ib_write_bw / mrc write-bw", of: IB_WRITE_BW, to: WRITE_BW, limit: 0.9, at_least: true },
    Budget { name: "ib_write_bw / raw AF_XDP", of: IB_WRITE_BW, to: RAW, limit: 0.8, at_least: true },
    Budget { name: "ib_write_bw / kernel TCP", of: IB_WRITE_BW, to: TCP, limit: 1.3, at_least: true },
    Budget { name: "ib_write_lat / raw AF_XDP", of: IB_WRITE_LAT, to: PING_PONG, limit: 1.5, at_least: false },
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let rounds = arguments.iter().skip_while(|argument| *argument != "--rounds").nth(1);
    let rounds = rounds.and_then(|n| n.parse().ok()).unwrap_or(ROUNDS).max(1);
    let programs = match requirements() {
        Ok(programs) => programs,
        Err(missing) => return println!("verbs_ratio: SKIP: {missing}"),
    };
    let prefix = format!("mrcvr{}", std::process::id());
    let fabric = match Fabric::up(Shape { prefix, ..Shape::default() }) {
        Ok(fabric) => fabric.guarded(),
        Err(error) => return println!("verbs_ratio: SKIP: {error}"),
    };
    let bench = Bench::new(&fabric, programs);
    bench.route_tcp();
    let row = |name, unit| Row { name, unit, values: Vec::new() };
    let mut rows = [
        row("ib_write_bw, 1 MiB", "Gb/s"),
        row("mrc write-bw, 1 MiB", "Gb/s"),
        row("raw AF_XDP, 4 KiB", "Gb/s"),
        row("kernel TCP, offloads off", "Gb/s"),
        row("the same, segmented late", "Gb/s"),
        row("ib_write_lat, 8 B, p50", "us"),
        row("raw AF_XDP ping-pong, p50", "us"),
    ];
    for _ in 0..rounds {
        rows[IB_WRITE_BW].values.push(bench.ib_write_bw());
        rows[WRITE_BW].values.push(bench.write_bw());
        rows[RAW].values.push(raw_rate(&fabric, PAYLOAD, None, WARM_UP, RUN) * PAYLOAD as f64 * 8.0 / 1e9);
        rows[TCP].values.push(bench.tcp(1));
        rows[TCP_GSO].values.push(bench.tcp(65_535));
        rows[IB_WRITE_LAT].values.push(bench.ib_write_lat());
        rows[PING_PONG].values.push(raw_ping_pong(&bench.a.host, &bench.b.host, EXCHANGES));
    }
    report(&rows, json);
}

fn report(rows: &[Row], json: bool) {
    let ratios: Vec<f64> = BUDGETS
        .iter()
        .map(|budget| median(rows[budget.of].values.iter().zip(&rows[budget.to].values).map(|(a, b)| a / b).collect()))
        .collect();
    let met = |budget: &Budget, ratio: f64| (ratio >= budget.limit) == budget.at_least;
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| serde_json::json!({ "name": row.name, "unit": row.unit, "median": median(row.values.clone()), "values": row.values }))
            .collect();
        let budgets: Vec<_> = BUDGETS
            .iter()
            .zip(&ratios)
            .map(|(budget, &ratio)| serde_json::json!({ "name": budget.name, "ratio": ratio, "limit": budget.limit, "at_least": budget.at_least, "met": met(budget, ratio) }))
            .collect();
        return println!("{}", serde_json::json!({ "rows": rows, "budgets": budgets }));
    }
    println!("{:<28} {:>8}       each round", "", "median");
    for row in rows {
        let values: Vec<_> = row.values.iter().map(|value| format!("{value:.2}")).collect();
        println!("{:<28} {:>8.2} {:<5} {}", row.name, median(row.values.clone()), row.unit, values.join(" "));
    }
    println!("\nmedians of the ratios within each round");
    for (budget, &ratio) in BUDGETS.iter().zip(&ratios) {
        let sign = if budget.at_least { ">=" } else { "<=" };
        let verdict = if met(budget, ratio) { "met" } else { "MISSED" };
        println!("{:<28} {ratio:>8.2}       {sign} {:.1} {verdict}", budget.name, budget.limit);
    }
}

/// Where `mrc` and the libraries are, if all is there.
fn requirements() -> Result<PathBuf, String> {
    mrc_lab::requirements().map_err(|missing| missing.to_string())?;
    for (program, package) in [("ib_write_bw", "perftest"), ("ib_write_lat", "perftest"), ("ethtool", "ethtool")] {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.map_err(|_| format!("`{program}` is missing: install the package {package}"))?;
    }
    // The bench is in `deps` of the directory that holds the programs.
    let built = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.to_owned()));
    let named = std::env::var_os("MRC_BIN").map(PathBuf::from);
    let directory = named.or(built).unwrap_or_default();
    if !directory.join("mrc").exists() || !directory.join("libibverbs.so").exists() {
        return Err(format!(
            "no `mrc` and `libibverbs.so` in {}: cargo build --release -p mrc-transport -p mrc-ibverbs -p mrc-libmrc",
            directory.display()
        ));
    }
    Ok(directory)
}

/// A program that is ended when nobody waits for it any more.
struct Running(Child);

impl Running {
    /// Waits for its end and returns what it printed.
    fn output(mut self) -> String {
        let mut text = String::new();
        self.0.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
        let status = self.0.wait().expect("a child");
        assert!(status.success(), "the program failed ({status}):\n{text}");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One side: its description, as file for programs too.
struct Side {
    host: HostFile,
    namespace: String,
    file: PathBuf,
}

impl Side {
    fn new(fabric: &Fabric, name: &str) -> Self {
        let host = host(fabric, name);
        let namespace = host.namespace.clone().expect("lab hosts have namespaces");
        let file = std::env::temp_dir().join(format!("{namespace}.toml"));
        std::fs::write(&file, host.to_toml()).expect("a file for the programs");
        Self { host, namespace, file }
    }

    fn inside<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        enter(&self.namespace, f).expect("namespace")
    }

    fn ipv4(&self) -> Ipv4Addr {
        self.host.ipv4.expect("lab hosts have an address in the host network")
    }

    /// Waits until somebody listens on a TCP port.
    fn wait_for_listener(&self, port: u16) {
        let wanted = format!(":{port:04X} ");
        let listens = || {
            ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"].iter().any(|table| {
                let table = std::fs::read_to_string(table).unwrap_or_default();
                // Local address, remote address, state 0A: listening.
                table.lines().any(|line| line.contains(&wanted) && line.contains(":0000 0A"))
            })
        };
        let patience = Instant::now() + Duration::from_secs(20);
        while !self.inside(listens) {
            assert!(Instant::now() < patience, "nobody listens on port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

struct Bench {
    mrc: PathBuf,
    a: Side,
    b: Side,
}

impl Bench {
    fn new(fabric: &Fabric, programs: PathBuf) -> Self {
        Self { mrc: programs.join("mrc"), a: Side::new(fabric, "hA"), b: Side::new(fabric, "hB") }
    }

    fn start(&self, side: &Side, program: &Path, arguments: &[&str]) -> Running {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "60"]).arg(program).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
        Running(side.inside(move || command.spawn()).expect("the program starts"))
    }

    /// Runs a program over verbs on both hosts; what the client printed.
    fn over_verbs(&self, program: &[&str]) -> String {
        let arguments = |side: &Side| -> Vec<String> {
            let file = side.file.display().to_string();
            let run = ["verbs-run", "--config", &file, "--"].map(str::to_owned);
            run.into_iter().chain(program.iter().map(|&word| word.to_owned())).collect()
        };
        let (far, mut near) = (arguments(&self.b), arguments(&self.a));
        near.push(self.b.ipv4().to_string());
        self.client_of(&far, &near)
    }

    fn client_of(&self, far: &[String], near: &[String]) -> String {
        let words = |list: &[String]| list.to_vec();
        let (far, near) = (words(far), words(near));
        let server = self.start(&self.b, &self.mrc, &far.iter().map(String::as_str).collect::<Vec<_>>());
        self.b.wait_for_listener(PORT);
        let client = self.start(&self.a, &self.mrc, &near.iter().map(String::as_str).collect::<Vec<_>>());
        let text = client.output();
        server.output();
        text
    }

    fn ib_write_bw(&self) -> f64 {
        let program = [
            "ib_write_bw",
            "-d",
            "mrc0",
            "-x",
            "3",
            "-s",
            "1048576",
            "--report_gbits",
            "-n",
            MESSAGES,
            "-t",
            IN_FLIGHT,
        ];
        column(&self.over_verbs(&program), 3)
    }

    fn ib_write_lat(&self) -> f64 {
        let count = EXCHANGES.to_string();
        // Typical is perftest's word for the median.
        column(&self.over_verbs(&["ib_write_lat", "-d", "mrc0", "-x", "3", "-s", "8", "-n", &count]), 4)
    }

    fn write_bw(&self) -> f64 {
        let arguments = |side: &Side| {
            let file = side.file.display().to_string();
            ["write-bw", "--host-file", &file, "--json", "-s", "1048576", "-n", MESSAGES, "-t", IN_FLIGHT]
                .map(str::to_owned)
                .to_vec()
        };
        let (far, mut near) = (arguments(&self.b), arguments(&self.a));
        near.push(self.b.ipv4().to_string());
        let text = self.client_of(&far, &near);
        let report: serde_json::Value = serde_json::from_str(text.trim()).expect("JSON");
        report["gbit_per_s"].as_f64().expect("a rate")
    }

    /// An address per plane for the kernel's own TCP, routed over the plane's first uplink with the same segments.
    fn route_tcp(&self) {
        let (a, b) = (&self.a.host, &self.b.host);
        for (side, peer, own, far) in [(&self.a, b, 1, 2), (&self.b, a, 2, 1)] {
            let config = side.host.peer_config(side.host.peer(peer.gid).expect("peer")).expect("peer");
            let mrc_core::Route::Srv6(map) = &config.route else { unreachable!("lab routes are SRv6") };
            let mut commands = vec!["sysctl -qw net.ipv6.conf.all.seg6_enabled=1".to_owned()];
            let mut planes = vec![None; side.host.planes.len()];
            for entry in side.host.paths_to(side.host.peer(peer.gid).expect("peer")).expect("paths") {
                planes[usize::from(entry.port.plane())].get_or_insert(Ipv6Addr::from(map.apply(entry.ev)));
            }
            for (index, (plane, segments)) in side.host.planes.iter().zip(planes).enumerate() {
                let (interface, segments) = (&plane.interface, segments.expect("a path per plane"));
                let (own, far) = (tcp_address(index, own), tcp_address(index, far));
                commands.extend([
                    format!("sysctl -qw net.ipv6.conf.{interface}.seg6_enabled=1"),
                    format!("ethtool -K {interface} tx off rx off sg off tso off gso off gro off"),
                    format!("ip -6 address add {own}/128 dev lo nodad"),
                    format!("ip -6 route replace {}/48 encap seg6local action End.DT6 table local dev {interface}", plane.sid.unwrap()),
                    format!(
                        "ip -6 route replace {far}/128 encap seg6 mode encap.red segs {segments} dev {interface} src {own} mtu {INNER_MTU}"
                    ),
                ]);
            }
            side.inside(|| {
                for command in &commands {
                    let mut words = command.split(' ');
                    let output =
                        Command::new(words.next().expect("a program")).args(words).output().expect("it starts");
                    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
                }
            });
        }
    }

    /// Goodput of one connection per plane, in Gb/s. TCP hands down up to `segments` at once, to be cut in software just
    /// before the interface, whatever `gso off` says.
    fn tcp(&self, segments: u32) -> f64 {
        for side in [&self.a, &self.b] {
            for plane in &side.host.planes {
                let limit = format!("link set dev {} gso_max_segs {segments}", plane.interface);
                let set = side.inside(|| Command::new("ip").args(limit.split(' ')).status());
                assert!(set.is_ok_and(|status| status.success()), "ip {limit}");
            }
        }
        let planes = self.a.host.planes.len();
        let listeners: Vec<_> = (0..planes)
            .map(|plane| {
                let address = SocketAddr::from((tcp_address(plane, 2), TCP_PORT));
                self.b.inside(|| TcpListener::bind(address)).expect("a port")
            })
            .collect();
        let end = Instant::now() + WARM_UP + RUN;
        let counted_from = end - RUN;
        let bytes: u64 = std::thread::scope(|scope| {
            let mut receivers = Vec::new();
            for (plane, listener) in listeners.iter().enumerate() {
                let address = SocketAddr::from((tcp_address(plane, 2), TCP_PORT));
                let mut sender = self
                    .a
                    .inside(|| TcpStream::connect_timeout(&address, Duration::from_secs(5)))
                    .expect("TCP over the fabric");
                let (mut receiver, _) = listener.accept().expect("a connection");
                scope.spawn(move || {
                    let data = vec![0x5a; MESSAGE];
                    // Until the receiver has enough and closes.
                    while sender.write_all(&data).is_ok() {}
                });
                receivers.push(scope.spawn(move || {
                    let (mut room, mut counted) = (vec![0; MESSAGE], 0);
                    while Instant::now() < end {
                        let received = receiver.read(&mut room).expect("data");
                        if Instant::now() >= counted_from {
                            counted += received as u64;
                        }
                    }
                    counted
                }));
            }
            receivers.into_iter().map(|receiver| receiver.join().expect("a receiver")).sum()
        });
        bytes as f64 * 8.0 / RUN.as_secs_f64() / 1e9
    }
}

/// Address of one side on one plane, for TCP.
fn tcp_address(plane: usize, side: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd99, plane as u16, 0, 0, 0, 0, 0, side)
}

/// A number in the last line of perftest's table.
fn column(text: &str, index: usize) -> f64 {
    let mut lines = text.lines().skip_while(|line| !line.contains("#bytes")).skip(1);
    let line = lines.find(|line| !line.contains("---")).unwrap_or_else(|| panic!("no table in:\n{text}"));
    line.split_whitespace()
        .nth(index)
        .and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no number in: {line}"))
}
