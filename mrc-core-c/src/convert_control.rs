//! As `convert`, for what controllers exchange: EV profiles, windows, endpoint operations.

use mrc_core::{
    EvEventMask, EvMode, EvProfileConfig, EvProfileInfo, EvReport, EvSpec, OpOutcome, OpRequest, ProfileState,
    cc::{QpccInfo, QpccState},
    path::{EvEntry, EvFormat, EvState, FormatMode},
};
use mrc_wire::{EndpointOp, EvField, PortNum};

use crate::{
    codes::*,
    control_types::*,
    convert::{ev_entry, ev_state, port_mask, range, some},
    fault::Fault,
    types::*,
};

/// Entries of C in the engine's form, in `room`.
pub(crate) fn ev_entries<'a>(
    entries: &[mrc_core_ev_entry],
    room: &'a mut [EvEntry],
) -> Result<&'a mut [EvEntry], Fault> {
    let room = room.get_mut(..entries.len()).ok_or(range("EV profile size"))?;
    for (to, from) in room.iter_mut().zip(entries) {
        *to = ev_entry(from)?;
    }
    Ok(room)
}

/// Field descriptions, as many as are used.
pub(crate) struct Fields {
    all: [EvField; MRC_CORE_MAX_EV_FIELDS],
    len: usize,
}

impl Fields {
    pub(crate) fn as_slice(&self) -> &[EvField] {
        self.all.get(..self.len).unwrap_or(&self.all)
    }
}

pub(crate) fn ev_fields(c: &mrc_core_ev_profile_config) -> Result<Fields, Fault> {
    let len = usize::from(c.field_count);
    if len > MRC_CORE_MAX_EV_FIELDS {
        return Err(range("field_count"));
    }
    let mut all = [EvField::fixed(0, 0); MRC_CORE_MAX_EV_FIELDS];
    for (to, from) in all.iter_mut().zip(&c.fields) {
        let mrc_core_ev_field { init_val, min_val, max_val, mask, width } = *from;
        *to = EvField { width, init_val, min_val, max_val, mask };
    }
    Ok(Fields { all, len })
}

pub(crate) fn ev_profile_config<'a>(
    c: &mrc_core_ev_profile_config,
    fields: &'a [EvField],
    paths: &'a [EvEntry],
) -> Result<EvProfileConfig<'a>, Fault> {
    let mode = match c.format {
        MRC_CORE_EV_FORMAT_UDP => FormatMode::Udp,
        MRC_CORE_EV_FORMAT_STEV => FormatMode::Stev,
        MRC_CORE_EV_FORMAT_SRV6 => FormatMode::Srv6,
        _ => return Err(range("format")),
    };
    let widths = c.widths.get(..usize::from(c.width_count)).ok_or(range("width_count"))?;
    let format = match (mode, widths) {
        (FormatMode::Udp, []) => EvFormat::UDP,
        (mode, widths) => EvFormat::new(mode, widths)?,
    };
    Ok(EvProfileConfig {
        mode: match c.mode {
            MRC_CORE_EV_MODE_AUTO => EvMode::Auto,
            MRC_CORE_EV_MODE_EXPLICIT => EvMode::Explicit,
            MRC_CORE_EV_MODE_GENERATED => EvMode::Generated,
            _ => return Err(range("mode")),
        },
        format,
        fields,
        count: c.count,
        min_active: c.min_active,
        events: EvEventMask { good: c.event_good != 0, assumed_bad: c.event_assumed_bad != 0 },
        paths,
    })
}

pub(crate) fn profile_state(state: u8) -> Result<ProfileState, Fault> {
    match state {
        MRC_CORE_PROFILE_INIT => Ok(ProfileState::Init),
        MRC_CORE_PROFILE_OFFLINE => Ok(ProfileState::Offline),
        MRC_CORE_PROFILE_ONLINE => Ok(ProfileState::Online),
        _ => Err(range("state")),
    }
}

