//! `mrc metrics`: counters of all devices of this machine, and the map of a collector, as OpenMetrics, over HTTP or in a file.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mrc_verbs_shim::control::{Counters, Request};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::http::{self, Answer, Question, Site};
use crate::interrupt::{self, Interrupt};
use crate::out::{errln, out};
use crate::watch::{Asked, Watcher};

/// How often a waiting writer looks whether it shall end.
const GLANCE: Duration = Duration::from_millis(50);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How long the collector may take to answer. Prometheus gives up after 10 s, and the devices' own metrics would go with it.
const COLLECTOR_PATIENCE: Duration = Duration::from_secs(2);
/// How long a collector that did not answer is not asked again.
const COLLECTOR_REST: Duration = Duration::from_secs(10);

/// Arguments of `mrc metrics`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc metrics                                      print them once
  mrc metrics --listen 127.0.0.1:9711              serve http://127.0.0.1:9711/metrics until Ctrl-C
  mrc metrics --textfile /var/lib/node_exporter/mrc.prom --every 15
  mrc metrics --listen 127.0.0.1:9711 --collector 127.0.0.1:9712   also what the fabric mapper found
  mrc metrics --dashboard > mrc.json               a dashboard for Grafana

Root sees the devices of all users, others their own. docs/operations.md lists names and labels. There is no series per
queue pair or path: their number does not grow with the load. The address is not encrypted nor protected: leave it on
the loopback interface, or use the file.
Exit codes: 0 done; 1 failed, or the folder of sockets is refused; 2 usage; 130 interrupted.")]
pub struct Args {
    /// Serve on this address
    #[arg(long, value_name = "ADDRESS", conflicts_with = "textfile")]
    listen: Option<SocketAddr>,
    /// Write this file, whole or not at all, for node_exporter's textfile collector (text format 0.0.4)
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// Seconds between two writes of the file; once without
    #[arg(long, value_name = "SECONDS", requires = "textfile", value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: Option<u64>,
    /// Also ask the fabric mapper's collector at this address (`mrc mapper collect --http`)
    #[arg(long, value_name = "ADDRESS")]
    collector: Option<SocketAddr>,
    /// Print a Grafana dashboard of these metrics instead
    #[arg(long)]
    dashboard: bool,
}

const DASHBOARD: &str = include_str!("../../data/grafana.json");

/// Faulty components that have a series of their own; the others are counted alone.
const MOST_FAULTY: usize = 64;

/// What the collector said; none: it did not answer.
type Map = Option<serde_json::Value>;

/// The fabric mapper's collector.
struct Mapper {
    address: SocketAddr,
    /// Since when it does not answer.
    silent: Option<Instant>,
}

impl Mapper {
    fn new(address: SocketAddr) -> Self {
        Self { address, silent: None }
    }

    fn ask(&mut self) -> Map {
        if self.silent.is_some_and(|since| since.elapsed() < COLLECTOR_REST) {
            return None;
        }
        let asked = Instant::now();
        let text = http::get_within(self.address, "/api/state", COLLECTOR_PATIENCE).ok();
        // One that refuses costs no time.
        self.silent = (text.is_none() && asked.elapsed() >= COLLECTOR_PATIENCE / 2).then(Instant::now);
        serde_json::from_str(&text?).ok()
    }
}

/// What was read from the devices.
#[derive(Debug)]
struct Scrape {
    devices: Vec<(String, Counters)>,
    left_out: usize,
    silent: usize,
    /// Why the folder of this user's devices was not searched.
    refused: Option<String>,
    seconds: f64,
    /// None: nobody was asked.
    map: Option<Map>,
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// One family after the other, as the format wants it.
struct Families<'c, 'a, 'b> {
    encoder: &'a mut DescriptorEncoder<'b>,
    devices: &'c [(String, Counters)],
}

type Encoded = Result<(), std::fmt::Error>;

