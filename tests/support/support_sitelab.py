"""The Slurm site whose truth is known, where ``../shared`` is there."""

import csv
from pathlib import Path

import pytest

SITELAB = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "sitelab"
DUMPS = SITELAB / "dumps"


def calibrated(folder):
    """Return the log of the site and its settings, calibrated; skip where it is absent."""
    from gpuplan.cli.app.main import main

    if not DUMPS.is_dir():
        pytest.skip("the site with known truth is not there: ../shared/data/sitelab")
    log, twin = DUMPS / "sacct.txt.gz", folder / "twin.toml"
    dumps = [f"--sacctmgr={DUMPS / name}.txt" for name in ("assoc", "qos", "events")]
    code = main(
        ["calibrate", str(log), f"--slurm-conf={DUMPS / 'slurm.conf'}", *dumps,
         "--time-zone=America/New_York", "-o", str(twin)]
    )  # fmt: skip
    assert code == 0
    return log, twin


def effect_on_all(change):
    """Return the true effects of a change on the mean and P95 wait of all jobs, in hours."""
    with (SITELAB / "truth" / "effects.csv").open(newline="") as lines:
        row = next(r for r in csv.DictReader(lines) if (r["change"], r["by"]) == (change, "all"))
    return float(row["effect_mean_h"]), float(row["effect_p95_h"])
