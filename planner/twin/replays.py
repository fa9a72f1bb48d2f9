"""Several replays of a site's jobs, one after the other, which say how far they are."""

from __future__ import annotations

from collections.abc import Callable

from gpuplan.analysis.base.errors import UsageError
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.simulator import SiteRun, replay_site
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster
from gpuplan.simkit.watch import ReplayPace

Progress = Callable[[float], None]
"""Called with the share of the work done, 0 to 1."""


def nothing(share: float) -> None:
    """Show no progress."""


class Replays:
    """Replays jobs; ``total`` replays are all the work."""

    def __init__(self, total: int, progress: Progress = nothing) -> None:
        self.total = total
        self.progress = progress
        self.done = 0

    def run(self, name: str, site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig) -> SiteRun:
        """Replay jobs on a site; ``name`` says what is replayed.

        Raises:
            UsageError: the site or a job is too large for a replay.
        """
        pace, count = ReplayPace(), jobs.id.size

        def seen(share: float) -> None:
            pace.say(round(share * count), count, f"jobs replayed ({name})")
            self.progress((self.done + share) / self.total)

        try:
            run = replay_site(site, jobs, config, seen)
        except ValueError as error:
            raise UsageError(f"the site cannot be replayed: {error}") from error
        self.done += 1
        return run
