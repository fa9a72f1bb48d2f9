"""The GPUs of instance types of AWS, Azure and Google."""

from __future__ import annotations

from collections.abc import Mapping
from csv import DictReader
from fractions import Fraction
from functools import cache
from pathlib import Path

from gpuplan.analysis.price_formats.aws import aws_instances


@cache
def instances() -> dict[str, tuple[str, Fraction]]:
    """Return instance type in lower case -> its GPU and how many of them.

    Those of Azure and Google are from their pages of machine types, as of 2025.
    """
    table = {name: (gpu, Fraction(gpus)) for name, (gpu, gpus) in aws_instances().items()}
    with Path(__file__).with_name("cloud_instances.csv").open(encoding="utf-8") as lines:
        for row in DictReader(lines):
            table[row["instance"].lower()] = (row["gpu_type"], Fraction(row["gpus"]))
    return table


@cache
def instance_models() -> Mapping[str, str]:
    """Return instance type in lower case -> GPU model."""
    return {name: model for name, (model, _) in instances().items()}
