"""What ``gpuplan bill --delays`` is asked: who makes whom wait."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt

if TYPE_CHECKING:
    from gpuplan.planner.compare import PolicySpec

USUAL_POLICY = "first-fit"


def if_set(flag: bool) -> bool | None:
    """Return a flag that is set; None for one that is not."""
    return flag or None


def replayed_policy(name: str | None) -> PolicySpec:
    """Return the policy to replay, `USUAL_POLICY` for None. Raises `UsageError`."""
    from gpuplan.planner.requests.policy_specs import read_cluster_spec

    return read_cluster_spec(name or USUAL_POLICY)


@dataclass(frozen=True, slots=True)
class DelayRequest:
    """Who makes whom wait."""

    PANEL: ClassVar[str] = "Delays"

    delays: Annotated[
        bool,
        Opt(
            "Also show how many hours each group's jobs make others wait, from replays without "
            "them. No dollars change.",
            flag="--delays",
            write=if_set,
            omitted=True,
        ),
    ] = False
    twin: Annotated[
        Path | None,
        Opt(
            "For --delays: the site's settings, written by [bold]gpuplan calibrate[/bold], whose "
            "rules are replayed.",
            metavar="FILE.toml",
            omitted=True,
        ),
    ] = None
    policy: Annotated[
        str | None,
        Opt(
            "For --delays: the policy that is replayed on the GPUs of --cluster, else on the most "
            "GPUs held at once. Default: first-fit.",
            omitted=True,
            complete="policies",
        ),
    ] = None

    def spec(self) -> PolicySpec:
        """Return the policy to replay. Raises `UsageError`."""
        return replayed_policy(self.policy)

    def check(self) -> None:
        """Check everything but the log. Raises `InputError` or `UsageError`."""
        for name, value in (("twin", self.twin), ("policy", self.policy)):
            if value is not None and not self.delays:
                raise UsageError(f"--{name}: nothing is replayed\n  next: add --delays")
        if self.twin is not None and self.policy is not None:
            raise UsageError("--policy: not with --twin, which replays the site's rules")
        self.spec()
