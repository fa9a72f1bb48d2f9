"""Scenarios written to a folder and read, and what is said of their mistakes."""

from pathlib import Path

import pytest

from gpuplan.cli.scenario.loading import load_scenario
from gpuplan.cli.scenario.scenario import Scenario, ScenarioError


def load(folder: Path, text: str, *overrides: str) -> Scenario:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return load_scenario(path, overrides)


def mistakes(folder: Path, text: str, *overrides: str) -> list[str]:
    """Return what is said of a scenario, each without the folder."""
    with pytest.raises(ScenarioError) as raised:
        load(folder, text, *overrides)
    assert raised.value.exit_code in (2, 3)
    said = str(raised.value).replace(f"{folder}/", "")
    return [one.partition("\n  next")[0] for one in said.split("\nerror: ")]
