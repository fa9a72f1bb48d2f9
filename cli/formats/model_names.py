"""Names of fitted models as people read them."""

from __future__ import annotations

MODEL_NAMES = {
    "exponential": "exponential",
    "lognormal": "lognormal",
    "weibull": "Weibull",
    "gamma": "gamma",
    "pareto": "Pareto",
    "hyperexponential2": "hyper-exponential, 2 phases",
    "hyperexponential3": "hyper-exponential, 3 phases",
}


def model_name(name: str) -> str:
    """Return the name of a model as people read it."""
    body, _, tail = name.partition("_")
    return f"{MODEL_NAMES[body]} body, Pareto tail" if tail else MODEL_NAMES[name]
