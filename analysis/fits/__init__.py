"""Heavy-tailed models of durations and gaps: fitted, compared, and the best one chosen."""

from gpuplan.analysis.fits.models import Fits, ModelFit, TraceFits, fit_times, fit_trace

__all__ = ["Fits", "ModelFit", "TraceFits", "fit_times", "fit_trace"]
