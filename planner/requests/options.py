"""What ``gpuplan options`` is asked: changes of a site, what GPUs cost, and the waits accepted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.calibrate import SITE_LOG
from gpuplan.planner.requests.declaration import study
from gpuplan.planner.requests.site_request import (
    LEVEL,
    LIMIT_FACTOR,
    TIME_ZONE,
    TWIN,
    SiteRequest,
    is_of_kueue,
)
from gpuplan.planner.requests.size_texts import stripped

if TYPE_CHECKING:
    from gpuplan.planner.sizing.targets import Target
    from gpuplan.planner.twin.site_changes import SiteChange


SLURM_LOG = replace(
    SITE_LOG,
    help="The log: output of sacct (docs/twin.md has the command), an SWF log, or the trace that "
    "[bold]gpuplan ingest[/bold] makes of one; plain or compressed.",
)


@study(
    "options",
    title="Options side by side",
    picture="Waits against dollars a month, by option",
    example="gpuplan options sacct.txt --twin twin.toml --option 'add-nodes 2' --price 2",
    doing="replaying",
    has_rows=False,
)
@dataclass(frozen=True, slots=True)
class OptionsRequest(SiteRequest):
    """Compare changes of a Slurm site: dollars and waits.

    The answer names the cheapest that meets the target. gpuplan whatif replays changes of Kueue.

    Attributes:
        prices: of a GPU-hour, of nodes and on demand.
    """

    PANEL: ClassVar[str] = "Options"

    trace: Annotated[Path, SLURM_LOG]
    twin: Annotated[Path, TWIN]
    option: Annotated[
        tuple[str, ...],
        Opt(
            "One option: a change as gpuplan whatif takes it, 'limit user=32' or 'add-nodes "
            "a100=4', several joined by +, or 'burst over 12h': jobs that waited so long run on "
            "GPUs on demand. May be repeated.",
            key="options",
            parse=stripped,
            metavar="CHANGE",
            many=True,
            common=True,
        ),
    ] = ()
    target: Annotated[
        tuple[str, ...],
        Opt(
            "What the waits must meet: 'p95_wait <= 6h' or 'mean_wait <= 30m'. May be repeated.",
            key="targets",
            parse=stripped,
            metavar="TARGET",
            many=True,
            common=True,
        ),
    ] = ()
    by: Annotated[
        str | None,
        Opt(
            "Also the waits of groups: account, user, partition, qos or size.",
            metavar="GROUP",
            common=True,
        ),
    ] = None
    prices: Annotated[PriceRequest, Group(common=("prices", "contracts"))] = field(
        default_factory=PriceRequest
    )
    level: Annotated[str | None, LEVEL] = None
    limit_factor: Annotated[float | None, LIMIT_FACTOR] = None
    time_zone: Annotated[str | None, TIME_ZONE] = None

    @property
    def reads(self) -> tuple[Path | str | None, ...]:
        """The files it reads, those among them that an option names."""
        from gpuplan.planner.twin.change_texts import conf_files

        confs = (file for text in self.option for file in conf_files(text))
        return (self.trace, self.twin, self.prices.prices, self.prices.contracts, *confs)

    def check(self) -> None:
        """Check everything but the log. Raises `InputError` or `UsageError`."""
        from gpuplan.planner.site.pairs import check_groups

        self.targets()
        if is_of_kueue(self.trace, self.twin):
            self.calibration()
        if not self.changes():
            raise UsageError(
                "give the options to compare\n"
                "  next: for example --option 'limit user=32' --option 'add-nodes a100=4'"
            )
        if self.by is not None:
            check_groups(self.by, self.calibration().level)

    def targets(self) -> tuple[Target, ...]:
        """Return what the waits must meet. Raises `UsageError`."""
        from gpuplan.planner.site.options import read_wait_target

        return tuple(map(read_wait_target, self.target))

    def changes(self) -> tuple[SiteChange, ...]:
        """Return the options, each with its text as name. Raises `InputError` or `UsageError`."""
        from gpuplan.planner.twin.change_texts import read_option

        if twice := next((text for text in self.option if self.option.count(text) > 1), None):
            raise UsageError(f"--option {twice!r}: given twice")
        return tuple(replace(read_option(text), name=text) for text in self.option)
