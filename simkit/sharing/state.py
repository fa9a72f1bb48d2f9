"""The tables of a co-scaling run: what functions are, and the state of their instances."""

from __future__ import annotations

from typing import Any, NamedTuple

PERIOD_S = 0.005  # tokens are issued once in each
PERIODS_PER_S = 200
NONE, RECOVERY, CONTENTION, EMERGENCY = range(4)  # states of a GPU
ABSENT, STARTING, READY = range(3)  # of an instance
NEVER = 1 << 62


class VerticalRules(NamedTuple):
    """How tokens follow the load (Algorithm 2).

    ``static``: quotas never change. ``window``: periods without use after which an instance counts
    as idle; ``violation`` and ``violation_llm``: the relative growth of batch time that is an
    emergency; ``increase``: the step of a growing quota; ``floor``: least quota of training, in
    requests; ``calm``: batches without trouble after which contended training may grow, 0 for
    never; ``calm_change``: the growth of batch time below which a batch is without trouble.
    """

    static: bool
    window: int
    violation: float
    violation_llm: float
    increase: float
    floor: float
    calm: int
    calm_change: float


class Functions(NamedTuple):
    """F functions: services in the order of their names, then training jobs; arrays (F,).

    ``kind``, ``gpus`` (workers of a gang), ``request``, ``limit`` and ``memory`` are what an
    instance takes; ``charged_request`` and ``charged_limit`` what placement charges; ``quota`` its
    quota at the start; ``batch`` its largest batch; ``saturation`` the share that it can use;
    ``work`` iterations per request; ``cold`` periods of a cold start; ``first`` and ``count`` its
    instances in the tables of instances; ``start`` the first period of a training job and
    ``total_s`` its work in seconds on whole GPUs.
    """

    kind: Any
    gpus: Any
    request: Any
    limit: Any
    memory: Any
    charged_request: Any
    charged_limit: Any
    quota: Any
    batch: Any
    saturation: Any
    work: Any
    cold: Any
    first: Any
    count: Any
    start: Any
    total_s: Any


class Load(NamedTuple):
    """Requests and decisions of S services.

    ``arrival_s`` (R,) ascends for each service, ``period`` (R,) is when it is seen; those of service f are ``offset[f]`` to
    ``offset[f + 1]``. ``changes`` (C, 3) are rows (second, service, instances from then on), in
    the order of both.
    """

    arrival_s: Any
    period: Any
    offset: Any
    changes: Any


class Instances(NamedTuple):
    """N instances, in the order of functions and launches; parts are stages or workers.

    Arrays (N,) unless stated: ``function``; ``status``; ``ready`` (period); ``draining``; ``head``
    and ``tail`` of the queue, -1 if empty; ``batch_head`` and ``batch_size`` of what runs, size 0
    if idle; ``left``, the share of the batch that is left; ``began_s``; ``whole_s``, the time of
    the batch at the shares of now, negative where they changed; ``last_s`` and ``least_s``, times
    of the last and the quickest batch; ``fresh``, the batch ended in the last period; ``used``,
    the last period with use; ``launched_s`` and ``removed_s``; ``quota`` and ``share`` (N, P).
    """

    function: Any
    status: Any
    ready: Any
    draining: Any
    head: Any
    tail: Any
    batch_head: Any
    batch_size: Any
    left: Any
    began_s: Any
    whole_s: Any
    last_s: Any
    least_s: Any
    fresh: Any
    used: Any
    launched_s: Any
    removed_s: Any
    quota: Any
    share: Any


class Gpus(NamedTuple):
    """G GPUs as vertical scaling sees them.

    ``parts`` (G, Q, 2) lists (instance, part), in the order of instances, ``count`` (G,) of them;
    ``state`` (G,); ``wake`` (G,), the period in which tokens may change next; ``calm`` (G,) counts
    batches without trouble.
    """

    parts: Any
    count: Any
    state: Any
    wake: Any
    calm: Any


class Jobs(NamedTuple):
    """Training jobs, arrays (T,): work done, its rate, since which period, and its last period."""

    done_s: Any
    rate: Any
    since: Any
    due: Any
