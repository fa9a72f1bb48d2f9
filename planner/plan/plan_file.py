"""The file of a plan, ``plan.toml``: what was asked, what was bought, and where each class runs.

Tables ``[plan]``, ``[options]``, ``[results]``; lists ``[[type]]``, ``[[commitment]]``,
``[[market]]`` and ``[[class]]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.typed_tables import typed_tables
from gpuplan.analysis.prices.contracts import COMMITTED, MOST_GPUS
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.storage.toml_source import parse_toml, statements
from gpuplan.analysis.storage.toml_text import toml_pairs
from gpuplan.planner.money.commitment_texts import months_of_term
from gpuplan.planner.plan.classes import BUCKETS
from gpuplan.planner.plan.routes import ROUTES

FORM = 1
A_PLAN = "a plan written by gpuplan plan"
WRITE = "write it again: gpuplan plan LOG ... -o plan.toml"
REPLAYED = "replayed_"
"""Before the names of the results of a replay."""
SAME_SHARE = 1e-6
PLACE = re.compile(r"(?P<table>[a-z]+)(?:\.(?P<entry>\d+))?(?:\.(?P<key>\w+))?")
ROUTE_NAMES = tuple(route.name for route in ROUTES)

Amount = Annotated[float, Meta(ge=0, le=1e18)]
Gpus = Annotated[float, Meta(ge=0, le=MOST_GPUS)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]


class PlanTable(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """A table of a plan; other keys are refused."""


class PlanOrigin(PlanTable, frozen=True):
    """What a plan was made of.

    Attributes:
        form: of the file.
        gpuplan_version: that wrote it.
        log, sha256: the log, by name and content.
        begin, end: the first submission and the last recorded end.
        jobs: that were planned for.
        labelled_by: column of the classes' labels.
    """

    form: Annotated[int, Meta(ge=1, le=FORM)] = FORM
    gpuplan_version: str = ""
    log: str = ""
    sha256: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$")] = ""
    begin: datetime | None = None
    end: datetime | None = None
    jobs: Count = 0
    labelled_by: str = ""


class PlanOptions(PlanTable, frozen=True):
    """Options of a plan besides prices, as they are typed; None where not given."""

    where: str | None = None
    by: str | None = None
    gpu: str | None = None
    target: str | None = None
    budget: str | None = None
    slower: str = "none"
    levers: str | None = None
    spot: str | None = None
    spot_losses_per_s: Amount | None = None
    spot_availability: str | None = None
    spot_max: Share | None = None
    speedup: str | None = None
    defer: str | None = None
    cluster: str | None = None
    policy: str | None = None
    holdout: Share | None = None
    provision_s: Amount | None = None
    release_s: Amount | None = None
    billing_s: Amount | None = None
    services: str | None = None
    load: list[str] = []
    lend: Amount | None = None


class PlanTotals(PlanTable, frozen=True):
    """Results of a plan as `PlanResults` has them, and those of its replay, with waits."""

    usd_per_month: Amount | None = None
    program_usd_per_month: Amount | None = None
    mean_time_s: Amount | None = None
    replayed_usd_per_month: Amount | None = None
    replayed_mean_time_s: Amount | None = None
    saving_share: float | None = None
    confirmed: bool | None = None


class PlanType(PlanTable, frozen=True):
    """A GPU type: its prices per GPU-hour by market, GPUs owned, cap and nodes."""

    name: str
    owned: Gpus = 0.0
    cap: Gpus | None = None
    gpus_per_node: Annotated[int, Meta(ge=1, le=1 << 20)] | None = None
    commit_usd: dict[str, Amount] = {}
    on_demand_usd: Amount | None = None
    spot_usd: Amount | None = None
    serverless_usd: Amount | None = None


class PlanCommitment(PlanTable, frozen=True):
    """GPUs that a plan commits to.

    Attributes:
        gpu_type: as the log names it.
        gpus: how many.
        usd_per_gpu_h: paid whether they are used or not.
        term: as `TermOffer.name` has it; empty without one, and of a commitment of a price book.
        begin, until: of the term, or of the price book; None without one.
    """

    gpu_type: str
    gpus: Gpus
    usd_per_gpu_h: Amount
    term: str = ""
    begin: datetime | None = None
    until: datetime | None = None


class PlanMarket(PlanTable, frozen=True):
    """Use of a market as `MarketUse` has it."""

    name: str
    gpu_type: str
    gpus: Gpus
    mean_gpus: Gpus
    peak_gpus: Gpus
    peak_s: Amount
    usd_per_month: Amount


class PlannedShares(PlanTable, frozen=True):
    """Where the jobs of a class run.

    Attributes:
        name, gpu_type, width_bucket: the class.
        jobs: how many.
        recorded_time_s, mean_time_s: of a job, as recorded and as planned.
        routes: name of a route -> share of the jobs.
        checkpoint_every_s: nodes of a gang -> seconds of work between checkpoints on spot GPUs.
    """

    name: str
    gpu_type: str
    width_bucket: str
    routes: dict[str, Amount]
    jobs: Count = 0
    recorded_time_s: Amount = 0.0
    mean_time_s: Amount = 0.0
    checkpoint_every_s: dict[str, Amount] = {}

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells classes apart."""
        return self.name, self.gpu_type, self.width_bucket


