"""What ``gpuplan whatif`` says of a site whose truth is known, against the truth.

``python -m benchmarks.whatif_truth`` calibrates the twin on the dumps of ``../shared/data/sitelab``
as docs/howto/start.md does, asks what the changes of its ``truth`` do as ``gpuplan whatif`` does,
with as many pairs as that takes by account, by partition, by QOS, by user and by size, and prints
how the effects compare. It exits 1 where a bar is missed: for all effects, and without those on
single users. The truth of an effect is the mean over the replicas of the other simulator; an effect
is real where it exceeds what their spread explains.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.planner.requests.calibrate import CalibrateRequest
from gpuplan.planner.site.effects import LONGER, SHORTER, GroupEffect
from gpuplan.planner.site.pairs import Pairs, grown, pairs_of
from gpuplan.planner.studies.calibrate import calibrate
from gpuplan.planner.twin.change_texts import read_option
from gpuplan.planner.twin.workload import ALL_JOBS, GROUPINGS
from gpuplan.simkit.arrays import BoolArray, FloatArray

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "sitelab"
ACCOUNTS = ("climate", "genomics", "astro", "courses")
BASE = "base"
CHANGES = {
    "limit_up": "limit user=48",
    "limit_down": "limit user=16",
    "h100+2": "add-nodes h100=2",
    "a100+4": "add-nodes ga20=4",
    "l40s+1": "add-nodes l40s=1",
    "h100-1": "remove-nodes h100=1",
    "a100-1": "remove-nodes a100=1",
    "halfmax_split": "max-time a100=2d,h100=36h,l40s=12h,short=2h",
    "limits2x": "limits-run 2",
    "noshort": "move short=a100",
    "load1.2": "scale-load 1.2",
    "nofairshare": "set priority.PriorityWeightFairshare=0",
    "noaccountlimits": "limit " + ",".join(f"account:{name}=none" for name in ACCOUNTS),
}
"""Change of the truth -> the same as people write it."""
T_OF_SEVEN = 2.447
"""Quantile 0.975 of Student's t for seven replicas."""
LARGE = 0.25
"""Of the wait: a real effect above this should get a verdict."""
LEAST_COVERED, LEAST_TOLD, MOST_FALSE = 0.9, 0.8, 0.05
USERS = "user"


@dataclass(frozen=True, slots=True)
class Comparison:
    """An effect on the mean or the P95 wait of a group, in seconds, and its truth.

    Attributes:
        change, by, group, measure: what it is of.
        effect, error, verdict: as ``gpuplan whatif`` says.
        truth, spread: mean and standard deviation over the replicas of the truth.
        history: the effect in the history that was logged.
        today: the true wait without the change.
        is_named: whether a headline may name the group as one of those that change most.
    """

    change: str
    by: str
    group: str
    measure: str
    effect: float
    error: float
    verdict: str
    truth: float
    spread: float
    history: float
    today: float
    is_named: bool

    @property
    def is_told(self) -> bool:
        """Whether the effect has a verdict."""
        return self.verdict in (LONGER, SHORTER)

    @property
    def is_real(self) -> bool:
        """Whether the truth differs from 0 by more than its spread explains."""
        return abs(self.truth) > T_OF_SEVEN * self.spread / float(np.sqrt(7))


@dataclass(frozen=True, slots=True)
class Score:
    """How effects compare with the truth, as shares.

    Attributes:
        effects: how many there are.
        covered, history: whose truth, and whose logged history, lies within the error.
        told: of real effects above a quarter of the wait, those with a verdict; ``large`` of them.
        wrong: verdicts of real effects with the wrong sign.
        false: of effects where nothing is real, those with a verdict; ``null`` of them.
    """

    effects: int
    covered: float
    history: float
    large: int
    told: float
    wrong: int
    null: int
    false: float


def score_of(rows: Sequence[Comparison]) -> Score:
    """Return the score of some effects."""
    large = [row for row in rows if row.is_real and abs(row.truth) > LARGE * row.today]
    null = [row for row in rows if not row.is_real]
    told = [row for row in rows if row.is_told]

    def share(part: int, of: int) -> float:
        return part / of if of else float("nan")

    return Score(
        len(rows),
        share(sum(abs(row.effect - row.truth) <= row.error for row in rows), len(rows)),
        share(sum(abs(row.effect - row.history) <= row.error for row in rows), len(rows)),
        len(large),
        share(sum(row.is_told for row in large), len(large)),
        sum(row.is_real and row.effect * row.truth < 0 for row in told),
        len(null),
        share(sum(row.is_told for row in null), len(null)),
    )


def comparisons(data: Path = DATA) -> list[Comparison]:
    """Return every effect with its truth."""
    pairs = pairs_on(data)
    truth = Truth(data)
    rows = []
    for by in GROUPINGS:
        effects: list[list[GroupEffect]] = grown(pairs, by)
        for change, groups in zip(CHANGES, effects, strict=True):
            for effect in groups:
                if effect.name == ALL_JOBS and by != GROUPINGS[0]:
                    continue
                kind = "all" if effect.name == ALL_JOBS else by
                jobs = truth.jobs_of(kind, effect.name)
                rows += [_compared(change, kind, which, effect, truth, jobs) for which in (0, 1)]
    return rows


