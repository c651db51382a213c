#!/usr/bin/env python3
"""strangers.py ADDRESS [PORT]: asks an agent what no tester asks. The agent refuses each question and is there for the next one.

The port of the control connection is open to whoever reaches it, and the agent runs with the rights of its device.
"""
import json
import socket
import sys

FACTS = {
    "target_qpn": 0, "tester_qpn": 106657, "target_mac": [], "tester_mac": [[2, 0, 0, 0, 0, 1]], "target_ip": "::",
    "tester_ip": "10.77.0.1", "target_sid": [], "tester_sid": [], "target_va": 0, "target_rkey": 0, "region": 1 << 20,
    "tester_va": 0, "tester_rkey": 0, "evs": [[0, 1]], "lacks": [],
}


def opening(**changes):
    facts = {name: value for name, value in {**FACTS, **changes}.items() if value is not None}
    return json.dumps({"open": {"knobs": {}, "facts": facts, "slow": 1}}, separators=(",", ":"))


QUESTIONS = [
    # Regions of different sizes, one after the other: what is filled is what is mapped.
    opening(region=4096), opening(region=64 << 20), opening(region=4096), '{"memory":{"offset":0,"len":4096}}',
    opening(region=0), opening(region=1 << 40), opening(region=(1 << 64) - 1),
    '{"memory":{"offset":0,"len":1}}', '{"memory":{"offset":18446744073709551615,"len":2}}',
    # Fields that are missing, of another kind, or cut.
    *(opening(**{name: None}) for name in FACTS), opening(evs=7), opening(evs=[[]]), opening(evs=[[1]]), opening(evs={}),
    opening(tester_sid="x"), '{"open":{"knobs":', '{"open":{"knobs":{},"facts":', '{"open":{"knobs":{"planes":0},"facts":{}}}',
    '{"open":{"knobs":{},"facts":{"evs":[[1', '{"open":{"knobs":{"', '{"open', '"', "{}", "",
    # Acts without anything to act on.
    '{"act":{"do":"deregister"}}', '{"act":{"do":"deregister"}}', '{"act":{"do":"write"}}', '{"act":{"do":"port","port":255}}',
    '{"act":', '{"counter":"', '"done"', "x" * (1 << 20), "\x00\x01",
]


def main():
    address = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4970
    for question in [*QUESTIONS, '"done"']:
        answer = b""
        with socket.create_connection(address, timeout=20) as agent:
            try:
                agent.sendall(question.encode() + b"\n")
                answer = agent.makefile("rb").readline()
            except ConnectionError:
                pass  # It may hang up.
    if not answer.startswith(b'{"done"'):
        sys.exit(f"the agent answers {answer!r} after {len(QUESTIONS)} questions of a stranger")
    print(f"{len(QUESTIONS)} questions of a stranger, and the agent is there")


main()
