"""A site as its scheduler sees it: nodes, partitions, QOS, associations, node events, settings.

None means "no limit". Names are unique within their kind. Times are whole seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

ORDERS = ("fifo", "multifactor")
BACKFILLS = ("none", "easy", "conservative", "slurm")
PLACEMENTS = ("best-fit", "first-fit", "least-loaded")
FAIRSHARES = ("tree", "classic")
ROOT_ACCOUNT = "root"


@dataclass(frozen=True, slots=True)
class SiteNode:
    """One node. Its GPUs are the only resource that the model knows."""

    name: str
    gpus: int
    gpu_type: str = "gpu"
    weight: int = 1


@dataclass(frozen=True, slots=True)
class SitePartition:
    """A set of nodes, which may belong to other partitions too; ``max_time`` in seconds."""

    name: str
    nodes: tuple[str, ...]
    tier: int = 1
    job_factor: int = 1
    max_time: int | None = None
    max_nodes: int | None = None
    qos: str = ""


@dataclass(frozen=True, slots=True)
class SiteQos:
    """Limits and priority of a quality of service.

    Attributes:
        name: its name.
        priority: its priority, scaled by the highest of the site.
        grp_gpus, grp_jobs: GPUs and jobs of all its running jobs.
        user_gpus, user_jobs: GPUs and jobs of one user's running jobs.
        job_gpus: GPUs of one job.
        max_wall: the longest time limit of a job; seconds.
    """

    name: str
    priority: int = 0
    grp_gpus: int | None = None
    grp_jobs: int | None = None
    user_gpus: int | None = None
    user_jobs: int | None = None
    job_gpus: int | None = None
    max_wall: int | None = None


@dataclass(frozen=True, slots=True)
class SiteAssociation:
    """An account (``user`` empty) or a user within an account.

    Attributes:
        account: the account.
        user: the user; empty for the account itself.
        parent: the account above an account.
        shares: fair-share shares among the siblings.
        grp_gpus: GPUs of all running jobs in it and below it.
        max_jobs: running jobs of the user in this account.
        usage: usage of a user at the start, in billing-seconds.
    """

    account: str
    user: str = ""
    parent: str = ROOT_ACCOUNT
    shares: int = 1
    grp_gpus: int | None = None
    max_jobs: int | None = None
    usage: float = 0.0


@dataclass(frozen=True, slots=True)
class SiteNodeEvent:
    """A time in which a node takes no new job; ``announced`` None: not known before."""

    node: str
    start: int
    end: int
    announced: int | None = None


@dataclass(frozen=True, slots=True)
class SiteCluster:
    """Everything about a site but the settings of its scheduler."""

    nodes: tuple[SiteNode, ...]
    partitions: tuple[SitePartition, ...]
    qos: tuple[SiteQos, ...] = (SiteQos("normal"),)
    assocs: tuple[SiteAssociation, ...] = ()
    events: tuple[SiteNodeEvent, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.gpus for node in self.nodes)

    @property
    def gpus_of_node(self) -> dict[str, int]:
        """GPUs of each node by its name."""
        return {node.name: node.gpus for node in self.nodes}

    @property
    def gpus_of_type(self) -> dict[str, int]:
        """GPUs of each type."""
        gpus: Counter[str] = Counter()
        for node in self.nodes:
            gpus[node.gpu_type] += node.gpus
        return dict(sorted(gpus.items()))

    def partition(self, name: str) -> SitePartition:
        """Return the partition of a name."""
        return next(part for part in self.partitions if part.name == name)

    def __post_init__(self) -> None:
        _unique("node", (node.name for node in self.nodes))
        _unique("partition", (part.name for part in self.partitions))
        _unique("QOS", (qos.name for qos in self.qos))
        _unique("association", (f"{a.account}/{a.user}" for a in self.assocs))
        names = {node.name for node in self.nodes}
        for part in self.partitions:
            _unique(f"node of partition {part.name}", part.nodes)
            if strange := sorted(set(part.nodes) - names):
                raise ValueError(f"partition {part.name} has the unknown node {strange[0]}")
        for event in self.events:
            if event.node not in names:
                raise ValueError(f"a node event names the unknown node {event.node}")


def _unique(kind: str, names: Iterable[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"{kind} {twice[0]!r} occurs twice")


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Settings of the scheduler; the defaults are Slurm's where it has them.

    Attributes:
        order: ``fifo``, or ``multifactor`` priorities.
        tiers: whether PriorityTier of a partition goes before everything else.
        backfill: ``none``, ``easy``, ``conservative`` or ``slurm``.
        limits: whether the limits of QOS and associations hold.
        events: whether node events happen.
        placement: ``best-fit``, ``first-fit`` or ``least-loaded``.
        queue_depth: jobs that a main pass looks at.
        sched_interval: seconds after which a main pass looks at all jobs again.
        bf_interval, bf_window, bf_resolution: seconds; see Slurm's SchedulerParameters.
        bf_max_job_test, bf_max_job_user, bf_max_job_part: jobs that a backfill pass tests.
        bf_phase, calc_phase: seconds by which the first backfill pass and the first tick are later.
        w_age, w_fairshare, w_size, w_partition, w_qos, w_tres_gpu: weights of the priority.
        max_age: seconds of waiting after which age counts no more.
        favor_small: whether small jobs get the size factor of large ones.
        fairshare: ``tree`` or ``classic``.
        dampening: FairShareDampeningFactor of ``classic``.
        half_life: of usage, in seconds; 0 for no decay.
        calc_period: seconds between two ticks of the priorities.
        tie_seed: 0 breaks ties by job id; another seed shuffles them. Nodes keep their order.
    """

    order: str = "fifo"
    tiers: bool = True
    backfill: str = "none"
    limits: bool = False
    events: bool = False
    placement: str = "best-fit"
    queue_depth: int = 100
    sched_interval: int = 60
    bf_interval: int = 30
    bf_window: int = 86400
    bf_max_job_test: int = 500
    bf_max_job_user: int | None = None
    bf_max_job_part: int | None = None
    bf_resolution: int = 60
    bf_phase: int = 0
    w_age: int = 0
    w_fairshare: int = 0
    w_size: int = 0
    w_partition: int = 0
    w_qos: int = 0
    w_tres_gpu: int = 0
    max_age: int = 604800
    favor_small: bool = False
    fairshare: str = "tree"
    dampening: float = 1.0
    half_life: int = 604800
    calc_period: int = 300
    calc_phase: int = 0
    tie_seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in (
            ("order", ORDERS),
            ("backfill", BACKFILLS),
            ("placement", PLACEMENTS),
            ("fairshare", FAIRSHARES),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        for name in ("calc_period", "bf_interval", "bf_resolution", "max_age"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1 s, got {getattr(self, name)}")
        if self.half_life < 0 or self.dampening <= 0:
            raise ValueError("half_life must be at least 0 and dampening above 0")


@dataclass(frozen=True, slots=True)
class SiteJob:
    """One job: ``nodes`` distinct nodes with ``gpus`` GPUs each.

    Attributes:
        id: breaks ties of the queue.
        submit: second of submission.
        nodes, gpus: nodes, and GPUs on each of them; >= 1.
        limit: time limit, which plans count with; seconds.
        runtime: seconds that the job runs.
        user, account, partition, qos: names.
        gpu_type: the type of its nodes; empty for any.
        eligible: second from which it may start; None at once.
        cancel: second at which it leaves if it still waits; None never. One with a run time of 0
            leaves where it could start too: how long it would have run is unknown.
        pinned: second at which it starts whatever the rules say; None by the rules.
        nice: taken off its priority.
        billing: what a second costs in fair share; None its GPUs.
    """

    id: int
    submit: int
    nodes: int
    gpus: int
    limit: int
    runtime: int
    user: str = "u"
    account: str = "a"
    partition: str = "p"
    qos: str = "normal"
    gpu_type: str = ""
    eligible: int | None = None
    cancel: int | None = None
    pinned: int | None = None
    nice: int = 0
    billing: float | None = None

    @property
    def ready(self) -> int:
        """Second from which the job may start."""
        return self.submit if self.eligible is None else self.eligible

    @property
    def cost(self) -> float:
        """Billing of one second."""
        return self.nodes * self.gpus if self.billing is None else self.billing
