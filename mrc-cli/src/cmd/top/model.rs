//! What `mrc top` shows: rates between two snapshots, sorted and filtered. Knows no terminal.

use std::collections::{BTreeMap, VecDeque};

use mrc_verbs_shim::control::{Happened, PathRow, Qp};

use crate::watch::{Seen, Snapshot};

/// Events that are kept per device.
const EVENTS: usize = 200;
/// Snapshots that can be looked at again while paused.
const HISTORY: usize = 600;

/// A column to sort queue pairs by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// What they send, then what they receive.
    Goodput,
    /// Number.
    Number,
    /// Round trip.
    Rtt,
    /// Packets sent again.
    Retransmitted,
    /// Window.
    Window,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Goodput, Self::Number, Self::Rtt, Self::Retransmitted, Self::Window];

    /// As the screen calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Number => "number",
            Self::Rtt => "rtt",
            Self::Retransmitted => "retransmitted",
            Self::Window => "window",
        }
    }
}

/// A plane with its rates.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaneRow {
    pub interface: String,
    pub state: &'static str,
    pub tx_gbit: f64,
    pub rx_gbit: f64,
    pub tx_packets: f64,
    pub rx_packets: f64,
    pub dropped: u64,
}

/// A device with its rates.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    pub name: String,
    pub host: String,
    pub command: String,
    pub tx_gbit: f64,
    pub rx_gbit: f64,
    pub retransmitted: f64,
    pub discards: f64,
    pub qps: u64,
    pub denied: bool,
}

/// A queue pair with its rates.
#[derive(Debug, Clone, PartialEq)]
pub struct QpRow {
    pub qpn: u32,
    pub peer_qpn: u32,
    pub state: String,
    pub tx_gbit: f64,
    pub rx_gbit: f64,
    pub cwnd_bytes: Option<u64>,
    /// Smoothed round trip; none before anything it sent was acknowledged.
    pub rtt_us: Option<f64>,
    pub retransmitted: f64,
    pub evs: [u16; 5],
}

/// The model.
#[derive(Debug, Default)]
pub struct Model {
    history: VecDeque<Snapshot>,
    events: BTreeMap<String, VecDeque<Happened>>,
    /// Steps back from the newest snapshot; `None` while not paused.
    back: Option<usize>,
    device: Option<String>,
    sort: usize,
    reversed: bool,
    filter: String,
    typing: bool,
    scrolled: usize,
}

fn rate(new: u64, old: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { new.saturating_sub(old) as f64 / seconds } else { 0.0 }
}

fn gbit(new: u64, old: u64, seconds: f64) -> f64 {
    rate(new, old, seconds) * 8.0 / 1e9
}

