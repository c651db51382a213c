//! Comings and goings of interfaces ([`LinkMonitor`]): carrier loss, set up and down, disappearance.
//!
//! One netlink socket hears all interfaces of the namespace it was opened in; events come out only for those watched, and
//! only when something changed.
//!
//! The kernel reports a lost carrier at once, unless it reported a carrier within the last second: then it may wait until that second
//! is over. Meanwhile the engine retires the paths of the port, as for any path that loses packets.

use core::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::interface::Interface;
use crate::netlink::{DEL_LINK, Message, ROUTE, Socket};

/// Multicast group bit of link events.
const GROUP_LINK: u32 = 1;

/// State of a watched interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// Set up, and the other end is there: frames flow.
    Up,
    /// Set up, but no carrier: cable, or the other end, is missing.
    NoCarrier,
    /// Set down by the administrator.
    AdminDown,
    /// No longer in this namespace.
    Gone,
}

/// A watched interface changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEvent {
    /// Position in the list that [`LinkMonitor::new`] got.
    pub position: usize,
    /// Index of the interface.
    pub ifindex: u32,
    /// Its name when it was last seen.
    pub name: String,
    /// What it is now.
    pub state: LinkState,
}

impl fmt::Display for LinkEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, index) = (&self.name, self.ifindex);
        match self.state {
            LinkState::Up => write!(f, "interface {name} (index {index}) is up"),
            LinkState::NoCarrier => {
                write!(f, "interface {name} (index {index}) lost its carrier: check the cable or the far end")
            }
            LinkState::AdminDown => {
                write!(f, "interface {name} (index {index}) was set down: `ip link set {name} up` brings it back")
            }
            LinkState::Gone => {
                write!(f, "interface {name} (index {index}) is gone: it was deleted or moved to another namespace")
            }
        }
    }
}

#[derive(Debug)]
struct Watched {
    position: usize,
    /// 0 while it is gone: its index may be given to another interface.
    ifindex: u32,
    /// The name that the list has; an interface that comes is watched if it has this one.
    awaited: String,
    /// The name when it was last seen.
    name: String,
    mtu: u32,
    state: LinkState,
}

/// Watches a set of interfaces of one network namespace.
#[derive(Debug)]
pub struct LinkMonitor {
    socket: Socket,
    watched: Vec<Watched>,
    /// The kernel dropped events, and the whole state was not looked at since.
    missed: bool,
}

fn state_of(interface: &Interface) -> LinkState {
    match (interface.admin_up, interface.carrier) {
        (true, true) => LinkState::Up,
        (true, false) => LinkState::NoCarrier,
        (false, _) => LinkState::AdminDown,
    }
}

impl LinkMonitor {
    /// Starts to watch the interfaces with these indexes and names; call it in the namespace they live in. Once the interface
    /// is gone (index 0: from the beginning), the next one that has the name is watched in its place. One that is renamed stays
    /// watched.
    ///
    /// # Errors
    /// Netlink cannot be used. An interface that does not exist is no error: its state is [`LinkState::Gone`].
    pub fn new<'n>(interfaces: impl IntoIterator<Item = (u32, &'n str)>) -> io::Result<Self> {
        // Subscribe first, look second: a change in between is heard, at worst twice.
        let socket = Socket::open(ROUTE, GROUP_LINK)?;
        let watched = interfaces.into_iter().enumerate().map(|(position, (ifindex, name))| Watched {
            position,
            ifindex,
            awaited: name.to_owned(),
            name: name.to_owned(),
            mtu: 0,
            state: LinkState::Gone,
        });
        let mut monitor = Self { socket, watched: watched.collect(), missed: false };
        monitor.look(&mut |_| ())?;
        Ok(monitor)
    }

    /// Readable when events may wait.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// Last known state of the interface at this position of the list; `None` when the list is shorter.
    pub fn state_of(&self, position: usize) -> Option<LinkState> {
        self.watched.get(position).map(|watched| watched.state)
    }

    /// Last known MTU of the interface at this position of the list; `None` while there is none. A change is no event.
    pub(crate) fn mtu_of(&self, position: usize) -> Option<u32> {
        let there = |watched: &&Watched| watched.state != LinkState::Gone && watched.mtu > 0;
        self.watched.get(position).filter(there).map(|watched| watched.mtu)
    }

    /// Hands all waiting changes to `f` and returns how many there were. Never blocks.
    ///
    /// # Errors
    /// The netlink socket failed; the monitor is of no further use.
    pub fn poll(&mut self, mut f: impl FnMut(&LinkEvent)) -> io::Result<usize> {
        let mut count = 0;
        let mut report = |event: &LinkEvent| {
            count += 1;
            f(event);
        };
        // Bounded: a namespace that flaps faster than we read must not hold the loop.
        for _ in 0..256 {
            let (watched, missed) = (&mut self.watched, self.missed);
            let hear = |message: Message<'_>| {
                if !missed {
                    note(watched, message, &mut report);
                }
            };
            match self.socket.try_receive(hear) {
                Ok(true) | Err(Errno::INTR) => {}
                Ok(false) => {
                    if self.missed {
                        self.look(&mut report)?;
                        self.missed = false;
                    }
                    break;
                }
                // The kernel dropped events. Those that wait still are older: they go, and then the whole state is looked at.
                Err(Errno::NOBUFS) => self.missed = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(count)
    }

    /// Compares all interfaces with what is known.
    fn look(&mut self, report: &mut dyn FnMut(&LinkEvent)) -> io::Result<()> {
        let all = Interface::all()?;
        for watched in &mut self.watched {
            if !all.iter().any(|interface| interface.index == watched.ifindex) {
                watched.update(None, report);
            }
            if let Some(interface) = all.iter().find(|interface| watched.is(interface)) {
                watched.update(Some(interface), report);
            }
        }
        Ok(())
    }
}

fn note(watched: &mut [Watched], message: Message<'_>, report: &mut dyn FnMut(&LinkEvent)) {
    let Some(interface) = Interface::from_message(message) else {
        return;
    };
    let Some(watched) = watched.iter_mut().find(|watched| watched.is(&interface)) else {
        return;
    };
    // Deletion messages of other families (a bridge port leaving) lack the name; those of the link itself have it.
    let gone = message.kind == DEL_LINK && message.payload.first() == Some(&0);
    if message.kind == DEL_LINK && !gone {
        return;
    }
    watched.update(Some(&interface).filter(|_| !gone), report);
}

impl Watched {
    /// Whether `interface` is the one to watch.
    fn is(&self, interface: &Interface) -> bool {
        if self.ifindex == 0 {
            return !self.awaited.is_empty() && self.awaited == interface.name;
        }
        self.ifindex == interface.index
    }

    fn update(&mut self, interface: Option<&Interface>, report: &mut dyn FnMut(&LinkEvent)) {
        let state = interface.map_or(LinkState::Gone, state_of);
        if let Some(interface) = interface {
            self.ifindex = interface.index;
            // Messages about other things lack it.
            if interface.mtu > 0 {
                self.mtu = interface.mtu;
            }
            if !interface.name.is_empty() && interface.name != self.name {
                self.name.clone_from(&interface.name);
            }
        }
        let ifindex = if state == LinkState::Gone { core::mem::take(&mut self.ifindex) } else { self.ifindex };
        if self.state != state {
            self.state = state;
            report(&LinkEvent { position: self.position, ifindex, name: self.name.clone(), state });
        }
    }
}
