#!/usr/bin/env python3
"""Draws docs/selectors.svg from the table in docs/selectors.md: docs/pictures/selectors.py

The table is what `cargo test -p mrc-sim --test selectors -- --nocapture` prints. Page and picture therefore say the same.
"""
import os

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
COLOURS = ["#1f5aa0", "#1e823c", "#d07a10", "#8a8a8a", "#be2828"]
LEFT, WIDTH, HEIGHT = 60, 880, 169
BIN_US = 100


def rows():
    """Of the table: selector, begin of the bin in us, Gb/s, KiB on each path."""
    with open(os.path.join(DOCS, "selectors.md"), encoding="utf-8") as page:
        _, rest = page.read().split("selector       us   Gb/s  KiB sent on path 0 .. 7\n", 1)
    for line in rest.split("```", 1)[0].splitlines():
        name, us, gbps, *kib = line.split()
        yield name, int(us), float(gbps), [int(n) for n in kib]


def plot(parts, bottom, title, curves, last_us):
    parts.append(f'<text x="{LEFT}" y="{bottom - 200}" font-weight="bold">{title}</text>')
    for value in range(0, 101, 25):
        y = bottom - value / 100 * HEIGHT
        parts.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    for us in range(0, last_us + 1, BIN_US):
        parts.append(f'<text x="{LEFT + us / last_us * WIDTH:.1f}" y="{bottom + 16}" text-anchor="middle">{us}</text>')
    for colour, curve in zip(COLOURS, curves):
        ends = ((end, value) for us, value in curve for end in (us, us + BIN_US))
        at = (f"{LEFT + us / last_us * WIDTH:.1f} {bottom - value / 100 * HEIGHT:.1f}" for us, value in ends)
        parts.append(f'<path d="M{"L".join(at)}" fill="none" stroke="{colour}" stroke-width="2"/>')


def main():
    table, names = list(rows()), []
    for name, *_ in table:
        if name not in names:
            names.append(name)
    assert len(names) <= len(COLOURS), names
    goodput = [[(us, gbps) for name, us, gbps, _ in table if name == wanted] for wanted in names]
    slow = [[(us, 100 * kib[0] / sum(kib)) for name, us, _, kib in table if name == wanted] for wanted in names]
    last_us = max(us for _, us, _, _ in table) + BIN_US
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 556" font-family="sans-serif" font-size="13">']
    parts.append('<rect width="100%" height="100%" fill="#fff"/>')
    plot(parts, 260, "goodput, Gb/s", goodput, last_us)
    plot(parts, 510, "% of bytes that leave on the slow link", slow, last_us)
    for nth, name in enumerate(names):
        x = 70 + 130 * nth
        parts.append(f'<path d="M{x} 24h26" stroke="{COLOURS[nth]}" stroke-width="3"/><text x="{x + 32}" y="29">{name}</text>')
    note = f"microseconds, bins of {BIN_US}; path 0 goes from 100 to 10 Gb/s at 200"
    parts.append(f'<text x="950" y="546" text-anchor="end">{note}</text>')
    with open(os.path.join(DOCS, "selectors.svg"), "w", encoding="utf-8") as out:
        out.write("\n".join(parts) + "\n</svg>\n")


if __name__ == "__main__":
    main()
