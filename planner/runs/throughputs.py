"""Measured rates of job classes on GPU types: of a table, a profile, or Pollux' goodput model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.user_tables.gpu_rates import SCHEMA, read_gpu_rates
from gpuplan.planner.speedup.model import ClassProfile, SpeedupModel
from gpuplan.planner.speedup.registry import PROFILES, load_speedup
from gpuplan.simkit.time import HOUR_S

KINDS = ("profile", "table", "pollux")
"""Kinds of ``--speedup`` that may know GPU types, and so give rates."""
MOST_APART = 0.05
"""Shares of work by which GPU types may differ, as measurements do."""


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Where measured rates come from.

    Attributes:
        text: what the user named.
        table: rates, as `read_gpu_rates` returns them; None for ``model``.
        model: speedups of several GPU types; None for ``table``.
    """

    text: str
    table: pl.DataFrame | None
    model: SpeedupModel | None

    @property
    def gpu_types(self) -> list[str]:
        """The GPU types that have rates, in order of their names."""
        if self.table is not None:
            return sorted(self.table["gpu_type"].unique().to_list())
        assert self.model is not None
        return sorted(self.model.types)

    def rates(self, kinds: pl.DataFrame) -> pl.DataFrame:
        """Return the rates of some kinds of jobs.

        Args:
            kinds: ``job_class`` and ``gpus``, each pair once.

        Returns:
            One row per class, type and number of GPUs, columns `SCHEMA`. A profile has no rate
            beyond the widths that were measured.
        """
        if self.table is not None:
            return self.table
        assert self.model is not None
        pairs = kinds.drop_nulls().sort("job_class", "gpus").rows()
        rows = []
        for gpu_type, model in self.model.types.items():
            for name, gpus in pairs:
                profile = model.classes.get(name)
                if profile is not None and _knows(profile, gpus):
                    rate = profile.mean_speed * float(profile.at(np.array([gpus]))[0])
                    rows.append({"job_class": name, "gpu_type": gpu_type, "gpus": gpus,
                                  "rate": rate})  # fmt: skip
        return pl.DataFrame(rows, schema=SCHEMA)

    def works(self) -> dict[str, float]:
        """Return the work of a job of each class, in the unit of rates; only what is known."""
        works: dict[str, float] = {}
        for model in () if self.model is None else self.model.types.values():
            for name, profile in model.classes.items():
                if profile.work_h is not None:
                    works.setdefault(name, _work(profile, profile.work_h))
        return works

    @property
    def path(self) -> Path | None:
        """The file; None for a built-in profile."""
        return throughputs_file(self.text)

    def inputs(self) -> tuple[InputFile, ...]:
        """Return the file for the account of a result, if there is one."""
        if self.path is None:
            return ()
        rows = self.table.height if self.table is not None else _classes(self.model)
        return (InputFile(str(self.path), sha256_of(self.path), rows),)


def throughputs_file(text: str) -> Path | None:
    """Return the file that a text for `load_throughputs` names; None for a built-in profile."""
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        return Path(text)
    return None if kind == "profile" else Path(rest)


def load_throughputs(text: str) -> Throughputs:
    """Read rates: a file, or what ``--speedup`` calls ``profile:NAME`` or ``pollux:FILE``.

    Raises:
        InputError: a table that cannot be used, or a profile in which the work of a class depends
            on the GPU type.
        UsageError: no such profile, or one that does not tell GPU types apart.
    """
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        return Throughputs(text, read_gpu_rates(Path(text)), None)
    if not rest or (kind == "profile" and rest not in PROFILES):
        expected = "profile:sia" if kind == "profile" else f"{kind}:FILE.csv"
        raise UsageError(f"--throughputs {text}: expected {expected}")
    model = load_speedup(text)
    if not model.types:
        raise UsageError(
            f"--throughputs {text}: does not tell GPU types apart\n  next: a table with several "
            "types in a column gpu_type, or profile:sia"
        )
    throughputs = Throughputs(text, None, model)
    _check_works(throughputs, model)
    return throughputs


def _work(profile: ClassProfile, work_h: float) -> float:
    """Return the work of a job that takes so many hours on one GPU, in the unit of rates."""
    return work_h * HOUR_S * profile.mean_speed


def _check_works(throughputs: Throughputs, model: SpeedupModel) -> None:
    """Refuse a profile in which a class has another amount of work on another GPU type."""
    for name, work in throughputs.works().items():
        first = None
        for gpu_type, type_model in model.types.items():
            profile = type_model.classes.get(name)
            if profile is None or profile.work_h is None:
                continue
            work_of_type = _work(profile, profile.work_h)
            first = first or (gpu_type, profile.work_h)
            if abs(work_of_type - work) > MOST_APART * work:
                other, other_h = first
                raise InputError(
                    throughputs.path or Path(throughputs.text),
                    f"class {name!r} takes {other_h:.4g} h on {other} and {profile.work_h:.4g} h "
                    f"on {gpu_type}, but at the speeds given it would take "
                    f"{profile.work_h * work / work_of_type:.4g} h there",
                    column="work_h",
                    expected="the same work_h x speed on every GPU type of a class, within "
                    f"{MOST_APART:.0%}",
                    hint="correct work_h or the parameters of one type; a job has the same work on "
                    "every type",
                )


def _knows(profile: ClassProfile, gpus: float) -> bool:
    return profile.narrowest <= gpus <= profile.widest


def _classes(model: SpeedupModel | None) -> int:
    return 0 if model is None else sum(len(law.classes) for law in model.types.values())
