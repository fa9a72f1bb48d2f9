"""Read a stored model, checked before anything is sampled from it."""

from __future__ import annotations

import json
import math
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.characterize.clock import is_zone
from gpuplan.analysis.job_table.schema import MAX_GPUS, PRIORITIES, STATES, UNREADABLE
from gpuplan.analysis.storage.files import read_small
from gpuplan.analysis.synth.dependence import CROWD_SCORES
from gpuplan.analysis.synth.draw import draw, to_frame
from gpuplan.analysis.synth.model import MODEL_VERSION, WorkloadModel
from gpuplan.analysis.synth.week import local_midnight_s

TRIAL_JOBS = 100
MOST_SHOWN = 40  # characters of a value in an error
LEAVES = {float: "a number", int: "a whole number", str: "a text"}
"""Descriptions of the fields of a model, for errors."""


def read_model(path: Path) -> WorkloadModel:
    """Read a model that ``gpuplan synth --save-model`` wrote.

    Raises:
        InputError: no such file, or not such a model.
    """
    problem = "does not hold the numbers of a model"
    try:
        stored = json.loads(read_small(path).decode("utf-8"))
        if not isinstance(stored, dict) or "version" not in stored:
            raise _not_a_model(path, "is JSON without a model version")
        if stored["version"] != MODEL_VERSION:
            raise _not_a_model(path, f"has the model version {stored['version']}")
        model: WorkloadModel = _build(WorkloadModel, stored)
        _check(model)
    except UnicodeDecodeError as error:
        raise _not_a_model(path, "is not text") from error
    except json.JSONDecodeError as error:
        raise _not_a_model(path, f"is not JSON ({error})") from error
    except ValueError as error:
        raise _not_a_model(path, f"{problem} ({error})") from error
    except (TypeError, LookupError, ArithmeticError, AttributeError, RecursionError,
            MemoryError, *UNREADABLE) as error:  # fmt: skip
        raise _not_a_model(path, problem) from error
    return model


def _not_a_model(path: Path, problem: str) -> InputError:
    return InputError(
        path,
        problem,
        expected="a model that gpuplan synth --save-model wrote",
        hint="gpuplan synth --like TRACE -o OUT.parquet --save-model MODEL.json writes one; "
        "a trace goes to --like",
    )


def _check(model: WorkloadModel) -> None:
    """Raise ValueError where a workload cannot be sampled from these numbers."""
    if not model.cells or any(cell.curve >= len(model.durations) for cell in model.cells):
        raise ValueError("cells and durations do not fit together")
    if abs(sum(cell.share for cell in model.cells) - 1) > 1e-6:
        raise ValueError("the shares of the cells do not add up to 1")
    curves = (*model.durations, *(w.curve for w in model.waits if w.curve))
    for curve in (*curves, *([model.arrivals.hours.counts] if model.arrivals.hours else [])):
        rising = np.diff(curve.levels) > 0
        if len(curve.levels) != len(curve.values_s) or not rising.all() or curve.step_s <= 0:
            raise ValueError("a curve is not a quantile function")
        if not min(curve.values_s) > -curve.step_s or not curve.cap_s > -curve.step_s:
            raise ValueError("a curve has values below 0")
    hours = model.arrivals.hours
    if hours is not None and not (0 < hours.busy <= 1 and hours.mean > 0 <= hours.dispersion):
        raise ValueError("the hourly counts are none")
    habits = model.habits
    tables = [part.crowd for part in (habits.size, habits.duration, habits.wait) if part.crowd]
    if len({len(table) for table in tables}) > 1:
        raise ValueError("habits know different numbers of crowds")
    if any(len(law) != CROWD_SCORES.size for table in tables for law in table):
        raise ValueError(f"the law of a crowd has not {CROWD_SCORES.size} scores")
    bursting = model.arrivals.bursting
    if bursting is not None and not 0 < bursting < 1:
        raise ValueError("the share of jobs in bursts is not between 0 and 1")
    gpus = [cell.num_gpus for cell in model.cells] + [held.num_gpus for held in model.holdings]
    if any(not 0 <= number <= MAX_GPUS for number in gpus):
        raise ValueError(f"GPUs are not between 0 and {MAX_GPUS:,.0f}")
    if not model.holdings or any(
        holding.priority not in (None, *PRIORITIES) for holding in model.holdings
    ):
        raise ValueError(f"holdings: priority must be {' or '.join(PRIORITIES)}")
    rows = (*model.states.gpu, *model.states.cpu, model.states.untimed)
    if {len(model.states.gpu), len(model.states.cpu)} != {len(model.states.edges_s) + 1}:
        raise ValueError("the states of jobs do not fit their durations")
    if any(len(row) != len(STATES) for row in rows):
        raise ValueError(f"a row of states has not {len(STATES)} shares")
    zone, start = model.arrivals.time_zone, model.arrivals.start
    if zone is not None and not is_zone(zone):
        raise ValueError(f"unknown time zone {zone!r}")
    if start is not None:
        local_midnight_s(start, zone)
    with np.errstate(all="raise"):  # errors that the rules above miss show up when jobs are sampled
        to_frame(model, draw(model, TRIAL_JOBS, 0.0, float(TRIAL_JOBS), seed=0), 0, TRIAL_JOBS)


def _build(kind: Any, stored: Any) -> Any:
    """Return a value of a dataclass or tuple type from plain JSON."""
    origin = typing.get_origin(kind)
    if origin is types.UnionType:
        if stored is None:
            return None
        inner = next(part for part in typing.get_args(kind) if part is not type(None))
        return _build(inner, stored)
    if origin is tuple:
        kinds = typing.get_args(kind)
        if not isinstance(stored, list):
            raise ValueError(f"found {_shown(stored)} in place of a list")
        if kinds[-1] is Ellipsis:
            kinds = (kinds[0],) * len(stored)
        if len(kinds) != len(stored):
            raise ValueError(f"found {len(stored)} values in place of {len(kinds)}")
        return tuple(_build(inner, item) for inner, item in zip(kinds, stored, strict=True))
    if origin is dict:
        if not isinstance(stored, dict):
            raise ValueError(f"found {_shown(stored)} in place of an object")
        return {name: _build(typing.get_args(kind)[1], value) for name, value in stored.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(stored, dict):
            raise ValueError(f"found {_shown(stored)} in place of an object")
        hints = typing.get_type_hints(kind)
        if unknown := set(stored) - {f.name for f in fields(kind)}:
            raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
        needed = [f.name for f in fields(kind) if f.default is f.default_factory is MISSING]
        if missing := [name for name in needed if name not in stored]:
            raise ValueError(f"no field {missing[0]!r}")
        return kind(**{name: _build(hints[name], value) for name, value in stored.items()})
    accepted = (int, float) if kind is float else kind
    if isinstance(stored, bool) or not isinstance(stored, accepted):
        raise ValueError(f"found {_shown(stored)} in place of {LEAVES[kind]}")
    if kind is float and not math.isfinite(stored):
        raise ValueError(f"found {_shown(stored)} in place of a number")
    return float(stored) if kind is float else stored


def _shown(stored: Any) -> str:
    """Return a value of JSON, cut short."""
    text = json.dumps(stored)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
