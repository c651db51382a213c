//! The links between tester and target: one interface per port, frames in and out, and lines of JSON beside them.

use std::io::Write;
use std::net::{Ipv6Addr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mrc_afxdp::{AnyPort, Interface, Mode, PacketFilter, Port, PortError, RawConfig, RawPort, Sid, XskConfig, XskPort};
use serde::{Serialize, de::DeserializeOwned};

use crate::lines::{Line, LineReader};
use crate::tcp::end_when_dead;

/// How interfaces are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Driver {
    /// AF_XDP.
    Xdp,
    /// A packet socket.
    Raw,
}

/// Opens the interfaces; frames to `sids` are ours, besides those to MRC's UDP ports.
///
/// # Errors
/// An interface that cannot be opened, with cause and cure.
pub fn open(interfaces: &[String], driver: Driver, sids: &[Ipv6Addr]) -> anyhow::Result<Vec<AnyPort>> {
    let twice = interfaces.iter().zip(1..).find(|(name, at)| interfaces.iter().skip(*at).any(|other| other == *name));
    if let Some((name, _)) = twice {
        bail!("--iface names {name} twice: each port has an interface of its own");
    }
    let sids = sids.iter().map(|sid| Sid::exact(*sid));
    let filter = PacketFilter { sids: sids.collect(), ..PacketFilter::default() };
    let open = |name: &String| -> anyhow::Result<AnyPort> {
        Ok(match driver {
            Driver::Xdp => {
                let config = XskConfig { mode: Mode::Auto, filter: filter.clone(), ..XskConfig::default() };
                AnyPort::Xsk(XskPort::open(name, &config)?)
            }
            Driver::Raw => {
                let config = RawConfig { filter: filter.clone(), ..RawConfig::default() };
                AnyPort::Raw(RawPort::open(name, &config)?)
            }
        })
    };
    interfaces.iter().map(open).collect()
}

/// Sends one frame now.
///
/// # Errors
/// No buffer, or the interface refuses.
pub fn send(port: &mut AnyPort, frame: &[u8]) -> anyhow::Result<()> {
    let Some(mut slot) = port.tx_slot() else { bail!("{}: no free transmit buffer", port.name()) };
    let Some(room) = slot.buffer().get_mut(..frame.len()) else {
        bail!("a frame of {} bytes does not fit", frame.len())
    };
    room.copy_from_slice(frame);
    slot.commit(frame.len());
    match port.flush() {
        Ok(_) => Ok(()),
        Err(PortError::Os(libc::EMSGSIZE)) => {
            let (name, len) = (port.name(), frame.len());
            bail!("{name}: its MTU is too small for a frame of {len} bytes: `ip link set {name} mtu 9000`")
        }
        Err(why) => Err(why).with_context(|| port.name().to_owned()),
    }
}

/// Waits for the other end of a link: the target may have had its port down for the script before. Without a carrier nothing
/// arrives, and scripts would blame the target for its silence.
///
/// # Errors
/// The interface is gone, or has no carrier after `patience`.
pub fn wait_for_carrier(name: &str, patience: Duration) -> Result<(), String> {
    let give_up = Instant::now() + patience;
    loop {
        match Interface::by_name(name) {
            Ok(interface) if interface.carrier => return Ok(()),
            Ok(_) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(50)),
            Ok(_) => return Err(format!("{name} has no carrier: its cable or the target's end is missing or down")),
            Err(why) => return Err(format!("{name}: {why}")),
        }
    }
}

/// Takes what has come, with the port's number from 1.
pub fn receive(ports: &mut [AnyPort], mut f: impl FnMut(u8, Vec<u8>)) {
    for (port, number) in ports.iter_mut().zip(1..) {
        port.rx_batch(BATCH, |frame| f(number, frame.fragments().concat()));
    }
}

/// Frames read from a port at once.
const BATCH: usize = 64;

/// Drops what has come, all of it: a peer that was left alone may have probed and retransmitted for long. One that never
/// stops is left after a while.
pub fn drop_all(ports: &mut [AnyPort]) {
    let end = Instant::now() + Duration::from_millis(100);
    for port in ports {
        while port.rx_batch(BATCH, |_| {}) == BATCH && Instant::now() < end {}
    }
}

/// One JSON value per line over TCP.
pub struct Lines {
    reader: LineReader,
    blocking: bool,
}

/// Longest line that is read, in bytes. A region of 1 MiB, as scripts have it, takes 2 MiB.
const MAX_LINE: usize = 64 << 20;