class PlanFile(PlanTable, frozen=True, rename={"classes": "class", "types": "type"}):
    """All of a plan."""

    plan: PlanOrigin = PlanOrigin()
    options: PlanOptions = PlanOptions()
    results: PlanTotals = PlanTotals()
    types: list[PlanType] = []
    commitment: list[PlanCommitment] = []
    market: list[PlanMarket] = []
    classes: list[PlannedShares] = []

    def as_study(self) -> dict[str, Any]:
        """Return what the JSON output of the plan has of it, by the same keys."""
        plan = msgspec.to_builtins(self)
        origin, classes = plan["plan"], plan.get("class", [])
        for each in classes:
            routes = each["routes"].items()
            each["routes"] = [{"name": name, "share": share} for name, share in routes]
            each.pop("checkpoint_every_s", None)
        log = {"path": self.plan.log, "sha256": self.plan.sha256, "rows": self.plan.jobs}
        prices = [{"gpu_type": each.pop("name"), **each} for each in plan["type"]]
        totals = plan.get("results", {})
        replay = {
            name: totals.pop(f"{REPLAYED}{name}")
            for name in ("usd_per_month", "mean_time_s")
            if f"{REPLAYED}{name}" in totals
        }
        results = {
            **totals,
            **({"replay": replay} if replay else {}),
            "jobs": origin.get("jobs", 0),
            "markets": plan.get("market", []),
            "classes": classes,
        }
        return {
            "command": "plan",
            "inputs": [log],
            "parameters": {**plan.get("options", {}), "types": prices},
            "results": results,
        }

    def committed(self, gpu_type: str) -> float:
        """Return the GPUs of a type under commitments: those that run on, and those to buy."""
        return sum(each.gpus for each in self.commitment if each.gpu_type == gpu_type)

    def bought(self, gpu_type: str) -> float:
        """Return the committed GPUs of a type that the plan uses; what is above is on demand."""
        rows = (each for each in self.market if each.gpu_type == gpu_type)
        return sum(each.gpus for each in rows if each.name == COMMITTED)

    def running_on(self) -> list[str]:
        """Return a sentence on each commitment that has more GPUs than the plan, and until when."""
        sentences = []
        for of_type in self.types:
            terms = [each for each in self.commitment if each.gpu_type == of_type.name]
            more = self.committed(of_type.name) - self.bought(of_type.name)
            if more <= SAME_SHARE:
                continue
            now = " and ".join(
                f"{term.gpus:,.10g} until {in_utc(term.until):%Y-%m-%d}"
                for term in terms
                if term.until is not None
            )
            sentences.append(
                f"{of_type.name or 'GPUs without a type'}: the plan commits to "
                f"{self.bought(of_type.name):,.10g}, and {now} run on. Until then "
                f"{more:,.10g} more are paid for, in place of GPUs on demand."
            )
        return sentences


