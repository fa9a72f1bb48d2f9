"""What ``gpuplan prices`` is asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt
from gpuplan.analysis.job_table.log_options import limit_text
from gpuplan.analysis.job_table.reject_limit import DEFAULT_LIMIT, Limit
from gpuplan.planner.requests.declaration import StudyRequest, study
from gpuplan.planner.requests.trace import REFERENCE, table_and_rejects, table_file


@study(
    "prices",
    example="gpuplan prices spot.json.gz -o prices.parquet --plot p.png",
    doing="reading",
    has_rows=False,
    draws_first=True,
)
@dataclass(frozen=True, slots=True)
class PricesRequest(StudyRequest):
    """Read GPU price lists and histories into one price table.

    It also takes histories of GPU availability without prices.

    Attributes:
        output: the price table to write; its name ends in ``.parquet``.
    """

    PANEL: ClassVar[str] = "How to read the input"

    sources: Annotated[
        tuple[Path, ...],
        Opt(
            "Price lists and histories: CSV, TSV, JSON, JSON lines or Parquet, plain, .gz, .zst, "
            ".zip or .tar, folders of them, or - for standard input; of one format or several.",
            key=None,
            metavar="SRC...",
            many=True,
            argument=True,
        ),
    ]
    output: Annotated[
        Path,
        table_file(
            "Price table to write (.parquet). Unusable rows go to <name>.rejects.parquet next to "
            "it."
        ),
    ]
    source_format: Annotated[
        str | None,
        Opt(
            "Format of every source, instead of detecting it; [cyan]gpuplan list formats[/cyan] "
            "names them.",
            metavar="NAME",
            common=True,
            complete="price_formats",
        ),
    ] = None
    as_of: Annotated[
        datetime | None,
        Opt("Date of the prices (UTC), for a list without times.", common=True),
    ] = None
    gpu: Annotated[
        str | None,
        Opt("GPU of a source that names none, such as RTX5090.", metavar="NAME", common=True),
    ] = None
    provider: Annotated[
        str | None,
        Opt(
            "Provider of a catalog whose file and folder do not name it.",
            metavar="NAME",
            common=True,
        ),
    ] = None
    sampling: Annotated[
        str | None,
        Opt(
            "Overrides the detected meaning of a row: the price at an instant (snapshot) or from "
            "then on (change).",
            metavar="snapshot|change",
        ),
    ] = None
    max_rejects: Annotated[
        Limit,
        Opt(
            "Fail if more rows than this are unusable: a share (1%, 0.01) or a count (20).",
            parse=Limit.of,
            write=limit_text,
            metavar="SHARE|COUNT",
            common=True,
            default=DEFAULT_LIMIT.text,
        ),
    ] = DEFAULT_LIMIT
    reference: Annotated[str | None, REFERENCE] = None

    def __post_init__(self) -> None:
        if self.sampling is None:
            return
        from gpuplan.analysis.price_formats.schema import SAMPLINGS

        if self.sampling not in SAMPLINGS:
            raise UsageError(f"--sampling {self.sampling}: expected {' or '.join(SAMPLINGS)}")

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes."""
        return table_and_rejects(self.output)
