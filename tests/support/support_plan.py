"""Small plans that tests make: jobs from lists, one GPU type unless a column names several."""

from __future__ import annotations

import json

import numpy as np
from support_traces import frame, in_memory

from gpuplan.planner.plan.columns import route_columns
from gpuplan.planner.plan.jobs import jobs_of_trace
from gpuplan.planner.plan.markets import GpuMarkets
from gpuplan.planner.plan.program import PlanLimits, plan_program
from gpuplan.planner.plan.purchase import purchase
from gpuplan.planner.speedup.functions import measured_curve
from gpuplan.planner.speedup.model import ClassProfile, SpeedupModel

HOUR, DAY, MONTH_H = 3600.0, 86_400.0, 730.5
BOTH = ("--commit", "0.9", "--on-demand", "1.29")
"""Prices of a commitment and on demand."""


def jobs_from(submit_s, run_s, gpus, *, by=None, spot=None, defer=None, **columns):
    """Return jobs of lists; more canonical columns by name."""
    table = frame(
        submit_s,
        duration_s=[float(s) for s in run_s],
        num_gpus=[float(g) for g in gpus],
        **columns,
    )
    return jobs_of_trace(in_memory(table), by=by, spot=spot, defer=defer)


def market(commit=None, on_demand=None, **more):
    """Return the markets of a GPU type with one term."""
    return GpuMarkets({} if commit is None else {"1y": commit}, on_demand, **more)


def table_speedup(**points):
    """Return measured speedups: label=[(width, throughput), ...]."""
    profiles = {}
    for label, pairs in points.items():
        width, value = np.array(pairs, float).T
        profiles[label] = ClassProfile((measured_curve(width, value * width[0] / value[0]),))
    return SpeedupModel("table", "measured", profiles)


def program_of(jobs, markets, *, keep_dominated=False, limits=None, **options):
    """Return the program of jobs: one market for every GPU type, or markets by name."""
    if isinstance(markets, GpuMarkets):
        markets = {name: markets for name in jobs.gpu_type.unique().to_list()}
    columns = route_columns(jobs, markets, **options)
    return plan_program(columns, limits or PlanLimits(), keep_dominated=keep_dominated)


def plan_of(jobs, markets, **options):
    """Return what to buy for jobs."""
    return purchase(program_of(jobs, markets, **options))


def share_of(columns, share, number=0):
    """Return name of route -> share of a class."""
    return {
        columns.routes[i].name: float(share[i])
        for i in np.flatnonzero(columns.class_of == number)
        if share[i] > 1e-9
    }


def document_of(gpuplan, *words):
    """Return the JSON document of a plan that is made."""
    code, out, err = gpuplan("plan", *words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)


def results_of(gpuplan, *words):
    """Return the results of a plan that is made."""
    return document_of(gpuplan, *words)["results"]


def texts_of(gpuplan, *words):
    """Return what a plan that is made says, and what is said beside it, each in one line."""
    code, out, err = gpuplan("plan", *words)
    assert code == 0, err
    return " ".join(out.split()), " ".join(err.split())


def headline_of(gpuplan, *words):
    """Return the first paragraph of a plan that is made, in one line."""
    code, out, err = gpuplan("plan", *words)
    assert code == 0, err
    return " ".join(out.split("\n\n")[0].split())


def refusal_of(gpuplan, code, *words):
    """Return the message with which a plan is refused, in one line."""
    got, _, err = gpuplan("plan", *words)
    assert got == code, err
    return " ".join(err.split())
