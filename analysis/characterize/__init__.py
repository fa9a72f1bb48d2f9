"""What a workload is: sizes, arrivals, load, concentration, and who runs what."""

from gpuplan.analysis.characterize.jobs import COLUMNS, NAMES
from gpuplan.analysis.characterize.whole import Characterization, characterize

__all__ = ["COLUMNS", "NAMES", "Characterization", "characterize"]
