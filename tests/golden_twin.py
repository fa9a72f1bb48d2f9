"""Compare replays with golden schedules: ``python tests/golden_twin.py FILES...``.

Each file ``<name>.json`` tells a site and settings by policy; beside it lie ``<name>_jobs.csv`` and
``<name>_starts.csv`` or ``<name>_starts.csv.gz``. Every difference in start, end, nodes or reason
is printed; the exit code is 1 where there is any. Only the installed package is needed.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from dataclasses import fields

from golden_files import check_files

from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteAssociation,
    SiteCluster,
    SiteJob,
    SiteNode,
    SiteNodeEvent,
    SitePartition,
    SiteQos,
)

WHOLE = ("id", "submit", "nodes", "gpus", "limit", "runtime")
TEXTS = ("user", "account", "partition", "qos", "gpu_type")


def of(kind, description):
    """Return an object from the keys of a JSON object that its class knows."""
    known = {f.name for f in fields(kind)}
    return kind(**{name: value for name, value in description.items() if name in known})


def read_site(description):
    """Return the site that a JSON object describes."""
    partitions = [
        of(SitePartition, p | {"nodes": tuple(p["nodes"])}) for p in description["partitions"]
    ]
    return SiteCluster(
        tuple(of(SiteNode, node) for node in description["nodes"]),
        tuple(partitions),
        tuple(of(SiteQos, qos) for qos in description.get("qos") or [{"name": "normal"}]),
        tuple(of(SiteAssociation, row) for row in description.get("assocs") or []),
        tuple(of(SiteNodeEvent, event) for event in description.get("events") or []),
    )


def read_jobs(path):
    """Return the jobs of a CSV file."""
    jobs = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            fields = {name: int(float(row[name])) for name in WHOLE}
            fields |= {name: row[name] for name in TEXTS if row.get(name) is not None}
            if row.get("eligible"):
                fields["eligible"] = int(float(row["eligible"]))
            for name in ("cancel", "pinned"):
                if row.get(name) and int(float(row[name])) >= 0:
                    fields[name] = int(float(row[name]))
            if row.get("nice"):
                fields["nice"] = int(float(row["nice"]))
            if row.get("billing"):
                fields["billing"] = float(row["billing"])
            jobs.append(SiteJob(**fields))
    return jobs


def read_starts(path):
    """Return policy -> job id -> (start, end, nodes, reason) as texts."""
    found = path.with_name(f"{path.stem}_starts.csv")
    data = found.read_bytes() if found.exists() else gzip.decompress(
        found.with_name(found.name + ".gz").read_bytes()
    )  # fmt: skip
    schedules = {}
    for row in csv.DictReader(data.decode("utf-8").splitlines()):
        cells = tuple((row.get(name) or "").strip() for name in ("start", "end"))
        nodes = "+".join(sorted((row.get("nodes") or "").strip().split("+")))
        cells += (nodes, (row.get("rejected") or "").strip())
        schedules.setdefault(row["policy"], {})[int(row["id"])] = cells
    return schedules


def replayed(site, jobs, config):
    """Return job id -> (start, end, nodes, reason) of a replay, as texts."""
    run = replay_site(site, jobs, config)
    found = {}
    for i, job in enumerate(jobs.id.tolist()):
        times = (str(run.start[i]), str(run.end[i])) if run.start[i] >= 0 else ("", "")
        nodes = "+".join(sorted(site.nodes[node].name for node in run.nodes(i)))
        found[job] = (*times, nodes, run.reason(i))
    return found


def differences(path):
    """Yield one line per job that the replay treats otherwise than the golden schedule."""
    document = json.loads(path.read_text(encoding="utf-8"))
    site = read_site(document)
    jobs = SiteJobs.of(read_jobs(path.with_name(f"{path.stem}_jobs.csv")))
    schedules = read_starts(path)
    for policy, settings in document["policies"].items():
        got = replayed(site, jobs, of(SchedulerConfig, settings))
        want = schedules.get(policy, {})
        for job in sorted(got.keys() | want.keys()):
            if want.get(job) != got.get(job):
                yield f"{path.name}: {policy}: job {job}: expected {want.get(job)}, got {got[job]}"


def main(paths):
    """Print the differences of all files; returns the exit code."""
    return check_files(paths, differences, __doc__.splitlines()[0])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
