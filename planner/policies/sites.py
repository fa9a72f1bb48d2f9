"""How many GPUs a site of any kind has."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gpuplan.analysis.site.document import is_of_slurm
from gpuplan.planner.policies import twin_replay
from gpuplan.planner.policies.quota_sites import read_site
from gpuplan.planner.quota.model import total_gpus


def gpus_of_site(site: Path, policies: Collection[str]) -> int:
    """Return the GPUs of a site, of the kind that some policies replay. Raises `InputError`."""
    if "twin" in policies or is_of_slurm(site):
        return twin_replay.site_gpus(site)
    return total_gpus(read_site(site))
