"""Choose the block length of a bootstrap from the series themselves.

Source: Politis and White, "Automatic block-length selection for the dependent bootstrap",
Econometric Reviews 23, 2004, with the correction of Patton, Politis and White, Econometric Reviews
28, 2009, for circular blocks: ``b = (2 G^2 / D)^(1/3) n^(1/3)`` with ``D = 4/3 g^2``, g the sum of
the autocovariances and G that of the autocovariances times their lags, both by a flat-top window
whose width is twice the lag from which on correlations are within noise.
"""

from __future__ import annotations

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray

LEAST_BLOCKS = 10
"""A series of fewer values is too short to cut into blocks."""
ENOUGH_BLOCKS = 20
"""A block is at most this fraction of a series: fewer blocks give no reliable interval."""
LONGER = 2.0
"""Factor on the length of least mean squared error: an interval suffers more from a variance that
is too small than from one that varies, which Student's law allows for."""
MOST_BINS = 4096
"""Longer series are summed over bins of successive values, so that long memories are found."""
QUANTILES = (0.5, 0.9)
MOST_LOOKED_AT = 1 << 16


def block_length(*series: FloatArray) -> int:
    """Return the number of successive positions in a block, 1 to a twentieth of all.

    `LONGER` times the largest automatic length of each series itself (for its mean) and of the
    indicators that it exceeds its median and its 90th percentile.

    Args:
        series: values by position, each of shape (n,), n >= 1; NaN where there is none.
    """
    size = series[0].size
    most = max(1, size // ENOUGH_BLOCKS)
    if most == 1:
        return 1
    wanted = max(_longest(values) for values in series)
    return min(round(LONGER * wanted), most) if wanted > 1 else 1


def _longest(values: FloatArray) -> float:
    is_known = ~np.isnan(values)
    some = values[is_known]
    if not some.size:
        return 1.0
    each = -(-values.size // MOST_BINS)
    bins = np.arange(0, values.size - each + 1, each)
    counts = np.add.reduceat(is_known.astype(np.int64), bins)
    # Limits need not be exact: a subset of the values is enough.
    limits = np.quantile(some[:: max(1, some.size // MOST_LOOKED_AT)], QUANTILES)
    longest = 1.0
    for mark in (values, *(values > limit for limit in limits)):  # NaN exceeds no limit
        sums = np.add.reduceat(np.where(is_known, mark, 0.0), bins)
        mean = float(sums.sum()) / max(int(counts.sum()), 1)
        longest = max(longest, each * automatic_length(sums - mean * counts))
    return longest


def automatic_length(values: FloatArray) -> float:
    """Return the length of circular blocks with the least error in the variance of a mean; >= 1."""
    size = values.size
    values = values - values.mean()
    if size < 3 or np.ptp(values) == 0:
        return 1.0
    gap = max(5, int(np.ceil(np.log10(size) ** 0.5)))
    most = min(max(int(np.ceil(size**0.5)), size // ENOUGH_BLOCKS) + gap, size - 1)
    spectrum = np.abs(np.fft.rfft(values, 1 << (2 * size - 1).bit_length())) ** 2
    covariance = np.fft.irfft(spectrum)[: most + 1] / size
    noise = 2 * (np.log10(size) / size) ** 0.5
    beyond = np.flatnonzero(np.abs(covariance[1:]) > noise * covariance[0]) + 1
    # The last lag before a long run of lags within noise; the first lag always counts.
    ends = np.concatenate([[0], beyond])
    quiet = np.flatnonzero(np.diff(ends, append=most + 1) > gap)
    last = max(1, int(ends[quiet[0]]) if quiet.size else int(ends[-1]))
    lags = np.arange(1, min(2 * last, most) + 1)
    window = np.minimum(1.0, 2 * (1 - lags / (2 * last)))
    weighted = 2 * window * covariance[lags]
    total = covariance[0] + float(weighted.sum())
    slope = float((lags * weighted).sum())
    if total <= 0:  # a flat-top window can give a negative spectrum, for a series that oscillates
        return float(last)
    return float(max(1.0, (1.5 * (slope / total) ** 2 * size) ** (1 / 3)))
