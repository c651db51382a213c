#!/usr/bin/env python3
"""How much of a program's work is done by one source file, code that was inlined elsewhere included.

    benches/share.py samples PERF_DATA BINARY FILE        of the samples of `perf record`: per cent of all, of those in BINARY
    benches/share.py instructions CALLGRIND_OUT FUNCTION FILE CALLED
        instructions below FUNCTION, per call of CALLED, and those of lines of FILE; functions by the end of their names

BINARY needs line tables, which release builds of this tree have."""
import collections
import re
import subprocess
import sys


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def samples(data, binary, file):
    load = r"\s+LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)"
    segments = [[int(x, 16) for x in found] for found in re.findall(load, run("readelf", "-lW", binary))]
    maps, seen, everything = [], collections.Counter(), 0
    name = "/" + binary.split("/")[-1]
    for line in run("perf", "script", "-i", data, "-F", "ip,dso", "--show-mmap-events").splitlines():
        mapped = re.search(r"PERF_RECORD_MMAP2? .*\[0x(\w+)\(0x(\w+)\) @ (\w+) .*\]: r-xp (.*)$", line)
        if mapped:
            if mapped[4].endswith(name):
                maps.append([int(x, 16) for x in mapped.groups()[:3]])
            continue
        sample = re.match(r"\s+([0-9a-f]+) .*\((.*)\)", line)
        if sample:
            everything += 1
            if sample[2].endswith(name):
                seen[int(sample[1], 16)] += 1
    places = {}
    for ip in seen:
        for start, length, offset in maps:
            at = ip - start + offset
            for first, address, size in segments:
                if start <= ip < start + length and first <= at < first + size:
                    places[at - first + address] = places.get(at - first + address, 0) + seen[ip]
    ours, counts = 0, False
    for line in run("addr2line", "-e", binary, "-i", "-a", text="\n".join(map(hex, places))).splitlines():
        if line.startswith("0x"):
            count, counts = places[int(line, 16)], False
        elif file in line and not counts:
            ours, counts = ours + count, True
    print(f"{100 * ours / everything:.3f} {100 * ours / sum(seen.values()):.3f} {everything}")


def instructions(path, function, file, called):
    files, functions, below, ours, calls = {}, {}, 0, 0, 0
    current = callee = ""
    of_call = False

    def name(names, text):
        number, rest = re.match(r"(\(\d+\))(?: (.*))?$", text).groups()
        return names.setdefault(number, rest) if rest else names.get(number, "")

    for line in open(path):
        key, _, value = line.rstrip("\n").partition("=")
        if key in ("fl", "fi", "fe"):
            current = name(files, value)
        elif key in ("cfi", "cfl"):
            name(files, value)
        elif key == "fn":
            name(functions, value)
        elif key == "cfn":
            callee = name(functions, value)
        elif key == "calls":
            of_call = True
            calls += int(value.split()[0]) if callee.endswith(called) else 0
        elif re.match(r"[+\-*\d]", line):
            cost = int(line.split()[1])
            if of_call:
                below += cost if callee.endswith(function) else 0
            elif file in current:
                ours += cost
            of_call = False
    print(f"{below / calls:.0f} {ours / calls:.1f} {calls}")


if len(sys.argv) == 5 and sys.argv[1] == "samples":
    samples(*sys.argv[2:])
elif len(sys.argv) == 6 and sys.argv[1] == "instructions":
    instructions(*sys.argv[2:])
else:
    sys.exit(__doc__)