impl Model {
    /// Takes a snapshot in. What is shown stays while paused.
    pub fn take(&mut self, snapshot: Snapshot) {
        for device in &snapshot.devices {
            let events = self.events.entry(device.name.clone()).or_default();
            events.extend(device.events.iter().cloned());
            let excess = events.len().saturating_sub(EVENTS);
            events.drain(..excess);
        }
        let known = |name: &String| snapshot.devices.iter().any(|device| device.name == *name);
        self.events.retain(|name, _| known(name));
        self.history.push_back(snapshot);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        } else if let Some(back) = &mut self.back {
            *back += 1;
        }
    }

    fn shown(&self) -> usize {
        self.history.len().saturating_sub(1 + self.back.unwrap_or(0))
    }

    /// The snapshot that is shown, and the one before it.
    fn pair(&self) -> Option<(&Snapshot, Option<&Snapshot>)> {
        let at = self.shown();
        Some((self.history.get(at)?, at.checked_sub(1).and_then(|before| self.history.get(before))))
    }

    /// Names of devices that did not answer.
    pub fn silent(&self) -> &[String] {
        self.pair().map_or(&[], |(now, _)| &now.silent)
    }

    /// Why the folder of this user's devices was not searched.
    pub fn refused(&self) -> Option<&str> {
        self.pair()?.0.refused.as_deref()
    }

    /// When what is shown was seen, in milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        self.pair().map_or(0, |(now, _)| now.unix_ms)
    }

    /// The device that is looked at.
    pub fn device(&self) -> Option<&Seen> {
        let (now, _) = self.pair()?;
        now.devices.iter().find(|device| Some(&device.name) == self.device.as_ref()).or(now.devices.first())
    }

    /// The same device before, and the seconds since then by its own clock: that of the machine may be set, and another device may
    /// have taken the name.
    fn before(&self, name: &str) -> Option<(&Seen, f64)> {
        let (now, before) = self.pair()?;
        let find = |snapshot: &'_ Snapshot| snapshot.devices.iter().position(|device| device.name == name);
        let (new, old) = (&now.devices[find(now)?], &before?.devices[find(before?)?]);
        Some((old, new.state.counters.seconds - old.state.counters.seconds))
    }

    /// All devices.
    pub fn devices(&self) -> Vec<DeviceRow> {
        let Some((now, _)) = self.pair() else { return Vec::new() };
        let row = |device: &Seen| {
            let (new, before) = (&device.state.counters, self.before(&device.name));
            let sum = |seen: &Seen, what: fn(&Seen) -> u64| what(seen);
            let per_second = |what: fn(&Seen) -> u64| {
                before.map_or(0.0, |(old, seconds)| rate(sum(device, what), sum(old, what), seconds))
            };
            DeviceRow {
                name: device.name.clone(),
                host: new.host.clone(),
                command: new.command.clone(),
                tx_gbit: per_second(|seen| seen.state.counters.planes.iter().map(|plane| plane.tx_bytes).sum()) * 8e-9,
                rx_gbit: per_second(|seen| seen.state.counters.planes.iter().map(|plane| plane.rx_bytes).sum()) * 8e-9,
                retransmitted: per_second(|seen| {
                    seen.state.counters.counters.get("retransmitted").copied().unwrap_or(0)
                }),
                discards: per_second(|seen| seen.state.counters.discards.values().sum()),
                qps: new.qps_by_state.values().sum(),
                denied: new.planes.iter().any(|plane| plane.denied),
            }
        };
        now.devices.iter().map(row).collect()
    }

    /// Planes of the device that is looked at.
    pub fn planes(&self) -> Vec<PlaneRow> {
        let Some(device) = self.device() else { return Vec::new() };
        let before = self.before(&device.name);
        let row = |(number, new): (usize, &mrc_verbs_shim::control::Plane)| {
            let (old, seconds) = before
                .and_then(|(old, seconds)| old.state.counters.planes.get(number).map(|plane| (plane, seconds)))
                .unwrap_or((new, 0.0));
            PlaneRow {
                interface: new.interface.clone(),
                state: match (new.up, new.denied) {
                    (false, _) => "DOWN",
                    (true, true) => "DENIED",
                    (true, false) => "up",
                },
                tx_gbit: gbit(new.tx_bytes, old.tx_bytes, seconds),
                rx_gbit: gbit(new.rx_bytes, old.rx_bytes, seconds),
                tx_packets: rate(new.tx_packets, old.tx_packets, seconds),
                rx_packets: rate(new.rx_packets, old.rx_packets, seconds),
                dropped: new.rx_dropped,
            }
        };
        device.state.counters.planes.iter().enumerate().map(row).collect()
    }

    /// Its queue pairs that pass the filter, in order, and how many there are without it.
    pub fn qps(&self) -> (Vec<QpRow>, usize) {
        let Some(device) = self.device() else { return (Vec::new(), 0) };
        let before = self.before(&device.name);
        let old: BTreeMap<u32, &Qp> =
            before.iter().flat_map(|(seen, _)| &seen.state.qps).map(|qp| (qp.qpn, qp)).collect();
        let seconds = before.map_or(0.0, |(_, seconds)| seconds);
        let mut rows: Vec<QpRow> = device
            .state
            .qps
            .iter()
            .map(|new| {
                let old = old.get(&new.qpn).copied().unwrap_or(new);
                QpRow {
                    qpn: new.qpn,
                    peer_qpn: new.peer_qpn,
                    state: new.state.clone(),
                    tx_gbit: gbit(new.acked_bytes, old.acked_bytes, seconds),
                    rx_gbit: gbit(new.received_bytes.wrapping_sub(old.received_bytes).into(), 0, seconds),
                    cwnd_bytes: new.cwnd_bytes,
                    rtt_us: (new.acked_bytes > 0).then(|| new.srtt_ns as f64 / 1e3),
                    retransmitted: rate(new.retransmitted.into(), old.retransmitted.into(), seconds),
                    evs: new.evs,
                }
            })
            .filter(|row| self.passes(row))
            .collect();
        rows.sort_by(|a, b| {
            let order = match self.sort() {
                Sort::Goodput => (b.tx_gbit + b.rx_gbit).total_cmp(&(a.tx_gbit + a.rx_gbit)),
                Sort::Number => a.qpn.cmp(&b.qpn),
                Sort::Rtt => b.rtt_us.unwrap_or(-1.0).total_cmp(&a.rtt_us.unwrap_or(-1.0)),
                Sort::Retransmitted => b.retransmitted.total_cmp(&a.retransmitted),
                Sort::Window => b.cwnd_bytes.cmp(&a.cwnd_bytes),
            };
            let order = order.then(a.qpn.cmp(&b.qpn));
            if self.reversed { order.reverse() } else { order }
        });
        (rows, device.state.qps.len() + device.state.qps_left_out)
    }

    /// Paths of the first queue pair that is shown and whose selector keeps a load of each, with its number.
    pub fn paths(&self) -> Option<(u32, &[PathRow])> {
        let qps = &self.device()?.state.qps;
        let shown = self.qps().0.into_iter().skip(self.scrolled).map(|row| row.qpn);
        let of = |qpn: u32| qps.iter().find(|qp| qp.qpn == qpn).filter(|qp| !qp.paths.is_empty());
        shown.filter_map(of).map(|qp| (qp.qpn, qp.paths.as_slice())).next()
    }

    fn passes(&self, row: &QpRow) -> bool {
        let text = format!("{:#08x} {:#08x} {}", row.qpn, row.peer_qpn, row.state).to_lowercase();
        self.filter.split_whitespace().all(|word| text.contains(&word.to_lowercase()))
    }

    /// Events of the device that is looked at, up to the time that is shown, newest first.
    pub fn events(&self) -> impl Iterator<Item = &Happened> {
        let (name, until) = (self.device().map(|device| device.name.as_str()), self.unix_ms());
        let events = name.and_then(|name| self.events.get(name)).into_iter().flatten();
        events.rev().filter(move |event| event.unix_ms <= until)
    }

    pub fn sort(&self) -> Sort {
        Sort::ALL[self.sort % Sort::ALL.len()]
    }

    pub fn reversed(&self) -> bool {
        self.reversed
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn is_typing(&self) -> bool {
        self.typing
    }

    pub fn paused(&self) -> bool {
        self.back.is_some()
    }

    pub fn scrolled(&self) -> usize {
        self.scrolled
    }

    pub fn pause(&mut self) {
        self.back = if self.back.is_some() { None } else { Some(0) };
    }

    /// While paused: shows an older or a newer snapshot.
    pub fn step(&mut self, by: isize) {
        let last = self.history.len().saturating_sub(1);
        if let Some(back) = &mut self.back {
            *back = back.saturating_add_signed(-by).min(last);
        }
    }

    pub fn next_sort(&mut self) {
        self.sort = (self.sort + 1) % Sort::ALL.len();
    }

    pub fn reverse(&mut self) {
        self.reversed = !self.reversed;
    }

    pub fn next_device(&mut self) {
        let Some((now, _)) = self.pair() else { return };
        let names: Vec<&String> = now.devices.iter().map(|device| &device.name).collect();
        let at = names.iter().position(|name| Some(*name) == self.device().map(|device| &device.name));
        let next = at.map_or(0, |at| (at + 1) % names.len().max(1));
        self.device = names.get(next).map(|name| (*name).clone());
        self.scrolled = 0;
    }

    pub fn scroll(&mut self, by: isize) {
        let last = self.qps().0.len().saturating_sub(1);
        self.scrolled = self.scrolled.saturating_add_signed(by).min(last);
    }

    pub fn begin_filter(&mut self) {
        self.typing = true;
    }

    pub fn end_filter(&mut self) {
        self.typing = false;
    }

    pub fn clear_filter(&mut self) {
        self.typing = false;
        self.filter.clear();
    }

    pub fn type_filter(&mut self, letter: char) {
        if self.filter.chars().count() < 40 {
            self.filter.push(letter);
            self.scrolled = 0;
        }
    }

    pub fn erase_filter(&mut self) {
        self.filter.pop();
    }
}

