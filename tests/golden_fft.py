"""Check FFT against golden results; print the differences, exit 1 on any.

Usage: python tests/golden_fft.py FILE... Two layouts: a list of single rounds (jobs with their
costs; K, objective), and whole runs (jobs with their rates; K and objective of each round, end of
each job). Needs only the installed package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.planner.policies.mixed.fft import FftRounds, FftRules, round_costs
from gpuplan.planner.policies.mixed.mixed_rounds import play
from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
from gpuplan.planner.policies.mixed.round_program import solve_round

CLOSE = {True: 1e-6, False: 1e-3}
PRINTED = 1e-8  # golden values have nine digits
END_S = 1e-3


def differences(path: Path) -> Iterator[str]:
    """Yield a line per difference between the program and a golden file."""
    found = json.loads(path.read_text())
    cases = found if isinstance(found, list) else [found]
    for number, case in enumerate(cases):
        lines = _run(case) if "rounds" in case else _round(case)
        name = case.get("name", f"round {case.get('id', number)}")
        for line in lines:
            yield f"{path.name}: {name}: {line}"


def _column(case: dict[str, Any], name: str, kind: Any = float) -> Any:
    return np.array([job[name] for job in case["jobs"]], kind)


def _round(case: dict[str, Any]) -> Iterator[str]:
    cost = np.array(
        [[np.inf if one is None else one for one in job["cost"]] for job in case["jobs"]]
    )
    made = round_costs(
        FftRules(phi=case["phi"], is_capped=case["cap"]),
        age=case["t"] - _column(case, "a", int),
        width=_column(case, "d", int),
        work=_column(case, "W"),
        left=_column(case, "rem"),
        rate=_column(case, "theta"),
        debt=_column(case, "rho"),
        last=np.array([-1 if j["last_type"] is None else j["last_type"] for j in case["jobs"]]),
        copy_rounds=_column(case, "state_gb") * 8 / case["gbps"] / case["round_s"],
    )
    if not np.allclose(
        np.where(np.isfinite(cost), made, 0), np.where(np.isfinite(cost), cost, 0), 1e-6
    ):
        yield f"costs {made.tolist()}, expected {cost.tolist()}"
    for exact in (True, False):
        mode = "exact" if exact else "fast"
        answer = solve_round(
            cost, _column(case, "d", int), np.array(case["gpus"], np.int64), exact=exact
        )
        best, room = case["objective"], CLOSE[exact] * abs(case["objective"])
        if answer.gpus != case["K"]:
            yield f"{mode}: K {answer.gpus}, expected {case['K']}"
        if abs(answer.objective - best) > room + PRINTED * abs(best):
            yield f"{mode}: objective {answer.objective!r}, expected {best!r}"
        if answer.bound > best + PRINTED * abs(best):
            yield f"{mode}: the bound {answer.bound!r} is above the optimum {best!r}"
        if answer.objective - answer.bound > room + PRINTED * abs(best):
            yield f"{mode}: the bound {answer.bound!r} does not prove {answer.objective!r}"
        ran = answer.kind >= 0
        used = np.bincount(
            answer.kind[ran], _column(case, "d", int)[ran], minlength=len(case["gpus"])
        )
        if (used > case["gpus"]).any() or used.sum() != case["K"]:
            yield f"{mode}: {used.tolist()} GPUs in use of {case['gpus']}, K is {case['K']}"


def _run(case: dict[str, Any]) -> Iterator[str]:
    each, cross = case["gpus_per_host"], case["cross_host"]
    rules = case["fft"]
    jobs = RatedJobs(
        submit_s=_column(case, "submit"),
        gpus=_column(case, "d", int),
        work=_column(case, "W"),
        rate=_column(case, "theta"),
        state_gb=_column(case, "state_gb"),
        is_pipeline=_column(case, "kind", object) == "pipeline",
    )
    cluster = MixedCluster(
        gpus=tuple(case["gpus"]),
        gpus_per_host=(each,) * len(case["gpus"]) if each else (),
        round_s=case["round_s"],
        gbps=case["gbps"],
        restart_s=case["restart_s"],
        cross_host=(cross["data"], cross["pipeline"])
        if isinstance(cross, dict)
        else (cross, cross),
    )
    fft = FftRounds(
        FftRules(
            phi=rules["phi"],
            is_capped=rules.get("cap"),
            fairness_weight=rules.get("rho_w", 1.0),
            exact=True,
        )
    )
    run = play(jobs, cluster, fft)
    for found, expected in zip(fft.answers, case["rounds"], strict=False):
        number, k, objective, *_ = found
        at, best = expected[0], expected[3]
        if (number, k) != (at, expected[2]):
            yield f"round {number}: K {k}, expected round {at} with K {expected[2]}"
        if abs(objective - best) > CLOSE[True] * abs(best):
            yield f"round {number}: objective {objective!r}, expected {best!r}"
    if len(fft.answers) != len(case["rounds"]):
        yield f"{len(fft.answers)} rounds, expected {len(case['rounds'])}"
    for job, end_us in zip(case["jobs"], run.run.finish_us.tolist(), strict=True):
        if abs(end_us / 1e6 - job["end"]) > END_S:
            yield f"job {job['id']}: ends at {end_us / 1e6!r} s, expected {job['end']!r} s"
    counts = (("switches", run.switches), ("type_changes", run.type_changes), ("up", run.upward))
    for name, values in counts:
        if values.tolist() != _column(case, name, int).tolist():
            yield f"{name} {values.tolist()}, expected {_column(case, name, int).tolist()}"


def main(paths: list[str]) -> int:
    """Check every file; return the exit code."""
    lines = [line for path in paths for line in differences(Path(path))]
    print("\n".join(lines) or f"{len(paths)} files agree")
    return 1 if lines or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
