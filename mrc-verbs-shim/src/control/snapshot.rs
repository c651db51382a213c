//! Snapshots of a device, for the answers of its control socket.

use std::collections::BTreeMap;

use mrc_afxdp::device::{Device, DeviceError, DeviceStats};
use mrc_core::path::EvState;
use mrc_core::{Discard, Endpoint, QpHandle, QpState};

#[cfg(feature = "flowing-jumping")]
use super::MAX_PATHS;
use super::denylist::{compact, entries};
use super::{Counters, EvReport, MAX_QPS, PathRow, Plane, Profile, Qp, State};
use crate::logging;

/// Queue pairs that are looked at between two turns of the device.
const CHUNK: usize = 256;

const QP_STATES: [QpState; 5] = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Error];
const EV_STATES: [EvState; 4] = [EvState::Good, EvState::Skip, EvState::AssumedBad, EvState::Denied];

/// What a device is called.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) host: String,
    /// Of the device in its process.
    pub(super) number: u32,
    pub(super) command: String,
    pub(super) interfaces: Vec<String>,
}

fn counters(names: &Names, stats: &DeviceStats, denied: &[u8]) -> Counters {
    let known = Discard::ALL.len();
    let mut all = Counters {
        pid: std::process::id(),
        command: names.command.clone(),
        host: names.host.clone(),
        seconds: stats.at.as_nanos() as f64 / 1e9,
        ..Counters::default()
    };
    let mut seen = 0;
    stats.engine.for_each(|name, value| {
        // Discards come first and may share a name with a counter.
        let list = if seen < known { &mut all.discards } else { &mut all.counters };
        seen += 1;
        if value > 0 {
            list.insert(name.to_owned(), value);
        }
    });
    let planes = (0u8..).zip(&names.interfaces).zip(&stats.engine.ports).zip(&stats.ports);
    all.planes = planes
        .map(|(((number, interface), engine), port)| Plane {
            interface: interface.clone(),
            tx_packets: engine.tx_packets,
            rx_packets: engine.rx_packets,
            rx_dropped: port.rx_dropped,
            tx_bytes: engine.tx_bytes,
            rx_bytes: engine.rx_bytes,
            up: stats.up.contains(mrc_wire::PortNum::from_plane(number)),
            denied: denied.contains(&number),
        })
        .collect();
    // Every state, so that no series ends where the last one leaves it.
    let states = &stats.engine.states;
    all.qps_by_state = QP_STATES.map(|state| (state_name(state).to_owned(), states.qps(state))).into();
    all.evs_by_state = EV_STATES.map(|state| (logging::state(state).to_owned(), states.evs(state))).into();
    all
}

/// Counters, plane states, and how many queue pairs and entropy values are in which state: one look, whatever their number.
pub(super) fn stats(names: &Names, device: &Device, denied: &[u8]) -> Result<Counters, DeviceError> {
    Ok(counters(names, &device.stats()?, denied))
}

/// Everything.
pub(super) fn state(names: &Names, device: &Device, denied: &[u8], evs: bool) -> Result<State, DeviceError> {
    let mut all = State { counters: stats(names, device, denied)?, ..State::default() };
    let (qps, left_out) = (&mut all.qps, &mut all.qps_left_out);
    in_chunks(device, qp, |qp| if qps.len() < MAX_QPS { qps.push(qp) } else { *left_out += 1 })?;
    if evs {
        all.profiles = profiles(device)?;
        let mut tables: BTreeMap<u32, Vec<PathRow>> = path_tables(device)?.into_iter().collect();
        for qp in &mut all.qps {
            qp.paths = tables.remove(&qp.qpn).unwrap_or_default();
        }
    }
    Ok(all)
}

/// The paths of every queue pair whose selector keeps a load of each, by queue pair number: at most [`MAX_PATHS`] paths.
///
/// # Errors
/// The device is closed.
#[cfg(feature = "flowing-jumping")]
pub fn path_tables(device: &Device) -> Result<Vec<(u32, Vec<PathRow>)>, DeviceError> {
    device.with_engine(|engine, _| {
        let (mut tables, mut room) = (Vec::new(), MAX_PATHS);
        for qp in engine.qps().collect::<Vec<_>>() {
            let loads: Vec<mrc_core::path::PathLoad> = engine.path_loads(qp).take(room).collect();
            room -= loads.len();
            let Some(profile) = engine.qp_info(qp).and_then(|info| info.ev_profile).filter(|_| !loads.is_empty())
            else {
                continue;
            };
            let reports = entries(engine, profile);
            let row = |load: &mrc_core::path::PathLoad| {
                let (plane, report) = (load.port.plane(), reports.get(usize::from(load.entry)));
                PathRow {
                    name: report.map_or_else(String::new, |report| name(&report.ev, plane)),
                    plane,
                    state: report.map_or("", |report| logging::state(report.state)).to_owned(),
                    delay_ns: load.delay_ns,
                    bandwidth_mbps: load.bandwidth_mbps,
                    load_bytes: load.load_bytes,
                    placed_packets: load.placed_packets,
                    telemetry: load.telemetry,
                }
            };
            tables.push((qp.qpn().value(), loads.iter().map(row).collect()));
        }
        tables
    })
}

