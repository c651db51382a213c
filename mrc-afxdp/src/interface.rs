//! What the kernel knows about an interface ([`Interface`]), read through netlink so that it is right in any namespace.

use rustix::io;

use crate::netlink::{FLAG_DUMP, GET_LINK, Message, NEW_LINK, ROUTE, Socket, attribute, attributes, number, text};
use crate::sys::ethtool;

const INFO_BYTES: usize = 16;
const FLAG_UP: u32 = 1;
const FLAG_LOWER_UP: u32 = 1 << 16;

const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const PARENT: u16 = 5;
const LINK_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const RX_QUEUES: u16 = 32;
const XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;
const XDP_PROG_ID: u16 = 4;

/// An XDP program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedXdp {
    /// True for the driver's hook, false for the generic one.
    pub native: bool,
    /// The kernel's number of the program.
    pub program_id: u32,
}

/// One interface of the calling thread's network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Index in its namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Ethernet address; zero where there is none.
    pub mac: [u8; 6],
    /// Bytes of the largest network-layer packet.
    pub mtu: u32,
    /// Set up by the administrator.
    pub admin_up: bool,
    /// Up, and the other end is there.
    pub carrier: bool,
    /// Receive queues the driver allocated; [`Interface::queues_in_use`] asks how many it uses.
    pub rx_queues: u32,
    /// Kind of a virtual interface, e.g. `veth`.
    pub kind: Option<String>,
    /// Index of the interface under a virtual one, e.g. a VLAN's.
    pub parent: Option<u32>,
    /// XDP program, if one is attached.
    pub xdp: Option<AttachedXdp>,
}

impl Interface {
    /// Looks `name` up.
    ///
    /// # Errors
    /// `ENODEV` when there is none.
    pub fn by_name(name: &str) -> std::io::Result<Self> {
        let mut body = vec![0; INFO_BYTES];
        let mut value = name.as_bytes().to_vec();
        value.push(0);
        body.extend(attribute(NAME, &value));
        Self::one(&body).map_err(|errno| match errno {
            // What older kernels say about names that are too long or empty.
            io::Errno::RANGE | io::Errno::INVAL => io::Errno::NODEV.into(),
            other => other.into(),
        })
    }

    fn one(body: &[u8]) -> io::Result<Self> {
        let mut found = None;
        // The answer to a question about one link is one message, followed by the acknowledgement we ask for.
        Socket::open(ROUTE, 0)?.ask(GET_LINK, crate::netlink::FLAG_ACK, body, |message| {
            found = found.take().or_else(|| Self::from_message(message));
        })?;
        found.ok_or(io::Errno::NODEV)
    }

    /// All interfaces of the namespace.
    ///
    /// # Errors
    /// Netlink cannot be used (a sandbox?).
    pub fn all() -> std::io::Result<Vec<Self>> {
        let mut all = Vec::new();
        Socket::open(ROUTE, 0)?.ask(GET_LINK, FLAG_DUMP, &[0; INFO_BYTES], |message| {
            all.extend(Self::from_message(message));
        })?;
        Ok(all)
    }

    /// Reads a link message (`RTM_NEWLINK` or `RTM_DELLINK`).
    pub(crate) fn from_message(message: Message<'_>) -> Option<Self> {
        if message.kind != NEW_LINK && message.kind != crate::netlink::DEL_LINK {
            return None;
        }
        let flags = number(message.payload.get(8..)?)?;
        let mut interface = Self {
            index: number(message.payload.get(4..)?)?,
            admin_up: flags & FLAG_UP != 0,
            carrier: flags & FLAG_UP != 0 && flags & FLAG_LOWER_UP != 0,
            ..Self::default()
        };
        for (kind, value) in attributes(message.payload.get(INFO_BYTES..)?) {
            match kind {
                ADDRESS => interface.mac = value.try_into().unwrap_or_default(),
                NAME => interface.name = text(value),
                MTU => interface.mtu = number(value)?,
                PARENT => interface.parent = number(value),
                RX_QUEUES => interface.rx_queues = number(value)?,
                LINK_INFO => {
                    interface.kind = attributes(value).find(|(kind, _)| *kind == INFO_KIND).map(|(_, v)| text(v));
                }
                XDP => interface.xdp = attached(value),
                _ => {}
            }
        }
        Some(interface)
    }

    /// Receive queues in use; what was allocated where the driver does not tell.
    pub fn queues_in_use(&self) -> u32 {
        ethtool::rx_queues(&self.name).ok().filter(|queues| *queues > 0).unwrap_or(self.rx_queues).max(1)
    }

    /// Names of the VLAN interfaces above this one if it takes their tags out of packets before XDP sees them: a port takes such
    /// packets when they go to its own destinations.
    pub fn vlans_without_tag(&self) -> Vec<String> {
        if !ethtool::strips_vlan_tags(&self.name).unwrap_or(false) {
            return Vec::new();
        }
        let above = |other: &Self| other.kind.as_deref() == Some("vlan") && other.parent == Some(self.index);
        Self::all().unwrap_or_default().into_iter().filter(above).map(|vlan| vlan.name).collect()
    }

    /// Name of the driver, where it tells.
    pub fn driver(&self) -> Option<String> {
        ethtool::driver(&self.name).ok().filter(|driver| !driver.is_empty()).or_else(|| self.kind.clone())
    }
}

fn attached(value: &[u8]) -> Option<AttachedXdp> {
    let mode = *attributes(value).find(|(kind, _)| *kind == XDP_ATTACHED)?.1.first()?;
    let program_id = attributes(value).find(|(kind, _)| *kind == XDP_PROG_ID).and_then(|(_, id)| number(id));
    (mode != 0).then_some(AttachedXdp { native: mode != 2, program_id: program_id.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_by_name_and_in_the_list() {
        let Ok(all) = Interface::all() else {
            eprintln!("SKIP loopback_is_found_by_name_and_in_the_list: netlink is not allowed here");
            return;
        };
        let lo = Interface::by_name("lo").unwrap();
        assert_eq!(lo.name, "lo");
        assert_eq!(lo.index, 1);
        assert!(all.iter().any(|interface| interface.index == 1 && interface.name == "lo"));
    }

    #[test]
    fn an_unknown_name_is_no_device() {
        for name in ["nosuch0", "", "a-name-much-longer-than-fifteen-bytes"] {
            let error = Interface::by_name(name).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name}: {error}");
        }
    }
}
