"""Completion in the shells, by the protocol that their scripts speak."""

import io
import os
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest

from gpuplan.analysis.invoices.registry import INVOICE_FORMATS
from gpuplan.analysis.log_formats.registry import FORMATS
from gpuplan.analysis.plugins import Registry
from gpuplan.analysis.price_formats.registry import PRICE_FORMATS
from gpuplan.analysis.synth import PRESETS
from gpuplan.cli.app.lazy import COMMANDS
from gpuplan.cli.app.manual import manual
from gpuplan.cli.options import completion
from gpuplan.planner import policies
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.registry import BASELINES, POLICIES
from gpuplan.planner.speedup.registry import PROFILES, load_speedup


def asked(variables, *words):
    """Answer the script of a shell as a new process would; returns what is offered."""
    from gpuplan.cli.app.main import app

    printed = io.StringIO()
    with (
        patch.dict(os.environ, variables),
        redirect_stdout(printed),
        pytest.raises(SystemExit) as ended,
    ):
        app(args=list(words), prog_name="gpuplan")
    assert ended.value.code in (0, None)
    return printed.getvalue()


def offered(shell, line):
    """The words a shell offers at the end of a line."""
    words = line.split(" ")
    variables = {"_GPUPLAN_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        variables |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    else:
        variables |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    text = asked(variables)
    if shell == "zsh":
        return [part.partition('"')[0].replace("\\", "") for part in text.split('("')[1:]] + [
            part.strip('"').replace("\\", "") for part in text.split('\n"')[1:]
        ]
    return [row.partition("\t")[0] for row in text.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell):
    text = asked({"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}, "--show-completion", shell)
    assert f"complete_{shell}" in text and "gpuplan" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_by_its_name_is_the_way_the_docs_name(shell):
    text = asked({"_GPUPLAN_COMPLETE": f"source_{shell}"})
    assert f"complete_{shell}" in text and "gpuplan" in text
    assert "`_GPUPLAN_COMPLETE=source_zsh gpuplan`" in manual()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("gpuplan si", "simulate"),
        ("gpuplan pareto --spe", "--speedup"),
        ("gpuplan simulate --policy al", "allpass"),
        ("gpuplan pareto --width-s", "--width-step"),
        ("gpuplan list policies git", "gittins"),
    ],
)
def test_commands_options_and_values_are_completed(shell, line, first):
    assert any(word.startswith(first) for word in offered(shell, line))


@pytest.mark.parametrize(
    ("line", "offer"),
    [
        ("gpuplan ", tuple(COMMANDS)),
        ("gpuplan list p", ("policies", "providers")),
        ("gpuplan compare t --policy s", ("serverless-only", "serverful-only", "smallest", "sjf",
                                          "srtf", "srsf",
                                          "sia", "static-quota", "spot-first-fit")),
        ("gpuplan pareto t --speedup pr", ("profile:t4", "profile:sia")),
        ("gpuplan pareto t --method c", ("convex",)),
        ("gpuplan pareto t --baseline po", ("pollux", "pollux-autoscaling")),
        ("gpuplan ingest t --source-format ph", ("philly",)),
        ("gpuplan prices t --source-format aws", ("aws", "aws-tsv")),
        ("gpuplan synth --preset s", ("seren",)),
        ("gpuplan report t --study s", ("share", "simulate", "size", "sweep")),
        ("gpuplan report t --formats html,j", ("html,json", "html,junit")),
        ("gpuplan report t --formats html,md,", (
            "html,md,json", "html,md,junit", "html,md,svg", "html,md,png")),
    ],
)  # fmt: skip
def test_what_begins_as_typed_is_offered(line, offer):
    assert tuple(offered("bash", line)) == offer


@pytest.mark.parametrize(
    ("offer", "known"),
    [
        (completion.policies, POLICIES),
        (completion.log_formats, FORMATS),
        (completion.price_formats, PRICE_FORMATS),
        (completion.invoice_formats, INVOICE_FORMATS),
        (completion.baselines, (*BASELINES, "all")),
        (completion.presets, (*PRESETS, "gfs")),
    ],
)
def test_the_names_offered_are_those_of_the_registry(offer, known):
    assert list(offer()) == list(known)


def test_every_policy_that_a_file_declares_is_registered():
    folder = Path(policies.__file__).parent
    declared = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        module = import_module(".".join((policies.__name__, *parts)).removesuffix(".__init__"))
        for value in vars(module).values():
            listed = value if isinstance(value, tuple) else (value,)
            declared |= {id(one): one for one in listed if isinstance(one, Policy)}
    assert {policy.name for policy in declared.values()} == POLICIES.built_in.keys()
    assert len(declared) == len(POLICIES.built_in)


def test_two_built_in_policies_of_one_name_are_refused():
    twice = (POLICIES["fifo"], replace(POLICIES["sjf"], name="fifo"))
    with pytest.raises(ValueError, match="two built-in policy entries are called 'fifo'"):
        Registry("gpuplan.policies", "policy", Policy, twice, calls={})


def test_each_speedup_offered_can_be_loaded():
    offered_speedups = list(completion.speedups())
    profiles = {f"profile:{name}" for name in PROFILES}
    assert profiles == {name for name in offered_speedups if name.startswith("profile:")}
    for name in offered_speedups:
        load_speedup(name)
