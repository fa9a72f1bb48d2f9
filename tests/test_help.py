"""--help is one screen per command with an example that runs; --help-all has every option."""

import gzip
import shlex
import shutil
from pathlib import Path

import pytest
from rich.text import Text
from support_prices import aws_history, aws_record
from support_traces import lab_trace

from gpuplan.cli.app.lazy import COMMANDS, GROUPS, command_named
from gpuplan.cli.app.option_text import options_of

MOST_LINES = 60
MOST_OPTIONS = 12
SAMPLES = Path(__file__).parents[1] / "sample_traces"


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def one_line(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_is_one_screen(gpuplan, narrow, name):
    code, out, _ = gpuplan(name, "--help")
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 80
    common = [one for one in options_of(command_named(name)) if one.is_common]
    assert 1 <= len(common) <= MOST_OPTIONS
    assert all(flag in out for one in common for flag in one.flags)
    assert f"gpuplan {name} --help-all" in out
    assert "[/" not in out  # no markup is left


@pytest.mark.parametrize("name", COMMANDS)
def test_help_all_shows_every_option_in_its_group(gpuplan, narrow, name):
    code, out, _ = gpuplan(name, "--help-all")
    options = options_of(command_named(name))
    assert code == 0
    assert {"--help-all", "--quiet", "--debug"} <= {flag for one in options for flag in one.flags}
    text = one_line(out)
    for one in options:
        assert one_line(f"{', '.join(one.flags)} {one.value}") in text
        assert f"\n{one.panel}\n" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "flags"),
    [("whatif", ("--site", "--set", "--add-nodes", "--scale-load")), ("calibrate", ("--site",))],
)
def test_the_short_help_of_a_twin_has_what_kueue_needs(gpuplan, name, flags):
    out = gpuplan(name, "--help")[1]
    assert [flag for flag in flags if flag not in out] == []


@pytest.mark.parametrize(
    "flag",
    ["--limit", "--max-time", "--move", "--limits-run", "--reserve", "--long-jobs", "--slurm-conf",
     "--limits-times"],
)  # fmt: skip
def test_changes_of_slurm_alone_say_so(flag):
    (option,) = (each for each in options_of(command_named("whatif")) if flag in each.flags)
    assert option.help.startswith("Of Slurm: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_required_option_is_in_the_short_help(name):
    assert all(one.is_common for one in options_of(command_named(name)) if one.is_required)


def test_an_option_outside_of_the_short_help_is_suggested(gpuplan):
    assert "--width-step" not in gpuplan("pareto", "--help")[1]
    code, _, err = gpuplan("pareto", "trace.parquet", "--width-stp", "4")
    assert code == 2 and "--width-step" in err


def test_help_fits_a_very_narrow_terminal(gpuplan, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    code, out, _ = gpuplan("pareto", "--help")
    assert code == 0 and "--budget" in out


def test_the_program_groups_its_commands_by_question(gpuplan, narrow):
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    code, out, _ = gpuplan("--help")
    assert code == 0
    for title, names in GROUPS.items():
        section = out.partition(f"\n{title}\n")[2].partition("\n\n")[0]
        listed = [line.split()[0] for line in section.splitlines() if line[2] != " "]
        assert listed == list(names)
    assert len(out.splitlines()) <= MOST_LINES
    assert all(flag in out for flag in ("--version", "--install-completion", "--help, -h"))


def test_without_arguments_the_help_is_shown(gpuplan):
    code, out, err = gpuplan()
    assert (code, err) == (0, "")
    assert out == gpuplan("--help")[1]


def example_of(name):
    """The words after gpuplan of the example in a command's help."""
    text = Text.from_markup(command_named(name).epilog).plain
    return shlex.split(text.removeprefix("Example: gpuplan "))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_has_the_options_of_its_example(name):
    common = {
        flag for one in options_of(command_named(name)) if one.is_common for flag in one.flags
    }
    used = {word.partition("=")[0] for word in example_of(name) if word.startswith("-")}
    assert used <= common | {"--help"}, name


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the examples read."""
    monkeypatch.chdir(tmp_path)
    lab_trace(tmp_path / "trace.parquet", jobs=80)
    shutil.copy(SAMPLES / "seren.csv", tmp_path / "trace_seren.csv")
    history = aws_history(aws_record("2023-03-01T00:00:00Z", "0.5"))
    (tmp_path / "spot.json.gz").write_bytes(gzip.compress(history.encode()))
    shutil.copytree(SAMPLES / "slurm_site", tmp_path, dirs_exist_ok=True)
    shutil.copy(SAMPLES / "service_profile.csv", tmp_path / "resnet152.csv")
    (tmp_path / "contracts.toml").write_text(
        '[[price]]\ngpu_type = "unknown"\nkind = "on_demand"\nusd_per_gpu_h = 1.6\n'
    )
    (tmp_path / "bursty.txt").write_text("5\n20\n40\n10\n")
    return tmp_path


MADE_FIRST = {
    "diff": [
        ("pareto", "trace.parquet", "--budget", "1.5x,2x", "-o", f"{name}.json")
        for name in ("main", "branch")
    ],
    "run": [("init", "scenario.toml")],
    "share": [("profile", "resnet152.csv", "--slo", "100ms", "-o", "functions.toml")],
    "options": [("calibrate", "sacct.txt", "--slurm-conf", "slurm.conf", "-o", "twin.toml")],
    "eta": [("calibrate", "sacct.txt", "--slurm-conf", "slurm.conf", "-o", "twin.toml")],
    "waste": [("calibrate", "sacct.txt", "--slurm-conf", "slurm.conf", "-o", "twin.toml")],
    "waits": [("calibrate", "sacct.txt", "--slurm-conf", "slurm.conf", "-o", "twin.toml")],
    "whatif": [("calibrate", "sacct.txt", "--slurm-conf", "slurm.conf", "-o", "twin.toml")],
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("demo", "report", "run") else ())
        for name in COMMANDS
    ],
)
@pytest.mark.usefixtures("few_forecasts")
def test_the_example_of_a_command_runs(gpuplan, folder, name):
    for words in MADE_FIRST.get(name, []):
        assert gpuplan(*words)[0] == 0
    words = example_of(name)
    assert words[0] == name
    code, _, err = gpuplan(*words)
    assert code == 0, err
