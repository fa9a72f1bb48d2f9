"""Classes of the jobs of a plan: a label, a GPU type, and about how many GPUs a job holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gpuplan.planner.plan.jobs import PlannedJobs, codes_of
from gpuplan.simkit.arrays import FloatArray, IntArray

WIDEST = np.array([1.0, 4.0, 8.0, 32.0])
"""Most GPUs of a job in each width bucket but the last."""
BUCKETS = ("1", "2-4", "5-8", "9-32", "over 32")
MOST_CLASSES = 60
OTHER = "other"


@dataclass(frozen=True, slots=True)
class PlannedClass:
    """Jobs that a plan splits over the same routes.

    Attributes:
        label: what they have in common besides the next two.
        gpu_type: that they ran on; empty where the log names none.
        bucket: of the GPUs that a job holds, place in `BUCKETS`.
        jobs: its jobs, in order of submission; places among all jobs of the plan.
        recorded_s: mean time from submission to the end, as recorded.
        gpu_s: GPU-seconds of its jobs, as recorded.
    """

    label: str
    gpu_type: str
    bucket: int
    jobs: IntArray
    recorded_s: float
    gpu_s: float

    @property
    def width_bucket(self) -> str:
        """The bucket in words."""
        return BUCKETS[self.bucket]

    @property
    def key(self) -> tuple[str, str, str]:
        """Label, GPU type and bucket, which tell classes apart."""
        return self.label, self.gpu_type, self.width_bucket

    @property
    def name(self) -> str:
        """How messages call it."""
        return class_name(*self.key)


def class_name(label: str, gpu_type: str, width_bucket: str) -> str:
    """Return how messages call a class."""
    gpus = "1 GPU" if width_bucket == BUCKETS[0] else f"{width_bucket} GPUs"
    return ", ".join(part for part in (label, gpu_type, gpus) if part)


def classes_of(jobs: PlannedJobs) -> tuple[PlannedClass, ...]:
    """Return the classes of the jobs that are not deferred, by label, GPU type and bucket.

    Of more than `MOST_CLASSES`, those with the most GPU-hours keep their names, and the others are
    one class ``other`` per GPU type and bucket.
    """
    planned = np.flatnonzero(~jobs.is_deferred)
    if not planned.size:
        return ()
    labels, label = codes_of(jobs.label)
    types, gpu_type = codes_of(jobs.gpu_type)
    bucket = np.searchsorted(WIDEST, jobs.gpus, side="left")
    label, gpu_type, bucket = label[planned], gpu_type[planned], bucket[planned]
    gpu_s, recorded_s = jobs.gpu_s[planned], jobs.recorded_s[planned]
    key = (label * len(types) + gpu_type) * len(BUCKETS) + bucket
    keys, place = np.unique(key, return_inverse=True)
    if keys.size > MOST_CLASSES:
        merged = _merged(keys, np.bincount(place, gpu_s).astype(np.float64), labels, len(types))
        key = merged[place]
        if OTHER not in labels:
            labels = [*labels, OTHER]
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    classes = []
    for begin, end in pairwise([*first.tolist(), key.size]):
        rows = order[begin:end]
        of_label, rest = divmod(int(key[rows[0]]), len(types) * len(BUCKETS))
        of_type, of_bucket = divmod(rest, len(BUCKETS))
        classes.append(
            PlannedClass(
                label=labels[of_label],
                gpu_type=types[of_type],
                bucket=of_bucket,
                jobs=planned[rows],
                recorded_s=float(recorded_s[rows].mean()),
                gpu_s=float(gpu_s[rows].sum()),
            )
        )
    return tuple(
        sorted(classes, key=lambda planned: (planned.label, planned.gpu_type, planned.bucket))
    )


def joined_by(classes: tuple[PlannedClass, ...], jobs: PlannedJobs) -> tuple[PlannedClass, ...]:
    """Return classes of the first jobs with those later ones that are like any of them.

    A job with a label, GPU type and bucket that none of the first jobs had joins no class.
    """
    class_of = np.full(jobs.size, -1)
    for number, planned in enumerate(classes):
        class_of[planned.jobs] = number
    types, gpu_type = codes_of(jobs.gpu_type)
    bucket = np.searchsorted(WIDEST, jobs.gpus, side="left")
    key = (codes_of(jobs.label)[1] * len(types) + gpu_type) * len(BUCKETS) + bucket
    keys, place = np.unique(key, return_inverse=True)
    of_key = np.full(keys.size, -1)
    has_class = class_of >= 0
    of_key[place[has_class]] = class_of[has_class]
    joined = np.where(jobs.is_deferred, -1, of_key[place])
    return tuple(
        replace(planned, jobs=np.flatnonzero(joined == number))
        for number, planned in enumerate(classes)
    )


def _merged(keys: IntArray, gpu_s: FloatArray, labels: list[str], types: int) -> IntArray:
    """Return the key of the class that each class becomes; shape of ``keys``, which ascend."""
    per_label = types * len(BUCKETS)
    other = labels.index(OTHER) if OTHER in labels else len(labels)
    ranked = np.lexsort((keys, -gpu_s))
    ranked = ranked[keys[ranked] // per_label != other]
    as_other = other * per_label + keys % per_label
    rest = [np.unique(np.delete(as_other, ranked[:kept])).size for kept in range(MOST_CLASSES + 1)]
    kept = max(
        (k for k, merged_away in enumerate(rest) if k + merged_away <= MOST_CLASSES), default=0
    )
    merged = as_other.copy()
    merged[ranked[:kept]] = keys[ranked[:kept]]
    return merged
