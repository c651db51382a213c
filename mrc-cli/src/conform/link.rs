//! The links between tester and target: one interface per port, frames in and out, and lines of JSON beside them.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv6Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};
use mrc_afxdp::{AnyPort, Mode, PacketFilter, Port, RawConfig, RawPort, Sid, XskConfig, XskPort};
use serde::{Serialize, de::DeserializeOwned};

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
    port.flush().with_context(|| port.name().to_owned())?;
    Ok(())
}

/// Takes what has come, with the port's number from 1.
pub fn receive(ports: &mut [AnyPort], mut f: impl FnMut(u8, Vec<u8>)) {
    for (port, number) in ports.iter_mut().zip(1..) {
        port.rx_batch(64, |frame| f(number, frame.fragments().concat()));
    }
}

/// One JSON value per line over TCP.
pub struct Lines {
    reader: BufReader<TcpStream>,
    partial: String,
    blocking: bool,
}

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
        Ok(Self { reader: BufReader::new(stream), partial: String::new(), blocking: true })
    }

    /// Whether reading waits.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn set_blocking(&mut self, blocking: bool) -> anyhow::Result<()> {
        self.reader.get_ref().set_nonblocking(!blocking)?;
        self.blocking = blocking;
        Ok(())
    }

    /// The next line, `None` when there is none yet.
    ///
    /// # Errors
    /// The peer closed, or said something else.
    pub fn read<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        match self.reader.read_line(&mut self.partial) {
            Ok(0) => bail!("the control connection was closed"),
            Ok(_) if !self.partial.ends_with('\n') => Ok(None),
            Ok(_) => {
                let line = std::mem::take(&mut self.partial);
                Ok(Some(serde_json::from_str(&line).with_context(|| format!("control connection: {}", line.trim()))?))
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(why) => Err(why.into()),
        }
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
        let written = self.reader.get_mut().write_all(line.as_bytes());
        self.set_blocking(before)?;
        Ok(written?)
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
}
