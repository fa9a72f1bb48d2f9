"""Scenario files read and checked: what studies become, and every mistake with its line."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import pytest
import support_document as made
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.errors import GpuplanError, InputError, UsageError
from gpuplan.cli.scenario.loading import load_scenario
from gpuplan.cli.scenario.scenario import Scenario, ScenarioError
from gpuplan.cli.scenario.shared_options import SECTIONS
from gpuplan.cli.scenario.source import read_source

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made.write_trace(tmp_path / "trace.parquet", 3)
    return tmp_path


def load(folder: Path, text: str, *overrides: str) -> Scenario:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return load_scenario(path, overrides)


def arguments(folder: Path, text: str, *overrides: str) -> dict[str, tuple[str, ...]]:
    text = '[workload]\ntrace = "trace.parquet"\n' + text
    return {one.name: one.arguments for one in load(folder, text, *overrides).studies}


def mistakes(folder: Path, text: str, *overrides: str) -> list[str]:
    """Return what is said of a scenario, each without the folder."""
    with pytest.raises(ScenarioError) as raised:
        load(folder, text, *overrides)
    assert raised.value.exit_code in (2, 3)
    said = str(raised.value).replace(f"{folder}/", "")
    return [one.partition("\n  next")[0] for one in said.split("\nerror: ")]


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
        "characterize": {where, "--include-running", *prices},
        "pareto": {where, *prices, "--speedup=power:0.7"},
        "sweep": {where, "--include-running", "--deadline-factor=3"},
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
    assert alone == {"characterize": ("--prices=builtin",), "pareto": (), "simulate": ()}
    priced = arguments(folder, text.format('gpu = "T4"\nprice = 0.5'))
    assert priced["characterize"] == ()
    assert set(priced["pareto"]) == {"--gpu=T4", "--price=0.5"}
    mixed = arguments(folder, text.format('gpu = {T4 = 1, V100 = 2.5}\nfile = "builtin"'))
    assert mixed["characterize"] == ("--prices=builtin",)
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


def test_every_mistake_with_its_line_and_the_nearest_key(folder):
    found = mistakes(
        folder,
        """titel = "x"