def plan_text(plan: PlanFile) -> str:
    """Return the text of the file."""
    tables: Mapping[str, Any] = msgspec.to_builtins(plan, builtin_types=(datetime,))
    lines = [
        "# Written by gpuplan plan, for gpuplan plan --keep and gpuplan diff. Times are UTC, "
        "prices dollars per GPU-hour.",
        "# [[commitment]] has the terms that run on and what the plan adds, [[market]] the GPUs "
        "that the plan uses.",
    ]
    for name, value in tables.items():
        entries = value if isinstance(value, list) else [value]
        header = f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
        for entry in entries:
            lines += ["", header, *toml_pairs(entry)]
    return "\n".join(lines) + "\n"


def read_plan(path: Path) -> PlanFile:
    """Read a plan.

    Raises:
        InputError: it cannot be read, is not TOML, or has a key or value that cannot be used; with
            its line.
    """
    return parse_plan(path, read_unpacked(path))


def parse_plan(path: Path, written: bytes) -> PlanFile:
    """Return the plan of a file's bytes. Raises `InputError` as `read_plan`."""
    text, tables = parse_toml(path, written, expected=A_PLAN, hint=WRITE)
    try:
        plan = typed_tables(tables, PlanFile)
        _check(plan)
    except UsageError as error:
        raise InputError(path, str(error), row=_row(text, str(error)), hint=WRITE) from error
    return plan


def _check(plan: PlanFile) -> None:
    """Check what several values say together. Raises `UsageError` that names the key."""
    if not plan.plan.sha256 or plan.plan.end is None or not plan.types:
        raise UsageError(f"plan: it has no sha256, end or types; expected {A_PLAN}")
    for table, names in (
        ("type", [each.name for each in plan.types]),
        ("class", [each.key for each in plan.classes]),
    ):
        at, twice = _repeated(names)
        if twice is not None:
            raise UsageError(f"{table}.{at}: {twice!r} is given twice")
    for at, priced in enumerate(plan.types):
        for term in priced.commit_usd:
            months_of_term(term or None, term, f"type.{at}.commit_usd: found")
    types = {each.name for each in plan.types}
    for at, commitment in enumerate(plan.commitment):
        _check_type(f"commitment.{at}.gpu_type", commitment.gpu_type, types)
        begin, until = commitment.begin, commitment.until
        if until is None and commitment.term:
            raise UsageError(f"commitment.{at}.until: a term has an end, and this one has none")
        if begin is not None and until is not None and in_utc(until) <= in_utc(begin):
            raise UsageError(
                f"commitment.{at}.until: found {until}, expected a time after begin, {begin}"
            )
    for at, each in enumerate(plan.classes):
        _check_type(f"class.{at}.gpu_type", each.gpu_type, types)
        if each.width_bucket not in BUCKETS:
            raise UsageError(
                f"class.{at}.width_bucket: found {each.width_bucket!r}, expected one of "
                f"{', '.join(BUCKETS)}"
            )
        for name in each.routes:
            if name not in ROUTE_NAMES:
                raise UsageError(
                    f"class.{at}.routes: found {name!r}, expected some of {', '.join(ROUTE_NAMES)}"
                )
        total = sum(each.routes.values())
        if abs(total - 1) > SAME_SHARE:
            raise UsageError(f"class.{at}.routes: the shares add up to {total:.6g}, expected 1")


def in_utc(time: datetime) -> datetime:
    """Return a time with its zone; one without a zone is in UTC."""
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _check_type(key: str, gpu_type: str, types: Iterable[str]) -> None:
    if gpu_type not in types:
        raise UsageError(f"{key}: found {gpu_type!r}, expected the name of a [[type]]")


def _repeated(names: list[Any]) -> tuple[int, Any]:
    """Return the place of the first name that stands before it too; None without any."""
    return next(((at, name) for at, name in enumerate(names) if name in names[:at]), (0, None))


def _row(text: str, message: str) -> int | None:
    """Return the line of the key that a message begins with."""
    match = PLACE.match(message)
    if match is None:
        return None
    entry = int(match["entry"] or 0)
    row, count = None, -1
    for first, _, table, paths, is_header in statements(text):
        if table[:1] != (match["table"],) and not (is_header and paths[-1][0] == match["table"]):
            continue
        if is_header:
            count += 1
            if count == entry:
                row = first
        elif count == entry and paths[0][0] == match["key"]:
            return first
    return row
