"""What a workload is: sizes, arrivals, load, concentration, and who runs what."""

from gpuplan.analysis.characterize.characterization import Characterization, characterize
from gpuplan.analysis.jobs import COLUMNS, NAMES

__all__ = ["COLUMNS", "NAMES", "Characterization", "characterize"]
