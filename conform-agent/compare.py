#!/usr/bin/env python3
"""Compares the verdicts of one suite played in three ways: compare.py FOLDER NAME. Exit code 1 if two ways judge a script
differently. A script that does not apply in a way is counted with its reason, and is no verdict."""
import collections
import json
import sys

folder, name = sys.argv[1:]
ways = ["engine", "control", "agent"]
reports = {way: json.load(open(f"{folder}/{name}-{way}.json"))["scripts"] for way in ways}
verdicts = {way: {s["script"]: s["verdict"] for s in report} for way, report in reports.items()}
JUDGED = {"pass": "pass", "flaky": "pass", "fail": "fail", "broken": "broken"}


def field(verdict):
    return (verdict.get("difference") or {}).get("field", "behaviour")


different, judged = [], 0
for script, first in verdicts["engine"].items():
    of = {way: verdicts[way][script] for way in ways}
    says = {way: JUDGED[v["result"]] for way, v in of.items() if v["result"] in JUDGED}
    fields = {field(v) for v in of.values() if v["result"] == "fail"}
    judged += len(says) == len(ways)
    if len(set(says.values())) > 1 or len(fields) > 1:
        different.append((script, of))
print(f"{name}: {len(verdicts['engine'])} scripts, {judged} judged in all three ways, {len(different)} judged differently")
for way in ways:
    count = collections.Counter(v["result"] for v in verdicts[way].values())
    print(f"  {way:8}" + "".join(f" {count[r]:4} {r}" for r in ["pass", "flaky", "fail", "not_applicable", "broken"]))
    reasons = collections.Counter(v["reason"] for v in verdicts[way].values() if v["result"] == "not_applicable")
    for reason, number in reasons.most_common():
        print(f"    n/a {number:3}  {reason}")
for script, of in different:
    print(f"  DIFFERENT {script}")
    for way in ways:
        verdict = of[way]
        what = verdict.get("what") or verdict.get("reason") or (verdict.get("first") or {}).get("what", "")
        print(f"    {way:8} {verdict['result']} {what} {verdict.get('difference') or ''}")
sys.exit(1 if different else 0)
