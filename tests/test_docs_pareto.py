"""Every key that ``gpuplan pareto`` writes is a word in code type in docs/boa-output.md."""

from support_docs import undocumented
from support_pareto import results, write_hours

PAGE = ["boa-output.md"]


def test_every_number_of_one_type_is_documented(newtrace, gpuplan):
    asked = (newtrace, "--speedup", "profile:t4", "--target-jct", "1h", "--price", "1")
    found = results(gpuplan, *asked, "--max-gpus", "300", "--baseline", "fixed-width",
        "--mark", "known=64,1h")  # fmt: skip
    assert found["baselines"] and found["marks"] and found["timeline"] and found["price"]
    assert undocumented(found, PAGE) == []


def test_every_number_of_a_range_is_documented(tmp_path, gpuplan):
    found = results(gpuplan, write_hours(tmp_path), "--speedup", "power:0.5..0.8")
    assert found["speedup_ends"] and found["recorded"]
    assert undocumented(found, PAGE) == []


def test_every_number_of_several_types_is_documented(newtrace, gpuplan):
    types = ("--gpu", "T4", "--gpu", "A100", "--price", "T4=0.5", "--price", "A100=2")
    found = results(gpuplan, newtrace, "--speedup", "profile:sia", *types)
    assert found["points"][0]["replay"]["types"]
    for point in found["points"]:
        for replay in point["replay"]["types"].values():
            assert undocumented(replay, PAGE) == []
    for price in found["prices"].values():
        assert undocumented(price, PAGE) == []
    assert undocumented(found, PAGE) == []
