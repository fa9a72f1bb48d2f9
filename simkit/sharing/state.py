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
    requests; ``calm``: batches in a row of a service without trouble after which contended training
    takes one step, 0 for never; ``calm_change``: the growth of batch time below which a batch is
    without trouble.
    """

    static: bool
    window: int
    violation: float
    violation_llm: float
    increase: float
    floor: float
    calm: int
    calm_change: float


# Columns of the numbers and of the values of functions.
KIND, WORKERS, BATCH, COLD, FIRST, COUNT, START = range(7)
(
    REQUEST,
    LIMIT,
    MEMORY_GB,
    CHARGED_REQUEST,
    CHARGED_LIMIT,
    QUOTA,
    SATURATION,
    WORK,
    TOTAL_S,
) = range(9)

# Columns of the numbers and of the values of instances.
(
    FUNCTION,
    STATUS,
    READY_AT,
    DRAINING,
    HEAD,
    TAIL,
    BATCH_HEAD,
    BATCH_SIZE,
    FRESH,
    USED,
    CALM,
) = range(11)
CALM_ROW = 2  # of FRESH: the batch that ended was the last of a row without trouble
LEFT, BEGAN_S, WHOLE_S, LAST_S, LEAST_S, LAUNCHED_S, REMOVED_S = range(7)


class Functions(NamedTuple):
    """F functions: services in the order of their names, then training jobs.

    ``numbers`` (F, 7): the kind of its instances; ``WORKERS`` of a gang; ``BATCH``, the largest
    batch; ``COLD``, periods of a cold start; ``FIRST`` and ``COUNT`` of its instances in their
    table; ``START``, the first period of a training job. ``values`` (F, 9): what an instance takes
    (request, limit, memory), what placement charges for it, its quota at the start, the share at
    which it is saturated, iterations per request (``WORK``, for an LLM tokens), and the work of a
    training job in seconds on whole GPUs.
    """

    numbers: Any
    values: Any


class RequestLoad(NamedTuple):
    """Requests and decisions of S services.

    ``arrival_s`` (R,) ascends for each service, ``period`` (R,) is when it is seen; those of
    service f are ``offset[f]`` to ``offset[f + 1]``. ``changes`` (C, 3) are rows (second, service,
    instances from then on), in the order of both.
    """

    arrival_s: Any
    period: Any
    offset: Any
    changes: Any


class InstanceTable(NamedTuple):
    """N instances, in the order of functions and launches; parts are stages or workers.

    ``numbers`` (N, 11): function; status; the period in which it is ready; whether it drains;
    ``HEAD`` and ``TAIL`` of its queue, -1 if empty; ``BATCH_HEAD`` and ``BATCH_SIZE`` of what runs,
    size 0 if idle; ``FRESH``, 0, 1 where a batch ended in the last period, or `CALM_ROW`; ``USED``,
    the last period with use; ``CALM``, batches without trouble so far.
    ``values`` (N, 7): ``LEFT``, the share of the batch that is left; ``BEGAN_S``; ``WHOLE_S``, the
    time of the batch at the shares of now, negative where they changed; ``LAST_S`` and ``LEAST_S``,
    times of the last and the quickest batch; when it was launched and removed. ``quota`` and
    ``share`` (N, P) are those of its parts.
    """

    numbers: Any
    values: Any
    quota: Any
    share: Any


class Gpus(NamedTuple):
    """G GPUs as vertical scaling sees them.

    ``parts`` (G, Q, 2) lists (instance, part), in the order of instances, ``count`` (G,) of them;
    ``state`` (G,); ``wake`` (G,), the period in which tokens may change next.
    """

    parts: Any
    count: Any
    state: Any
    wake: Any


class Jobs(NamedTuple):
    """Training jobs, arrays (T,): work done, its rate, since which period, and its last period."""

    done_s: Any
    rate: Any
    since: Any
    due: Any
