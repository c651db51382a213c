#!/usr/bin/env python3
"""Draws the packets of conformance scripts as ladders: docs/pictures/ladder.py [TRACES]

TRACES is the folder that `mrc vectors --out DIR` makes, DIR/traces; without it the program makes one with `mrc` from $PATH. Each
picture is the trace of the engine in virtual time; nothing is drawn by hand.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Picture, script, fields that its labels show.
PICTURES = [
    ("spray", "paths/spray", ["psn", "ev"]),
    ("skip", "paths/mark_skips_once", ["psn", "ev", "m"]),
    ("gap", "sack/gap", ["psn", "cack", "bitmap"]),
    ("trim", "nack/trimmed", ["psn", "ev", "rtx", "reason", "nack_psn"]),
    ("probe", "paths/probe_revives", ["psn", "ev", "m", "pr"]),
    ("port", "endpoint/plane_withdrawn", ["psn", "ev", "mask"]),
]
STEP, TOP, LEFT, WIDTH = 34, 70, 150, 520


def label(text, fields):
    kind, rest = text.split(" ", 1)
    found = dict(word.split("=", 1) for word in rest.split() if "=" in word)
    shown = []
    for field in fields:
        value = re.sub(r"\(.*\)", "", found.get(field, "0" if field in ("psn", "cack") else ""))
        carries = {"cack": "sack", "bitmap": "sack", "m": "sack"}.get(field, "" if kind == "ack" and field == "ev" else kind)
        if value and carries == kind and not (field == "psn" and kind in ("sack", "nack", "probe", "ep_request", "ep_response")):
            shown.append(f"{field}={value}")
    return kind + " " + " ".join(shown)


def draw(name, trace, fields):
    tester, target = LEFT, LEFT + WIDTH
    requester = "responder" if any(not e["from_target"] and e["text"].startswith("write") for e in trace["trace"]) else "requester"
    other = "requester" if requester == "responder" else "responder"
    height = TOP + STEP * len(trace["trace"]) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 90} {height}" font-family="sans-serif" font-size="14">',
           f'<title>{trace["title"]}</title><rect width="100%" height="100%" fill="white"/>',
           '<defs><marker id="a" orient="auto" markerWidth="9" markerHeight="8" refX="8" refY="4"><path d="M0,0 L9,4 L0,8 z" fill="#444"/></marker></defs>']
    for x, who in ((tester, other), (target, requester)):
        out.append(f'<text x="{x}" y="30" text-anchor="middle" font-weight="bold">{who}</text>'
                   f'<line x1="{x}" x2="{x}" y1="42" y2="{height - 12}" stroke="#888"/>')
    for n, entry in enumerate(trace["trace"]):
        y = TOP + STEP * n
        begin, end = (target, tester) if entry["from_target"] else (tester, target)
        colour = {"s": "#176117", "n": "#a40000", "p": "#8a5a00", "e": "#6a1b9a"}.get(entry["text"][0], "#1f4e9e")
        out.append(f'<text x="12" y="{y + 12}" fill="#666">{entry["at_ns"] / 1000:g} us</text>'
                   f'<line x1="{begin}" y1="{y}" x2="{end}" y2="{y + 12}" stroke="{colour}" stroke-width="1.6" marker-end="url(#a)"/>'
                   f'<text x="{(tester + target) // 2}" y="{y - 1}" text-anchor="middle" fill="{colour}">{label(entry["text"], fields)}</text>')
    open(os.path.join(HERE, name + ".svg"), "w").write("\n".join(out + ["</svg>", ""]))


def main():
    with tempfile.TemporaryDirectory() as folder:
        traces = sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "traces")
        if len(sys.argv) < 2:
            subprocess.run(["mrc", "vectors", "--out", folder], check=True, stdout=subprocess.DEVNULL)
        for name, script, fields in PICTURES:
            draw(name, json.load(open(os.path.join(traces, script + ".json"))), fields)


main()
