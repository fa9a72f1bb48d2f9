"""Every option of every command, found in the application itself, and values to try on each.

An option that is new is fuzzed without a change here: by its type, the values it completes to, and
the examples in its help. `VALID` adds what only a person knows.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, get_args

from fuzz.values import DURATIONS, NUMBERS, PATHS, TEXTS, TIMES

WRITES = {
    *("--output", "--plot", "--timeline", "--junit", "--save-model", "--cache"),
    *("--contracts-out", "--mail"),
}
"""Options that name outputs."""
WORK = {
    "--jobs": ("1", "2", "40", "0", "-1", "1e3", "9223372036854775808"),
    "--resamples": ("0", "1", "2", "5", "-1", "x", "1e3"),
    "--parallel": ("1", "2", "0", "-1", "x"),
}
"""Options for the amount of work: large values take long."""
FIXED = {"--engine": ("threads", "x", "")}
"""Options that would start or contact other machines."""
SKIPPED = {
    "--help",
    "--help-all",
    "--install-completion",
    "--show-completion",
    "--address",
    "--debug",
}

SETS = (
    *("gpus=8", "gpus=0", "threshold_s=10m", "threshold_s=inf", "capacity=4", "capacity=0"),
    *("capacity=none", "seed=3", "preemptive=true", "reclaim=true", "pricing=in-force"),
    *("gpu=A100-80GB", "gpu=L4", "provider=vast", "provider=aws", "region=x", "serverless_limit=1"),
    *("billing_step_s=1h", "minimum_billing_s=1e6", "serverless_usd_per_gpu_h=0", "x=1", "=", "a"),
    *("serverless_startup_s=1e9", "marketplace_offers=0", "marketplace_offers=100000000"),
    *("conventional_usd_per_gpu_h=1e300", "conventional_usd_per_gpu_h=-1", "save_every_s=0"),
    *("fixed.threshold_s=60", "las.limits_s=60/600", "2d-las.limits_gpu_s=600/7200", "x.y=z"),
    *("controller=fixed", "scaling=literal", "scale_out=window", "threshold_rule=admission"),
    *(
        "cluster=2x4",
        "cluster=x3",
        "cluster=A100=8/T4=8",
        "service_quantum=1e-9",
        "restore_s=20",
        "checkpoint_s=1e18",
    ),
)
POLICY = (
    *("allpass", "fixed", "serverless-only", "serverful-only", "hpa", "fifo", "first-fit"),
    *("smallest", "sjf", "srtf", "srsf", "edf", "las", "2d-las", "gittins", "none", "x", ""),
    *("fixed:threshold_s=60,capacity=2", "2d-las:limits_gpu_s=600/7200", "fifo:gpus=4", "fifo:"),
    *("fixed:threshold_s=", "fixed:=1", "fifo:preemptive=maybe", "allpass:capacity=0"),
)
FIELDS = (
    *("duration_s.p95 > 4h", "jobs < 10", "knee.mean_jct_s > 4h", "x.y > 1", "jobs >", "> 1"),
    *("jobs > 1e400", "jobs == nan", "jobs > +10%", "knee.budget > +10%", "jobs != -0", "a b c"),
    *("characterize.jobs > 1", "pareto.knee.mean_jct > 4h", "jobs<1" * 50, "jobs > 5 parsecs"),
)
WHERE = (
    *("num_gpus >= 1", "state = 'completed'", "num_gpus >= 8 AND state = 'completed'", "true"),
    *("false", "1", "job_id", "num_gpus / 0 > 1", "duration_s is null", "num_gpus +", "x = 1"),
    *("submit_time > '2024-03-01'", "submit_time > 'x'", "user like '%a%'", "count(*) > 1"),
    *("num_gpus in (select 1)", "'", "num_gpus >= 1; drop table self", "random() > 0", "1 = '1'"),
    *("job_id ~ '('", "sum(num_gpus) > 1", "cast(job_id as int) > 1", "num_gpus = 'a'", "--"),
    " or ".join(f"num_gpus = {i}" for i in range(300)),
    "(" * 200 + "true" + ")" * 200,
    "not " * 500 + "true",
    *("not " * 39 + "true", "not(" * 39 + "true" + ")" * 39, "(not " * 39 + "true" + ")" * 39),
    "nullif(" * 18 + "num_gpus" + ",1)" * 18 + "=1",
    "left(" * 18 + "user" + ",num_gpus::int)" * 18 + "='a'",
    "(" * 18 + "num_gpus" + " between 0 and 1)::int" * 18 + "=1",
    "(" * 18 + "num_gpus" + " in (1,2,3,num_gpus))::int" * 18 + "=1",
    "num_gpus" + " in (1,2,3,num_gpus)" * 8,
    "(case " * 12 + "num_gpus" + " when 1 then 2 when 3 then 4 when 5 then 6 end)" * 12 + "=1",
    "nullif(/*)*/" * 18 + "num_gpus" + ",1)" * 18 + "=1",
)
VALID: dict[str, tuple[str, ...]] = {
    "--set": SETS,
    "run --set": (
        *(
            "study.pareto.budget=1.5x,2x",
            "workload.seed=7",
            "title=x",
            "workload.trace=one.parquet",
        ),
        *("a", "=", "a.b.c.d=1", "study.pareto.budget=", "study.x.command=simulate", "workload=1"),
        *("workload.seed=[1", "output.dir=../x", "output.formats=png", "gates.fail_if=x", ".=1"),
    ),
    "report --set": (
        *("pareto.budget=1.5x,2x", "sweep.threshold=60", "x.y=1", "pareto.x=1", "compare.gpus=8"),
        *("simulate.policy=fifo", "pareto.no_replay=true", "characterize.top=", ".", "="),
    ),
    "--policy": POLICY,
    "--against": POLICY,
    "--fail-if": FIELDS,
    "--where": WHERE,
    "--budget": (
        *("1.2x", "1.2x,1.5x,2x", "20", "10,20,40", "1x", "0.5x", "1e9", "0", "-1", "1.5x-3x", "x"),
        *("1..3", "10:20:5", "nan", "infx", "1.2x," * 300, "$1000", "1e-300", "1e300x"),
    ),
    "--target-jct": ("1h", "10m,1h", "0", "1e-9s", "inf", "x", "1e300h"),
    "--speedup": (
        *("power:0.8", "amdahl:0.05", "usl:0.05,0.001", "profile:t4", "profile:sia", "power:1"),
        *("power:0", "power:0.6..0.9", "amdahl:0..1", "usl:1e300,1", "power:nan", "power:1e-300"),
        *("speedups.csv", "table:speedups.csv", "typed.csv", "pollux:pollux.csv", "pollux.csv"),
        *(
            "table:missing.csv",
            "usl:0.05",
            "amdahl:",
            "power:0.9..0.6",
            "x:1",
            "table:prices.parquet",
        ),
    ),
    "--horizon": ("48h", "1s", *DURATIONS),
    "--rescale": ("20s", "0", *DURATIONS),
    "--widths": ("1,2,4,8", "1", "64", "0", "1,1", "8,4", "1,x", "1.5", "1," * 400, "1e9", "1e18"),
    "--width-step": ("1", "2", "4", "64", "1000000000"),
    "--max-width": ("1", "2", "64", "1000", "1000000000", "0"),
    "--limit": ("bert=2", "bert=0", "x=1", "=", "bert=1e18", "bert=nan", "a=b=c"),
    "--require": ("bert <= 2h", "bert<=1s", "x <= 1h", "bert", "bert <= nan", "<= 1h", "bert < 1h"),
    "--weight": ("bert=2", "bert=0", "bert=1e300", "bert=1e-300", "bert=-1", "x=2", "bert="),
    "pareto --gpu": (
        *("A100", "T4", "A100=2.5", "T4=1", "A100=0", "A100=1e300", "A100=-1", "=2", "L4", "x"),
        *("A100=nan", "A100=2.5=3"),
    ),
    "--gpu": ("A100-80GB", "L4", "T4", "a100", "x", "A100"),
    "--price": ("1.29", "T4=0.5", "A100=2", "0", "-1", "nan", "1e300", "1e-300", "=1", "x", "T4="),
    "--prices": ("builtin", "prices.parquet", "lab.parquet", "missing.parquet", "", "p.csv", "in"),
    "--provider": ("aws", "aws:spot", "vast", "x", ":", "aws:", "aws:x"),
    "--reference": ("aws:on_demand", "vast:spot", "x:y", "aws", ":", "aws:x"),
    "--recorded-on": ("A100", "T4", "x", ""),
    "--cluster": (
        *("8", "2x4", "x8", "A100=2x4", "A100=8,T4=2x4", "0", "2x0", "x", "8,8", "1000000000x8"),
        *("=8", "A100=", "\u00b2x4", "8X4", " 8 x 4 "),
    ),
    "--max-gpus": ("1", "4", "64", "1000000000"),
    "--gpus": ("1", "8", "64", "16777216", "16777217", "0"),
    "--provision-delay": DURATIONS,
    "--release-delay": DURATIONS,
    "--billing": ("1h", "1s", *DURATIONS),
    "--baseline": ("recorded", "fixed", "equal", "pollux", "pollux-autoscaling", "all", "x"),
    "--mark": (
        *("our cluster=64,2h", "x=1,1s", "x=", "=1,1h", "x=0,0", "x=nan,nan", "x=1e300,1e300h"),
        *("60=1", "allpass=$10,1h", "x=-1,-1h", "x=1", "1h"),
    ),
    "--threshold": (
        *("30,60,120", "60", "1m,5m,10m", "0", "inf", "none", "-1", "60,60", "nan", "1e300", "x"),
        *("1e-300", "60," * 300, "300,30"),
    ),
    "--capacity": ("4", "1,2", "none", "0", "-1", "1e18", "x", "4,none"),
    "--price-ratio": ("2", "1,2,4", "0", "-1", "nan", "1e300", "1e-300", "x"),
    "--value-of-time": ("1", "0", "10/h", "$5", "-1", "nan", "1e300", "x"),
    "--deadline-factor": ("3", "1..10", "2-5", "0", "-1", "nan", "1e300", "10..1", "x"),
    "--time-zone": ("UTC", "Europe/Berlin", "+02:00", "x", "", "/etc/passwd", "../x"),
    "--source-format": ("canonical", "csv", "slurm", "x", ""),
    "--worker-type": ("v100", "k80", "x", ""),
    "--gpu-resource": ("google.com/tpu", "cpu", "nvidia.com/gpu", "x", ""),
    "--user-label": ("app", "example.com/user", "x", ""),
    "--node-types": ("t.json", "missing.json", ""),
    "--metric": ("kube_pod_created=pods.json", "x=y", "=", "a=", "kube_pod_created=log.csv"),
    "--map": (
        *("submit_time=created", "duration_s=x", "submit_time=", "=x", "x=y", "num_gpus=num_gpus"),
        *("num_gpus=gpu_num", "submit_time=submit_time", "state=state", "user=user", "a=b=c"),
    ),
    "--max-rejects": ("1%", "100%", "0", "20", "0.01", "1", "-1", "101%", "nan", "x", "1e400", "%"),
    "--sampling": ("snapshot", "change", "x"),
    "--study": ("characterize", "pareto", "sweep", "compare", "simulate", "x", ""),
    "--formats": ("md", "html,md", "json,junit", "svg", "png", "x", "", "md,md", ","),
    "--title": TEXTS,
    "--tolerance": ("0.1%", "0", "1", "0.01", "-1", "nan", "inf", "x", "200%", "1e-300"),
    "--preset": ("seren", "abc", "philly", "helios", "kalos", "wandb", "x"),
    "--days": ("1", "0.1", "30", "0", "-1", "nan", "inf", "1e300", "1e-300", "1e9"),
    "--ci": ("90", "95", "99.999", "0", "100", "-1", "nan", "inf", "1e-300", "50"),
    "--top": ("1", "3", "0", "1000000000"),
    "--sample": ("1", "5", "20", "100", "1000000000"),
    "--seed": ("0", "1", "7", "4294967296", "18446744073709551615", "18446744073709551616"),
    "--scale-duration": ("1", "0.5", "10", "0", "-1", "1e-300", "1e300", "1e9", "nan", "inf"),
    "--scale-interarrival": ("1", "0.5", "10", "0", "-1", "1e-300", "1e300", "1e9", "nan", "inf"),
    "--checkpoints": ("checkpoints.csv", "states.csv"),
    "--throughputs": ("t.csv", "t.json", "profile:sia", "profile:t4", "pollux:t.csv"),
    "--like": ("lab.parquet", "rich.parquet", "bare.parquet", "one.parquet", "same.parquet"),
    "--model": ("model.json",),
}
"""Option, or command and option -> values that mean something, or nearly do."""
EXAMPLE = re.compile(r"for example '?([^;:'\s]+)'?")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command.

    Attributes:
        command: its name.
        flag: how it is written, the long form.
        names: all forms.
        valid: values that mean something, or nearly do; with ``hostile`` empty for a switch.
        hostile: values that it must refuse, or bear.
        writes: whether its value names an output.
        required: whether the command must have it.
        repeats: whether it may be given several times.
    """

    command: str
    flag: str
    names: tuple[str, ...]
    valid: tuple[str, ...]
    hostile: tuple[str, ...]
    writes: bool
    required: bool
    repeats: bool

    @property
    def takes_value(self) -> bool:
        """Return whether it takes a value."""
        return bool(self.valid or self.hostile)

    def draw(self, rng: Random, valid: float = 0.85) -> list[str]:
        """Return the option with a value, in one of the ways to write it.

        Args:
            rng: draws.
            valid: share of values that may be taken.
        """
        name = rng.choice(self.names)
        if not self.takes_value:
            return [name]
        value = rng.choice(self.valid if rng.random() < valid else self.hostile)
        if name.startswith("--") and (value.startswith("-") or rng.random() < 0.3):
            return [f"{name}={value}"]
        return [name, value]


