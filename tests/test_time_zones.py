"""Time zones by name: known ones, offsets, and what is none."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_zones import zone_named


def test_a_zone_has_a_name_or_an_offset():
    assert zone_named(None) is UTC
    assert str(zone_named("Europe/Berlin")) == "Europe/Berlin"
    assert zone_named("+02:00").utcoffset(None) == timedelta(hours=2)


@pytest.mark.parametrize("name", ["x", "", ".", "../x", "Europe", "+2", "\x00", "é" * 300])
def test_what_is_no_zone_is_named(name):
    with pytest.raises(UsageError, match="no such zone"):
        zone_named(name)


def test_every_study_with_prices_names_a_zone_that_is_none(gpuplan, lab):
    code, _, err = gpuplan("pareto", lab, "--time-zone", "x")
    assert code == 2
    assert "--time-zone x: no such zone" in err
