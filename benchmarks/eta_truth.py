"""How good forecasts of starts are on a site whose truth is known.

``python -m benchmarks.eta_truth FOLDER [--queue] [--every N]`` reads the dumps of a simulated
cluster in FOLDER (``dumps``, ``truth/eta.csv``: jobs submitted besides the log's, at some instants,
and when each started), calibrates, forecasts each job from what was known at its instant, and
prints a table. ``open_`` is what the simulator itself forecasts where it draws what nobody knows.
With ``--queue`` the state comes from ``dumps/queue_at`` in place of the log.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np

from gpuplan.analysis.site.document import read_twin
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.site.squeue import read_queue
from gpuplan.planner.requests.calibrate import CalibrateRequest
from gpuplan.planner.site.backtest import LONGEST_S, TAILS, BacktestPlan, backtest, mean_wait
from gpuplan.planner.site.eta import quantiles, start_times
from gpuplan.planner.site.instant import instant_of
from gpuplan.planner.site.new_job import NewJob
from gpuplan.planner.site.start_tables import start_replays
from gpuplan.planner.studies.calibrate import calibrate
from gpuplan.planner.studies.eta import QUICK_JOBS, QUICK_REPLAYS
from gpuplan.planner.twin.settings import config_of, level_config, site_of

ZONE = "America/New_York"
FILES = ("assoc.txt", "qos.txt", "events.txt")
CAP_S = 14 * 86400
"""Starts after 14 days count as after 14 days."""
SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Probe:
    """A forecast beside what happened; waits in seconds.

    Attributes:
        gpus: of the job.
        realized: its wait.
        forecast, raw, open: P10, P50, P90: ours, before they are widened, the simulator's own.
        mean: mean wait recorded until then.
        easy: EASY with requested limits; ``rules``: the site's rules with them.
    """

    gpus: int
    realized: float
    forecast: tuple[float, ...]
    raw: tuple[float, ...]
    open: tuple[float, ...]
    mean: float
    easy: float
    rules: float


def twin_of(folder: Path, into: Path) -> Path:
    """Write the settings that ``calibrate`` finds, and return their path."""
    dumps = folder / "dumps"
    request = CalibrateRequest(
        dumps / "sacct.txt.gz", slurm_conf=dumps / "slurm.conf", sshare=dumps / "sshare.txt",
        sacctmgr=tuple(dumps / name for name in FILES), time_zone=ZONE,
    )  # fmt: skip
    into.write_text(calibrate(request).twin_text(), encoding="utf-8")
    return into


def probes(
    folder: Path, *, queue: bool = False, every: int = 1, replays: int = 200
) -> Iterator[Probe]:
    """Yield a forecast of each job of ``truth/eta.csv``, at every so many-th instant."""
    with tempfile.TemporaryDirectory() as scratch:
        document, calibration = read_twin(twin_of(folder, Path(scratch) / "twin.toml"))
    log = read_site_log(folder / "dumps" / "sacct.txt.gz", ZONE)
    named = log.jobs.select("account", "user").drop_nulls().unique().sort("account", "user")
    site = site_of(document, named.rows())
    config = level_config(config_of(document), calibration.level)
    at: dict[str, list[dict[str, str]]] = {}
    with (folder / "truth" / "eta.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            at.setdefault(row["instant"], []).append(row)
    for name, rows in list(at.items())[::every]:
        listed = folder / "dumps" / "queue_at" / f"{name.replace(':', '')}.txt.gz"
        state = read_queue(listed, ZONE) if queue else None
        instant = instant_of(log, int(rows[0]["instant_epoch"]), state)
        jobs = [
            NewJob(
                row["user"], row["account"], row["partition"], row["qos"], int(row["nodes"]),
                int(row["gpus"]), round(float(row["limit_h"]) * 3600),
            )
            for row in rows
        ]  # fmt: skip
        tables = start_replays(log, instant, site, config, jobs)
        plain = start_replays(log, instant, site, level_config(config, "easy"), jobs)
        tested = backtest(log, instant, site, config, BacktestPlan(QUICK_JOBS, QUICK_REPLAYS))
        tail = TAILS[0] if tested is None else tested.tail
        for new, row in enumerate(rows):
            waits = start_times(tables, new, replays, 0)
            ends = (quantiles(waits, share, config.bf_interval) for share in (tail, TAILS[0]))
            ours, raw = (
                tuple(LONGEST_S if wait is None else wait for wait in three) for three in ends
            )
            easy, rules = (
                start - instant.at if start >= 0 else LONGEST_S
                for start in (plain.as_requested(new), tables.as_requested(new))
            )
            yield Probe(
                int(row["gpus"]), float(row["realized"] or CAP_S), ours, raw,
                tuple(float(row[f"open_p{share}"] or CAP_S) for share in (10, 50, 90)),
                mean_wait(instant.past), easy, rules,
            )  # fmt: skip


def coverage(rows: list[Probe], kind: str) -> float:
    """Return the share of the jobs that wait at all whose start lies within an interval."""
    waiting = [row for row in rows if row.realized > 0]
    inside = [getattr(row, kind)[0] <= row.realized <= getattr(row, kind)[2] for row in waiting]
    return float(np.mean(inside))


def pinball_s(rows: list[Probe], kind: str, share: float = 0.5) -> float:
    """Return the mean pinball loss of a quantile, in seconds."""
    losses = []
    for row in rows:
        value = getattr(row, kind)
        forecast = value[SHARES.index(share)] if isinstance(value, tuple) else value
        over = min(row.realized, CAP_S) - min(forecast, CAP_S)
        losses.append(max(share * over, (share - 1) * over))
    return float(np.mean(losses))


def report(rows: list[Probe]) -> str:
    """Return the table."""
    waiting = sum(row.realized > 0 for row in rows)
    lines = [
        f"{len(rows)} jobs, {waiting} of them wait. Coverage: starts of those that wait within the "
        "80% interval. Loss: pinball loss of all, in minutes.",
        "",
        "| forecast | coverage | loss of P10 | of the median | of P90 |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind, name in (
        ("forecast", "gpuplan eta"),
        ("raw", "gpuplan eta, not widened"),
        ("open", "the simulator itself (best possible)"),
        ("rules", "the site's rules, every job runs to its limit"),
        ("easy", "EASY, every job runs to its limit"),
        ("mean", "mean wait recorded so far"),
    ):
        if kind in ("rules", "easy", "mean"):
            lines.append(f"| {name} | - | - | {pinball_s(rows, kind) / 60:.0f} | - |")
            continue
        losses = " | ".join(f"{pinball_s(rows, kind, share) / 60:.0f}" for share in SHARES)
        lines.append(f"| {name} | {coverage(rows, kind):.0%} | {losses} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queue", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    begun = process_time()
    rows = list(probes(options.folder, queue=options.queue, every=options.every))
    print(report(rows))
    for gpus in sorted({row.gpus for row in rows}):
        of_size = [row for row in rows if row.gpus == gpus and row.realized > 0]
        if of_size:
            print(
                f"\n{gpus} GPUs: {len(of_size)} wait, coverage {coverage(of_size, 'forecast'):.0%}"
            )
    print(f"\n{process_time() - begun:.0f} s of CPU")


if __name__ == "__main__":
    main()