@cache
def options_of(command: str) -> tuple[Option, ...]:
    """Return the options of a command, as the application has them today."""
    from gpuplan.cli.app.lazy import command_named

    found = []
    for one in command_named(command).params:
        if one.param_type_name != "option" or set(one.opts) & SKIPPED:
            continue
        flag = next((name for name in one.opts if name.startswith("--")), one.opts[0])
        found.append(
            Option(
                command,
                flag,
                (*one.opts, *one.secondary_opts),
                *(((), ()) if one.is_flag else _values(command, flag, one)),
                writes=flag in WRITES,
                required=one.required,
                repeats=one.multiple,
            )
        )
    return tuple(found)


def path_options() -> set[str]:
    """Return the options that take paths."""
    from gpuplan.cli.app.lazy import COMMANDS, command_named

    return {
        next(name for name in one.opts if name.startswith("--"))
        for command in COMMANDS
        for one in command_named(command).params
        if one.param_type_name == "option" and _type(one) is Path
    }


def _type(parameter: Any) -> Any:
    annotation = parameter.type_descriptor.annotation
    return (get_args(annotation) or (annotation,))[0]


def _values(command: str, flag: str, parameter: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return values for an option: those that may be taken, and hostile ones."""
    for table in (FIXED, WORK):
        if flag in table:
            return table[flag], table[flag]
    kind = _type(parameter)
    known = VALID.get(f"{command} {flag}", VALID.get(flag, ()))
    complete = getattr(parameter.type_descriptor.parameter_info, "autocompletion", None)
    if complete is not None:
        known = (*known, *complete(""))
    known = (*known, *EXAMPLE.findall(parameter.help or ""))
    if parameter.default is not None and not isinstance(parameter.default, enum.Enum):
        known = (*known, str(parameter.default))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        known, hostile = tuple(str(one.value) for one in kind), ("x", "", "TABLE")
    elif kind in (int, float):
        hostile = NUMBERS
    elif kind is datetime:
        known = (*known, "2024-03-01", "2024-03-02T00:00:00", "2026-01-05", "2026-01-05 01:00:00")
        hostile = TIMES
    elif kind is Path:
        hostile = PATHS
    else:
        hostile = (*NUMBERS, *TEXTS, *DURATIONS, "missing.csv", "lab.parquet")
    return known or hostile, hostile