impl<'c> Families<'c, '_, '_> {
    /// A family of counters: `each` gives labels and values of a device.
    fn counters(&mut self, name: &str, help: &str, each: impl Fn(&'c Counters) -> Vec<(Labels<'c>, u64)>) -> Encoded {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (device, counters) in self.devices {
            for (labels, value) in each(counters) {
                let labels = own(device, counters, labels);
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// A family of gauges.
    fn gauges(&mut self, name: &str, help: &str, each: impl Fn(&'c Counters) -> Vec<(Labels<'c>, f64)>) -> Encoded {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (device, counters) in self.devices {
            for (labels, value) in each(counters) {
                let labels = own(device, counters, labels);
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Labels with those of the device before them.
fn own<'a>(device: &'a str, counters: &'a Counters, labels: Labels<'a>) -> Vec<(&'static str, String)> {
    let device =
        [("host", counters.host.clone()), ("command", counters.command.clone()), ("device", device.to_owned())];
    device.into_iter().chain(labels.into_iter().map(|(name, value)| (name, value.to_owned()))).collect()
}

/// What the planes of a device give, each with its interface.
fn planes<'c, T>(
    counters: &'c Counters,
    values: impl Fn(&mrc_verbs_shim::control::Plane) -> Vec<(Option<&'static str>, T)>,
) -> Vec<(Labels<'c>, T)> {
    let of_plane = |plane: &'c mrc_verbs_shim::control::Plane| {
        values(plane).into_iter().map(move |(direction, value)| {
            let direction = direction.map(|direction| ("direction", direction));
            (direction.into_iter().chain([("interface", plane.interface.as_str())]).collect(), value)
        })
    };
    counters.planes.iter().flat_map(of_plane).collect()
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoded {
        let alone = |value: f64| ConstGauge::new(value);
        let gauge = MetricType::Gauge;
        alone(self.devices.len() as f64).encode(encoder.encode_descriptor(
            "mrc_devices",
            "Devices that answered",
            None,
            gauge,
        )?)?;
        let help = "Devices beyond those that are looked at";
        alone(self.left_out as f64).encode(encoder.encode_descriptor("mrc_devices_left_out", help, None, gauge)?)?;
        let help = "Devices that did not answer";
        alone(self.silent as f64).encode(encoder.encode_descriptor("mrc_devices_silent", help, None, gauge)?)?;
        let help = "1: the folder of control sockets is refused, and its devices are not asked";
        let refused = f64::from(u8::from(self.refused.is_some()));
        alone(refused).encode(encoder.encode_descriptor("mrc_devices_folder_refused", help, None, gauge)?)?;
        let help = "Time it took to ask all devices";
        alone(self.seconds).encode(encoder.encode_descriptor("mrc_scrape_seconds", help, None, gauge)?)?;
        if let Some(map) = &self.map {
            encode_map(&mut encoder, map.as_ref())?;
        }
        let mut all = Families { encoder: &mut encoder, devices: &self.devices };
        all.gauges("mrc_open_seconds", "Time since the device was opened", |c| vec![(vec![], c.seconds)])?;
        all.counters("mrc_engine", "Counters of the engine", |c| list("name", &c.counters))?;
        all.counters("mrc_discards", "Received frames without further effect", |c| list("reason", &c.discards))?;
        all.counters("mrc_plane_packets", "Frames of the engine", |c| {
            planes(c, |plane| vec![(Some("tx"), plane.tx_packets), (Some("rx"), plane.rx_packets)])
        })?;
        all.counters("mrc_plane_payload_bytes", "Payload bytes, retransmissions included", |c| {
            planes(c, |plane| vec![(Some("tx"), plane.tx_bytes), (Some("rx"), plane.rx_bytes)])
        })?;
        all.counters("mrc_plane_rx_dropped", "Frames that the kernel dropped for lack of room", |c| {
            planes(c, |plane| vec![(None, plane.rx_dropped)])
        })?;
        all.gauges("mrc_plane_up", "1: the port has a carrier and is enabled", |c| {
            planes(c, |plane| vec![(None, f64::from(u8::from(plane.up)))])
        })?;
        all.gauges("mrc_plane_denied", "1: a denylist of the control socket names the plane", |c| {
            planes(c, |plane| vec![(None, f64::from(u8::from(plane.denied)))])
        })?;
        all.gauges("mrc_qps", "Queue pairs by state", |c| by_state(&c.qps_by_state))?;
        all.gauges("mrc_evs", "Entropy values of all queue pairs by state", |c| by_state(&c.evs_by_state))
    }
}

/// What the fabric mapper found.
fn encode_map(encoder: &mut DescriptorEncoder<'_>, map: Option<&serde_json::Value>) -> Encoded {
    let mut gauge = |name: &str, help: &str, value: f64| {
        ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    };
    gauge("mrc_mapper_up", "1: the collector answered", f64::from(u8::from(map.is_some())))?;
    let Some(map) = map else { return Ok(()) };
    let len = |key: &str| map[key].as_array().map_or(0.0, |all| all.len() as f64);
    let hosts = map["fabric"]["hosts"].as_f64().unwrap_or(0.0);
    gauge("mrc_mapper_hosts", "Hosts of the fabric", hosts)?;
    gauge("mrc_mapper_agents", "Hosts whose agent reports", hosts - len("silent"))?;
    gauge("mrc_mapper_faults", "Faulty components", len("faulty"))?;
    let denied =
        map["denied"].as_object().map_or(0, |hosts| hosts.values().filter_map(|p| p.as_array()).flatten().count());
    gauge("mrc_mapper_denied_planes", "Planes that the policy denies, over all hosts", denied as f64)?;
    let help = "Share of packets that a faulty component loses";
    let mut family = encoder.encode_descriptor("mrc_mapper_loss", help, None, MetricType::Gauge)?;
    for finding in map["faulty"].as_array().into_iter().flatten().take(MOST_FAULTY) {
        let name = finding["component"].as_str().unwrap_or_default().to_owned();
        let loss = ConstGauge::new(finding["loss"].as_f64().unwrap_or(0.0));
        loss.encode(family.encode_family(&[("component", name)])?)?;
    }
    Ok(())
}

fn list<'c>(label: &'static str, values: &'c std::collections::BTreeMap<String, u64>) -> Vec<(Labels<'c>, u64)> {
    values.iter().map(|(name, value)| (vec![(label, name.as_str())], *value)).collect()
}

fn by_state(values: &std::collections::BTreeMap<String, u64>) -> Vec<(Labels<'_>, f64)> {
    list("state", values).into_iter().map(|(labels, value)| (labels, value as f64)).collect()
}

/// Values of a label that a device may have, and characters of one. It has some 100 at most; a program of another user may claim more.
const MAX_VALUES: usize = 256;
const MAX_LABEL: usize = 64;

/// Adds the counters that are zero, which devices leave out. A series that begins with the first error shows no increase by it, so
/// that no alert goes off.
fn fill(counters: &mut Counters) {
    let mut number = 0;
    mrc_core::Stats::default().for_each(|name, _| {
        let list = if number < mrc_core::Discard::ALL.len() { &mut counters.discards } else { &mut counters.counters };
        list.entry(name.to_owned()).or_insert(0);
        number += 1;
    });
}

/// Keeps what a device says within its bounds: each value of a label is a series that others store.
fn bounded(counters: &mut Counters) {
    let Counters { command, host, discards, counters, planes, qps_by_state, evs_by_state, .. } = counters;
    for values in [discards, counters, qps_by_state, evs_by_state] {
        *values =
            std::mem::take(values).into_iter().filter(|(name, _)| name.len() <= MAX_LABEL).take(MAX_VALUES).collect();
    }
    planes.truncate(mrc_core::MAX_PORTS);
    for text in [command, host].into_iter().chain(planes.iter_mut().map(|plane| &mut plane.interface)) {
        *text = text.chars().take(MAX_LABEL).collect();
    }
}

fn scrape(watcher: &mut Watcher, collector: Option<&mut Mapper>) -> Scrape {
    let start = Instant::now();
    let Asked { answers: mut devices, left_out, silent, refused } = watcher.ask(&Request::Stats);
    for (_, counters) in &mut devices {
        fill(counters);
        bounded(counters);
    }
    let seconds = start.elapsed().as_secs_f64();
    Scrape { devices, left_out, silent: silent.len(), refused, seconds, map: collector.map(Mapper::ask) }
}

/// Says once why a folder is not searched; the exit code of a command that asks once.
#[derive(Default)]
struct Refused(Option<String>);

impl Refused {
    fn tell(&mut self, scrape: &Scrape) -> ExitCode {
        if self.0 != scrape.refused {
            self.0.clone_from(&scrape.refused);
            self.0.iter().for_each(|why| errln!("mrc: {why}"));
        }
        if self.0.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

fn text(scrape: Scrape) -> anyhow::Result<String> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.dashboard {
        out!("{DASHBOARD}");
        return Ok(ExitCode::SUCCESS);
    }
    let (mut watcher, mut refused) = (Watcher::default(), Refused::default());
    let mut collector = args.collector.map(Mapper::new);
    if let Some(address) = args.listen {
        return serve(address, collector, &mut watcher);
    }
    let Some(file) = &args.textfile else {
        let scrape = scrape(&mut watcher, collector.as_mut());
        let code = refused.tell(&scrape);
        out!("{}", text(scrape)?);
        return Ok(code);
    };
    let interrupt = Interrupt::install()?;
    let (mut is_first, mut failing) = (true, false);
    loop {
        let scrape = scrape(&mut watcher, collector.as_mut());
        let code = refused.tell(&scrape);
        let text = classic(&text(scrape)?);
        match write(file, &text) {
            // A place that never was one is a wrong command line; a disk may be full for a while.
            Err(error) if is_first => return Err(error),
            Err(error) if !failing => {
                errln!("mrc: {error:#}; the file is not renewed until it can be");
                failing = true;
            }
            written => failing = written.is_err(),
        }
        is_first = false;
        let Some(seconds) = args.every else { return Ok(code) };
        let next = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < next {
            if interrupt.is_set() {
                return Ok(ExitCode::from(interrupt::EXIT_CODE));
            }
            std::thread::sleep(GLANCE);
        }
    }
}

/// The same in the text format 0.0.4, which node_exporter and older scrapers read: there a counter's family has the name of its series.
fn classic(openmetrics: &str) -> String {
    let is_counter = |name: &str| openmetrics.contains(&format!("# TYPE {name} counter\n"));
    let line = |line: &str| {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest)) if is_counter(name) => {
                format!("# {what} {name}_total {rest}\n")
            }
            _ => format!("{line}\n"),
        }
    };
    openmetrics.lines().map(line).collect()
}

/// Replaces a file at once: its readers never see half of it.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let fresh = PathBuf::from(name);
    // The folder may be another user's, as that of node_exporter is: a link there leads nowhere.
    let make = || {
        let _ = std::fs::remove_file(&fresh);
        std::fs::File::create_new(&fresh)?.write_all(text.as_bytes())
    };
    make()
        .and_then(|()| std::fs::rename(&fresh, path))
        .inspect_err(|_| drop(std::fs::remove_file(&fresh)))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Whether a client takes the text format 0.0.4 and not OpenMetrics.
fn wants_classic(accept: &str) -> bool {
    accept.contains("text/plain") && !accept.contains("application/openmetrics-text")
}

fn serve(address: SocketAddr, mut collector: Option<Mapper>, watcher: &mut Watcher) -> anyhow::Result<ExitCode> {
    let listener = http::listen(address)?;
    let interrupt = Interrupt::install()?;
    errln!("metrics at http://{}/metrics", listener.local_addr()?);
    let mut refused = Refused::default();
    let mut answer = |asked: Question<'_>| match asked.path {
        "/metrics" => {
            let scrape = scrape(watcher, collector.as_mut());
            refused.tell(&scrape);
            let text = text(scrape)?;
            Ok(match wants_classic(asked.accept) {
                true => Answer::ok(CLASSIC, classic(&text)),
                false => Answer::ok(OPENMETRICS, text),
            })
        }
        _ => Ok(Answer::not_found("metrics are at /metrics")),
    };
    let site = Site { answer: &mut answer, news: &mut || None, own_names_only: false };
    http::serve(&listener, &|| interrupt.is_set(), site)?;
    Ok(ExitCode::from(interrupt::EXIT_CODE))
}

#[cfg(test)]
mod tests {
    use mrc_verbs_shim::control::Plane;

