"""From a trace to job classes: arrival rates, mean work, candidate widths, rescaling times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.words import counted as number_of
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.candidates import bounded, candidate_widths
from gpuplan.planner.elastic.class_options import LEAST_HORIZON_S, ClassOptions
from gpuplan.planner.elastic.job_class import JobClass, divided, labelled, refuse_many
from gpuplan.planner.speedup.model import ClassProfile, SpeedupModel
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.limits import MOST_GPUS
from gpuplan.simkit.time import HOUR_S

COLUMNS = (
    "submit_time",
    "queue_s",
    "duration_s",
    "num_gpus",
    "state",
    "job_class",
    "user",
    "group",
)
NAMED = 10  # classes that an error lists
KnownWidths = dict[tuple[int, int | None], tuple[FloatArray, FloatArray]]
"""Candidate widths and speedups at them, of classes that are alike."""


@dataclass(frozen=True, slots=True)
class Record:
    """How the jobs planned for ran when they were recorded.

    Attributes:
        mean_run_s: run time.
        mean_queue_s: wait, of jobs whose wait is recorded; null without any.
        jobs_with_queue: jobs whose wait is recorded.
        mean_jct_s: run time plus the mean wait.
        gpus: held on average over the hours in which jobs arrive.
    """

    mean_run_s: float
    mean_queue_s: float | None
    jobs_with_queue: int
    mean_jct_s: float
    gpus: float


@dataclass(frozen=True, slots=True)
class ClassWorkload:
    """The job classes of a trace.

    Attributes:
        classes: sorted by load, the heaviest first; equal loads by name.
        horizon_h: hours over which the jobs arrived.
        jobs: jobs that count.
        rescale_origin: ``option``, ``profile`` or ``default``: where rescaling times come from.
        notes: caveats for readers of the result.
        record: how these jobs ran as recorded; None if some class has no durations.
        arrivals: the jobs themselves; None where the classes do not come from a trace.
        sized_by_profile: classes without durations; the sizes of their jobs are the profile's.
    """

    classes: tuple[JobClass, ...]
    horizon_h: float
    jobs: int
    rescale_origin: str
    notes: tuple[str, ...]
    record: Record | None = None
    arrivals: ClassArrivals | None = None
    sized_by_profile: tuple[str, ...] = ()


def workload_of(
    trace: Trace, speedup: SpeedupModel, choices: ClassOptions | None = None
) -> ClassWorkload:
    """Estimate the job classes of a trace.

    A job that held g GPUs for d seconds has the work d s(g). The jobs of a class without any
    duration take the mean work that the profile measured; without one in a class where others
    have one, they are left out.

    Raises:
        InputError: a class without durations or speedup, or no job left.
        UsageError: a choice out of range, or a trace without a horizon.
    """
    choices = choices or ClassOptions()
    horizon_h = _horizon_s(trace, choices.horizon_s) / HOUR_S
    placed = trace.jobs.with_columns(submit_s=trace.submit_s).with_row_index("place")
    jobs = labelled(placed, choices.class_by)
    counted = jobs.filter((pl.col("num_gpus") > 0) & (pl.col("state") != "not_started"))
    notes = [*speedup.notes, *_left_out(jobs), *_shorter(trace, horizon_h)]
    del placed, jobs
    counted = counted.with_columns(base=pl.col("class"))
    if choices.slower is not None:
        counted = divided(counted)
    refuse_many(counted, choices.class_by)
    counted = counted.drop("submit_time", "job_class", "user", "group", strict=False)
    counted = counted.sort("class", maintain_order=True)
    duration_s, num_gpus = (counted[name].to_numpy() for name in ("duration_s", "num_gpus"))
    is_timed, all_work_h = ~np.isnan(duration_s), np.zeros(counted.height)
    label_of, base_of = counted["class"], counted["base"]
    first = (label_of != label_of.shift()).fill_null(True).arg_true().to_numpy()
    classes, without_time, beyond = [], 0, 0
    recorded, arrived, sized_by_profile = [], [], []
    widths_of: KnownWidths = {}
    for start, end in pairwise([*first.tolist(), counted.height]):
        label, base = label_of[start], base_of[start]
        profile = _profile_of(trace, speedup, base, choices.class_by)
        rows = start + np.flatnonzero(is_timed[start:end])
        if rows.size:
            recorded.append(rows)
            gpus = num_gpus[rows]
            work_h = duration_s[rows] * profile.at(gpus) / HOUR_S
            mean_h = float(work_h.mean())
            without_time += end - start - rows.size
            beyond += int((gpus > profile.widest).sum())
        else:
            rows = np.arange(start, end)
            gpus = num_gpus[rows]
            sized_by_profile.append(label)
            work_h = mean_h = _measured_work(trace, profile, base) * choices.scale_work
        all_work_h[rows] = work_h
        arrived.append(rows)
        planned = _class_of(base, profile, choices, gpus, mean_h, horizon_h, widths_of)
        if choices.slower is not None and rows.size and is_timed[rows].all():
            planned = bounded(planned, profile, gpus, choices.slower)
        classes.append(replace(planned, name=label, base="" if label == base else base))
    _refuse_unknown(classes, choices)
    load_gpus = sum(c.load_gpus for c in classes)
    if load_gpus > MOST_GPUS:
        raise UsageError(
            f"{trace.path}: its jobs keep {load_gpus:,.3g} GPUs busy over {horizon_h:.3g} h, more "
            f"than the {MOST_GPUS:,} that can be planned\n"
            "  next: a longer --horizon, or jobs of fewer GPUs by --where"
        )
    if not load_gpus:
        raise InputError(
            trace.path,
            "no jobs with GPUs and a duration to plan for",
            expected="jobs with num_gpus and duration_s above 0",
        )
    if without_time:
        notes.append(f"{_jobs_are(without_time)} left out, without a duration")
    if beyond:
        notes.append(
            f"{beyond:,} jobs ran on more GPUs than {speedup.name} knows; their speedup is taken "
            "as that of its widest point"
        )
    by_load = sorted(range(len(classes)), key=lambda i: (-classes[i].load_gpus, classes[i].name))
    rank = np.argsort(by_load)
    kept = np.concatenate(arrived)
    jobs_kept = (
        counted[kept]
        .select("place", "submit_s", "num_gpus")
        .with_columns(
            work_h=all_work_h[kept],
            number=np.repeat(rank, [rows.size for rows in arrived]),
            run_h=duration_s[kept] / HOUR_S,
        )
    )
    is_recorded = len(recorded) == len(classes)
    return ClassWorkload(
        classes=tuple(classes[i] for i in by_load),
        horizon_h=horizon_h,
        jobs=sum(c.jobs for c in classes),
        rescale_origin=_rescale_origin(speedup, choices),
        notes=tuple(notes),
        record=_record(counted[np.concatenate(recorded)], horizon_h) if is_recorded else None,
        arrivals=_arrivals(jobs_kept.sort("place")),
        sized_by_profile=tuple(sized_by_profile),
    )


def classes_of_jobs(
    *,
    submit_s: FloatArray,
    duration_s: FloatArray,
    gpus: FloatArray,
    label: pl.Series,
    speedup: SpeedupModel,
    choices: ClassOptions,
) -> ClassWorkload:
    """Return jobs by class, as `workload_of` does for those of a trace.

    Args:
        submit_s: seconds after the first submission, ascending; shape (n,).
        duration_s: recorded run time; shape (n,).
        gpus: on so many GPUs; shape (n,).
        label: class of each job, all known to ``speedup``.
        speedup: how they scale.
        choices: the widths and the rescaling time.
    """
    names = label.unique(maintain_order=True).to_list()
    number = label.replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
    span_s = float(submit_s[-1] - submit_s[0]) * submit_s.size / max(submit_s.size - 1, 1)
    horizon_h = max(span_s, LEAST_HORIZON_S) / HOUR_S
    work_h = np.zeros(submit_s.size)
    classes: list[JobClass] = []
    widths_of: KnownWidths = {}
    for index, name in enumerate(names):
        of_class, profile = number == index, speedup.of(name)
        if profile is None:
            raise ValueError(f"{speedup.name} has no class {name!r}")
        work_h[of_class] = duration_s[of_class] * profile.at(gpus[of_class]) / HOUR_S
        mean_h = float(work_h[of_class].mean())
        classes.append(
            _class_of(name, profile, choices, gpus[of_class], mean_h, horizon_h, widths_of)
        )
    return ClassWorkload(
        classes=tuple(classes),
        horizon_h=horizon_h,
        jobs=submit_s.size,
        rescale_origin=_rescale_origin(speedup, choices),
        notes=(),
        arrivals=ClassArrivals(submit_s, number, work_h, gpus),
    )


def _class_of(
    label: str,
    profile: ClassProfile,
    choices: ClassOptions,
    gpus: FloatArray,
    mean_h: float,
    horizon_h: float,
    widths_of: KnownWidths,
) -> JobClass:
    """Return the class of jobs that were recorded on these GPUs, with this mean work."""
    if choices.slower is not None:
        choices = choices.up_to(label, float(gpus.max()))
    widths_key = (id(profile), choices.most_gpus(label))
    if widths_key not in widths_of:
        widths = candidate_widths(profile, choices, label)
        widths_of[widths_key] = widths, _speedups(profile, widths)
    widths, at_widths = widths_of[widths_key]
    recorded = _not_among(np.ceil(gpus), widths)
    return JobClass(
        name=label,
        rate_per_h=gpus.size / horizon_h,
        work_h=mean_h * np.array(profile.shares),
        widths=widths,
        speedup=at_widths,
        rescale_h=_rescale_s(profile, choices) / HOUR_S,
        jobs=gpus.size,
        weight=choices.weights.get(label, 1.0),
        cap_h=choices.caps_s.get(label, float("inf")) / HOUR_S,
        other_widths=recorded,
        other_speedup=None if recorded is None else _speedups(profile, recorded),
    )


def _arrivals(jobs: pl.DataFrame) -> ClassArrivals:
    """Return the jobs of all classes in the order of the trace."""
    return ClassArrivals(
        submit_s=jobs["submit_s"].to_numpy(),
        job_class=jobs["number"].to_numpy(),
        work_h=jobs["work_h"].to_numpy(),
        gpus=jobs["num_gpus"].to_numpy(),
        run_h=jobs["run_h"].to_numpy(),
    )


def _speedups(profile: ClassProfile, widths: FloatArray) -> FloatArray:
    """Return the speedup of each epoch at each width; shape (J, V)."""
    return np.stack([epoch.at(widths) for epoch in profile.epochs])


def _not_among(gpus: FloatArray, widths: FloatArray) -> FloatArray | None:
    """Return the distinct GPU counts that are not widths, ascending; None if all are."""
    at = np.minimum(np.searchsorted(widths, gpus), widths.size - 1)
    missing = widths[at] != gpus
    return np.unique(gpus[missing]) if missing.any() else None


def _refuse_unknown(classes: Sequence[JobClass], choices: ClassOptions) -> None:
    """Raise where an option names a class that is not there, or a mean over several."""
    names = list(dict.fromkeys(job_class.log_class for job_class in classes))
    several = {job_class.base for job_class in classes if job_class.base}
    if bound := sorted(several & choices.caps_s.keys()):
        raise UsageError(
            f"--require {bound[0]!r}: --slower plans the jobs of a class apart by the GPUs that "
            "they held, and this mean is over all\n  next: leave out one of the two"
        )
    named = {"weight": choices.weights, "limit": choices.limits, "require": choices.caps_s}
    for option, by_class in named.items():
        for name in sorted(by_class.keys() - set(names)):
            examples = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
            raise UsageError(
                f"--{option} {name!r}: no {choices.class_by} of that name among the jobs planned "
                f"for\n  next: one of {examples}"
            )


def _record(jobs: pl.DataFrame, horizon_h: float) -> Record:
    waits = jobs.get_column("queue_s", default=None)
    queue_s = pl.Series([], dtype=pl.Float64) if waits is None else waits.drop_nulls()
    mean_run_s = float(np.mean(jobs["duration_s"].to_numpy()))
    mean_queue_s = float(np.mean(queue_s.to_numpy())) if queue_s.len() else None
    return Record(
        mean_run_s=mean_run_s,
        mean_queue_s=mean_queue_s,
        jobs_with_queue=queue_s.len(),
        mean_jct_s=mean_run_s + (mean_queue_s or 0.0),
        gpus=float(np.dot(jobs["duration_s"], jobs["num_gpus"])) / HOUR_S / horizon_h,
    )


def _horizon_s(trace: Trace, horizon_s: float | None) -> float:
    """Return the horizon; n jobs leave n - 1 gaps, so their span is stretched by n / (n - 1)."""
    if horizon_s is not None:
        return horizon_s
    submit_s = trace.submit_s
    span = float(submit_s[-1])
    if span <= 0:
        raise UsageError(
            f"{trace.path}: all jobs are submitted at once, so there is no arrival rate\n"
            "  next: give the time over which they arrive, for example --horizon 48h"
        )
    return span * submit_s.size / (submit_s.size - 1)


def _left_out(jobs: pl.DataFrame) -> list[str]:
    """Return notes on jobs that do not count, or count with assumptions."""
    on_gpus = jobs.select("num_gpus", "state", "duration_s").filter(pl.col("num_gpus") > 0)
    counts = {
        "{} left out, without a GPU": jobs.height - on_gpus.height,
        "{} left out, never started": (on_gpus["state"] == "not_started").sum(),
        "{} still running: their recorded durations are lower bounds, so the load is one too": (
            (on_gpus["state"] == "running") & on_gpus["duration_s"].is_not_null()
        ).sum(),
    }
    notes = ((text, int(count)) for text, count in counts.items() if count)
    return [text.format(_jobs_are(count)) for text, count in notes]


def _jobs_are(count: int) -> str:
    return f"{number_of(count, 'job')} {'is' if count == 1 else 'are'}"


def _shorter(trace: Trace, horizon_h: float) -> list[str]:
    span_h = float(trace.submit_s[-1]) / HOUR_S
    if horizon_h >= span_h:
        return []
    return [
        f"the horizon of {horizon_h:.4g} h is shorter than the {span_h:.4g} h over which the jobs "
        "arrive; arrival rates are that much too high"
    ]


def _profile_of(trace: Trace, speedup: SpeedupModel, label: str, class_by: str) -> ClassProfile:
    profile = speedup.of(label)
    if profile is None:
        raise InputError(
            trace.path,
            f"{speedup.name} has no {class_by} {label!r}; it has {', '.join(speedup.classes)}",
            hint="leave such jobs out with --where, tell classes apart by another column with "
            "--class-by, or give a law such as --speedup power:0.8",
        )
    return profile


def _measured_work(trace: Trace, profile: ClassProfile, label: str) -> float:
    if profile.work_h is None:
        raise InputError(
            trace.path,
            f"the jobs of class {label!r} have no duration",
            column="duration_s",
            expected="seconds in every job that ran",
            hint="take job sizes from a measured profile: --speedup profile:t4",
        )
    return profile.work_h


def _rescale_s(profile: ClassProfile, choices: ClassOptions) -> float:
    if choices.rescale_s is not None:
        return choices.rescale_s
    if profile.rescale_s is not None:
        return profile.rescale_s
    return choices.unmeasured_rescale_s


def _rescale_origin(speedup: SpeedupModel, choices: ClassOptions) -> str:
    if choices.rescale_s is not None:
        return "option"
    measured = any(profile.rescale_s is not None for profile in speedup.classes.values())
    return "profile" if measured else "default"
