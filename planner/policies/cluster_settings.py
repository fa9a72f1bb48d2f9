"""The classic schedulers of one cluster by name, and what may be set for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from gpuplan.planner.policies.allpass_settings import LADDER, SETTINGS, default_settings
from gpuplan.planner.runs.settings import OF_PRICES, Setting, SettingError, setting_error
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
        """What may be set, by name."""
        own: dict[str, Setting] = {}
        if self.order == "attained":
            own["limits_s"] = Setting(
                "durations", "run time at which a job falls one queue; 3250/7200 with reference"
            )
        elif self.order == "attained_gpu":
            own["limits_gpu_s"] = Setting(
                "numbers", "GPU-s at which a job falls one queue; 3250/7200 with reference"
            )
        elif self.order == "gittins":
            own["levels"] = Setting("count", "steps that attained GPU time is divided into")
        if self.order in ("attained", "attained_gpu", "gittins"):
            own["starvation"] = Setting(
                "number", "waiting time / run time at which a stopped job is new", unlimited=True
            )
        if self.order == "arrival" or self.order in PUBLISHED:
            own["reference"] = Setting("flag", "run as the published Tiresias simulator does")
        return SHARED | own

    def defaults(self) -> dict[str, Any]:
        """Return the value that every setting has where it is not set; see also `complete`.

        Tiresias has two queues, parted at 3250 s or GPU-s. A stop costs what a move costs Allpass
        (section 5.1). Every GPU costs what the conventional cloud asks, unless offers of a
        marketplace are requested.
        """
        usual = default_settings() | {
            "cluster": None,
            "gpus": None,
            "preemptive": self.preemptive,
            "skipping": self.skipping,
            **OWNED,
            "limits_s": (3250.0,),
            "limits_gpu_s": (3250.0,),
            "levels": 16,
            "starvation": None,
            "reference": False,
        }
        return {name: usual[name] for name in self.settings}

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every setting; with ``reference`` some are `AS_PUBLISHED`."""
        usual = self.defaults()
        if settings.get("reference"):
            usual |= {name: value for name, value in AS_PUBLISHED.items() if name in usual}
        return priced_values(usual, settings)

    def cluster(self, values: Mapping[str, Any], pool: GpuPool) -> Cluster:
        """Return the cluster of these GPUs that complete settings make.

        A pool of as many nodes as are needed makes a cluster of one.

        Raises:
            SettingError: values that no cluster can have, alone or together.
        """
        self._check(values, pool)
        names = {"limits_s": "limits", "limits_gpu_s": "limits", "reference": "as_published"}
        given = {names.get(name, name): value for name, value in values.items()}
        plain = {field.name for field in fields(Cluster)}
        known = {name: value for name, value in given.items() if name in plain}
        try:
            return Cluster(
                **known
                | {"order": self.order, "gpus": pool.gpus or pool.gpus_per_node}
                | {"gpus_per_node": pool.gpus_per_node}
            )
        except ValueError as error:
            raise setting_error(error, self.settings, {}) from error

    def _check(self, values: Mapping[str, Any], pool: GpuPool) -> None:
        """Raise `SettingError`, which names settings and a next step, before `Cluster` raises."""
        for name in ("limits_s", "limits_gpu_s"):
            limits = values.get(name, ())
            if any(a >= b for a, b in pairwise((0.0, *limits))):
                rising = _listed(sorted({limit for limit in limits if limit > 0}))
                raise SettingError(
                    [name],
                    f"found {_listed(limits)}, expected limits that ascend from above 0",
                    rising and f"set {name}={rising}",
                )
        if values.get("reference"):
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
            needed |= {"checkpoint_s": 0.0, "restore_s": 0.0}
            needed |= {"starvation": None}
            other = {name: one for name, one in needed.items() if values.get(name, one) != one}
            if other:
                run = " and ".join(f"{name}={_shown(one)}" for name, one in other.items())
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


def _listed(numbers: Iterable[float]) -> str:
    return "/".join(f"{number:g}" for number in numbers)


RENTED = (
    *("conventional_usd_per_gpu_h", *LADDER),
    *("pricing", "billing_step_s", "minimum_billing_s"),
)
"""Settings of Allpass by which a cluster rents its GPUs; it holds them to its end."""

OWNED: dict[str, Any] = {"marketplace_offers": 0, "usd_per_gpu_h": None}
"""Defaults of a cluster's prices: every GPU at the price of the conventional cloud."""


def priced_values(usual: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every setting: a given price of offers asks for the usual number."""
    asks = "marketplace_offers" not in given and not LADDER.keys().isdisjoint(given)
    offers = {"marketplace_offers": LADDER["marketplace_offers"]} if asks else {}
    return {**usual, **offers, **given}


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
    "gpus": Setting("count", "short form of cluster, without nodes (--gpus)", unlimited=True),
    "preemptive": Setting("flag", "whether a better job may stop running ones"),
    "skipping": Setting("flag", "whether jobs may pass one that does not fit"),
    "checkpoint_s": Setting("duration", "time to save a job that is stopped; 0 with reference"),
    "restore_s": Setting("duration", "time to load it again; 0 with reference"),
    "usd_per_gpu_h": Setting(
        "usd", "price of every GPU; none: the conventional one, or that of offers", unlimited=True
    ),
    **{name: SETTINGS[name] for name in RENTED},
    **{name: about for name, about in OF_PRICES.items() if name != "serverless_provider"},
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