    use super::*;

    /// A scrape with something in every family.
    fn full() -> Scrape {
        let plane = Plane { interface: "p0".into(), tx_packets: 7, up: true, ..Plane::default() };
        let mut counters =
            Counters { host: "hA".into(), command: "we\"ird".into(), planes: vec![plane], ..Counters::default() };
        counters.discards.insert("icrc".into(), 3);
        counters.counters.insert("tx_data".into(), 5);
        counters.qps_by_state.insert("RTS".into(), 10_000);
        counters.evs_by_state.insert("GOOD".into(), 8);
        let map = serde_json::json!({
            "fabric": { "hosts": 4 }, "silent": ["hD"], "denied": { "hA": [0, 1], "hB": [1] },
            "faulty": [{ "component": "p0-hA:up", "loss": 0.25 }, { "component": "p1", "loss": 1.0 }],
        });
        let devices = vec![("17-0".into(), counters.clone()), ("18-0".into(), counters)];
        Scrape { devices, left_out: 0, silent: 1, refused: None, seconds: 0.001, map: Some(Some(map)) }
    }

    #[test]
    fn a_scrape_has_a_type_and_a_line_for_each_value() {
        let text = text(full()).unwrap();
        let device = r#"host="hA",command="we\"ird",device="17-0""#;
        for line in [
            "# TYPE mrc_discards counter".to_owned(),
            "mrc_devices 2.0".to_owned(),
            "mrc_devices_silent 1.0".to_owned(),
            "mrc_devices_folder_refused 0.0".to_owned(),
            format!("mrc_discards_total{{{device},reason=\"icrc\"}} 3"),
            format!("mrc_plane_packets_total{{{device},direction=\"tx\",interface=\"p0\"}} 7"),
            format!("mrc_plane_up{{{device},interface=\"p0\"}} 1.0"),
            format!("mrc_qps{{{device},state=\"RTS\"}} 10000.0"),
            "mrc_mapper_up 1.0".to_owned(),
            "mrc_mapper_agents 3.0".to_owned(),
            "mrc_mapper_denied_planes 3.0".to_owned(),
            "mrc_mapper_loss{component=\"p0-hA:up\"} 0.25".to_owned(),
        ] {
            assert!(text.lines().any(|is| is == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let documented = include_str!("../../../docs/operations.md");
        for name in families(&text).keys() {
            assert!(documented.contains(&format!("`{name}")), "docs/operations.md does not name {name}");
        }
        let gone = Scrape { map: Some(None), ..full() };
        let gone = super::text(gone).unwrap();
        assert!(gone.contains("mrc_mapper_up 0.0") && !gone.contains("mrc_mapper_hosts"), "{gone}");
    }

    #[test]
    fn a_device_has_no_more_series_than_it_can_have() {
        let many: std::collections::BTreeMap<String, u64> = (0..5_000).map(|n| (format!("name{n}"), n)).collect();
        let long = "x".repeat(10_000);
        let mut counters = Counters {
            discards: many.clone(),
            counters: std::iter::once((long.clone(), 1)).chain(many.clone()).collect(),
            qps_by_state: many.clone(),
            evs_by_state: many,
            planes: vec![Plane { interface: long.clone(), ..Plane::default() }; 1_000],
            host: long.clone(),
            command: long,
            ..Counters::default()
        };
        bounded(&mut counters);
        let text = text(Scrape { devices: vec![("1-0".into(), counters)], ..full() }).unwrap();
        assert!(text.lines().count() < 1_500 && text.lines().all(|line| line.len() < 400));
        // What a device has stays.
        let mut device = full().devices.swap_remove(0).1;
        let before = serde_json::to_value(&device).unwrap();
        bounded(&mut device);
        assert_eq!(serde_json::to_value(&device).unwrap(), before);
    }

    /// `increase()` over the first error of a kind was 0.
    #[test]
    fn a_counter_is_there_before_it_counts() {
        let mut counters = full().devices.swap_remove(0).1;
        fill(&mut counters);
        let (mut device, before) = (counters.clone(), counters);
        bounded(&mut device);
        assert_eq!((&device.discards, &device.counters), (&before.discards, &before.counters), "all have room");
        let text = text(Scrape { devices: vec![("17-0".into(), before)], ..full() }).unwrap();
        let series = |name: &str, label: &str, value: u64| {
            let device = r#"host="hA",command="we\"ird",device="17-0""#;
            let line = format!("{name}{{{device},{label}}} {value}");
            assert!(text.lines().any(|is| is == line), "{line}\n{text}");
        };
        series("mrc_discards_total", "reason=\"icrc\"", 3);
        series("mrc_discards_total", "reason=\"stranger\"", 0);
        series("mrc_engine_total", "name=\"tx_data\"", 5);
        series("mrc_engine_total", "name=\"retransmitted\"", 0);
        assert!(text.lines().filter(|line| line.contains("device=")).count() < 200, "{text}");
    }

    #[test]
    fn a_collector_that_hangs_costs_a_scrape_little() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut mapper = Mapper::new(listener.local_addr().unwrap());
        let begun = Instant::now();
        assert_eq!(mapper.ask(), None);
        // For a while it is not asked again.
        for _ in 0..10 {
            assert_eq!(mapper.ask(), None);
        }
        assert!(begun.elapsed() < COLLECTOR_PATIENCE * 2, "{:?}", begun.elapsed());
        // One that answers again is heard.
        mapper.silent = Instant::now().checked_sub(COLLECTOR_REST);
        let server = std::thread::spawn(move || {
            // The first connection is that of the question without an answer.
            let streams: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
            let _ = std::io::Read::read(&mut &streams[1], &mut [0; 1024]).unwrap();
            (&streams[1]).write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"faulty\":[]}").unwrap();
        });
        assert!(mapper.ask().is_some() && mapper.silent.is_none());
        server.join().unwrap();
    }

    #[test]
    fn a_scraper_gets_the_format_that_it_takes() {
        for accept in ["", "*/*", "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*"]
        {
            assert!(!wants_classic(accept), "{accept}");
        }
        for accept in ["text/plain;version=0.0.4", "text/plain;version=0.0.4;q=1,*/*;q=0.1"] {
            assert!(wants_classic(accept), "{accept}");
        }
    }

    #[test]
    fn a_link_beside_the_file_leads_nowhere() {
        let folder = std::env::temp_dir().join(format!("mrc-textfile-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, other) = (folder.join("mrc.prom"), folder.join("other"));
        std::fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, folder.join("mrc.prom.new")).unwrap();
        for text in ["1", "2"] {
            write(&file, text).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_text_format_names_counters_as_their_series() {
        let text = classic(&text(full()).unwrap());
        for line in [
            "# HELP mrc_discards_total Received frames without further effect",
            "# TYPE mrc_discards_total counter",
            "# TYPE mrc_plane_up gauge",
            "mrc_mapper_up 1.0",
        ] {
            assert!(text.lines().any(|is| is == line), "{line}\n{text}");
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(text.contains(&format!("# TYPE {name} ")) && text.contains(&format!("# HELP {name} ")), "{line}");
        }
    }

    /// Families by name, with their type; each has a HELP, and all its series follow it.
    fn families(text: &str) -> std::collections::BTreeMap<&str, &str> {
        let mut families = std::collections::BTreeMap::new();
        let (mut helped, mut current) = (None, None);
        let mut seen = std::collections::BTreeSet::new();
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(help.len() > 5, "{line}");
                helped = Some(name);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(helped, Some(name), "HELP comes first");
                assert!(matches!(kind, "counter" | "gauge") && families.insert(name, kind).is_none(), "{line}");
                current = Some((name, kind));
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                let (family, kind) = current.unwrap();
                let suffix = if kind == "counter" { "_total" } else { "" };
                assert_eq!(name, format!("{family}{suffix}"), "a series outside its family");
                assert!(value.parse::<f64>().is_ok() && seen.insert(series), "{line}");
                assert!(
                    name.starts_with("mrc_")
                        && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
                );
            }
        }
        families
    }

    #[test]
    fn the_dashboard_asks_for_what_is_served() {
        let text = text(full()).unwrap();
        let families = families(&text);
        let served = |name: &str| match name.strip_suffix("_total") {
            Some(family) => families.get(family) == Some(&"counter"),
            None => families.get(name) == Some(&"gauge"),
        };
        let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let mut used = std::collections::BTreeSet::new();
        for panel in panels {
            // What Grafana wants of every panel, within its grid of 24 columns.
            let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24 && at("h") > 0 && at("y") < 200, "{panel}");
            assert!(panel["id"].is_u64() && panel["title"].is_string() && panel["type"].is_string(), "{panel}");
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expr = target["expr"].as_str().unwrap();
                assert!(
                    target["refId"].is_string() && expr.matches('(').count() == expr.matches(')').count(),
                    "{expr}"
                );
                let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                for name in words.filter(|word| word.starts_with("mrc_")) {
                    assert!(served(name), "{name} in `{expr}` is not served");
                    used.insert(name.trim_end_matches("_total").to_owned());
                }
            }
        }
        let ids: std::collections::BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
        let unused: Vec<&&str> = families.keys().filter(|name| !used.contains(**name)).collect();
        assert!(unused.is_empty(), "shown nowhere: {unused:?}");
        // The variables that panels and labels use are there.
        let variables: Vec<&str> =
            dashboard["templating"]["list"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
        assert_eq!(variables, ["source", "host", "device"]);
    }
}
