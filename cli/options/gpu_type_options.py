"""Options of replays on several GPU types: how fast jobs run on each, and the length of a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.errors import UsageError, shortened

if TYPE_CHECKING:
    from gpuplan.planner.studies.replay import ReplayRequest

PANEL = "Several GPU types"


@dataclass(frozen=True, slots=True)
class GpuTypeChoice:
    """How fast jobs run on each GPU type of a cluster."""

    throughputs: Annotated[
        str | None,
        typer.Option(
            help="Measured rate of each job class on each GPU type and number of GPUs: a CSV of "
            "job_class, gpu_type, gpus, rate; Gavel's throughputs (CSV or JSON); profile:sia; or "
            "pollux:FILE, parameters of Pollux' goodput model by gpu_type.",
            metavar="FILE|profile:NAME",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    gpu_speed: Annotated[
        str | None,
        typer.Option(
            help="Relative speed of each GPU type, assumed the same for every job, where nothing "
            "was measured: A100=1,V100=0.5.",
            metavar="TYPE=SPEED,...",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    round: Annotated[
        str | None,
        typer.Option(
            "--round",
            help="Time between decisions of a policy that schedules in rounds on several GPU types "
            "(round_s). Default: 5m.",
            metavar="TIME",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    estimate_error: Annotated[
        str | None,
        typer.Option(
            help="Give policies in rounds estimates of each job's work that are off by up to this "
            "share, such as 30%, sampled anew for each job (estimate_error). Default: 0.",
            metavar="SHARE",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None

    def rated(self, request: ReplayRequest) -> ReplayRequest:
        """Return the request with these rates. Raises `UsageError` on a bad value."""
        if self.throughputs is not None and self.gpu_speed is not None:
            raise UsageError(
                "--throughputs and --gpu-speed: both say how fast jobs run\n  next: give one"
            )
        return replace(request, throughputs=self.throughputs, gpu_speed=self._speeds())

    def settings(self, given: Sequence[str] | None) -> list[str]:
        """Return the settings of ``--set`` with those of the options here."""
        own = [("round_s", self.round), ("estimate_error", self._error())]
        return [*(given or ()), *(f"{name}={value}" for name, value in own if value is not None)]

    def _error(self) -> str | None:
        if self.estimate_error is None or not self.estimate_error.endswith("%"):
            return self.estimate_error
        try:
            return f"{float(self.estimate_error[:-1]) / 100:g}"
        except ValueError:
            raise UsageError(
                f"--estimate-error {shortened(self.estimate_error)!r}: expected a share such as 30%"
            ) from None

    def _speeds(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for part in (self.gpu_speed or "").split(","):
            if not part.strip():
                continue
            name, _, text = (one.strip() for one in part.partition("="))
            try:
                speed = float(text)
            except ValueError:
                speed = 0.0
            if not name or name in found or not 1e-6 <= speed <= 1e6:
                raise UsageError(
                    f"--gpu-speed {shortened(part.strip())!r}: expected each GPU type once with a "
                    "speed above 0, such as A100=1,V100=0.5"
                )
            found[name] = speed
        return found
