"""Whether a model may speak, in words: a replay of today beside the waits of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Table, table
from gpuplan.cli.formats.units import show_duration
from gpuplan.planner.requests.site_request import KUBERNETES
from gpuplan.planner.runs.recorded_waits import are_close
from gpuplan.planner.site.fidelity import SITE_RULES, TWIN

if TYPE_CHECKING:
    from gpuplan.planner.site.fidelity import Fidelity

USE_TWIN = (
    "Use the site's rules: gpuplan calibrate LOG -o twin.toml reads them, and gpuplan size LOG "
    "--twin twin.toml replays them, as whatif, options and compare --policy twin do"
)
OF_KUEUE = (
    "Use the site's quotas: gpuplan calibrate LOG -o twin.toml reads them, and gpuplan whatif LOG "
    "--twin twin.toml replays them with --set or --add-nodes"
)
OF_KUBERNETES = (
    "The log has no quotas: with a dump of Kueue's objects gpuplan calibrate reads the site's "
    "rules, and whatif and eta replay them"
)
OF_OTHERS = (
    "The log has no rules of its site: gpuplan calibrate reads them from sacct output and "
    "slurm.conf, or from a dump of Kueue"
)
OF_SLURM = ("", "slurm", "swf", "canonical")
"""Formats of logs that may be of Slurm; empty where the format is not known."""
MISSING_RULE = "See which rule is missing: gpuplan calibrate ... --advice"


def contradiction(fidelity: Fidelity, source_format: str = "", waits: str = "") -> str:
    """Return why nothing is recommended, and what to do; empty where the model may speak.

    Args:
        fidelity: how a replay of today compares with the log.
        source_format: of the log: which rules of its site can be read; empty for Slurm's.
        waits: a sentence on what the replays say nevertheless, before what to do.
    """
    pairs = (
        ("P95", fidelity.replayed_p95_wait_s, fidelity.recorded_p95_wait_s),
        ("mean", fidelity.replayed_mean_wait_s, fidelity.recorded_mean_wait_s),
    )
    if fidelity.may_speak or fidelity.cluster_gpus is None:
        return ""
    has_rules = fidelity.policy in (SITE_RULES, TWIN)
    step = MISSING_RULE if has_rules else _rules_of_site(source_format)
    step = f"{waits} {step}".strip()
    misses = (
        (name, replayed_s, recorded_s)
        for name, replayed_s, recorded_s in pairs
        if replayed_s is not None
        and recorded_s is not None
        and not are_close(replayed_s, recorded_s)
    )
    name, replayed_s, recorded_s = next(misses, ("", None, None))
    if replayed_s is None or recorded_s is None:  # as long by chance
        why = f"{fidelity.why[:1].upper()}{fidelity.why[1:]}"
        return f"{why}: nothing is recommended. {step}."
    jobs = f" of the jobs on {fidelity.gpu_type}" if fidelity.gpu_type else ""
    return (
        f"A replay of today's {fidelity.cluster_gpus:,} GPUs"
        f"{'' if fidelity.policy is None else f' under {fidelity.policy}'} waits "
        f"{show_duration(replayed_s)} ({name}{jobs}), your log {show_duration(recorded_s)}: "
        f"{fidelity.cause}. {step}."
    )


def _rules_of_site(source_format: str) -> str:
    """Return how the rules of the site that wrote a log can be replayed."""
    if source_format == "kueue":
        return OF_KUEUE
    if source_format in KUBERNETES:
        return OF_KUBERNETES
    return USE_TWIN if source_format in OF_SLURM else OF_OTHERS


def fidelity_table(fidelity: Fidelity) -> tuple[Table, ...]:
    """Return today's waits as replayed and as recorded; nothing where nothing was replayed."""
    if fidelity.policy is None:
        return ()
    return (
        table(
            f"Today replayed under {fidelity.policy}: {fidelity.verdict}",
            [fidelity],
            {
                "cluster_gpus": "GPUs",
                "jobs": "jobs",
                "replayed_mean_wait_s": "mean wait, replayed",
                "recorded_mean_wait_s": "in the log",
                "replayed_p95_wait_s": "P95, replayed",
                "recorded_p95_wait_s": "P95, in the log",
                "why": "why",
            },
        ),
    )
