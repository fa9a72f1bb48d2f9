"""Statistics of a workload: sizes, arrivals, load, concentration, users and groups."""

from gpuplan.analysis.characterize.characterization import Characterization, characterize
from gpuplan.analysis.history.jobs import COLUMNS, NAMES

__all__ = ["COLUMNS", "NAMES", "Characterization", "characterize"]
