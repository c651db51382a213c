#!/usr/bin/env python3
"""Numbers of docs/comparisons.md from what `mrc sim` writes. Each is the mean over the seeds with the half width of its 95 %
interval (t distribution); reductions are means of the reduction in each seed.

    tables.py sweep FOLDER METRIC BELOW ABOVE...    results of `mrc sim sweep`: METRIC (mean, p99, max; of slowdown, or with fct- of
                                                    times) of each scheme, and how far BELOW ends below each ABOVE
    tables.py bins FOLDER,... BELOW ABOVE [SKIP_US] flows of `mrc sim run --flows FOLDER/CASE-SEED.csv`, in twenty bins of equal
                                                    counts by size: reduction of the mean and the p99 in each bin, and the greatest
                                                    of all bins of a seed
    tables.py full CASE=FOLDER CASE=FOLDER...       links of `mrc sim run --links FOLDER/SEED.csv`: how many of the samples of uplinks
                                                    are full, by several measures, and how far each case is below those behind it;
                                                    up to the end of the shortest run of a seed
    tables.py spread FOLDER [LEAF]                  links as before: throughput of each uplink of LEAF (p0-t0a), and its spread
"""
import collections
import csv
import glob
import json
import math
import os
import statistics
import sys

T975 = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09]


def interval(values, digits=2):
    """Mean and half width of the 95 % interval, as text."""
    mean = statistics.fmean(values) if values else math.nan
    if len(values) < 2:
        return f"{mean:.{digits}f} (1)"
    half = T975[min(len(values) - 2, 19)] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def below(ours, theirs):
    """Reduction in percent, seed by seed; without seeds in which there is nothing to reduce."""
    return [100 * (1 - ours[seed] / theirs[seed]) for seed in sorted(ours.keys() & theirs.keys()) if theirs[seed] != 0]


def sweep(folder, metric, ours, *theirs):
    plan = json.load(open(f"{folder}/sweep.json"))
    of = collections.defaultdict(lambda: collections.defaultdict(dict))
    kind, _, name = metric.rpartition("-")
    for point in plan["points"]:
        path = f"{folder}/{point['name']}.json"
        if os.path.exists(path):
            at = dict(point["at"])
            scheme = at.pop(plan.get("compare") or "scheme")
            result = json.load(open(path))
            value = result[{"fct": "completed_fct_us", "": "completed_slowdown"}[kind]][name]
            if result["completed"] < result["flows"]:
                print(f"{point['name']}: {result['completed']} of {result['flows']} completed")
            of[" ".join(at.values())][scheme][point["seed"]] = value
    for rest, schemes in of.items():
        print(rest, metric)
        for scheme, values in schemes.items():
            print(f"  {scheme:22} {interval(list(values.values()))}  ({len(values)} seeds)")
        for scheme in theirs or [s for s in schemes if s != ours]:
            if ours in schemes and scheme in schemes:
                print(f"  {ours} below {scheme}: {interval(below(schemes[ours], schemes[scheme]), 1)} %")


