"""Replay the evaluation of GFS (ASPLOS 2026): ``python -m benchmarks.reproduce_gfs``.

Table 3's kinds of jobs on 287 nodes of 8 GPUs, spot loads x1, x2 and x4. The law of durations,
gangs, organizations and loads are assumed and printed first, so what is required is the order of
policies, not their numbers. Baselines are classic first come, first served queues
(``blocking=true``), and run again without blocking, as `gpuplan compare` has them; then GFS and
`gfs-p` over eight seeds. Exits with 1 where a required row fails. ``--write-docs`` writes the
tables of docs/gfs.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.docs_tables import DOCS, OPTION, markdown, write
from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.synth import spot_mix
from gpuplan.analysis.synth.spot_mix import SpotMix, synthesize_mix
from gpuplan.analysis.synth.write import Request
from gpuplan.planner.policies.spot.settings import settings_of
from gpuplan.planner.requests.clusters import ClusterListRequest
from gpuplan.planner.requests.compare import CompareRequest
from gpuplan.planner.requests.replays import ReplayRequest
from gpuplan.planner.requests.settings import show_setting
from gpuplan.planner.runs.settings import defaults_of
from gpuplan.planner.studies.compare import compare
from gpuplan.simkit.cluster_shape import ClusterShape

CLUSTER = ClusterShape.parse("A100=287x8")
LOADS = (1.0, 2.0, 4.0)
BASELINES = ("yarn-cs", "lyra", "fgd", "first-fit")
BLOCKING = (*BASELINES, "static-quota")
PASSING = ", passing"
"""Added to the name of a baseline whose jobs may pass one that does not fit."""
NAMES = {"first-fit": "spot-first-fit"}
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gfs": ("gfs", {}),
    "gfs, sum": ("gfs", {"aggregate": "sum"}),
    "gfs, H = 2 h": ("gfs", {"guarantee_h": 2}),
    "gfs, H = 4 h": ("gfs", {"guarantee_h": 4}),
    **{name: (name, {}) for name in ("gfs-e", "gfs-d", "gfs-s", "gfs-p", "gfs-sp", "chronus")},
    **{name: (NAMES.get(name, name), {"blocking": True}) for name in BLOCKING},
    **{name + PASSING: (NAMES.get(name, name), {"blocking": False}) for name in BLOCKING},
}
PAPER = {  # at x2: HP wait, spot wait, spot JCT (s), runs evicted (%); Tables 5, 6, 8, 9 and 10
    "gfs": (27.7, 575.4, 10_715.3, 1.21),
    "gfs, H = 2 h": (28.4, 506.6, 10_619.0, 1.29),
    "gfs, H = 4 h": (28.4, 3_145.6, 13_252.8, 1.16),
    "gfs-e": (27.4, 10_502.4, 20_687.1, 8.08),
    "gfs-d": (27.6, 2_174.3, 12_304.7, 1.73),
    "gfs-s": (27.7, 2_237.7, 12_369.7, 1.79),
    "gfs-p": (27.3, 2_259.7, 12_471.0, 2.95),
    "gfs-sp": (29.3, 3_811.5, 14_010.5, 2.64),
    "yarn-cs": (102.9, 5_087.4, 15_866.3, 16.74),
    "chronus": (76.0, 1_211.7, 12_538.4, None),
    "lyra": (113.7, 5_016.8, 15_107.9, 1.78),
    "fgd": (111.5, 5_450.5, 16_168.0, 15.36),
}
SEEDS = 8
SHOWN = (
    "grace_s", "checkpoint_every_s", "restart_s", "restart_gang_s", "tick_s", "drain_s", "p",
    "guarantee_h", "forecast", "eta_min", "eta_max", "longest_wait_s", "beta", "heat_limit",
)  # fmt: skip
Rows = Mapping[str, Mapping[str, Any]]
Value = Callable[[Mapping[str, Any]], float]


def eviction_rate(row: Mapping[str, Any]) -> float:
    """Return the evictions per spot run."""
    return float(row["eviction_rate"])


def wasted(row: Mapping[str, Any]) -> float:
    """Return the GPU-hours lost."""
    return float(row["wasted_gpu_h"])


def hp_wait(row: Mapping[str, Any]) -> float:
    """Return the mean wait of high-priority jobs, s."""
    return float(row["hp"]["mean_jqt_s"])


def spot_wait(row: Mapping[str, Any]) -> float:
    """Return the mean wait of spot jobs, s."""
    return float(row["spot"]["mean_jqt_s"])


def spot_jct(row: Mapping[str, Any]) -> float:
    """Return the mean completion time of spot jobs, s."""
    return float(row["spot"]["mean_jct_s"])


MEASURES: dict[str, tuple[Value, str]] = {
    "runs evicted": (eviction_rate, ".1%"),
    "GPU-h wasted": (wasted, ",.0f"),
    "HP wait (s)": (hp_wait, ",.1f"),
    "spot wait (s)": (spot_wait, ",.0f"),
    "spot JCT (s)": (spot_jct, ",.0f"),
}


def replayed(load: float, days: float, seed: int, labels: Sequence[str] = tuple(POLICIES)) -> Rows:
    """Return the results of policies at a spot load; without labels those of all."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "gfs.parquet"
        synthesize_mix(SpotMix(load), Request(1, seed, days), trace)
        request = CompareRequest(
            ReplayRequest(trace),
            policy=tuple(text_of(*POLICIES[label]) for label in labels),
            cluster=ClusterListRequest(cluster=str(CLUSTER)),
        )
        rows = compare(request).results.policies
    return {label: plain(row) for label, row in zip(labels, rows, strict=True)}


