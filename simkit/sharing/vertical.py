"""Tokens: the quota of every instance on a GPU, once in 5 ms, and the shares that follow.

Source: Lv et al., "Dilu", ASPLOS 2025, Algorithm 2. A quota is a share of the GPU. Services come
first, in the order of instances, then training.
"""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.sharing.fleet import LLM, TRAINING
from gpuplan.simkit.sharing.state import (
    BATCH_SIZE,
    CALM_ROW,
    CONTENTION,
    EMERGENCY,
    FRESH,
    FUNCTION,
    HEAD,
    KIND,
    LAST_S,
    LEAST_S,
    LIMIT,
    NEVER,
    NONE,
    READY,
    RECOVERY,
    REQUEST,
    SATURATION,
    STATUS,
    USED,
    WHOLE_S,
)


@borrowing_helper
def is_silent(instance: int, period: int, instances: Any, rules: Any) -> bool:
    """Return whether an instance used nothing in the window before a period."""
    return bool(instances.numbers[instance, USED] < period - rules.window)


@borrowing_helper
def growth(instance: int, period: int, instances: Any, rules: Any) -> float:
    """Return by how much the last batch took longer than the quickest, relative to it."""
    least = instances.values[instance, LEAST_S]
    if least == 0.0:
        return 0.0
    if instances.numbers[instance, BATCH_SIZE] == 0 and is_silent(
        instance, period, instances, rules
    ):
        return 0.0
    return (instances.values[instance, LAST_S] - least) / least  # type: ignore[no-any-return]


@borrowing_kernel
def issue_tokens(
    gpu: int, period: int, functions: Any, instances: Any, gpus: Any, rules: Any
) -> bool:
    """Set the quotas on a GPU and its state, and return whether any of them changed."""
    count, parts = gpus.count[gpu], gpus.parts
    busy = present = services = 0  # instances that used something of late, and all
    for at in range(count):
        instance = parts[gpu, at, 0]
        if instances.numbers[instance, STATUS] == READY:
            present += 1
            busy += not is_silent(instance, period, instances, rules)
            services += functions.numbers[instances.numbers[instance, FUNCTION], KIND] != TRAINING
    state, emergency, fresh, step, most = NONE, False, False, False, 0.0
    changed = False
    for at in range(count):
        instance, part = parts[gpu, at, 0], parts[gpu, at, 1]
        function = instances.numbers[instance, FUNCTION]
        kind = functions.numbers[function, KIND]
        if kind == TRAINING or instances.numbers[instance, STATUS] != READY:
            continue
        request, limit = functions.values[function, REQUEST], functions.values[function, LIMIT]
        change = growth(instance, period, instances, rules)
        silent = is_silent(instance, period, instances, rules)
        step = step or instances.numbers[instance, FRESH] == CALM_ROW
        if change > (rules.violation_llm if kind == LLM else rules.violation):
            state, quota = EMERGENCY, limit
            emergency = True
            fresh = fresh or instances.numbers[instance, FRESH] != 0
            most = max(most, change)
        elif silent:
            state, quota = RECOVERY, request
        elif busy == 1:  # the others are idle
            state = RECOVERY
            quota = min(max(instances.quota[instance, part], request) * rules.increase, limit)
        else:
            state, quota = CONTENTION, request
        changed = changed or quota != instances.quota[instance, part]
        instances.quota[instance, part] = quota
    if emergency:
        state = EMERGENCY
    changed = changed or state != gpus.state[gpu]
    gpus.state[gpu] = state
    step = step and state == CONTENTION
    if present == services:
        return changed
    for at in range(count):
        instance, part = parts[gpu, at, 0], parts[gpu, at, 1]
        function = instances.numbers[instance, FUNCTION]
        if functions.numbers[function, KIND] != TRAINING:
            continue
        request, limit = functions.values[function, REQUEST], functions.values[function, LIMIT]
        before = instances.quota[instance, part]
        low = rules.floor * request
        quota = before
        if state == NONE:
            quota = limit
        elif state == EMERGENCY:
            if fresh:
                quota = max(low, min(request, before) / (1 + most))
        elif state == RECOVERY or step:
            quota = min(rules.increase * max(before, low), limit)
        changed = changed or quota != before
        instances.quota[instance, part] = quota
    return changed


@borrowing_helper
def set_shares(gpu: int, functions: Any, instances: Any, gpus: Any) -> bool:
    """Share a GPU by quotas among those that have work, and return whether a share changed."""
    count, parts = gpus.count[gpu], gpus.parts
    total = 0.0
    for at in range(count):
        total += demand(parts[gpu, at, 0], parts[gpu, at, 1], functions, instances)
    total = max(1.0, total)
    changed = False
    for at in range(count):
        instance, part = parts[gpu, at, 0], parts[gpu, at, 1]
        share = demand(instance, part, functions, instances) / total
        if share != instances.share[instance, part]:
            instances.share[instance, part] = share
            instances.values[instance, WHOLE_S] = -1.0
            changed = True
    return changed


@borrowing_helper
def demand(instance: int, part: int, functions: Any, instances: Any) -> float:
    """Return the share that an instance would use if it had the GPU for itself."""
    function = instances.numbers[instance, FUNCTION]
    if functions.numbers[function, KIND] != TRAINING and (
        instances.numbers[instance, STATUS] != READY
        or (instances.numbers[instance, BATCH_SIZE] == 0 and instances.numbers[instance, HEAD] < 0)
    ):
        return 0.0
    return float(min(instances.quota[instance, part], functions.values[function, SATURATION]))


@borrowing_helper
def next_expiry(gpu: int, period: int, instances: Any, gpus: Any, rules: Any) -> int:
    """Return the next period in which an instance of a GPU starts to count as idle."""
    soonest = NEVER
    for at in range(gpus.count[gpu]):
        instance = gpus.parts[gpu, at, 0]
        expiry = instances.numbers[instance, USED] + rules.window + 1
        if expiry > period:
            soonest = min(soonest, expiry)
    return soonest