/// Without selectors that keep loads there is no table.
///
/// # Errors
/// None.
#[cfg(not(feature = "flowing-jumping"))]
pub fn path_tables(_: &Device) -> Result<Vec<(u32, Vec<PathRow>)>, DeviceError> {
    Ok(Vec::new())
}

fn state_name(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "RESET",
        QpState::Init => "INIT",
        QpState::Rtr => "RTR",
        QpState::Rts => "RTS",
        QpState::Error => "ERROR",
    }
}

/// Shows every queue pair to `look` on the device's thread, some at a time so that no turn waits long.
fn in_chunks<T: Send + 'static>(
    device: &Device,
    look: fn(&Endpoint<'_>, QpHandle) -> Option<T>,
    mut each: impl FnMut(T),
) -> Result<(), DeviceError> {
    let handles: Vec<QpHandle> = device.with_engine(|engine, _| engine.qps().collect())?;
    for chunk in handles.chunks(CHUNK) {
        let chunk = chunk.to_vec();
        let seen: Vec<T> =
            device.with_engine(move |engine, _| chunk.iter().filter_map(|&qp| look(engine, qp)).collect::<Vec<_>>())?;
        seen.into_iter().for_each(&mut each);
    }
    Ok(())
}

fn qp(engine: &Endpoint<'_>, handle: QpHandle) -> Option<Qp> {
    let info = engine.qp_info(handle)?;
    let cc = engine.qpcc_info(handle);
    Some(Qp {
        qpn: handle.qpn().value(),
        state: state_name(info.state).to_owned(),
        cause: info.cause.map(|cause| cause.text().to_owned()),
        peer_qpn: info.dest_qp.value(),
        profile: info.ev_profile.map(mrc_core::EvProfileHandle::index),
        outstanding: info.outstanding,
        queued: info.queued,
        retries: info.retries,
        srtt_ns: info.srtt_ns,
        base_rtt_ns: info.base_rtt_ns,
        cwnd_bytes: cc.map(|cc| cc.cwnd_bytes).filter(|bytes| *bytes < u64::MAX),
        delay_ns: cc.map_or(0, |cc| cc.avg_delay_ns),
        inflight_bytes: info.inflight_bytes,
        acked_bytes: info.acked_bytes,
        received_bytes: info.received_bytes,
        retransmitted: info.retransmitted,
        evs: [info.evs.good, info.evs.skip, info.evs.assumed_bad, info.evs.denied, info.evs.active],
        paths: Vec::new(),
    })
}

fn profiles(device: &Device) -> Result<Vec<Profile>, DeviceError> {
    device.with_engine(|engine, _| {
        let handles: Vec<_> = engine.ev_profiles().collect();
        let profile = |handle: mrc_core::EvProfileHandle| {
            let users = engine.ev_profile_info(handle).map_or(0, |info| info.users);
            let reports = entries(engine, handle);
            let evs = reports.iter().filter_map(|report| {
                let plane = report.ev.port?.plane();
                Some(EvReport { name: name(&report.ev, plane), plane, state: logging::state(report.state).to_owned() })
            });
            Profile { index: handle.index(), users, evs: evs.collect() }
        };
        handles.into_iter().map(profile).collect()
    })
}

fn name(spec: &mrc_core::EvSpec, plane: u8) -> String {
    match compact(spec) {
        Some(ev) if ev >> 8 == u32::from(plane) => format!("p{plane}u{}", ev & 0xFF),
        _ => {
            let end = spec.value.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
            spec.value[..end].iter().map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discards_stand_apart_from_what_else_was_counted() {
        let mut engine = mrc_core::Stats::default();
        engine.tx_data = 7;
        engine.ports[1].tx_packets = 9;
        let stats = DeviceStats {
            at: mrc_core::Instant::from_nanos(0),
            engine,
            ports: vec![mrc_afxdp::PortStats::default(); 2],
            up: mrc_core::PortMask::NONE.with(mrc_wire::PortNum::from_plane(1)),
            paths: Vec::new(),
        };
        let names =
            Names { host: "hA".into(), number: 0, command: "x".into(), interfaces: vec!["p0".into(), "p1".into()] };
        let counters = counters(&names, &stats, &[0]);
        assert!(counters.discards.is_empty(), "{counters:?}");
        assert_eq!(counters.counters.into_iter().collect::<Vec<_>>(), [("tx_data".to_owned(), 7)]);
        assert_eq!((counters.planes[1].interface.as_str(), counters.planes[1].tx_packets), ("p1", 9));
        assert_eq!(
            counters.planes.iter().map(|plane| (plane.up, plane.denied)).collect::<Vec<_>>(),
            [(false, true), (true, false)]
        );
        // A series for each state, also for those that nobody is in.
        assert_eq!((counters.qps_by_state.len(), counters.evs_by_state.len()), (5, 4));
        assert_eq!((counters.qps_by_state["ERROR"], counters.evs_by_state["ASSUMED_BAD"]), (0, 0));
    }

    #[test]
    fn compact_values_have_names() {
        let mut spec = mrc_core::EvSpec { value: [0; 32], port: None };
        spec.value[..4].copy_from_slice(&0x103u32.to_be_bytes());
        assert_eq!((name(&spec, 1), name(&spec, 0)), ("p1u3".to_owned(), "00000103".to_owned()));
    }
}
