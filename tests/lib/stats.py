# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Read the statistics that programs under sidestep leave in SIDESTEP_STATS_FILE.

The file holds one JSON object a line, one line per process that has ended.
"""
import json
import sys


def load(path):
    """All objects of a stats file, in order; a missing file has none."""
    try:
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.strip()]
    except FileNotFoundError:
        return []


def add(total, one):
    """Add the numbers of one object, and of its `reasons`, to total."""
    for key, value in one.items():
        if isinstance(value, dict):
            add(total.setdefault(key, {}), value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and key != "pid":
            total[key] = total.get(key, 0) + value
    return total


def total(lines):
    """One object with the sums over all lines; `processes` counts them."""
    out = {"processes": len(lines), "reasons": {}}
    for one in lines:
        add(out, one)
    return out


def by_program(lines):
    """Program name to the sums over its processes."""
    groups = {}
    for one in lines:
        groups.setdefault(one.get("program", "?"), []).append(one)
    return {name: total(group) for name, group in groups.items()}


def ring_share(one):
    """The part of the application's bytes that went over rings, 0 to 1."""
    ring = one.get("ring_tx_bytes", 0) + one.get("ring_rx_bytes", 0)
    tcp = one.get("tcp_tx_bytes", 0) + one.get("tcp_rx_bytes", 0)
    return ring / (ring + tcp) if ring + tcp else 0.0


def main(argv):
    if len(argv) != 2:
        sys.exit("usage: stats.py FILE")
    for name, sums in sorted(by_program(load(argv[1])).items()):
        print(json.dumps({"program": name, "ring_share": round(ring_share(sums), 4), **sums}))


if __name__ == "__main__":
    main(sys.argv)
