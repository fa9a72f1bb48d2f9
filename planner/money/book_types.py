"""The GPU types of a price book, of the options beside it, and of a log: which name means which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import (
    UNNAMED,
    is_known_gpu,
    match_types,
    name_in,
    same_gpu,
)
from gpuplan.analysis.prices.contracts import OWNED, Contracts, PaidPool, make_contracts
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.money.price_request import PriceRequest


def with_options(book: Contracts, request: PriceRequest) -> Contracts:
    """Return a price book with the entries that options give, under the names of the book.

    Raises `UsageError` where an option's name may mean several types of the book.
    """
    file = book.option
    on_demand = [
        replace(p, gpu_type=name_in(p.gpu_type, book.gpu_types, "--on-demand", file))
        for p in request.on_demand
    ]
    names = [*book.gpu_types, *(price.gpu_type for price in on_demand)]
    where = file if request.contracts is not None else "--on-demand"
    owned, commit = (
        [replace(p, gpu_type=name_in(p.gpu_type, names, option, where)) for p in pools]
        for option, pools in (("--owned", request.owned), ("--commit", request.commit))
    )
    replaced = {pool.gpu_type for pool in owned}
    kept = [p for p in book.pools if p.market != OWNED or p.gpu_type not in replaced]
    return make_contracts(
        [*kept, *owned, *commit],
        [*book.prices, *on_demand],
        inputs=book.inputs,
        option=file,
    )


def check_pools(book: Contracts, log_types: Sequence[str]) -> None:
    """Refuse a pool whose GPUs may be several types of a log, or one with another name in the book.

    The latter would be paid for as GPUs of one more type, on which no job runs.

    Raises:
        UsageError: the pool's name stands for several types of the log, or for one that has a name
            of its own.
    """
    match_types([pool.gpu_type for pool in book.pools], log_types, book.option, one_type_each=True)
    means = match_types(book.gpu_types, log_types, book.option)
    for name in dict.fromkeys(pool.gpu_type for pool in book.pools):
        same_types = [log_type for log_type in means if log_type and same_gpu(name, log_type)]
        if same_types and name not in means.values():
            raise UsageError(
                f"{book.option}: {name} may be the {' or '.join(same_types)} of the log, which has "
                f"{'an entry' if len(same_types) == 1 else 'entries'} of its own there\n"
                f"  next: name the one that is meant, such as {same_types[0]}"
            )


def unused_pools(
    request: PriceRequest, book: Contracts, log_types: Sequence[str | None]
) -> list[str]:
    """Return a sentence on GPUs that options name, of types on which no job of the log is.

    Raises `UsageError` where such a type is no GPU model, and neither in the log nor in the file.
    """
    types = [name or request.gpu or UNNAMED for name in log_types]
    used = set(match_types(book.gpu_types, types, book.option).values())
    types = [name for name in types if name != UNNAMED] or types
    in_file = {price.gpu_type for price in book.prices}
    notes = []
    for option, pools in (("--owned", request.owned), ("--commit", request.commit)):
        names = dict.fromkeys(
            name_in(pool.gpu_type, book.gpu_types, option, book.option) for pool in pools
        )
        unused = [name for name in names if name not in used]
        unknown = [name for name in unused if not (name in in_file or is_known_gpu(name))]
        if unknown:
            raise UsageError(
                f"{option} {unknown[0]}: no job of the log is on it, and it is no GPU model that "
                f"gpuplan knows\n  next: a GPU type of the log: {listed(sorted({*types}), 6)}"
            )
        if unused:
            notes.append(f"{option}: no job of the log is on {listed(unused, 6)}")
    return notes


def pool_notes(
    request: PriceRequest, book: Contracts, log_types: Sequence[str | None], jobs: Selection
) -> list[str]:
    """Return what to know of GPUs that a bill pays for and that perhaps none of its jobs can use.

    Raises `UsageError` as `unused_pools`.
    """
    if jobs.where is None and jobs.sample is None:
        return unused_pools(request, book, log_types)
    if not book.pools:
        return []
    return [
        "all GPUs owned or committed are billed, also those that the selected jobs cannot use, and "
        "no other job uses them here: the part of these jobs in the bill of all is their row "
        "without --where and --sample"
    ]


def shared_pool_notes(
    book: Contracts, log_types: Sequence[str | None], jobs: Selection
) -> list[str]:
    """Return that owned and committed GPUs are taken for those of the selected jobs alone.

    Args:
        book: the price book.
        log_types: GPU types of the selected jobs.
        jobs: which jobs are selected.
    """
    if jobs.where is None and jobs.sample is None:
        return []
    means = match_types(book.gpu_types, [name or UNNAMED for name in log_types], book.option)
    types = dict.fromkeys(p.gpu_type for p in book.pools if p.gpu_type in means.values())
    if not types:
        return []
    return [
        f"the selected jobs are taken to have all {listed([*types], 6)} owned or committed to "
        "themselves; where other jobs use these too, decide on the whole log"
    ]


def pools_in_force(book: Contracts, gpu_type: str, at_us: int) -> list[PaidPool]:
    """Return the pools of a type of the log that a book has at an instant."""
    pools = [pool for pool in book.pools if pool.is_paid_at(at_us)]
    name = match_types([pool.gpu_type for pool in pools], [gpu_type], book.option)[gpu_type]
    return [pool for pool in pools if pool.gpu_type == name]
