"""Scenario files read and checked: what studies become, and every mistake with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import support_document as made
from hypothesis import given
from hypothesis import strategies as st
from support_scenario import load

from gpuplan.analysis.base.errors import GpuplanError
from gpuplan.cli.scenario.shared_options import SECTIONS
from gpuplan.cli.scenario.source import read_source

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made.write_trace(tmp_path / "trace.parquet", 3)
    return tmp_path


def arguments(folder: Path, text: str, *overrides: str) -> dict[str, tuple[str, ...]]:
    text = '[workload]\ntrace = "trace.parquet"\n' + text
    return {one.name: one.arguments for one in load(folder, text, *overrides).studies}


def test_a_study_takes_what_sections_give_to_all(folder):
    found = arguments(
        folder,
        """
        where = "num_gpus > 1"
        include_running = true
        deadline_factor = 3
        [prices]
        file = "builtin"
        gpu = "A100"
        [speedups]
        speedup = "power:0.7"
        [study.characterize]
        [study.pareto]
        [study.sweep]
        """,
    )
    where = "--where=num_gpus > 1"
    prices = ("--prices=builtin", "--gpu=A100")
    assert {name: set(given) for name, given in found.items()} == {
        "characterize": {where, *prices},
        "pareto": {where, *prices, "--speedup=power:0.7"},
        "sweep": {
            *(where, "--include-running", "--deadline-factor=3"),
            *("--prices=builtin", "--set=gpu=A100"),
        },
    }


def test_a_studys_own_options_count_before_those_of_all(folder):
    text = """
        seed = 3
        [prices]
        file = "builtin"
        [study.characterize]
        seed = 5
        prices = false
        [study.again]
        command = "characterize"
    """
    assert arguments(folder, text) == {
        "characterize": ("--seed=5",),
        "again": ("--seed=3", "--prices=builtin"),
    }


def test_prices_go_only_where_they_can_be_used(folder):
    text = "[prices]\n{}\n[study.characterize]\n[study.pareto]\n[study.simulate]"
    alone = arguments(folder, text.format('file = "builtin"'))
    every = ("characterize", "pareto", "simulate")
    assert alone == dict.fromkeys(every, ("--prices=builtin",))
    path = folder / "c.toml"
    path.write_text("[[commitment]]\ngpu_type = 'A100'\ngpus = 8\nusd_per_gpu_h = 1\n")
    book = arguments(folder, text.format(f'contracts = "{path}"\nowned = "A100=8"'))
    assert book == dict.fromkeys(every, (f"--contracts={path}", "--owned=A100=8"))
    priced = arguments(folder, text.format('gpu = "T4"\nprice = 0.5'))
    assert set(priced["characterize"]) == {"--gpu=T4", "--price=0.5"}
    assert set(priced["pareto"]) == {"--gpu=T4", "--price=0.5"}
    assert priced["simulate"] == ("--price=0.5",)
    mixed = arguments(folder, text.format('gpu = {T4 = 1, V100 = 2.5}\nfile = "builtin"'))
    assert mixed["characterize"] == mixed["simulate"] == ("--prices=builtin",)
    assert set(mixed["pareto"]) == {"--prices=builtin", "--gpu=T4=1", "--gpu=V100=2.5"}


def test_settings_go_to_the_policies_that_have_them(folder):
    found = arguments(
        folder,
        """
        [clouds]
        capacity = 9
        checkpoint_s = "20s"
        conventional_usd_per_gpu_h = 1.5
        [policies.fixed]
        threshold_s = "5m"
        [policies.allpass]
        controller = "adaptive"
        [study.compare]
        policy = ["fixed", "fifo"]
        [study.sweep]
        set = { restore_s = 7 }
        [study.simulate]
        policy = "fifo"
        [study.small]
        command = "simulate"
        policy = "fixed"
        """,
    )
    shared = ["--set=capacity=9", "--set=checkpoint_s=20s", "--set=conventional_usd_per_gpu_h=1.5"]
    policies = ["--policy=fixed", "--policy=fifo"]
    assert list(found["compare"]) == [*shared, "--set=fixed.threshold_s=5m", *policies]
    assert list(found["sweep"]) == [*shared, "--set=restore_s=7"]  # it has a controller of its own
    assert list(found["simulate"]) == [
        *("--set=gpus=9", "--set=checkpoint_s=20s", "--set=conventional_usd_per_gpu_h=1.5"),
        "--policy=fifo",
    ]
    assert list(found["small"]) == [*shared, "--set=threshold_s=5m", "--policy=fixed"]


def test_what_is_nearer_to_a_study_counts_and_is_given_once(folder):
    text = """
        [clouds]
        checkpoint_s = 1
        restore_s = 1
        tick_s = 1
        [policies.allpass]
        restore_s = 2
        tick_s = 2
        [study.sweep]
        set = {}
        """
    for own in ("{ tick_s = 3 }", '["tick_s=3"]', '"tick_s=3"'):
        assert set(arguments(folder, text.format(own))["sweep"]) == {
            *("--set=checkpoint_s=1", "--set=restore_s=2", "--set=tick_s=3"),
        }


def test_a_size_of_a_study_counts_before_that_of_all(folder):
    text = """
