"""Replay the evaluation of GFS (ASPLOS 2026): ``python -m benchmarks.reproduce_gfs``.

Table 3's kinds of jobs on 287 nodes of 8 GPUs, high-priority load 0.55, spot loads x1, x2 and x4.
The law of durations, gangs, organizations and loads are assumed (`gpuplan synth --preset gfs`
prints them), so what is required is the order of policies, not their numbers. Exits with 1 where a
required row fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuplan.analysis.plain import plain
from gpuplan.analysis.synth.spot_mix import SpotMix, synthesize_mix
from gpuplan.analysis.synth.write import Request
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.studies.compare import CompareRequest, compare
from gpuplan.planner.studies.replay import ReplayRequest
from gpuplan.simkit.cluster_shape import ClusterShape

CLUSTER = ClusterShape.parse("A100=287x8")
LOADS = (1.0, 2.0, 4.0)
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gfs": ("gfs", {}),
    "gfs, sum": ("gfs", {"aggregate": "sum"}),
    "gfs, H = 4 h": ("gfs", {"guarantee_h": 4}),
    "gfs-d": ("gfs-d", {}),
    "gfs-p": ("gfs-p", {}),
    "yarn-cs": ("yarn-cs", {}),
    "lyra": ("lyra", {}),
    "fgd": ("fgd", {}),
    "first-fit": ("spot-first-fit", {}),
    "chronus": ("chronus", {}),
}
BASELINES = ("yarn-cs", "lyra", "fgd", "first-fit")
Rows = Mapping[str, Mapping[str, Any]]


def replayed(load: float, days: float, seed: int) -> Rows:
    """Return the results of every policy at a spot load."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "gfs.parquet"
        synthesize_mix(SpotMix(load), Request(1, seed, days), trace)
        contenders = tuple(
            PolicySpec(label, name, {"cluster": CLUSTER, **own})
            for label, (name, own) in POLICIES.items()
        )
        found = compare(CompareRequest(ReplayRequest(trace), contenders)).found
    return {one.label: plain(one.results) for one in found.outcomes}


def claims(all_rows: Mapping[float, Rows]) -> list[tuple[bool, str, str, str, bool]]:
    """Return rows: required, claim, what the paper says, what is found here, whether it holds."""
    found = []

    def row(
        claim: str, paper: str, here: Callable[[Rows], str], holds: Callable[[Rows], bool],
        required: bool = True,
    ) -> None:  # fmt: skip
        for load, rows in all_rows.items():
            found.append((required, f"{claim}, x{load:g}", paper, here(rows), holds(rows)))

    def wait(rows: Rows, label: str) -> float:
        return float(rows[label]["spot"]["mean_jqt_s"])

    row(
        "GFS evicts fewer runs than every baseline", "33.0 to 77.9% fewer",
        lambda r: " ".join(f"{n} {r[n]['eviction_rate']:.1%}" for n in ("gfs", *BASELINES)),
        lambda r: all(r["gfs"]["eviction_rate"] < r[n]["eviction_rate"] for n in BASELINES),
    )  # fmt: skip
    row(
        "GFS wastes fewer GPU-hours", "-",
        lambda r: " ".join(f"{n} {r[n]['wasted_gpu_h']:,.0f}" for n in ("gfs", *BASELINES)),
        lambda r: all(r["gfs"]["wasted_gpu_h"] < r[n]["wasted_gpu_h"] for n in BASELINES),
    )  # fmt: skip
    row(
        "HP waits least under GFS (s)", "lowest",
        lambda r: " ".join(f"{n} {r[n]['hp']['mean_jqt_s']:.2f}" for n in ("gfs", *BASELINES)),
        lambda r: all(r["gfs"]["hp"]["mean_jqt_s"] <= r[n]["hp"]["mean_jqt_s"] for n in BASELINES),
    )  # fmt: skip
    for label, name in (
        ("gfs, sum", "the printed bound"),
        ("gfs-d", "GFS-d"),
        ("gfs, H = 4 h", "H = 4 h"),
    ):
        row(
            f"spot waits longer under {name} than under GFS (s)", "longer",
            lambda r, label=label: f"{wait(r, label):,.0f} against {wait(r, 'gfs'):,.0f}",
            lambda r, label=label: wait(r, label) > wait(r, "gfs"),
        )  # fmt: skip
    row(
        "random victims waste at least 3 times as much", "-",
        lambda r: f"{r['gfs-p']['wasted_gpu_h']:,.0f} against {r['gfs']['wasted_gpu_h']:,.0f}",
        lambda r: r["gfs-p"]["wasted_gpu_h"] >= 3 * r["gfs"]["wasted_gpu_h"],
    )  # fmt: skip
    row(
        "spot JCT below every baseline (s)", "lowest",
        lambda r: " ".join(f"{n} {r[n]['spot']['mean_jct_s']:,.0f}" for n in ("gfs", *BASELINES)),
        lambda r: all(
            r["gfs"]["spot"]["mean_jct_s"] < r[n]["spot"]["mean_jct_s"] for n in BASELINES
        ),
        required=False,
    )  # fmt: skip
    row(
        "GFS-d evicts more than GFS", "more",
        lambda r: f"{r['gfs-d']['eviction_rate']:.1%} against {r['gfs']['eviction_rate']:.1%}",
        lambda r: r["gfs-d"]["eviction_rate"] > r["gfs"]["eviction_rate"],
        required=False,
    )  # fmt: skip
    p99 = [rows["gfs"]["hp"]["p99_jct_s"] for rows in all_rows.values()]
    spread = (max(p99) - min(p99)) / min(p99)
    found.append(
        (True, "HP P99 JCT over the spot loads", "alike", f"within {spread:.2%}", spread <= 0.01)
    )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the rows; return 1 where a required one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    print(*SpotMix(1.0).notes, sep="\n")
    all_rows = {}
    for load in LOADS:
        all_rows[load] = replayed(load, options.days, options.seed)
        (demand,) = all_rows[load]["gfs"]["demand"]
        print(
            f"spot x{load:g}: high priority asks for {demand['hp_share']:.0%} of "
            f"{demand['gpus']:,} GPUs, spot for {demand['spot_share']:.0%}"
        )
    rows = claims(all_rows)
    for required, claim, paper, here, holds in rows:
        kind = "required" if required else "reported"
        print(f"{'ok  ' if holds else 'NOT '} {kind} | {claim} | paper: {paper} | here: {here}")
    return 1 if any(required and not holds for required, *_, holds in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