[workload]
trace = "trase.parquet"
sampl = 3
[prices]
fil = "builtin"
[clouds]
capacty = 3
checkpoint_s = "soon"
[policies.fxed]
a = 1
[study.pareto]
budgett = "2x"
budget = '''
1.2y'''
[study.sweep]
include_running = "yes"
threshold = "30 parsecs"
[study.second]
command = "swep"
[study.compare]
set = ["nonsense=3"]
[output]
dir = "out"
formats = ["htm"]
[gates]
fail_if = "pareto.knee >> 4"
""",
    )
    assert found == [
        "plan.toml:1: no key 'titel'; did you mean 'title'?",
        "plan.toml:3: trase.parquet: no such file",
        "plan.toml:4: [workload] no key 'sampl'; did you mean 'sample'?",
        "plan.toml:6: [prices] no key 'fil'; did you mean 'file'?",
        "plan.toml:8: [clouds] no key 'capacty'; did you mean 'capacity'?",
        "plan.toml:9: --set checkpoint_s 'soon': expected a duration such as 90s, 45m, 48h or 2d",
        "plan.toml:10: no policy 'fxed'; did you mean 'fixed'?",
        "plan.toml:13: gpuplan pareto has no option 'budgett'; did you mean 'budget'?",
        found[8],
        "plan.toml:17: include_running: expected true or false, found 'yes'",
        found[10],
        "plan.toml:20: [study.second] no command 'swep'; did you mean 'sweep'?",
        found[12],
        "plan.toml:25: [output] no format 'htm'; did you mean 'html'?",
        found[14],
    ]
    assert found[8].startswith("plan.toml:14: --budget '1.2y'")
    assert found[10].startswith("plan.toml:18: --threshold '30 parsecs'")
    assert found[12].startswith("plan.toml:22: --set 'nonsense=3': none of allpass")
    assert found[14].startswith("plan.toml:27: --fail-if 'pareto.knee >> 4'")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "[workload] expected one of trace, log, synth; found none"),
        (
            "[workload]\ntrace = 'trace.parquet'\nlog = 'x.csv'",
            "plan.toml:1: [workload] expected one of trace, log, synth; found trace and log",
        ),
        ("[workload]\nsynth = {jobs = 3}", "plan.toml:2: synth: expected one of preset, like"),
        ("[workload]\nsynth = {preset = 'kalos'}", "plan.toml:2: synth: expected jobs"),
        ("[workload]\nlog = {}", "plan.toml:2: log: expected the file"),
        ("[workload]\nlog = 'no.csv'", "plan.toml:2: no.csv: no such file"),
        ("[workload]\ntrace = 3", "plan.toml:2: trace: expected a text in quotes, found 3"),
        ("workload = 3", "plan.toml:1: workload: expected [workload]"),
        ("title = 3", "plan.toml:1: title: expected a text in quotes, found 3"),
        ("[[study]]\nname = 'pareto'", "plan.toml:1: study: expected [study.NAME]"),
        ("[study]\npareto = 3", "plan.toml:2: expected a table [study.NAME]; found pareto = 3"),
        ('[study."a b"]\ncommand = "pareto"', "plan.toml:1: [study.a b] expected a name of"),
        ("[study.ingest]", "plan.toml:1: [study.ingest] no command 'ingest'"),
        ("[study.pareto]\ncommand = 3", "plan.toml:2: [study.pareto] no command 3"),
        ("[study.pareto]\noutput = 'x.json'", "plan.toml:2: gpuplan pareto has no option 'output'"),
        ("[study.simulate]\ntimeline = 't.parquet'", "plan.toml:2: gpuplan simulate has no option"),
        ("[study.pareto]\nbudget = {a = 1}", "plan.toml:2: budget: expected a text or a number"),
        ("[study.characterize]\nseed = -1", "plan.toml:2: Invalid value for '--seed': must be"),
        ("[study.compare]\npolicy = 'allpas'", "plan.toml:2: --policy"),
        ("[study.pareto]\nspeedup = 'table:no.csv'", "plan.toml:1: no.csv: no such file"),
        ("[policies]\nfixed = 3", "plan.toml:2: [policies] expected a table [policies.fixed]"),
        ("[output]\nformats = [['md']]", "plan.toml:2: [output] no format ['md']"),
        ("[output]\nformats = ['md']", "plan.toml:1: [output] expected dir"),
        ("[gates]\nfail_if = [3]", "plan.toml:2: fail_if: expected texts in quotes, found 3"),
        (
            "[study.characterize]\n[gates]\nfail_if = ['charcterize.duration.p95 > 4h']",
            "plan.toml:3: --fail-if 'charcterize.duration.p95 > 4h': no study 'charcterize'; did",
        ),
        ("[gates]\nfail_if = ['duration.p95 > 4 parsecs']", "no unit 'parsecs'; expected s, min"),
        ("[gates]\nfail_if = ['duration.p95 > 10 minutes']", "no unit 'minutes'; did you mean min"),
        ("[gates]\nfail = 3", "plan.toml:2: [gates] no key 'fail'; did you mean 'fail_if'?"),
    ],
)
def test_a_mistake_is_told_where_it_stands(folder, text, said):
    assert any(said in one for one in mistakes(folder, text)), mistakes(folder, text)


def test_a_mistake_in_what_all_take_is_told_once(folder):
    text = "[workload]\ntrace = 'trace.parquet'\nseed = -1\n[study.pareto]\n[study.sweep]"
    assert mistakes(folder, text) == [
        "plan.toml:3: Invalid value for '--seed': must be at least 0",
    ]


def test_a_mistake_in_an_override_is_told_as_that(folder):
    text = "[workload]\ntrace = 'trace.parquet'\n[study.pareto]"
    assert mistakes(folder, text, "study.pareto.budget=1y")[0].startswith(
        "--set study.pareto.budget=1y: --budget '1y'"
    )
    assert mistakes(folder, text, "x.y=3")[0].startswith("--set x.y=3: no key 'x'")


def test_what_no_study_takes_is_a_warning(folder):
    text = "[workload]\ntrace = 'trace.parquet'\n[speedups]\nspeedup = 'power:0.8'\n[study.sweep]"
    assert load(folder, text).warnings == (
        f"{folder}/plan.toml:4: no study takes [speedups] speedup",
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a = 1\n[x\n", "plan.toml:2: no TOML: expected ']'"),
        (b"a = [1", "plan.toml: no TOML: "),
        (b"a = 1\na = 2\n", "plan.toml:2: no TOML: 'a' is given twice, first on line 1"),
        (
            b"[x]\ntop = 1\n[study.c]\ntop = [\n 1,\n]\nci = 1\ntop = [\n 2,\n]\n",
            "plan.toml:10: no TOML: 'study.c.top' is given twice, first on line 4\n  next: keep",
        ),
        (
            b"[workload]\na = 1\n[b]\n[workload]\n",
            "plan.toml:4: no TOML: [workload] is given twice, first on line 1\n  next: keep one",
        ),
        (b"a = { b = 1 }\n[a.c]\nd = 1\n", "plan.toml:2: no TOML: cannot declare 'a.c' twice"),
        (b"a = 1\n[a.b]\n", "plan.toml:2: no TOML: "),
        (b"a = power\n", "no TOML: invalid value\n  next: texts stand in quotes"),
        (b"a = '\xff'", "plan.toml: byte 5 is not UTF-8"),
    ],
)
def test_what_is_no_toml(folder, data, said):
    (folder / "plan.toml").write_bytes(data)
    with pytest.raises(InputError) as raised:
        load_scenario(folder / "plan.toml")
    assert said in str(raised.value)


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


def test_a_scenario_without_studies_or_with_unknown_forms_runs_nothing(folder):
    assert mistakes(folder, "[workload]\ntrace = 'trace.parquet'") == [
        "plan.toml: expected a study, as [study.pareto]",
    ]
    with pytest.raises(UsageError):
        read_source(folder / "plan.toml", ["title"])


def test_the_scenario_of_the_docs_is_right_and_its_keys_are_all(folder):
    text = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")
    scenario = load(folder, text.partition("```toml\n")[2].partition("```")[0])
    assert [one.name for one in scenario.studies] == ["characterize", "pareto", "narrow", "compare"]
    assert not scenario.warnings and len(scenario.gates) == 2
    for section, keys in SECTIONS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `[{section}]` |"))
        told = set(re.findall(r"`(\w+)`", row.split("|")[2]))
        assert told - {"trace", "log", "synth", "characterize", "pareto"} == set(keys)


def paths(table: dict, before: tuple[str, ...] = ()):
    for key, value in table.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from paths(value, (*before, key))


@pytest.mark.parametrize(
    "value", ["3", "-1", "'x'", "true", "[]", "{}", "[[1]]", "{a={b=1}}", "1979-05-27", "nan", "''"]
)
def test_any_value_anywhere_is_taken_or_refused(tmp_path, value):
    text = (files("gpuplan.cli.scenario") / "example.toml").read_text(encoding="utf-8")
    path = tmp_path / "plan.toml"
    path.write_text(text, encoding="utf-8")
    for keys in paths(tomllib.loads(text)):
        with suppress(GpuplanError):
            load_scenario(path, [f"{'.'.join(keys)}={value}"])


def test_tables_of_any_depth_are_refused_with_a_message(gpuplan, tmp_path):
    path = tmp_path / "s.toml"
    for depth in (400, 2000):
        for rest in ("", "x = 2\n"):  # given twice, which is looked for below the deep table
            path.write_text(f"[{'.'.join('a' * depth)}]\nx = 1\n{rest}")
            code, _, told = gpuplan("report", path, "-o", tmp_path / "made")
            assert code == 3 and "no TOML" in told, told
