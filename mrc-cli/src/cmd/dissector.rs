//! `mrc dissector`: prints the Wireshark dissector, which is part of this program.

use std::process::ExitCode;

use crate::out::out;

const LUA: &str = include_str!("../../data/mrc.lua");

/// Arguments of `mrc dissector`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc dissector > mrc.lua
  tshark -X lua_script:mrc.lua -r capture.pcapng -Y 'mrc.icrc.status == 0 || mrc.trim.kind'
  tshark -X lua_script:mrc.lua -r capture.pcapng -T fields -e mrc.bth.psn -e mrc.response_time
  ip netns exec mrc-p0-t0a tcpdump -i any -w capture.pcap   a capture on a switch of the lab (AF_XDP takes a host's
                                                            packets before tcpdump sees them)
  mrc sim run experiments/incast-victim --pcap p0-hA        one in the simulator

Wireshark loads the file from the folder that Help > About > Folders calls \"Personal Lua Plugins\". Fields have the names of
`mrc decode -v` behind `mrc.`. The UDP ports, code points and the check of the ICRC are preferences of the protocol MRC.
Exit codes: 0 printed, 1 standard output could not be written.")]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args) -> anyhow::Result<ExitCode> {
    out!("{LUA}");
    Ok(ExitCode::SUCCESS)
}
