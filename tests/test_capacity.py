"""Jobs never hold more GPUs than a cluster has; where a log says so, its times are wrong."""

import json
from dataclasses import replace

import pytest
from support_runs import HEADER, H, at, row, trace_of

from gpuplan.analysis.characterize.capacity import warnings_above_nodes
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.trace.trace import read_trace


def on(job, submit, start, end, gpus, nodes, elapsed=None):
    """Return a row of sacct with the nodes that the job had."""
    count = nodes.count(",") + 1
    ran = end - start if elapsed is None else elapsed
    return (
        f"{job}|ana|lab|gpu|COMPLETED|{at(submit)}|{at(start)}|{at(end)}|{ran}|{count}|"
        f"gres/gpu:a100={gpus},gres/gpu={gpus}|{nodes}"
    )


def said(tmp_path, rows):
    log = tmp_path / "n.txt"
    log.write_text("\n".join([f"{HEADER}|NodeList", *rows]) + "\n")
    result = ingest([log], tmp_path / "n.parquet")
    trace = read_trace(tmp_path / "n.parquet", optional=("node_list",))
    return warnings_above_nodes(trace), result


FULL = [on(n, 0, 0, 48 * H, 4, f"a{n}") for n in (1, 2)]
"""Two nodes of 4 GPUs, all held for two days."""


def test_more_than_the_nodes_have_is_said_with_its_hours(tmp_path):
    later = [on(3, 0, 47 * H, 50 * H, 4, "a1")]  # begins an hour before node a1 is free
    (warning,), _ = said(tmp_path, [*FULL, *later])
    assert warning.startswith(
        "jobs held up to 12 A100 GPUs at once, more than the 8 of the 2 nodes that the log names, "
        "of 4 each, for 1 h between 2026-01-06 23:00 and 2026-01-07 00:00 UTC"
    )
    assert "--time-zone" in warning


def test_a_full_cluster_is_no_mistake(tmp_path):
    assert said(tmp_path, [*FULL, on(3, 0, 48 * H, 50 * H, 8, "a1,a2")])[0] == ()


def test_nodes_that_hold_more_for_long_are_larger(tmp_path):
    shared = [on(n + 2, 0, 40 * H, 45 * H, 4, f"a{n}") for n in (1, 2)]
    assert said(tmp_path, [*FULL, *shared])[0] == ()  # nodes of 8 whose jobs take half


def test_a_clock_that_was_set_back_is_said(tmp_path):
    _, result = said(tmp_path, [*FULL, on(3, 0, 50 * H, 52 * H, 4, "a1", elapsed=3 * H)])
    (warning,) = result.warnings
    assert warning.startswith("1 job ran an hour longer than from start to end")
    assert "--time-zone" in warning and said(tmp_path, FULL)[1].warnings == ()


@pytest.mark.parametrize("command", ["bill", "size"])
def test_more_than_the_cluster_of_the_user_is_said_with_its_hours(gpuplan, tmp_path, command):
    rows = [row(1, 0, 0, 10 * H, 8), row(2, 0, 0, 10 * H, 8), row(3, 2 * H, 4 * H, 6 * H, 8)]
    rows.append(row(4, 50 * H, 50 * H, 51 * H, 1))
    options = ("--price", "2") if command == "bill" else ("--target", "mean_wait <= 4h")
    path = trace_of(tmp_path, rows)
    code, out, err = gpuplan(command, path, *options, "--cluster=2x8", "--output-format=json")
    assert code == 0, err
    warnings = " ".join(json.loads(out)["warnings"])
    assert "more than the 16 of --cluster, for 2 h between 2026-01-05 04:00 and" in warnings
    wide = gpuplan(command, path, *options, "--cluster=3x8", "--output-format=json")[1]
    assert "more than" not in " ".join(json.loads(wide)["warnings"])


def test_pods_are_no_log_of_local_times(tmp_path):
    said(tmp_path, [*FULL, on(3, 0, 47 * H, 50 * H, 4, "a1")])
    trace = read_trace(tmp_path / "n.parquet", optional=("node_list",))
    trace = replace(trace, provenance=replace(trace.provenance, source_format="kube"))
    (warning,) = warnings_above_nodes(trace)
    assert "--time-zone" not in warning
    assert warning.endswith("nodes that are gone are not in the log")


@pytest.mark.parametrize(
    "words",
    [("size", "--price", "2", "--gpus", "8"), ("pareto",), ("plan", "--on-demand", "2")],
    ids=lambda words: words[0],
)
def test_every_replay_of_today_has_the_nodes_that_the_log_names(gpuplan, tmp_path, words):
    later = [on(3, 0, 47 * H, 50 * H, 4, "a1")]
    more = [on(n, n * 60 * H, n * 60 * H, n * 60 * H + H, 4, "a2") for n in range(4, 24)]
    log = tmp_path / "n.txt"
    log.write_text("\n".join([f"{HEADER}|NodeList", *FULL, *later, *more]) + "\n")
    command, *options = words
    code, out, err = gpuplan(command, log, *options, "--output-format", "json")
    assert code == 0, err
    assert json.loads(out)["results"]["fidelity"]["cluster_gpus"] == 8
