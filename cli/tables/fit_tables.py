"""What people read of the fits: the models of durations and gaps in words, and the tail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuplan.cli.formats.model_names import MODEL_NAMES
from gpuplan.cli.formats.report import Column, Table, table, value_of
from gpuplan.cli.formats.units import show_duration, show_number, show_share

if TYPE_CHECKING:
    from gpuplan.analysis.fits.results import Fits, TraceFits

LEAST_P = 1e-4


def in_words(name: str, parameters: dict[str, Any]) -> str:
    """Return a model in words, with its parameters."""
    time = {key: show_duration(value) for key, value in parameters.items() if key in TIMES}
    match name:
        case "exponential":
            return f"exponential with a mean of {time['mean_s']}"
        case "lognormal":
            return f"lognormal with median {time['median_s']}, sigma {parameters['sigma']:.3g}"
        case "weibull" | "gamma":
            return (
                f"{MODEL_NAMES[name]} with shape {parameters['shape']:.3g}, scale {time['scale_s']}"
            )
        case "pareto":
            return f"Pareto above {time['threshold_s']} with index {parameters['index']:.3g}"
    if "means_s" in parameters:
        phases = zip(parameters["weights"], parameters["means_s"], strict=True)
        parts = (f"{weight:.0%} of mean {show_duration(mean)}" for weight, mean in phases)
        return f"hyper-exponential: {', '.join(parts)}"
    body = name.partition("_")[0]
    rest = in_words(body, parameters["body"]).partition(" with ")[2]
    return (
        f"{MODEL_NAMES[body]} body ({rest}), Pareto tail above {time['threshold_s']} with index "
        f"{parameters['index']:.3g}"
    )


TIMES = ("mean_s", "median_s", "scale_s", "threshold_s")


def chosen(fits: Fits) -> str:
    """Return the best model in words, or why there is none."""
    if fits.best is None:
        return f"no fit: {fits.reason}"
    return in_words(fits.best.model, fits.best.parameters)


def fit_tables(fits: TraceFits) -> list[Table]:
    """Return the models of durations and gaps by AIC, each with the tail of its sample."""
    tables = []
    for what, fits_of in (("durations", fits.duration_s), ("inter-arrival times", fits.gap_s)):
        tables.append(_models(what, fits_of))
        if fits_of.tail is not None:
            tables.append(_tail(what, fits_of))
    return tables


def _models(what: str, fits: Fits) -> Table:
    left_out = f"; {fits.zeros:,} zeros left out" if fits.zeros else ""
    return table(
        f"Models of {what}, {fits.values:,} values{left_out}: {chosen(fits)}",
        fits.models,
        {"model": ""},
        Column("", "model", read=lambda fit: in_words(fit.model, fit.parameters)),
        {
            "free_parameters": "parameters",
            "log_likelihood": "",
            "aic": "",
            "delta_aic": "AIC above best",
        },
        Column("ks", "KS distance", lambda value: f"{value:.3f}"),
        Column("vuong_z", "best is closer by", lambda z: f"{z:.1f} sigma", _vuong("z")),
        Column("vuong_p", "p", show_probability, _vuong("p")),
    )


def _vuong(name: str) -> Callable[[Any], Any]:
    return partial(value_of, path=f"vuong.{name}")


def _tail(what: str, fits: Fits) -> Table:
    """Return the Pareto tail, how it compares with other tails, and Hill's index."""
    tail = fits.tail
    assert tail is not None
    rows = [
        ("threshold", show_duration(tail.threshold_s), "smallest KS distance of all thresholds"),
        ("share of values", show_share(tail.share), f"{tail.values:,} values"),
        ("Pareto index", show_number(tail.index), f"standard error {tail.index_se:.2g}"),
        ("KS distance", f"{tail.ks:.3f}", "of the tail from the model"),
    ]
    for name, vuong in tail.against.items():
        if vuong.z is not None and vuong.p is not None:
            verdict = "Pareto is closer" if vuong.z > 0 else f"the {name} is closer"
            result = verdict if vuong.p < 0.05 else "neither is closer"
            rows.append((f"vs. {name}", f"{vuong.z:.1f} sigma", result))
    rows += [
        (
            f"Hill, largest {point.share:.0%}",
            show_number(point.index),
            f"standard error {point.index / point.values**0.5:.2g}",
        )
        for point in tail.hill
    ]
    columns = (Column("what", "what"), Column("value", "value"), Column("", "meaning"))
    return Table(f"Tail of {what}", columns, rows)


def show_probability(p: float) -> str:
    """Return a p-value with two digits; a tiny one as a bound."""
    return f"{p:.2g}" if p >= LEAST_P else f"< {LEAST_P:g}"
