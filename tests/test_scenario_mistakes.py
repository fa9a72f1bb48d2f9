"""Mistakes in a scenario: each with its line, once, and the nearest key."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import pytest
import support_document as made
from support_scenario import load, mistakes

from gpuplan.analysis.base.errors import GpuplanError, InputError, UsageError
from gpuplan.cli.scenario.loading import load_scenario
from gpuplan.cli.scenario.source import read_source

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made.write_trace(tmp_path / "trace.parquet", 3)
    return tmp_path


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
        ("[study.characterize]\nseed = -1", "plan.toml:2: --seed must be"),
        ("[study.compare]\npolicy = 'allpas'", "plan.toml:2: --policy"),
        ("[study.pareto]\nspeedup = 'table:no.csv'", "plan.toml:1: no.csv: no such file"),
        ("[policies]\nfixed = 3", "plan.toml:2: [policies] expected a table [policies.fixed]"),
        ("[output]\nformats = [['md']]", "plan.toml:2: [output] no format ['md']"),
        ("[output]\nformats = ['md']", "plan.toml:1: [output] expected dir"),
        ("[output]\ndir = ''", "[output] expected dir = the folder to write to"),
        ("[output]\ndir = '=1+1'", "[output] dir = '=1+1': expected a name that no spreadsheet"),
        ("[output]\ndir = 'out/-rf'", "[output] dir = 'out/-rf': expected"),
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
        "plan.toml:3: --seed must be at least 0, got '-1'",
    ]


def test_a_mistake_in_an_override_is_told_as_that(folder):
    text = "[workload]\ntrace = 'trace.parquet'\n[study.pareto]"
    assert mistakes(folder, text, "study.pareto.budget=1y")[0].startswith(
        "--set study.pareto.budget=1y: --budget '1y'"
    )
    assert mistakes(folder, text, "x.y=3")[0].startswith("--set x.y=3: no key 'x'")


def test_a_study_of_the_log_as_recorded_says_so_beside_scaled_ones(folder):
    trace = "[workload]\ntrace = 'trace.parquet'\n"
    studies = "[study.characterize]\n[study.waits]\n"
    assert load(folder, f"{trace}scale_interarrival = 0.8\nsample = 9\n{studies}").notes == (
        "study waits: waits uses the log as recorded, without scale_interarrival of [workload]",
    )
    assert load(folder, f"{trace}scale_interarrival = 1.0\n{studies}").notes == ()


def test_what_no_study_takes_is_a_warning(folder):
    text = "[workload]\ntrace = 'trace.parquet'\n[speedups]\nspeedup = 'power:0.8'\n[study.sweep]"
    assert load(folder, text).warnings == (
        f"{folder}/plan.toml:4: no study takes [speedups] speedup",
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a = 1\n[x\n", "plan.toml:2: not TOML: expected ']'"),
        (b"a = [1", "plan.toml:1: not TOML: unclosed array"),
        (b"a = 1\na = 2\n", "plan.toml:2: not TOML: 'a' is given twice, first on line 1"),
        (
            b"[x]\ntop = 1\n[study.c]\ntop = [\n 1,\n]\nci = 1\ntop = [\n 2,\n]\n",
            "plan.toml:10: not TOML: 'study.c.top' is given twice, first on line 4\n  next: keep",
        ),
        (
            b"[workload]\na = 1\n[b]\n[workload]\n",
            "plan.toml:4: not TOML: [workload] is given twice, first on line 1\n  next: keep one",
        ),
        (b"a = { b = 1 }\n[a.c]\nd = 1\n", "plan.toml:2: not TOML: cannot declare 'a.c' twice"),
        (b"a = 1\n[a.b]\n", "plan.toml:2: not TOML: "),
        (b"a = power\n", "not TOML: invalid value\n  next: texts stand in quotes"),
        (
            b"[[x]]\na = 2,40\n[[x]]\n",
            "plan.toml:2: not TOML: a: found 2,40\n  next: write a = 2.40",
        ),
        (b"a = $2.40 # each\n", "plan.toml:1: not TOML: a: found $2.40\n  next: write a = 2.40"),
        (b"a = 1,234,000\n", "found 1,234,000\n  next: write a = 1234000"),
        (b"a = $1,234.50\n", "write a = 1234.50"),
        (b"[[x]]\na = 1\n[[x]]\na = 2\na = 3\n", "'x.a' is given twice, first on line 4"),
        (b"[[x]] a = 1\n", "plan.toml:1: not TOML: several keys on one line\n  next: each key"),
        (b'[[x]]\na = "b", c = 2\n', "plan.toml:2: not TOML: several keys on one line"),
        (b"a = '\xff'", "plan.toml: byte 5 is not UTF-8"),
    ],
)
def test_what_is_no_toml(folder, data, said):
    (folder / "plan.toml").write_bytes(data)
    with pytest.raises(InputError) as raised:
        load_scenario(folder / "plan.toml")
    assert said in str(raised.value)


def test_a_scenario_without_studies_or_with_unknown_forms_runs_nothing(folder):
    assert mistakes(folder, "[workload]\ntrace = 'trace.parquet'") == [
        "plan.toml: expected a study, as [study.pareto]",
    ]
    with pytest.raises(UsageError):
        read_source(folder / "plan.toml", ["title"])


def test_lines_of_keys_after_long_values_and_brackets_in_strings(folder):
    blank = "\n" * 20_000
    text = f'''[workload] # [
a = "]\\"["
b = """
[x]
"""
c = [1,{blank}[2]]
[[d.'e.f']]
g.h = '[y'
'''
    (folder / "plan.toml").write_text(text)
    places = read_source(folder / "plan.toml").places
    lines = {".".join(keys): int(place.rpartition(":")[2]) for keys, place in places.items()}
    end = 6 + len(blank)
    assert lines == {
        **{"workload": 1, "workload.a": 2, "workload.b": 3, "workload.c": 6},
        **{"d": end + 1, "d.e.f": end + 1, "d.e.f.g": end + 2, "d.e.f.g.h": end + 2},
    }


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
            code, _, err = gpuplan("report", path, "-o", tmp_path / "made")
            assert code == 3 and "TOML" in err, err


def test_a_broken_line_is_told_beside_a_value_that_is_nested_too_deeply(gpuplan, tmp_path):
    path = tmp_path / "s.toml"
    deep = "[" * 5000 + "]" * 5000
    path.write_text(f"[workload]\nlog = x\nscale_interarrival = {deep}\n")
    code, out, err = gpuplan("run", path)
    assert (code, out) == (3, "") and "s.toml:2: not TOML" in " ".join(err.split())


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (f"log = x\nscale_interarrival = {'9' * 5000}\n", "s.toml:2: not TOML"),
        (f"log = 'x'\nscale_interarrival = 0x{'f' * 5000}\n", "integer of more than 14,000 bits"),
    ],
)
def test_integers_that_python_cannot_write_are_refused(gpuplan, tmp_path, lines, said):
    path = tmp_path / "s.toml"
    path.write_text(f"[workload]\n{lines}")
    code, out, err = gpuplan("run", path)
    assert (code, out) == (3, "") and said in " ".join(err.split())
    words = ("run", path, "--set", f"title=0x{'f' * 5000}")
    path.write_text("[workload]\nlog = 'x'\n")
    code, _, err = gpuplan(*words)
    assert code == 2 and "more than 14,000 bits" in " ".join(err.split())
