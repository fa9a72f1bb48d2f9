"""Quotas of ``gpuplan plan --export kueue``, replayed by the twin of Kueue."""

import json

import pytest
from support_plan import HOUR
from support_traces import write_trace

pytestmark = pytest.mark.compiled


def test_the_quotas_of_a_plan_are_enough_for_its_jobs(gpuplan, tmp_path):
    # a on 4 GPUs all the time, b on 2 more for an hour of each 4 h
    starts = [4 * HOUR * day for day in range(12)]
    trace = write_trace(
        tmp_path / "t.parquet",
        [s for start in starts for s in (start, start + HOUR)],
        [4 * HOUR, HOUR] * 12,
        [4.0, 2.0] * 12,
        group=["a", "b"] * 12,
    )
    words = ("--commit", "0.9", "--on-demand", "1.29", "--by", "group", "--export", "kueue")
    code, _, err = gpuplan("plan", trace, *words, "-o", tmp_path / "out")
    assert code == 0, err
    file = tmp_path / "out" / "kueue.json"

    def waits(site):
        words = ("--policy", "kueue", "--site", site, "--output-format", "json")
        code, out, err = gpuplan("simulate", trace, *words)
        assert code == 0, err
        return json.loads(out)["results"]

    planned = waits(file)
    assert planned["mean_wait_s"] == 0
    document = json.loads(file.read_text())
    for item in document["items"]:
        for group in item["spec"].get("resourceGroups", []):
            for flavor in group["flavors"]:
                if flavor["name"].endswith("on-demand"):
                    flavor["resources"][0]["nominalQuota"] = 0
    fewer = tmp_path / "fewer.json"
    fewer.write_text(json.dumps(document))
    assert waits(fewer)["mean_wait_s"] > 0