#[cfg(test)]
mod tests {
    use mrc_verbs_shim::control::{Counters, Plane, State};

    use super::*;

    fn qp(qpn: u32, acked: u64, rtt: u64, rtx: u32) -> Qp {
        let state = if qpn == 3 { "ERROR" } else { "RTS" }.to_owned();
        Qp { qpn, state, acked_bytes: acked, srtt_ns: rtt, retransmitted: rtx, ..Qp::default() }
    }

    fn seen(name: &str, tx: u64, qps: Vec<Qp>) -> Seen {
        let plane = Plane { interface: "p0".into(), tx_bytes: tx, up: true, denied: tx > 0, ..Plane::default() };
        let seconds = 7.0 + tx as f64 / 500.0;
        let counters = Counters { host: "hA".into(), planes: vec![plane], seconds, ..Counters::default() };
        let state = State { counters, qps, ..State::default() };
        let event = Happened { number: tx + 1, unix_ms: tx, text: format!("at {tx}") };
        Seen { name: name.into(), state, events: vec![event] }
    }

    fn model() -> Model {
        let mut model = Model::default();
        let first = vec![qp(1, 0, 9, 0), qp(2, 0, 5, 0), qp(3, 0, 7, 0)];
        let second = vec![qp(1, 1_250_000_000, 9, 5), qp(2, 250_000_000, 5, 8), qp(3, 0, 7, 0), qp(4, 77, 1, 1)];
        model.take(Snapshot { unix_ms: 1000, devices: vec![seen("1-0", 0, first)], ..Snapshot::default() });
        let devices = vec![seen("1-0", 1000, second), seen("2-0", 0, vec![])];
        model.take(Snapshot { unix_ms: 3000, devices, ..Snapshot::default() });
        model
    }