[workload]
trace = "trace.parquet"
[clouds]
capacity = 200
[study.compare]
policy = "hpa"
[study.small]
command = "simulate"
policy = "srtf"
gpus = 64
"""
    found = {study.name: study.arguments for study in load(folder, text).studies}
    assert "--set=capacity=200" in found["compare"]
    assert list(found["small"]) == ["--policy=srtf", "--gpus=64"]


def test_a_workload_may_be_made(folder):
    (folder / "log.csv").write_text("x", encoding="utf-8")
    study = "\n[study.characterize]"
    log = load(folder, "[workload]\nlog = 'log.csv'" + study).workload
    assert (log.command, log.arguments, log.trace) == ("ingest", ("log.csv",), "log.parquet")
    log = load(
        folder, "[workload]\nlog = {file = ['log.csv'], map = {submit_time = 'at'}}" + study
    ).workload
    assert log.arguments == ("log.csv", "--map=submit_time=at")
    synth = load(folder, "[workload.synth]\npreset = 'kalos'\njobs = 9" + study).workload
    assert (synth.command, synth.trace) == ("synth", "kalos.parquet")
    assert synth.arguments == ("--preset=kalos", "--jobs=9")


def test_overrides_replace_add_and_choose_the_workload(folder):
    text = "[workload]\nsynth = {preset = 'kalos', jobs = 9}\n[study.pareto]\nbudget = '2x'"
    scenario = load(
        folder,
        text,
        *("workload.trace=trace.parquet", "study.pareto.budget=1.5x", "study.sweep.seed=4"),
        *('title="a = b"', "workload.where=num_gpus = 1", "gates.fail_if=['knee.gpus > 3']"),
    )
    assert scenario.title == "a = b" and scenario.workload.trace == "trace.parquet"
    assert scenario.gates == ("knee.gpus > 3",)
    assert [one.arguments for one in scenario.studies] == [
        ("--where=num_gpus = 1", "--budget=1.5x"),
        ("--where=num_gpus = 1", "--seed=4"),
    ]
    assert load(folder, text, "workload.synth.jobs=7").workload.arguments[1] == "--jobs=7"


@pytest.mark.parametrize("override", ["budget", "=3", "a..b=3", "a b=3", "title.x=3", "a=1\nb.c=2"])
def test_an_override_that_is_none(folder, override):
    with pytest.raises(GpuplanError) as raised:
        load(folder, "title = 'x'", override)
    assert "--set" in str(raised.value)


LEAVES = st.sampled_from(
    ["1", "'a # b'", '"]["', "[\n1, # [x]\n2,\n]", '"""\n[study.no]\na = 1\n"""', "1979-05-27"]
)


@given(st.lists(st.tuples(st.sampled_from(["t", "u.v", '"o d"']), LEAVES), max_size=6))
def test_every_key_has_its_line(tmp_path_factory, drawn):
    lines: list[str] = ["# a comment", ""]
    expected: dict[tuple[str, ...], int] = {}
    for number, (table, leaf) in enumerate(drawn):
        keys = (*table.replace('"', "").split("."), f"n{number}")
        lines += [f"[{table}.n{number}]", "# [not.this]", f"in.key = {leaf}", ""]
        header = sum(1 + line.count("\n") for line in lines[:-4]) + 1
        expected |= {keys: header, (*keys, "in"): header + 2, (*keys, "in", "key"): header + 2}
    path = tmp_path_factory.mktemp("toml") / "x.toml"
    path.write_bytes("\r\n".join("\n".join(lines).split("\n")).encode())
    places = read_source(path).places
    assert {keys: places[keys] for keys in expected} == {
        keys: f"{path}:{line}" for keys, line in expected.items()
    }


def test_the_scenario_of_the_docs_is_right_and_its_keys_are_all(folder):
    text = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")
    scenario = load(folder, text.partition("```toml\n")[2].partition("```")[0])
    assert [one.name for one in scenario.studies] == ["characterize", "pareto", "narrow", "compare"]
    assert not scenario.warnings and len(scenario.gates) == 2
    for section, keys in SECTIONS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `[{section}]` |"))
        documented = set(re.findall(r"`(\w+)`", row.split("|")[2]))
        assert documented - {"trace", "log", "synth", "characterize", "pareto"} == set(keys)


def test_a_command_that_is_not_a_text_is_named(gpuplan, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for command in ("[]", "{ a = 1 }", "3"):
        study = f"study.pareto = {{ command = {command} }}\n"
        Path("s.toml").write_text(f'workload.trace = "trace.parquet"\n{study}')
        code, _, err = gpuplan("run", "s.toml", "--list")
        assert code == 2 and "[study.pareto] no command" in err, err
        Path("s.toml").write_text(study)
        code, _, err = gpuplan("run", "s.toml", "--list")
        assert code == 2 and "workload" in err, err
