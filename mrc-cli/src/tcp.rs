//! What connections over TCP have in common.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

/// A connection on which nothing came for so long is tested, so often, with so much time between two tests. A machine that lost power
/// says no goodbye, and the collector says nothing that could fail: the host's name would stay taken.
const SILENCE: Duration = Duration::from_secs(10);
const TESTS: u32 = 3;
const BETWEEN_TESTS: Duration = Duration::from_secs(5);

/// Has the kernel end a connection whose other machine is gone.
pub fn end_when_dead(stream: &TcpStream) -> io::Result<()> {
    let longest = SILENCE + BETWEEN_TESTS * TESTS;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, BETWEEN_TESTS)?;
    sockopt::set_tcp_keepcnt(stream, TESTS)?;
    // Where something waits to be sent, tests do not run.
    sockopt::set_tcp_user_timeout(stream, longest.as_millis() as u32)?;
    Ok(())
}