def text_of(name: str, settings: Mapping[str, Any]) -> str:
    """Return a policy with its settings, as ``--policy`` takes it."""
    texts = [f"{key}={show_setting(value)}" for key, value in settings.items()]
    return f"{name}:{','.join(texts)}" if texts else name


def claims(all_rows: Mapping[float, Rows]) -> list[tuple[bool, str, str, str, bool]]:
    """Return rows: required, claim, what the paper says, what is found here, whether it holds."""
    found = []

    def least(
        claim: str, paper: str, measure: str, others: tuple[str, ...], required: bool = True
    ) -> None:
        value, form = MEASURES[measure]
        for load, rows in all_rows.items():
            own, rest = value(rows["gfs"]), [value(rows[name]) for name in others]
            holds = own <= min(rest) if measure == "HP wait (s)" else own < min(rest)
            here = " ".join(f"{name} {value(rows[name]):{form}}" for name in ("gfs", *others))
            found.append((required, f"{claim}, x{load:g}", paper, here, holds))

    def more(
        label: str, paper: str, measure: str, required: bool = False, times: float = 1.0
    ) -> None:
        value, form = MEASURES[measure]
        for load, rows in all_rows.items():
            own, other = value(rows["gfs"]), value(rows[label])
            how = f"at least {times:g} times" if times > 1 else "below" if times < 0 else "above"
            claim = f"{label}: {measure} {how} gfs"
            holds = other >= times * own if times > 1 else (other - own) * times > 0
            here = f"{other:{form}} | gfs {own:{form}}"
            found.append((required, f"{claim}, x{load:g}", paper, here, holds))

    least("GFS evicts fewer runs than those that evict", "lowest", "runs evicted", BASELINES)
    least("GFS wastes fewer GPU-hours than those that evict", "-", "GPU-h wasted", BASELINES)
    least("high priority waits least under GFS", "lowest", "HP wait (s)", BASELINES)
    more("gfs, sum", "-", "spot wait (s)", required=True)
    more("gfs-d", "longer (2,174 | gfs 575)", "spot wait (s)", required=True)
    more("gfs, H = 4 h", "longer (3,146 | gfs 575)", "spot wait (s)", required=True)
    more("gfs-p", "-", "GPU-h wasted", required=True, times=3)
    p99 = [rows["gfs"]["hp"]["p99_jct_s"] for rows in all_rows.values()]
    spread = (max(p99) - min(p99)) / min(p99)
    found.append(
        (True, "HP P99 JCT over the spot loads", "alike", f"within {spread:.2%}", spread <= 0.01)
    )
    passing = tuple(name + PASSING for name in BASELINES)
    every = (*BASELINES, "chronus")
    least("GFS wastes the fewest GPU-hours of all", "-", "GPU-h wasted", every, required=False)
    least("spot JCT lowest under GFS", "lowest", "spot JCT (s)", every, required=False)
    least("spot waits least under GFS", "lowest", "spot wait (s)", every, required=False)
    least("high priority waits least, no baseline blocking", "-", "HP wait (s)", passing, False)
    more("gfs, H = 2 h", "shorter (507 | gfs 575)", "spot wait (s)", times=-1)
    for label, wait, evicted in (
        ("gfs-e", "longer (10,502 | gfs 575)", "more (8.1% | gfs 1.2%)"),
        ("gfs-s", "longer (2,238 | gfs 575)", "more (1.8% | gfs 1.2%)"),
        ("gfs-p", "longer (2,260 | gfs 575)", "more (3.0% | gfs 1.2%)"),
        ("gfs-sp", "longer (3,812 | gfs 575)", "more (2.6% | gfs 1.2%)"),
    ):
        more(label, wait, "spot wait (s)")
        more(label, evicted, "runs evicted")
    more("gfs-d", "more (1.7% | gfs 1.2%)", "runs evicted")
    return found


