"""Dumps of a Kubernetes cluster: Workloads of Kueue and Pods, 500 MB each, as kubectl prints them.

The objects of the samples come again and again under new names. The reference is one pass over the
bytes of the file. Each of our rows is the whole command in a process of its own, its wall clock.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bars import Row
from benchmarks.bench_waste import read_s
from benchmarks.processes import measured

SIZE_MB = 500
SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
DUMPS = {"kueue/workloads.json": "Workload", "kube/kube.json": "Pod"}


def write_dump(path: Path, sample: Path, kind: str, size_mb: float) -> int:
    """Write a dump in which the objects of a kind come many times; returns how many."""
    items = json.loads(sample.read_text(encoding="utf-8"))["items"]
    others = [json.dumps(item) for item in items if item["kind"] != kind]
    repeated = [item for item in items if item["kind"] == kind]
    size, count = 0, 0
    with path.open("w") as target:
        target.write('{"apiVersion":"v1","kind":"List","items":[\n')
        target.write(",\n".join(others))
        separator = ",\n" if others else ""
        while size < size_mb * 1e6:
            text = separator + json.dumps(renamed(repeated[count % len(repeated)], count))
            target.write(text)
            size, count, separator = size + len(text), count + 1, ",\n"
        target.write("\n]}\n")
    return count


def renamed(item: dict[str, Any], number: int) -> dict[str, Any]:
    """Return an object under a name, an id and owners of its own."""
    metadata = item["metadata"]
    owners = [
        {**owner, "name": f"{owner['name']}-{number}", "uid": f"owner-{number}"}
        for owner in metadata.get("ownerReferences", ())
    ]
    return {
        **item,
        "metadata": {
            **metadata,
            "name": f"{metadata['name']}-{number}",
            "uid": f"uid-{number}",
            "labels": {"user": metadata.get("labels", {}).get("user", "")},
            "ownerReferences": owners,
        },
    }


def run(size_mb: float = SIZE_MB) -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        dump, output = Path(folder) / "dump.json", Path(folder) / "o.parquet"
        for name, kind in DUMPS.items():
            count = write_dump(dump, SAMPLES / name, kind, size_mb)
            seconds, peak_mb = measured("ingest", str(dump), "-o", str(output), "--quiet")
            output.unlink()
            reference_s = read_s(dump)
            rows.append(
                {
                    "work": f"gpuplan ingest, {count:,} {kind}s, {size_mb:,.0f} MB",
                    "ours_s": seconds,
                    "reference_s": reference_s,
                    "ratio": seconds / reference_s,
                    "bar": f"<= 30 s, <= {3 * size_mb:.0f} MB",
                    "peak_mb": peak_mb,
                }
            )
    return rows


if __name__ == "__main__":
    for row in run(*map(float, sys.argv[1:])):
        print(row)
