//! Lines over TCP, for a reader that trusts the other side with neither memory nor time.

use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::TcpStream;
use std::time::Instant;

/// What a connection had to say.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, with its end.
    Whole(Vec<u8>),
    /// Not a whole line yet; what there is of it is kept.
    Waiting,
    /// The other side closed. What there was of a line is dropped.
    Closed,
    /// More bytes than a line may have, and no end.
    TooLong,
}

/// Reads lines, each of at most so many bytes.
#[derive(Debug)]
pub struct LineReader {
    reader: BufReader<TcpStream>,
    begun: Vec<u8>,
    most: usize,
}

impl LineReader {
    /// Over a connection, for lines of at most `most` bytes.
    pub fn new(stream: TcpStream, most: usize) -> Self {
        Self { reader: BufReader::new(stream), begun: Vec::new(), most }
    }

    /// The connection, to write to and to set options of.
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// The next line. Waits as the socket does: where it does not wait, or not for long, what came is kept.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn read(&mut self) -> io::Result<Line> {
        loop {
            match self.advance() {
                Ok(Line::Waiting) => {}
                Err(error) if later(&error) => return Ok(Line::Waiting),
                line => return line,
            }
        }
    }

    /// The next line, waited for until then as a whole: a peer that sends a byte now and then gains no time. For sockets that wait.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_by(&mut self, until: Instant) -> io::Result<Line> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Line::Waiting);
            }
            self.stream().set_read_timeout(Some(left))?;
            match self.advance() {
                Ok(Line::Waiting) => {}
                Err(error) if later(&error) => {}
                line => return line,
            }
        }
    }

    /// Takes what one read of the socket gives.
    fn advance(&mut self) -> io::Result<Line> {
        let part = self.reader.fill_buf()?;
        if part.is_empty() {
            return Ok(Line::Closed);
        }
        let end = part.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        let len = end.unwrap_or(part.len());
        if self.begun.len() + len > self.most {
            return Ok(Line::TooLong);
        }
        self.begun.extend_from_slice(&part[..len]);
        self.reader.consume(len);
        Ok(match end {
            Some(_) => Line::Whole(std::mem::take(&mut self.begun)),
            None => Line::Waiting,
        })
    }
}

/// Whether a read may be tried again.
fn later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{Ipv6Addr, TcpListener};
    use std::time::Duration;

    use super::*;

    fn pair(most: usize) -> (TcpStream, LineReader) {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (stream, LineReader::new(listener.accept().unwrap().0, most))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn lines_that_come_in_pieces_or_together_are_told_apart() {
        let (mut stream, mut reader) = pair(8);
        stream.write_all(b"on").unwrap();
        assert_eq!(reader.read_by(Instant::now() + Duration::from_millis(50)).unwrap(), Line::Waiting);
        stream.write_all(b"e\ntwo\nth").unwrap();
        assert_eq!(reader.read_by(soon()).unwrap(), Line::Whole(b"one\n".to_vec()));
        assert_eq!(reader.read_by(soon()).unwrap(), Line::Whole(b"two\n".to_vec()));
        drop(stream);
        assert_eq!(reader.read_by(soon()).unwrap(), Line::Closed, "a piece is no line");
    }

    #[test]
    fn a_line_has_so_many_bytes_and_no_more() {
        let (mut stream, mut reader) = pair(4);
        stream.write_all(b"abc\nabcd\n").unwrap();
        assert_eq!(reader.read_by(soon()).unwrap(), Line::Whole(b"abc\n".to_vec()));
        assert_eq!(reader.read_by(soon()).unwrap(), Line::TooLong);
    }

    #[test]
    fn a_byte_now_and_then_gains_no_time() {
        let (mut stream, mut reader) = pair(1 << 20);
        let trickle = std::thread::spawn(move || {
            let sent = (0..200).take_while(|_| {
                std::thread::sleep(Duration::from_millis(50));
                stream.write_all(b"x").is_ok()
            });
            sent.count()
        });
        assert_eq!(reader.read_by(Instant::now() + Duration::from_millis(300)).unwrap(), Line::Waiting);
        drop(reader);
        assert!(trickle.join().unwrap() < 200, "the reader waited for the last byte");
    }
}
