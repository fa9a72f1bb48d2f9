"""The classic schedulers of one cluster by name, and what may be set for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from gpuplan.planner.money.renting_settings import OF_CLUSTER, priced_values
from gpuplan.planner.policies.allpass_settings import SETTINGS
from gpuplan.planner.runs.settings import Setting, SettingError, defaults_of, with_defaults
from gpuplan.simkit.cluster.parameters import PUBLISHED, Cluster
from gpuplan.simkit.cluster_shape import GpuPool


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One scheduler.

    Attributes:
        about: what it does, one sentence.
        source: where it comes from.
        order: what comes first, one of `gpuplan.simkit.cluster.parameters.ORDERS`.
        preemptive, skipping: as they are unless set.
    """

    about: str
    source: str
    order: str
    preemptive: bool = False
    skipping: bool = True

    @property
    def settings(self) -> dict[str, Setting]:
        """What may be set, by name; see also `complete`.

        Tiresias has two queues, parted at 3250 s or GPU-s. A stop costs what a move costs Allpass
        (section 5.1).
        """
        settings: dict[str, Setting] = {}
        if self.order == "attained":
            settings["limits_s"] = Setting(
                "durations",
                "run time at which a job falls one queue; 3250/7200 with reference",
                default=(3250.0,),
                above=0.0,
            )
        elif self.order == "attained_gpu":
            settings["limits_gpu_s"] = Setting(
                "numbers",
                "GPU-s at which a job falls one queue; 3250/7200 with reference",
                default=(3250.0,),
                above=0.0,
            )
        elif self.order == "gittins":
            settings["levels"] = Setting(
                "count", "steps that attained GPU time is divided into", default=16, at_least=1
            )
        if self.order in ("attained", "attained_gpu", "gittins"):
            settings["starvation"] = Setting(
                "number",
                "waiting time / run time at which a stopped job is new",
                unlimited=True,
                above=0.0,
            )
        if self.order == "arrival" or self.order in PUBLISHED:
            about = "run as the published Tiresias simulator does"
            settings["reference"] = Setting("flag", about, default=False)
        stops = {"preemptive": self.preemptive, "skipping": self.skipping}
        return with_defaults(SHARED, stops) | settings

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every setting; with ``reference`` some are `AS_PUBLISHED`."""
        usual = defaults_of(self.settings)
        if settings.get("reference"):
            usual |= {name: value for name, value in AS_PUBLISHED.items() if name in usual}
        return priced_values(usual, settings)

    def cluster(self, values: Mapping[str, Any], pool: GpuPool) -> Cluster:
        """Return the cluster of these GPUs that complete settings make.

        A pool of as many nodes as are needed makes a cluster of one.

        Raises:
            SettingError: values that no cluster can have, alone or together.
        """
        if values.get("reference"):
            self._check_published(values, pool)
        names = {"limits_s": "limits", "limits_gpu_s": "limits", "reference": "as_published"}
        renamed = {names.get(name, name): value for name, value in values.items()}
        plain = {field.name for field in fields(Cluster)}
        plain_values = {name: value for name, value in renamed.items() if name in plain}
        return Cluster(
            **plain_values
            | {"order": self.order, "gpus": pool.gpus or pool.gpus_per_node}
            | {"gpus_per_node": pool.gpus_per_node}
        )

    def _check_published(self, values: Mapping[str, Any], pool: GpuPool) -> None:
        """Raise `SettingError` for what the published simulator cannot run."""
        if pool.gpus_per_node:
            raise SettingError(
                ["cluster", "reference"],
                "the published simulator counts GPUs and has no nodes",
                f"set cluster={pool.gpus}, or leave out reference"
                if pool.gpus
                else "leave out cluster, or reference",
            )
        stops = self.order != "arrival"
        needed = {"preemptive": stops, "skipping": stops or values["skipping"]}
        needed |= {"checkpoint_s": 0.0, "restore_s": 0.0, "starvation": None}
        other = {name: value for name, value in needed.items() if values.get(name, value) != value}
        if other:
            run = " and ".join(f"{name}={_shown(value)}" for name, value in other.items())
            raise SettingError(
                [*other, "reference"],
                f"the published simulator is run with {run}",
                f"leave out {' and '.join(other)}, or reference",
            )


def whole_nodes(gpus: int, each: int | None) -> int:
    """Return the fewest GPUs of whole nodes that are at least so many; None is no nodes."""
    return -(-gpus // each) * each if each else gpus


def _shown(value: float | None) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else f"{value:g}"


AS_PUBLISHED: dict[str, Any] = {
    "checkpoint_s": 0.0,
    "restore_s": 0.0,
    "limits_s": (3250.0, 7200.0),
    "limits_gpu_s": (3250.0, 7200.0),
}
"""Defaults of the published simulator that are others than here: free stops, and three queues."""

SHARED: dict[str, Setting] = {
    "cluster": Setting(
        "cluster",
        "GPUs, or nodes x GPUs per node, into which gangs must fit (--cluster); none: enough GPUs "
        "that no job waits; x8: enough nodes of 8",
        unlimited=True,
    ),
    "gpus": Setting(
        "count", "short form of cluster, without nodes (--gpus)", unlimited=True, at_least=1
    ),
    "preemptive": Setting("flag", "whether a better job may stop running ones", default=False),
    "skipping": Setting("flag", "whether jobs may pass one that does not fit", default=True),
    "checkpoint_s": replace(
        SETTINGS["checkpoint_s"], about="time to save a job that is stopped; 0 with reference"
    ),
    "restore_s": replace(SETTINGS["restore_s"], about="time to load it again; 0 with reference"),
    **OF_CLUSTER,
}

TIRESIAS = "Gu et al., Tiresias, NSDI 2019"

SCHEDULERS: dict[str, Scheduler] = {
    "fifo": Scheduler(
        "first come, first served; no job passes another", "textbook", "arrival", skipping=False
    ),
    "first-fit": Scheduler(
        "first come, first served, passing what does not fit", "textbook", "arrival"
    ),
    "smallest": Scheduler("fewest GPUs first, preemptive", TIRESIAS, "width", preemptive=True),
    "sjf": Scheduler("shortest run time first", "Smith, 1956", "duration"),
    "srtf": Scheduler(
        "least run time left first, preemptive", "Schrage, 1968", "remaining", preemptive=True
    ),
    "srsf": Scheduler(
        "least run time left x GPUs first, preemptive", TIRESIAS, "remaining_gpu", preemptive=True
    ),
    "edf": Scheduler(
        "nearest deadline first, preemptive", "Liu and Layland, 1973", "deadline", preemptive=True
    ),
    "las": Scheduler("least run time so far first, in queues", TIRESIAS, "attained", True),
    "2d-las": Scheduler("Tiresias-L: least GPU time so far", TIRESIAS, "attained_gpu", True),
    "gittins": Scheduler(
        "best chance to end soon, from the trace's sizes", "Gittins, 1979", "gittins", True
    ),
}