    fn numbers(model: &Model) -> Vec<u32> {
        model.qps().0.iter().map(|row| row.qpn).collect()
    }

    #[test]
    fn rates_are_differences_over_time() {
        let model = model();
        let rows = model.qps().0;
        assert_eq!((rows[0].qpn, rows[0].tx_gbit, rows[0].retransmitted), (1, 5.0, 2.5));
        assert_eq!(rows.iter().find(|row| row.qpn == 4).unwrap().tx_gbit, 0.0, "new: nothing is known of before");
        let rtts = rows.iter().map(|row| (row.qpn, row.rtt_us)).collect::<BTreeMap<_, _>>();
        assert_eq!((rtts[&1], rtts[&3]), (Some(0.009), None), "3 has nothing acknowledged: it measured nothing");
        let planes = model.planes();
        assert_eq!((planes[0].state, (planes[0].tx_gbit * 1e9).round()), ("DENIED", 4000.0));
        assert_eq!(model.devices().iter().map(|row| (row.tx_gbit * 1e9).round()).collect::<Vec<_>>(), [4000.0, 0.0]);
    }

    #[test]
    fn rates_need_no_clock_of_the_machine() {
        let mut model = model();
        let take = |model: &mut Model, unix_ms, tx| {
            let devices = vec![seen("1-0", tx, vec![])];
            model.take(Snapshot { unix_ms, devices, ..Snapshot::default() });
            (model.planes()[0].tx_gbit * 1e9).round()
        };
        // Set back by a minute, and on by an hour.
        assert_eq!(take(&mut model, 0, 2000), 4000.0);
        assert_eq!(take(&mut model, 3_600_000, 3000), 4000.0);
        // A process in a container has the number of the one before it.
        assert_eq!(take(&mut model, 3_600_500, 500), 0.0);
    }

    #[test]
    fn rows_are_sorted_filtered_and_scrolled() {
        let mut model = model();
        assert_eq!(numbers(&model), [1, 2, 3, 4]);
        let mut orders = Vec::new();
        for _ in 0..3 {
            model.next_sort();
            orders.push((model.sort().name(), numbers(&model)));
        }
        assert_eq!(
            orders,
            [("number", vec![1, 2, 3, 4]), ("rtt", vec![1, 2, 4, 3]), ("retransmitted", vec![2, 1, 3, 4])]
        );
        model.reverse();
        assert_eq!(numbers(&model), [4, 3, 1, 2]);
        model.begin_filter();
        "err".chars().for_each(|letter| model.type_filter(letter));
        assert_eq!((numbers(&model), model.qps().1), (vec![3], 4));
        model.erase_filter();
        model.clear_filter();
        assert_eq!(numbers(&model).len(), 4);
        model.scroll(100);
        assert_eq!(model.scrolled(), 3);
        model.scroll(-100);
        assert_eq!(model.scrolled(), 0);
    }

    #[test]
    fn a_pause_keeps_what_is_shown_and_steps_through_time() {
        let mut model = model();
        model.pause();
        model.take(Snapshot { unix_ms: 4000, devices: vec![seen("1-0", 9000, vec![])], ..Snapshot::default() });
        assert_eq!(model.unix_ms(), 3000, "paused");
        model.step(-1);
        assert_eq!((model.unix_ms(), model.qps().0[0].tx_gbit), (1000, 0.0), "the first has no rates");
        model.step(-9);
        model.step(1);
        model.step(9);
        assert_eq!(model.unix_ms(), 4000);
        model.pause();
        model.take(Snapshot { unix_ms: 5000, ..Snapshot::default() });
        assert_eq!((model.unix_ms(), model.devices().len(), model.qps()), (5000, 0, (vec![], 0)));
    }

    #[test]
    fn devices_take_turns() {
        let mut model = model();
        let mut names = Vec::new();
        for _ in 0..3 {
            names.push(model.device().unwrap().name.clone());
            model.next_device();
        }
        assert_eq!(names, ["1-0", "2-0", "1-0"]);
        assert_eq!(Model::default().devices(), []);
        Model::default().next_device();
    }

    #[test]
    fn history_is_bounded() {
        let mut model = model();
        for n in 0..2000 {
            model.take(Snapshot { unix_ms: 5000 + n, devices: vec![seen("1-0", n, vec![])], ..Snapshot::default() });
        }
        assert_eq!((model.history.len(), model.events["1-0"].len()), (HISTORY, EVENTS));
    }
}
