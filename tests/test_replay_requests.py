"""What replays are asked: one declaration for the command line, JSON and the library."""

from pathlib import Path
from typing import Annotated

import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, declared_options, parameters_type
from gpuplan.planner.money.price_request import BOOK_PARAMETERS
from gpuplan.planner.requests.clusters import ClusterListRequest, ClusterRequest
from gpuplan.planner.requests.compare import CompareRequest
from gpuplan.planner.requests.replays import GpuTypeRequest, ReplayRequest
from gpuplan.planner.requests.simulate import SimulateRequest

REPLAY = ReplayRequest(Path("t.parquet"))


def names_of(kind):
    return {option.name for option in declared_options(kind)}


def test_a_field_of_a_group_in_a_group_is_left_out():
    without = Annotated[ReplayRequest, Group(without=("jobs.spot", "gpu_types", "by"))]
    left_out = {"spot", "by", "throughputs", "gpu_speed", "round", "estimate_error"}
    assert names_of(ReplayRequest) - names_of(without) == left_out
    assert "period_from" in names_of(without) and "period_from" not in names_of(CompareRequest)


def test_other_options_are_settings_of_the_policy():
    request = SimulateRequest(
        ReplayRequest(Path("t.parquet"), gpu_types=GpuTypeRequest(round="10m")),
        policy="gavel",
        settings=("objective=max-min",),
        cluster=ClusterRequest(cluster="V100=2x4,T4=2x4"),
    )
    (spec,) = request.specs()
    assert spec.policy == "gavel" and spec.settings["round_s"] == 600
    assert spec.settings["cluster"].gpus == 16
    (spec,) = SimulateRequest(REPLAY, policy="easy", limit_factor=3.0).specs()
    assert spec.settings["limit_factor"] == 3


def test_several_sizes_are_a_row_each_and_in_the_parameters():
    request = CompareRequest(REPLAY, policy=("fifo",), cluster=ClusterListRequest(gpus="4,8"))
    assert [spec.label for spec in request.specs()] == ["fifo:gpus=4", "fifo:gpus=8"]
    shown = request.parameters()
    assert (shown["cluster"], shown["gpus"]) == ("4,8", [4, 8])
    assert shown.keys() | {"policies"} == parameters_of(CompareRequest)


def parameters_of(kind):
    optional = {"as_of", "spot", "by", *BOOK_PARAMETERS}
    return set(parameters_type(kind).__dataclass_fields__) - optional


def test_what_a_run_knows_is_declared():
    computed = {"policy", "settings", "price_choice"}
    assert SimulateRequest(REPLAY).parameters().keys() | computed == parameters_of(SimulateRequest)


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (
            SimulateRequest(REPLAY, policy="fifo", spot_price=1.0),
            "--spot-price: fifo lends no GPUs",
        ),
        (
            CompareRequest(
                ReplayRequest(Path("t.parquet"), checkpoints=Path("c.csv")), policy=("fifo",)
            ),
            "--checkpoints: none of fifo moves or stops jobs",
        ),
    ],
)
def test_what_no_policy_has_use_for_is_refused_before_a_file_is_read(policies, said):
    with pytest.raises(UsageError, match=said):
        policies.check()