def tables(all_rows: Mapping[float, Rows]) -> dict[str, str]:
    """Return the tables of docs/gfs.md by name: all policies at all loads, and the paper's."""
    labels = [name for name in POLICIES if name not in ("gfs, sum", "gfs, H = 2 h", "gfs, H = 4 h")]
    head = ["policy", *(f"{name}, x1 / x2 / x4" for name in MEASURES)]
    every = [
        [
            label,
            *(
                " / ".join(f"{value(rows[label]):{form}}" for rows in all_rows.values())
                for value, form in MEASURES.values()
            ),
        ]
        for label in labels
    ]
    rows = all_rows[2.0]
    beside = [
        [
            label,
            f"{hp:,.1f} / {hp_wait(rows[label]):,.1f}",
            f"{waits:,.0f} / {spot_wait(rows[label]):,.0f}",
            f"{jct:,.0f} / {spot_jct(rows[label]):,.0f}",
            f"{'-' if evicted is None else f'{evicted:.1f}%'} / {eviction_rate(rows[label]):.1%}",
        ]
        for label, (hp, waits, jct, evicted) in PAPER.items()
    ]
    names = ["HP wait (s)", "spot wait (s)", "spot JCT (s)", "runs evicted"]
    return {
        "gfs-policies": markdown(head, every),
        "gfs-paper": markdown(["at x2", *(f"{name}, paper / here" for name in names)], beside),
    }


def over_seeds(days: float) -> str:
    """Return, for each load, the range over seeds of what avoiding evictions by chance costs."""
    lines = []
    for load in LOADS:
        runs = [replayed(load, days, seed, ("gfs", "gfs-p")) for seed in range(1, SEEDS + 1)]
        ratios = [wasted(rows["gfs-p"]) / wasted(rows["gfs"]) for rows in runs]
        evictions = [rows["gfs"]["evictions"] for rows in runs]
        lines.append(
            [
                f"x{load:g}",
                f"{min(ratios):.1f} to {max(ratios):.1f}",
                f"{min(evictions):,} to {max(evictions):,}",
            ]
        )
    head = (f"{SEEDS} seeds", "GPU-h wasted, gfs-p over gfs", "runs that gfs evicts")
    return markdown(head, lines)


def assumptions(days: float, seed: int) -> list[str]:
    """Return every value that the paper does not give, one line each."""
    values = defaults_of(settings_of("gfs"))
    return [
        *SpotMix(1.0).notes,
        f"organizations have jobs as 1 to 1/{spot_mix.ORGANIZATIONS}; no duration is below "
        f"{spot_mix.LEAST_S:g} s; {days:g} days from {spot_mix.START}, seed {seed}; {CLUSTER}",
        *(
            f"{kind.name}: pods of {', '.join(f'{gpus:g}' for gpus in spot_mix.CARDS)} GPUs for "
            f"{', '.join(f'{share:g}' for share in kind.cards)}% of jobs (Table 3), "
            f"gangs {kind.gang:g}% (Table 3) "
            f"of {', '.join(map(str, spot_mix.PODS))} pods for "
            f"{', '.join(f'{share:g}' for share in kind.pods)}%"
            for kind in spot_mix.KINDS
        ),
        "settings: " + ", ".join(f"{name}={values[name]}" for name in SHOWN),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the rows; return 1 where a required one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(OPTION, action="store_true", help="write the tables of docs/gfs.md")
    options = parser.parse_args(arguments)
    print(*assumptions(options.days, options.seed), sep="\n")
    all_rows = {}
    for load in LOADS:
        all_rows[load] = replayed(load, options.days, options.seed)
        (demand,) = all_rows[load]["gfs"]["demand"]
        print(
            f"spot x{load:g}: high priority asks for {demand['hp_demand_over_capacity']:.0%} of "
            f"{demand['gpus']:,} GPUs, spot for {demand['spot_demand_over_capacity']:.0%}"
        )
    rows = claims(all_rows)
    for required, claim, paper, here, holds in rows:
        kind = "required" if required else "reported"
        print(f"{'ok  ' if holds else 'NOT '} {kind} | {claim} | paper: {paper} | here: {here}")
    written = {**tables(all_rows), "gfs-seeds": over_seeds(options.days)}
    for table in written.values():
        print(f"\n{table}")
    print(f"\n{sum(holds for *_, holds in rows)} of {len(rows)} rows hold")
    if options.write_docs:
        write(DOCS / "gfs.md", written)
    return 1 if any(required and not holds for required, *_, holds in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
