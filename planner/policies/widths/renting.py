"""The setting of policies that return a node once it has been idle for some time."""

from __future__ import annotations

from gpuplan.planner.runs.settings import Setting

RELEASE = {
    "release_s": Setting(
        "duration", "time a node must have been idle before it is returned", default=30.0
    )
}
