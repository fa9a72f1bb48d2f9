"""What ``gpuplan size`` is asked: the jobs, the waits accepted, the sizes to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt, json_parameters
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.commitments import CommitmentRequest
from gpuplan.planner.requests.declaration import COST, OF_COMMITMENTS, WORKLOAD, StudyRequest, study
from gpuplan.planner.requests.replays import ReplayRequest
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.requests.size_texts import (
    MOST_GROWTH,
    USUAL_GROWTHS,
    Growth,
    SizeRange,
    parse_growths,
    parse_sizes,
    size_list,
    stripped,
    written_growth,
)
from gpuplan.simkit.limits import MOST_GPUS

if TYPE_CHECKING:
    from gpuplan.planner.compare import PolicySpec
    from gpuplan.planner.sizing.targets import Target
    from gpuplan.simkit.cluster_shape import ClusterShape


def level_of(ci: float) -> float | None:
    """Return a level of confidence; None for 0."""
    return ci or None


@study(
    "size",
    title="How many GPUs",
    picture="Waits against the bill of a month, by size",
    example="gpuplan size trace.parquet --target 'p95_wait <= 10m' --price 1.29",
    doing="replaying",
    compiles=True,
    usual_for=OF_COMMITMENTS,
    report_place=2,
    own_prices=("commit", "on_demand"),
    compared={
        "jobs": (WORKLOAD, "jobs"),
        "gpus": (COST, "GPUs needed"),
        "usd_per_month": (COST, "monthly cost"),
        "commitment.committed_gpus": (COST, "GPUs to commit to"),
        "commitment.usd_per_month": (COST, "monthly cost with a commitment"),
    },
)
@dataclass(frozen=True, slots=True)
class SizeRequest(StudyRequest):
    """Find how many GPUs the jobs need at waits you accept, and how many to commit to.

    Attributes:
        replay: the jobs.
        prices: what GPUs cost; the usual price of the policies where it is empty.
        commitment: what commitments cost, and today's; nothing for none.
        engine: where the replays run; the result does not depend on it.
    """

    COMPUTED: ClassVar[Mapping[str, Any]] = {
        "policy": Annotated[str | None, "its name in gpuplan list policies; null with --twin"],
        "settings": Annotated[dict[str, Any], "of the policy, as given"],
        "cluster": Annotated[str | None, "today's cluster"],
    }

    replay: Annotated[
        ReplayRequest,
        Group(
            without=("jobs.spot", "prices", "provider", "checkpoints", "gpu_types"), rare=("by",)
        ),
    ]
    target: Annotated[
        tuple[str, ...],
        Opt(
            "What the cluster must meet: 'p95_wait <= 1h', 'mean_wait <= 2m', 'wait_over_10m <= "
            "5%' (share of jobs), 'mean_slowdown <= 2'. May be repeated.",
            key="targets",
            parse=stripped,
            metavar="TARGET",
            common=True,
            many=True,
        ),
    ] = ()
    gpus: Annotated[
        tuple[int, ...] | SizeRange | None,
        Opt(
            "Sizes to show: 64,128,256, or LO:HI:N for N sizes. Default: around the size found.",
            parse=parse_sizes,
            write=size_list,
            metavar="LIST",
        ),
    ] = None
    policy: Annotated[
        str,
        Opt(
            "Policy of the cluster; see gpuplan list policies.",
            key=None,
            common=True,
            complete="policies",
        ),
    ] = "first-fit"
    settings: Annotated[
        tuple[str, ...],
        Opt(
            "A setting of the policy, such as restore_s=30; see gpuplan list policies NAME. May be "
            "repeated.",
            flag="--set",
            key=None,
            many=True,
        ),
    ] = ()
    cluster: Annotated[
        str | None,
        Opt(
            "Today's cluster: 64, 8x4 (8 nodes of 4 GPUs), A100=8x4,T4=16, or x8 for nodes of 8 "
            "alone. A gang that fits into a node runs on one; a wider one takes whole nodes.",
            key=None,
            metavar="SHAPE",
            common=True,
        ),
    ] = None
    cluster_step: Annotated[
        int | None,
        Opt(
            "Consider only multiples of this number of GPUs. Default: the GPUs of a node, "
            "otherwise 1.",
            low=1,
            high=MOST_GPUS,
        ),
    ] = None
    twin: Annotated[
        Path | None,
        Opt(
            "Replay the site's rules, from the twin.toml of [bold]gpuplan calibrate[/bold], and "
            "find how many nodes are needed of each GPU type, or of one (--gpu-type a100). "
            "Targets may then be of a group: "
            "'p95_wait\\[account=nlp] <= 4h'.",
            metavar="FILE.toml",
            reads=True,
            common=True,
        ),
    ] = None
    gpu_type: Annotated[
        str | None,
        Opt(
            "With --twin: the GPU type or partition to size, such as a100. Default: each type in "
            "turn.",
            metavar="NAME",
        ),
    ] = None
    growth: Annotated[
        Growth,
        Opt(
            "Growth of arrivals to plan for, such as 20%; for --commit also a range, -20%:50%, in "
            "which terms break even.",
            parse=parse_growths,
            write=written_growth,
            metavar="PERCENT",
        ),
    ] = 0.0
    prices: Annotated[PriceRequest, Group(without=("commit", "on_demand"))] = field(
        default_factory=PriceRequest
    )
    commitment: CommitmentRequest = field(default_factory=CommitmentRequest)
    ci: Annotated[
        float, Opt("Confidence of the intervals in percent; 0 for none.", write=level_of)
    ] = 90.0
    resamples: Annotated[
        int, Opt("Resamples of the bootstrap behind the intervals.", low=1, high=10_000)
    ] = 200
    engine: Annotated[Engine, Group(in_json=False)] = field(default=THREADS, compare=False)

    @property
    def replays(self) -> bool:
        """Whether sizes are replayed; a commitment alone needs no replay."""
        return bool(self.target) or self.gpus is not None

    @property
    def commits(self) -> bool:
        """Whether commitments are looked for."""
        has_book = self.prices.contracts is not None
        return bool(self.commitment.commit) or (has_book and not self.replays)

    @property
    def grown(self) -> float:
        """Growth of arrivals in the history that is looked at."""
        return 0.0 if isinstance(self.growth, tuple) else self.growth

    @property
    def growths(self) -> tuple[float, float]:
        """The range of use, over that history, at which terms break even."""
        if isinstance(self.growth, tuple):
            return self.growth
        return (0.0, 0.0) if self.growth else USUAL_GROWTHS

    @property
    def level(self) -> float | None:
        """Confidence of the intervals, percent; None for none."""
        return level_of(self.ci)

    @property
    def rented(self) -> PriceRequest:
        """The prices of ``--on-demand``."""
        return PriceRequest(self.commitment.on_demand, gpu=self.prices.gpu, option="--on-demand")

    def targets(self) -> tuple[Target, ...]:
        """Return what the size must meet. Raises `UsageError`."""
        from gpuplan.planner.sizing.targets import parse_target

        return tuple(map(parse_target, self.target))

    def shape(self) -> ClusterShape | None:
        """Return today's cluster; None where not given. Raises `UsageError`."""
        return None if self.cluster is None else read_shape(self.cluster, "--cluster")

    def spec(self) -> PolicySpec:
        """Return the scheduler with its settings. Raises `UsageError`."""
        from gpuplan.planner.requests.policy_specs import read_spec

        spec = read_spec(self.policy, self.settings)
        for name in ("cluster", "gpus"):
            if name in spec.settings:
                raise UsageError(
                    f"--set {name}: gpuplan size computes it\n"
                    "  next: --gpus LIST for sizes to show, --cluster SHAPE for today's cluster"
                )
        return spec

    def check(self) -> None:
        """Check everything but the trace. Raises `UsageError`."""
        from gpuplan.planner.policies.quota_settings import gpus_elsewhere
        from gpuplan.planner.registry import find_policy

        spec = self.spec()
        targets = self.targets()
        self.replay.deadline_rule()
        if self.twin is not None:
            self._check_twin()
        elif self.gpu_type is not None:
            raise UsageError("--gpu-type: needs --twin FILE.toml")
        elif grouped := next((target.text for target in targets if target.group), None):
            raise UsageError(
                f"--target {grouped!r}: a target of one group needs the site's rules\n"
                "  next: --twin twin.toml (gpuplan calibrate)"
            )
        settings = find_policy(spec.policy).settings
        if "cluster" not in settings:
            where, step = gpus_elsewhere(settings)
            raise UsageError(f"--policy {spec.policy}: {where}, so it has no size\n  next: {step}")
        if not self.replays and not self.commits:
            raise UsageError(
                "say what waits you accept, or which sizes to show\n"
                "  next: --target 'p95_wait <= 1h', or --gpus 64,128"
            )
        self.commitment.check(self.prices)
        self._check_growth()
        if self.level is not None and not 50 <= self.level <= 99.9:
            raise UsageError(
                f"--ci must be 0 (no interval) or 50 to 99.9 percent, got {self.level:g}\n"
                "  next: --ci 90"
            )
        self._check_sizes()

    def _check_growth(self) -> None:
        """Refuse growth out of range, and a range of it where sizes are replayed."""
        for growth in self.growth if isinstance(self.growth, tuple) else (self.growth,):
            if not (isfinite(growth) and -1 < growth <= MOST_GROWTH):
                raise UsageError(
                    f"--growth {100 * growth:g}%: expected more than -100% and at most "
                    f"{MOST_GROWTH:.0%}"
                )
        if isinstance(self.growth, tuple) and self.replays:
            raise UsageError(
                "--growth: a range is for a commitment alone, without --target and --gpus\n"
                "  next: one growth, such as 20%"
            )

    def _check_twin(self) -> None:
        """Refuse options that the site's rules replace, or that its replay does not have."""
        usual, jobs = type(self)(replay=self.replay), self.replay.jobs
        names = ("policy", "settings", "cluster", "cluster_step", "growth")
        changed = [name for name in names if getattr(self, name) != getattr(usual, name)]
        if jobs != Selection(seed=jobs.seed, log=jobs.log):
            changed.append("where, --sample and other options that choose or scale jobs")
        changed += ["include-running"] if self.replay.include_running else []
        changed += ["commit"] if self.commitment.commit else []
        if changed:
            option = {"settings": "set"}.get(changed[0], changed[0].replace("_", "-"))
            raise UsageError(
                f"--{option}: not with --twin, which replays the whole log under the site's rules\n"
                "  next: gpuplan whatif changes the rules or the load"
            )
        if set(self.replay.by) - {"group", "user"}:
            raise UsageError("--by: with --twin group or user")

    def _check_sizes(self) -> None:
        from gpuplan.planner.sizing.targets import whole_multiple

        shape, step = self.shape(), self.cluster_step
        for pool in () if shape is None else shape.pools:
            each = pool.gpus_per_node
            if each is None:
                continue
            if step is not None and step % each:
                raise UsageError(
                    f"--cluster-step {step} is not a multiple of {each} (GPUs per node); use "
                    f"{whole_multiple(step, each)}"
                )
            for gpus in self.gpus if isinstance(self.gpus, tuple) else ():
                if gpus % each:
                    low = whole_multiple(gpus, each, up=False)
                    raise UsageError(
                        f"--gpus: {gpus:,} is not a multiple of {each} (GPUs per node); use "
                        f"{low:,} or {low + each:,}"
                    )

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        spec, shape = self.spec(), self.shape()
        return {
            "policy": None if self.twin is not None else spec.policy,
            "settings": dict(spec.settings),
            "cluster": None if shape is None else str(shape),
            **json_parameters(self),
        }