pub(crate) fn ev_profile_info(info: &EvProfileInfo) -> mrc_core_ev_profile_info {
    let mut fields =
        [mrc_core_ev_field { init_val: 0, min_val: 0, max_val: 0, mask: 0, width: 0 }; MRC_CORE_MAX_EV_FIELDS];
    for (to, from) in fields.iter_mut().zip(info.fields.as_slice()) {
        let EvField { width, init_val, min_val, max_val, mask } = *from;
        *to = mrc_core_ev_field { init_val, min_val, max_val, mask, width };
    }
    let mut widths = [0; MRC_CORE_MAX_EV_FIELDS];
    for (to, from) in widths.iter_mut().zip(info.format.widths()) {
        *to = *from;
    }
    mrc_core_ev_profile_info {
        id: info.id,
        users: info.users,
        fields,
        widths,
        count: info.count,
        min_active: info.min_active,
        state: match info.state {
            ProfileState::Init => MRC_CORE_PROFILE_INIT,
            ProfileState::Offline => MRC_CORE_PROFILE_OFFLINE,
            ProfileState::Online => MRC_CORE_PROFILE_ONLINE,
        },
        mode: match info.mode {
            EvMode::Auto => MRC_CORE_EV_MODE_AUTO,
            EvMode::Explicit => MRC_CORE_EV_MODE_EXPLICIT,
            EvMode::Generated => MRC_CORE_EV_MODE_GENERATED,
        },
        format: match info.format.mode() {
            FormatMode::Udp => MRC_CORE_EV_FORMAT_UDP,
            FormatMode::Stev => MRC_CORE_EV_FORMAT_STEV,
            FormatMode::Srv6 => MRC_CORE_EV_FORMAT_SRV6,
        },
        width_count: info.format.widths().len() as u8,
        field_count: info.fields.as_slice().len() as u8,
        event_good: info.events.good.into(),
        event_assumed_bad: info.events.assumed_bad.into(),
    }
}

/// Port 0, and whatever else is no port, is none.
pub(crate) fn ev_spec(c: &mrc_core_ev) -> EvSpec {
    EvSpec { value: c.value, port: PortNum::new(c.port) }
}

pub(crate) fn ev_report(report: &EvReport) -> mrc_core_ev_report {
    let EvSpec { value, port } = report.ev;
    mrc_core_ev_report {
        ev: mrc_core_ev { value, port: port.map_or(0, PortNum::value) },
        state: ev_state(report.state),
    }
}

pub(crate) fn ev_state_of(state: u8) -> Result<EvState, Fault> {
    match state {
        MRC_CORE_EV_GOOD => Ok(EvState::Good),
        MRC_CORE_EV_SKIP => Ok(EvState::Skip),
        MRC_CORE_EV_ASSUMED_BAD => Ok(EvState::AssumedBad),
        MRC_CORE_EV_DENIED => Ok(EvState::Denied),
        _ => Err(range("state")),
    }
}

pub(crate) fn cc_info(info: &QpccInfo) -> mrc_core_cc_info {
    mrc_core_cc_info {
        cwnd_bytes: info.cwnd_bytes,
        inflight_bytes: info.inflight_bytes.max(0).unsigned_abs(),
        backlog_bytes: info.load.backlog_bytes,
        base_rtt_ns: info.base_rtt_ns.unwrap_or(0),
        avg_delay_ns: info.avg_delay_ns,
        users: info.users,
        state: match info.state {
            QpccState::Idle => MRC_CORE_CC_IDLE,
            QpccState::Pending => MRC_CORE_CC_PENDING,
            QpccState::Active => MRC_CORE_CC_ACTIVE,
            QpccState::Ready => MRC_CORE_CC_READY,
        },
    }
}

pub(crate) fn op_request(c: &mrc_core_op_request) -> Result<OpRequest, Fault> {
    Ok(OpRequest {
        cookie: c.cookie,
        op: match c.op {
            MRC_CORE_ENDPOINT_EV_PROBE => EndpointOp::EvProbe,
            MRC_CORE_ENDPOINT_PORT_STATUS => EndpointOp::PortStatusUpdate,
            _ => return Err(range("op")),
        },
        ports: port_mask(c.ports)?,
        path: ev_entry(&c.path)?,
        dscp: some(c.has_dscp, c.dscp),
        timeout_ns: c.timeout_ns,
    })
}

pub(crate) fn op_outcome(outcome: &OpOutcome) -> mrc_core_op_outcome {
    mrc_core_op_outcome {
        cookie: outcome.cookie,
        rtt_ns: outcome.answer.map_or(0, |answer| answer.rtt_ns),
        peer: mrc_core_peer { index: outcome.peer.index() as u16, generation: outcome.peer.generation() },
        op: match outcome.op {
            EndpointOp::PortStatusUpdate => MRC_CORE_ENDPOINT_PORT_STATUS,
            _ => MRC_CORE_ENDPOINT_EV_PROBE,
        },
        answered: outcome.answer.is_some().into(),
        port: outcome.answer.map_or(0, |answer| answer.port.value()),
        adjusted: outcome.answer.is_some_and(|answer| answer.adjusted).into(),
    }
}
