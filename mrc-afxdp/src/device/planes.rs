//! The ports of a device's planes: opens them, and opens those later whose interface does not exist yet.

use std::net::IpAddr;
use std::time::Duration;

use mrc_core::Instant;
use mrc_wire::Ip;

use super::{Attachment, DeviceConfig, DeviceError, PlaneConfig};
use crate::{
    AbsentPort, AnyPort, LinkMonitor, LinkState, PacketFilter, Port as _, Problem, RawConfig, RawPort, SetupError, Sid,
    XskConfig, XskPort,
};

/// How often a port that could not be opened is tried again.
const RETRY_NS: u64 = 1_000_000_000;

/// A place for the plane's port while its interface is gone.
fn absent(plane: &PlaneConfig) -> Result<AbsentPort, DeviceError> {
    AbsentPort::new(&plane.interface).map_err(|source| DeviceError::Os { what: "eventfd", source: source.into() })
}

/// Replaces the ports of interfaces that vanished and appeared.
pub(super) struct Planes {
    config: DeviceConfig,
    /// When the absent ports are tried next.
    retry_at: Instant,
    /// Why a plane's port could not be opened last, so that the log has each cause once.
    refused: Vec<Option<SetupError>>,
    /// The place of each plane's port, unless it is in use. Made early: when an interface vanishes, the process may have no
    /// descriptor left.
    places: Vec<Option<AbsentPort>>,
}

impl Planes {
    /// Opens every plane whose interface exists; the others become [`AbsentPort`]s.
    pub(super) fn open(config: DeviceConfig) -> Result<(Self, Vec<AnyPort>), DeviceError> {
        let busy_wait = XskConfig::default().busy_wait;
        let mut missing: Option<SetupError> = None;
        let (mut ports, mut places) = (Vec::new(), Vec::new());
        for (number, plane) in config.planes.iter().enumerate() {
            match open_port(plane, &config, busy_wait) {
                Ok(port) => {
                    ports.push(port);
                    places.push(Some(absent(plane)?));
                }
                Err(error) if error.problem == Problem::UnknownInterface => {
                    ports.push(AnyPort::Absent(absent(plane)?));
                    places.push(None);
                    log::warn!(
                        "plane {number}: interface {} does not exist in this network namespace; the other planes are used, and \
                         this one as soon as the interface appears and is up",
                        plane.interface
                    );
                    missing = missing.or(Some(error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        match missing {
            Some(error) if ports.iter().all(|port| matches!(port, AnyPort::Absent(_))) => return Err(error.into()),
            _ => {}
        }
        let refused = vec![None; config.planes.len()];
        // An interface may have appeared between the attempt to open it and the first list of links.
        Ok((Self { config, retry_at: Instant::ZERO, refused, places }, ports))
    }

    /// An interface appeared or came up: its port is opened at the next call of [`Self::open_absent`].
    pub(super) fn appeared(&mut self) {
        self.retry_at = Instant::ZERO;
    }

    /// Puts a placeholder where the interface is gone or of no use. The kernel's queue and program go with the port.
    pub(super) fn close(&mut self, plane: usize, port: &mut AnyPort) {
        if let Some(place) = self.places.get_mut(plane).and_then(Option::take) {
            *port = AnyPort::Absent(place);
        }
    }

    /// Whether the plane's interface no longer takes full packets, for which it would have been refused.
    pub(super) fn has_shrunk(&self, plane: usize, links: &LinkMonitor) -> bool {
        links.mtu_of(plane).is_some_and(|mtu| mtu < self.config.required_mtu)
    }

    /// Opens the absent ports whose interface is up, and hands their numbers to `opened`.
    pub(super) fn open_absent(
        &mut self,
        now: Instant,
        ports: &mut [AnyPort],
        links: &LinkMonitor,
        mut opened: impl FnMut(usize),
    ) {
        if now < self.retry_at {
            return;
        }
        self.retry_at = Instant::FAR;
        for (number, (plane, port)) in self.config.planes.iter().zip(ports).enumerate() {
            if !matches!(port, AnyPort::Absent(_)) || links.state_of(number) != Some(LinkState::Up) {
                continue;
            }
            let Some((refused, place)) = self.refused.get_mut(number).zip(self.places.get_mut(number)) else {
                continue;
            };
            // No wait for another owner of the queue: this thread has the other planes to serve.
            match open_port(plane, &self.config, Duration::ZERO) {
                Ok(new) => {
                    log::info!("plane {number}: interface {} is here: {}", plane.interface, new.obtained());
                    *refused = None;
                    if let AnyPort::Absent(old) = core::mem::replace(port, new) {
                        *place = Some(old);
                    }
                    opened(number);
                }
                Err(error) => {
                    self.retry_at = now.after(RETRY_NS);
                    if refused.as_ref() != Some(&error) {
                        log::warn!("plane {number} stays down, next attempt in 1 s: {error}");
                        *refused = Some(error);
                    }
                }
            }
        }
    }
}

/// Which packets a plane takes: bare ones to our addresses or, where it has a SID, those to the SID and bare ones to our inner
/// address, because the last switch may remove the outer header. The port's own address is no destination under a SID: tunnels
/// of the host may end there.
//= HOST-001
fn filter(plane: &PlaneConfig, config: &DeviceConfig) -> PacketFilter {
    if let Some(sid) = plane.sid {
        let bare = PacketFilter::with_addresses([IpAddr::from(config.gid)]);
        return PacketFilter { sids: vec![Sid::exact(sid.into())], ..bare };
    }
    let gids = [Some(Ip::V6(config.gid))].into_iter().chain(config.endpoint.gids).flatten().map(|gid| match gid {
        Ip::V6(octets) => IpAddr::from(octets),
        Ip::V4(octets) => IpAddr::from(octets),
    });
    PacketFilter::with_addresses(gids.chain(plane.addr.map(IpAddr::from)))
}

fn open_port(plane: &PlaneConfig, config: &DeviceConfig, busy_wait: Duration) -> Result<AnyPort, SetupError> {
    let filter = filter(plane, config);
    Ok(match config.attachment {
        Attachment::Xdp(mode) => AnyPort::Xsk(XskPort::open(
            &plane.interface,
            &XskConfig { mode, filter, required_mtu: config.required_mtu, busy_wait, ..XskConfig::default() },
        )?),
        Attachment::Raw => AnyPort::Raw(RawPort::open(
            &plane.interface,
            &RawConfig { filter, required_mtu: config.required_mtu, ..RawConfig::default() },
        )?),
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    //= HOST-001 test
    #[test]
    fn a_plane_takes_its_sid_or_bare_packets_to_its_addresses() {
        let mut plane = PlaneConfig { interface: "p0".into(), sid: Some([1; 16]), addr: Some([2; 16]) };
        let config = DeviceConfig::new("hA", vec![plane.clone()], [3; 16]);
        let under_sid = filter(&plane, &config);
        assert_eq!(under_sid.sids, [Sid::exact([1; 16].into())]);
        assert_eq!(under_sid.addresses, [IpAddr::from([3; 16])]);
        plane.sid = None;
        let bare = PacketFilter::with_addresses([IpAddr::from([3; 16]), IpAddr::from([2; 16])]);
        assert_eq!(filter(&plane, &config), bare);
    }
}