def percentile(ordered, permille):
    """As `plot_fct.py` of the simulator that ConWeave's authors published has it."""
    return ordered[len(ordered) * permille // 1000]


def binned(path, skip_us, bins=20):
    rows = [(int(row["bytes"]), max(1.0, float(row["slowdown"]))) for row in csv.DictReader(open(path)) if float(row["start_us"]) >= skip_us]
    rows.sort(key=lambda row: row[0])
    cut = [rows[i * len(rows) // bins:(i + 1) * len(rows) // bins] for i in range(bins)]
    slow = [sorted(s for _, s in part) for part in cut]
    return [part[-1][0] for part in cut], [statistics.fmean(s) for s in slow], [percentile(s, 990) for s in slow], len(rows)


def bins(folders, ours, theirs, skip_us="0"):
    every = {"mean": [], "p99": []}
    for folder in folders.split(","):
        seeds = sorted({f.rsplit("-", 1)[1][:-4] for f in glob.glob(f"{folder}/{ours}-*.csv")}, key=int)
        a, b = ([binned(f"{folder}/{case}-{seed}.csv", float(skip_us)) for seed in seeds] for case in (ours, theirs))
        print(f"{folder}: {ours} below {theirs}, {len(seeds)} seeds, {statistics.fmean(x[3] for x in a):.0f} flows a run")
        for name, at in (("mean", 1), ("p99", 2)):
            gains = [[100 * (1 - x / y) for x, y in zip(ga[at], gb[at])] for ga, gb in zip(a, b)]
            every[name].append(gains)
            for n, size in enumerate(a[0][0]):
                print(f"  {name} to {size} B: {interval([g[n] for g in gains], 1)} %")
    for name, folded in every.items():
        # A seed's bins of all folders beside one another: what a figure of one run shows.
        gains = [sum(of, []) for of in zip(*folded)]
        greatest = [max(g) for g in gains]
        print(f"{name}, greatest of {len(gains[0])} bins in each seed: {interval(greatest, 1)} %, {min(greatest):.1f} to {max(greatest):.1f}")
        means = [statistics.fmean(g[n] for g in gains) for n in range(len(gains[0]))]
        print(f"{name}, greatest bin of the means over the seeds: {max(means):.1f} %")


# Name, and whether a sample of a link is full: part of the time it is busy in percent, bytes that wait.
MEASURES = [("busy for 95 %, %", lambda busy, queue: busy >= 95), ("queue above 0, %", lambda busy, queue: queue > 0)]
MEASURES += [(f"queue above {kb} kB, %", lambda busy, queue, kb=kb: queue > 1000 * kb) for kb in (100, 400)]
MEASURES += [("mean queue, kB", lambda busy, queue: queue / 100_000)]


def links(path):
    """Samples of links from leaves up to spines: link, time in us, percent, queue in bytes."""
    for row in csv.DictReader(open(path)):
        if row["direction"] == "up" and "-t0" in row["link"] and "-t1" in row["link"]:
            yield row["link"], float(row["at_us"]), float(row["percent"]), float(row["queued_bytes"])


def full(*cases):
    runs = {}
    for case in cases:
        name, folder = case.split("=", 1)
        runs[name] = {os.path.basename(f): list(links(f)) for f in glob.glob(f"{folder}/*.csv")}
    seeds = set.intersection(*(set(of) for of in runs.values()))
    end = {seed: min(max(row[1] for row in of[seed]) for of in runs.values()) for seed in seeds}
    for measure, test in MEASURES:
        shares = {
            name: {seed: 100 * statistics.fmean(test(row[2], row[3]) for row in of[seed] if row[1] <= end[seed]) for seed in seeds}
            for name, of in runs.items()
        }
        for n, (name, ours) in enumerate(shares.items()):
            print(f"{measure:20} {name:16} {interval(list(ours.values()), 1)}")
            for other in list(shares)[n + 1:]:
                print(f"    below {other}: {interval(below(ours, shares[other]), 1)} %")


def spread(folder, leaf="p0-t0a"):
    whole, least, greatest, sample = [], [], [], []
    for path in sorted(glob.glob(f"{folder}/*.csv")):
        of = collections.defaultdict(list)
        for link, _, percent, _ in links(path):
            if link.startswith(f"{leaf}-"):
                of[link].append(percent)
        uplinks = [statistics.fmean(values) for values in of.values()]
        whole.append(statistics.pstdev(uplinks))
        sample.append(statistics.stdev(uplinks))
        least.append(min(uplinks))
        greatest.append(max(uplinks))
    for name, values in (("least", least), ("greatest", greatest), ("standard deviation", whole), ("as a sample", sample)):
        print(f"{name:20} {interval(values)} % of the link's rate")


if __name__ == "__main__":
    commands = {"sweep": sweep, "bins": bins, "full": full, "spread": spread}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