def pairs_on(data: Path) -> Pairs:
    """Return the changes, nothing of them replayed yet, on a twin calibrated on the dumps."""
    dumps = data / "dumps"
    study = calibrate(
        CalibrateRequest(
            dumps / "sacct.txt.gz",
            slurm_conf=dumps / "slurm.conf",
            sacctmgr=tuple(dumps / f"{name}.txt" for name in ("assoc", "qos", "events")),
            time_zone="America/New_York",
        )
    ).results
    log, document = study.log, study.document
    assert isinstance(log, SiteLog) and isinstance(document, SiteDocument)  # not those of Kueue
    changes = [read_option(text).settled(document, log) for text in CHANGES.values()]
    calibration = CalibrationTable(level=study.chosen, within=study.within, mae_s=study.mae_s)
    return pairs_of(log, document, changes, calibration)


class Truth:
    """Waits of each job of the log under each change, in seconds; NaN where it never started."""

    def __init__(self, data: Path) -> None:
        folder = data / "truth"
        jobs = pl.read_csv(folder / "jobs.csv.gz", infer_schema_length=None)
        logged = pl.read_csv(folder / "whatif.csv.gz", infer_schema_length=None)["job"]
        self.rows = jobs.with_row_index("row").filter(pl.col("job").is_in(logged.implode()))
        self.waits = np.load(folder / "waits.npz")

    def jobs_of(self, by: str, group: str) -> BoolArray:
        """Return which rows a group has."""
        if by == "all":
            return np.ones(self.rows.height, np.bool_)
        if by == "size":
            gpus = self.rows["gpus"].to_numpy()
            kinds = np.array(["1 GPU", "2-8 GPUs", "over 8 GPUs"])[np.digitize(gpus, [2, 9])]
            return np.asarray(kinds == group)
        column = "group" if by == "account" else by
        return np.asarray((self.rows[column] == group).to_numpy())

    def figures(self, change: str, jobs: BoolArray) -> FloatArray:
        """Return mean and P95 of each of the replicas; shape (7, 2)."""
        at = self.rows["row"].to_numpy()[jobs]
        figures = []
        for replica in range(7):
            waits = self.waits[f"{change}/{replica}"][at]
            waits = waits[~np.isnan(waits)]
            figures.append((float(waits.mean()), float(np.percentile(waits, 95))))
        return np.array(figures)


def _compared(
    change: str, by: str, which: int, group: GroupEffect, truth: Truth, jobs: BoolArray
) -> Comparison:
    prefix = ("", "p95_")[which]
    effect_s, error_s, verdict, stands_out = (
        getattr(group, f"{prefix}{name}")
        for name in ("effect_s", "error_s", "verdict", "stands_out")
    )
    before = truth.figures(BASE, jobs)[:, which]
    moved = truth.figures(change, jobs)[:, which] - before
    return Comparison(
        change, by, group.name, ("mean", "P95")[which], effect_s, error_s, verdict,
        float(moved.mean()), float(moved.std(ddof=1)), float(moved[0]), float(before[0]),
        stands_out,
    )  # fmt: skip


def lines(rows: Sequence[Comparison]) -> Iterator[str]:
    """Yield the tables."""
    yield "all jobs, hours           mean (error)     truth           P95 (error)     truth"
    for change in dict.fromkeys(row.change for row in rows):
        mean, p95 = (row for row in rows if row.change == change and row.by == "all")
        yield f"{change:20}" + "".join(
            f"{row.effect / 3600:+9.2f} ({row.error / 3600:5.2f}) {row.truth / 3600:+9.2f}   "
            for row in (mean, p95)
        )
    yield ""
    yield "effects              n  truth in error  history  told of large  wrong  false of null"
    kinds: list[tuple[str, Sequence[Comparison]]]
    kinds = [(by, [row for row in rows if row.by == by]) for by in ("all", *GROUPINGS)]
    kinds += [(measure, [row for row in rows if row.measure == measure]) for measure in
              ("mean", "P95")]  # fmt: skip
    kinds += [(name, [row for row in rows if row.change == name]) for name in CHANGES]
    kinds += [("without users", [row for row in rows if row.by != USERS]), ("every effect", rows)]
    for name, part in kinds:
        score = score_of(part)
        yield (
            f"{name:16} {score.effects:5} {score.covered:14.3f} {score.history:8.3f} "
            f"{score.told:8.2f} of {score.large:3} {score.wrong:5} {score.false:9.3f} "
            f"of {score.null:3}"
        )


def main() -> int:
    """Print the comparison; return 1 where a bar is missed."""
    rows = comparisons()
    print("\n".join(lines(rows)))
    named = [row for row in rows if row.by != "all" and row.is_named]
    print(f"groups that stand out: {len(named)}, of them {sum(not row.is_real for row in named)} "
          "where nothing is real")  # fmt: skip
    met = dict[str, bool]()
    for of, part in (("", rows), (", users apart", [row for row in rows if row.by != USERS])):
        score = score_of(part)
        met |= {
            f"truth within the error of {LEAST_COVERED:.0%}{of}": score.covered >= LEAST_COVERED,
            f"{LEAST_TOLD:.0%} of large effects told{of}": score.told >= LEAST_TOLD,
            f"no verdict of the wrong sign{of}": score.wrong == 0,
            f"at most {MOST_FALSE:.0%} told where nothing is real{of}": score.false <= MOST_FALSE,
        }
    for bar, is_met in met.items():
        print("met   " if is_met else "MISSED", bar)
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