/// Bytes of a line that is not understood which are shown.
const SHOWN: usize = 400;

/// How long a peer may leave what was said unread.
const PATIENCE: Duration = Duration::from_secs(10);

impl Lines {
    /// Over a connection.
    ///
    /// # Errors
    /// The socket refuses its options.
    pub fn new(stream: TcpStream) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // One tester after the other is served: a machine that lost power would be served for ever.
        end_when_dead(&stream)?;
        Ok(Self { reader: LineReader::new(stream, MAX_LINE), blocking: true })
    }

    /// Whether reading waits.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn set_blocking(&mut self, blocking: bool) -> anyhow::Result<()> {
        self.reader.stream().set_nonblocking(!blocking)?;
        self.blocking = blocking;
        Ok(())
    }

    /// The next line, `None` when there is none yet.
    ///
    /// # Errors
    /// The peer closed, or said something else.
    pub fn read<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        understood(self.reader.read()?)
    }

    /// The next line, `None` when none came in time.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_within<T: DeserializeOwned>(&mut self, limit: Duration) -> anyhow::Result<Option<T>> {
        understood(self.reader.read_by(Instant::now() + limit)?)
    }

    /// Ends the connection: whatever is asked later fails at once.
    pub fn close(&self) {
        // It fails only where nothing is connected any more.
        let _ = self.reader.stream().shutdown(Shutdown::Both);
    }

    /// Sends a value.
    ///
    /// # Errors
    /// The connection is broken, or the peer does not read.
    pub fn write<T: Serialize>(&mut self, value: &T) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(value)?;
        line.push('\n');
        // The memory of a whole region does not fit the socket's buffer.
        let before = self.blocking;
        self.set_blocking(true)?;
        let written = self.reader.stream().write_all(line.as_bytes());
        self.set_blocking(before)?;
        Ok(written?)
    }
}

/// The value that a line is.
fn understood<T: DeserializeOwned>(line: Line) -> anyhow::Result<Option<T>> {
    match line {
        Line::Whole(line) => {
            let said = || String::from_utf8_lossy(line.get(..SHOWN).unwrap_or(&line)).escape_debug().to_string();
            Ok(Some(serde_json::from_slice(&line).with_context(|| format!("control connection: {}", said()))?))
        }
        Line::Waiting => Ok(None),
        Line::TooLong => bail!("control connection: a line of more than {MAX_LINE} bytes"),
        Line::Closed => bail!("the control connection was closed"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_answer_longer_than_the_buffer_of_a_socket_that_does_not_block_arrives() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let address = listener.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            let mut lines = Lines::new(TcpStream::connect(address).unwrap()).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            (lines.read::<String>().unwrap(), lines)
        });
        let mut lines = Lines::new(listener.accept().unwrap().0).unwrap();
        lines.set_blocking(false).unwrap();
        let long = "f".repeat(16 << 20);
        lines.write(&long).unwrap();
        let (came, _open) = reader.join().unwrap();
        assert!(came.as_ref() == Some(&long));
        assert!(matches!(lines.read::<String>(), Ok(None)), "reading does not block");
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let address = listener.local_addr().unwrap();
        let flood = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            while stream.write_all(&[b' '; 1 << 20]).is_ok() {}
        });
        let mut lines = Lines::new(listener.accept().unwrap().0).unwrap();
        let why = lines.read::<String>().unwrap_err().to_string();
        assert!(why.contains("a line of more than"), "{why}");
        drop(lines);
        flood.join().unwrap();
    }

    /// The tester waited for ever for a target whose agent had hung itself up.
    #[test]
    fn a_peer_that_says_nothing_is_left_in_time() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let mut lines = Lines::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"\"half an ").unwrap();
        assert!(matches!(lines.read_within::<String>(Duration::from_millis(50)), Ok(None)));
        peer.write_all(b"answer\"\n").unwrap();
        assert_eq!(lines.read_within::<String>(PATIENCE).unwrap().as_deref(), Some("half an answer"));
        lines.close();
        assert!(lines.read_within::<String>(PATIENCE).is_err(), "at once");
    }

    #[test]
    fn an_interface_is_one_port() {
        let names = ["eth1", "eth2", "eth1"].map(String::from);
        let why = open(&names, Driver::Raw, &[]).err().map(|why| why.to_string());
        assert_eq!(why.as_deref(), Some("--iface names eth1 twice: each port has an interface of its own"));
    }
}
