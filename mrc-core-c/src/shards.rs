//! Several endpoints of one NIC behind one address: what they tell each other.

use mrc_core::{EvProfileHandle, PortMask, Shard, ShardMessage, ShardNews};
use mrc_wire::{EndpointOp, Ip, PortNum, Qpn};

use crate::{
    border,
    codes::*,
    control_types::mrc_core_shard_message,
    convert::{ip, port, range},
    fault::Fault,
    memory::mrc_core_endpoint,
    types::{mrc_core_ev_profile, mrc_core_ip},
};

/// The shard that takes packets to `qpn`, where QP numbers begin with `bits` bits of its number.
#[unsafe(no_mangle)]
pub extern "C" fn mrc_core_shard_of(qpn: u32, bits: u32) -> u32 {
    Shard::of(Qpn::new(qpn), bits.min(24) as u8).into()
}

/// Takes the oldest message of this endpoint for other shards. The driver hands it to those it is for, in order.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_poll_shard_message(
    endpoint: *mut mrc_core_endpoint,
    out: *mut mrc_core_shard_message,
) -> i32 {
    // SAFETY: passed on; `out` is checked before a message leaves the queue.
    unsafe {
        border::call(endpoint, |e| {
            border::check(out, "out")?;
            let Some(message) = e.engine.poll_shard_message() else { return Ok(MRC_CORE_OK) };
            border::write(out, "out", to_c(&message))?;
            Ok(MRC_CORE_SOME)
        })
    }
}

/// A message of another shard. MRC_CORE_E_RANGE: it is for another one; MRC_CORE_E_UNKNOWN: there is no such peer, profile or
/// request here. Neither does harm.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `message` NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_handle_shard_message(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    message: *const mrc_core_shard_message,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let message = from_c(border::read(message, "message")?)?;
            e.engine.handle_shard_message(border::time(now_ns), &message)?;
            Ok(MRC_CORE_OK)
        })
    }
}

const NOWHERE: mrc_core_ip = mrc_core_ip { version: 0, bytes: [0; 16] };

fn ip_of(ip: Ip) -> mrc_core_ip {
    match ip {
        Ip::V6(bytes) => mrc_core_ip { version: 6, bytes },
        Ip::V4([a, b, c, d]) => mrc_core_ip { version: 4, bytes: [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] },
    }
}

fn to_c(message: &ShardMessage) -> mrc_core_shard_message {
    let empty = mrc_core_shard_message {
        ports: 0,
        profile: mrc_core_ev_profile { index: 0, generation: 0 },
        entry: 0,
        id: 0,
        timestamp: 0,
        kind: 0,
        from: message.from,
        to: message.to.unwrap_or(MRC_CORE_SHARD_ALL),
        used: 0,
        entered_rts: 0,
        op: 0,
        port: 0,
        local: NOWHERE,
        remote: NOWHERE,
    };
    let of_peer = |local, remote| mrc_core_shard_message { local: ip_of(local), remote: ip_of(remote), ..empty };
    let profile_of = |profile: EvProfileHandle| mrc_core_ev_profile {
        index: profile.index() as u16,
        generation: profile.generation(),
    };
    match message.news {
        ShardNews::PeerPorts { local, remote, ports } => {
            mrc_core_shard_message { kind: MRC_CORE_SHARD_PEER_PORTS, ports: ports.bits(), ..of_peer(local, remote) }
        }
        ShardNews::PeerUsed { local, remote, profile, entered_rts } => mrc_core_shard_message {
            kind: MRC_CORE_SHARD_PEER_USED,
            used: profile.is_some().into(),
            entered_rts: entered_rts.into(),
            profile: profile.map_or(empty.profile, profile_of),
            ..of_peer(local, remote)
        },
        ShardNews::BadEv { profile, entry } => {
            mrc_core_shard_message { kind: MRC_CORE_SHARD_BAD_EV, profile: profile_of(profile), entry, ..empty }
        }
        ShardNews::Response { local, remote, id, op, timestamp, port } => mrc_core_shard_message {
            kind: MRC_CORE_SHARD_RESPONSE,
            id,
            op: match op {
                EndpointOp::PortStatusUpdate => MRC_CORE_ENDPOINT_PORT_STATUS,
                _ => MRC_CORE_ENDPOINT_EV_PROBE,
            },
            timestamp,
            port: PortNum::value(port),
            ..of_peer(local, remote)
        },
    }
}

fn from_c(c: &mrc_core_shard_message) -> Result<ShardMessage, Fault> {
    let peer = || Ok::<_, Fault>((address(&c.local, "local")?, address(&c.remote, "remote")?));
    let profile = EvProfileHandle::from_parts(c.profile.index, c.profile.generation);
    let news = match c.kind {
        MRC_CORE_SHARD_PEER_PORTS => {
            let (local, remote) = peer()?;
            ShardNews::PeerPorts { local, remote, ports: PortMask::from_bits(c.ports) }
        }
        MRC_CORE_SHARD_PEER_USED => {
            let (local, remote) = peer()?;
            let profile = if c.used != 0 { Some(profile) } else { None };
            ShardNews::PeerUsed { local, remote, profile, entered_rts: c.entered_rts != 0 }
        }
        MRC_CORE_SHARD_BAD_EV => ShardNews::BadEv { profile, entry: c.entry },
        MRC_CORE_SHARD_RESPONSE => {
            let (local, remote) = peer()?;
            let op = match c.op {
                MRC_CORE_ENDPOINT_PORT_STATUS => EndpointOp::PortStatusUpdate,
                MRC_CORE_ENDPOINT_EV_PROBE => EndpointOp::EvProbe,
                _ => return Err(range("op")),
            };
            ShardNews::Response { local, remote, id: c.id, op, timestamp: c.timestamp, port: port(c.port)? }
        }
        _ => return Err(range("kind")),
    };
    let to = if c.to == MRC_CORE_SHARD_ALL { None } else { Some(c.to) };
    Ok(ShardMessage { from: c.from, to, news })
}

fn address(c: &mrc_core_ip, what: &'static str) -> Result<Ip, Fault> {
    ip(c, what)?.ok_or(range(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_border() {
        let (local, remote) = (Ip::V6([7; 16]), Ip::V4([192, 0, 2, 1]));
        let (profile, port) = (EvProfileHandle::from_index(3), PortNum::from_plane(1));
        let ports = PortMask::NONE.with(port);
        let (id, timestamp) = (0xA123, 0xFFFE);
        let all = [
            ShardNews::PeerPorts { local, remote, ports },
            ShardNews::PeerPorts { local, remote, ports: PortMask::ALL },
            ShardNews::PeerUsed { local, remote, profile: Some(profile), entered_rts: true },
            ShardNews::PeerUsed { local, remote, profile: None, entered_rts: false },
            ShardNews::BadEv { profile, entry: 0x8001 },
            ShardNews::Response { local, remote, id, op: EndpointOp::EvProbe, timestamp, port },
            ShardNews::Response { local, remote, id, op: EndpointOp::PortStatusUpdate, timestamp, port },
        ];
        for (news, to) in all.into_iter().zip([None, Some(0), Some(5)].into_iter().cycle()) {
            let message = ShardMessage { from: 9, to, news };
            assert_eq!(from_c(&to_c(&message)).unwrap(), message);
        }
        let unknown = mrc_core_shard_message {
            kind: 9,
            ..to_c(&ShardMessage { from: 0, to: None, news: ShardNews::BadEv { profile, entry: 0 } })
        };
        assert_eq!(from_c(&unknown).unwrap_err().code, MRC_CORE_E_RANGE);
    }
}
