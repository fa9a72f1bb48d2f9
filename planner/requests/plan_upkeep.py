"""What ``gpuplan plan`` is asked about an older plan, services, lending, and files to make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from gpuplan.analysis.base.amounts import parse_share
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt

PlanExport = Literal["slurm", "kueue", "csv"]
FILES_OF: dict[str | None, tuple[str, ...]] = {
    None: (),
    "slurm": ("plan.conf", "qos.txt", "classes.csv"),
    "kueue": ("kueue.json", "classes.csv"),
    "csv": ("classes.csv",),
}
"""What to make for -> the files."""


@dataclass(frozen=True, slots=True)
class PlanUpkeep:
    """An older plan to stay with, and where a plan goes."""

    PANEL: ClassVar[str] = "Keep a plan, put it into effect"

    keep: Annotated[
        Path | None,
        Opt(
            "Stay with this plan (-o plan.toml) where a change saves little. Options and prices "
            "that are not given are those of the plan.",
            metavar="plan.toml",
        ),
    ] = None
    hysteresis: Annotated[
        float,
        Opt(
            "With --keep: make a change only if it saves more than this share of the bill.",
            parse=parse_share,
            default="3%",
            metavar="SHARE",
        ),
    ] = 0.03
    export: Annotated[
        PlanExport | None,
        Opt(
            "Make files for Slurm, Kueue, or a table per class, in the folder of -o: "
            "--export slurm -o out.",
        ),
    ] = None

    def check(self) -> None:
        """Raise `UsageError` for a hysteresis without a plan to stay with."""
        if self.keep is None and self.hysteresis != PlanUpkeep().hysteresis:
            raise UsageError(
                f"--hysteresis {self.hysteresis:.0%}: there is no plan to stay with\n"
                "  next: --keep plan.toml, a plan written by gpuplan plan -o plan.toml"
            )


@dataclass(frozen=True, slots=True)
class PlanServices:
    """Services beside the jobs, and what lending idle GPUs brings."""

    PANEL: ClassVar[str] = "Services, lending"

    services: Annotated[
        str | None,
        Opt(
            "Services that share GPUs of the pool, as gpuplan share --functions takes them; "
            "TYPE=FILE where the log has several GPU types. Needs --load.",
            metavar="[TYPE=]functions.toml",
            reads=True,
        ),
    ] = None
    load: Annotated[
        tuple[str, ...],
        Opt(
            "Requests of the services, as gpuplan share --load takes them; the load repeats "
            "until the log ends. May be repeated.",
            metavar="[NAME=]LOAD",
            many=True,
            reads=True,
        ),
    ] = ()
    lend: Annotated[
        float | None,
        Opt(
            "Lend idle GPUs that are owned or committed to at this price per GPU-hour, at most "
            "what stays idle for an hour. The revenue stands beside the bill.",
            key="lend_usd_per_gpu_h",
            metavar="USD",
            low=0.0,
        ),
    ] = None

    def functions_file(self) -> tuple[str, Path] | None:
        """Return the GPU type, empty where not given, and the file of the services."""
        if self.services is None:
            return None
        gpu_type, equals, file = self.services.partition("=")
        return (gpu_type.strip(), Path(file)) if equals else ("", Path(self.services))

    def check(self) -> None:
        """Raise `UsageError` for services without a load, and a load without services."""
        file = self.functions_file()
        if file is None and self.load:
            raise UsageError("--load: needs --services functions.toml")
        if file is not None and not str(file[1]).strip(". "):
            raise UsageError(f"--services {self.services!r}: expected [TYPE=]functions.toml")
