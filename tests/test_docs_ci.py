"""The examples for CI services run as they stand, with stand-ins for pip and git alone.

The slow tests start gpuplan itself; the others answer its calls in this process.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from support_within import run_script

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the dev extra")
ROOT = Path(__file__).parents[1]
CI = ROOT / "docs" / "ci"
SITE = ROOT / "sample_traces" / "slurm_site"
SCENARIO = """
workload.synth = {{ preset = "seren", jobs = {jobs}, days = 1, seed = 1 }}
study.pareto = {{ no_replay = true }}
gates.fail_if = "pareto.jobs > {most}"
"""


TOKEN = "token-of-the-test"
STARTS_ITSELF = "GPUPLAN_TEST_STARTS_ITSELF"
"""Variable with which scripts start gpuplan in processes of its own."""

LISTS = ("/repos/acme/plan/issues/12/comments", "/projects/7/merge_requests/12/notes")
EDITS = {
    "PATCH": "/repos/acme/plan/issues/comments/",
    "PUT": "/projects/7/merge_requests/12/notes/",
}


class FakeService:
    """The comments of one pull request (GitHub) or merge request (GitLab), over HTTP."""

    def __init__(self):
        self.comments = []
        self.calls = []
        self.refuses = False
        service = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                url = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length))["body"] if length else None
                known = (self.headers["Authorization"], self.headers["PRIVATE-TOKEN"])
                code, said = 403, {"message": "may not"}
                if not service.refuses and (f"Bearer {TOKEN}" in known or TOKEN in known):
                    code, said = service.answer(self.command, url, body)
                data = json.dumps(said).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = answer

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, method, url, body):
        self.calls.append(method)
        if method == "GET" and url.path in LISTS:
            asked = {key: int(value) for key, (value,) in parse_qs(url.query).items()}
            first = (asked["page"] - 1) * asked["per_page"]
            return 200, self.comments[first : first + asked["per_page"]]
        if method == "POST" and url.path in LISTS:
            self.comments.append({"id": 1000 + len(self.comments), "body": body})
            return 201, self.comments[-1]
        if url.path.startswith(EDITS.get(method, "none")):
            number = int(url.path.rpartition("/")[2])
            (comment,) = (one for one in self.comments if one["id"] == number)
            comment["body"] = body
            return 200, comment
        return 404, {}

    @property
    def ours(self):
        return [one["body"] for one in self.comments if one["body"].startswith("<!-- gpuplan -->")]


@pytest.fixture
def service(monkeypatch):
    """A service with a pull request that people have commented on, and its variables."""
    fake = FakeService()
    fake.comments += [{"id": number, "body": f"comment {number}"} for number in range(150)]
    monkeypatch.setenv("GITHUB_API_URL", fake.url)
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/plan")
    monkeypatch.setenv("GITHUB_REF", "refs/pull/12/merge")
    monkeypatch.setenv("CI_API_V4_URL", fake.url)
    monkeypatch.setenv("CI_PROJECT_ID", "7")
    monkeypatch.setenv("CI_MERGE_REQUEST_IID", "12")
    monkeypatch.setenv("GITLAB_TOKEN", TOKEN)
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


VARIABLES = {"GPUPLAN": "./vendor/gpuplan.whl"}
"""What a user sets in the settings of the repository."""


def value_of(text, variables):
    """What GitHub puts in place of an expression."""
    expression = re.fullmatch(r"\$\{\{ (\S+)(?: \|\| '(.*)')? \}\}", text)
    if expression is None:
        return text
    name, default = expression.groups()
    if name == "github.token":
        return TOKEN
    return variables.get(name.removeprefix("vars."), default or "")


def github_steps(file="github.yml", **variables):
    workflow = yaml.safe_load((CI / file).read_text())
    (job,) = workflow["jobs"].values()
    # GitHub runs each step in a shell of its own that stops at the first error; later ones run
    # if they say so.
    return [
        (
            step["run"],
            step.get("if"),
            step.get("continue-on-error", False),
            {
                key: value_of(value, VARIABLES | variables)
                for key, value in (workflow["env"] | step.get("env", {})).items()
            },
        )
        for step in job["steps"]
        if "run" in step
    ]


def gitlab_steps(file="gitlab.yml", **variables):
    (job,) = yaml.safe_load((CI / file).read_text()).values()
    # Variables of the settings come before those of the file.
    return [("\n".join(job["script"]), None, False, job["variables"] | VARIABLES | variables)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The cache of all jobs, as a service keeps it between two."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project(tmp_path, monkeypatch, cache, request):
    """A checkout with the base branch in base, and commands that do nothing for pip and git."""
    tools = tmp_path / "tools"
    for folder in (tools, tmp_path / "base", tmp_path / "ci"):
        folder.mkdir()
    shutil.copy(CI / "gpuplan_comment.py", tmp_path / "ci")
    for name in ("pip", "git"):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >> "{tmp_path}/tools/called"\n')
        (tools / name).chmod(0o755)
    path = (str(tools), str(Path(sys.executable).parent), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    if request.node.get_closest_marker("slow"):
        monkeypatch.setenv(STARTS_ITSELF, "1")
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITLAB_CI", "GITLAB_TOKEN", "GPUPLAN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def scenarios(project, *, base_jobs, jobs, most):
    (project / "base/gpuplan.toml").write_text(SCENARIO.format(jobs=base_jobs, most=most))
    (project / "gpuplan.toml").write_text(SCENARIO.format(jobs=jobs, most=most))


def run(project, steps):
    """Run the steps as the service would; returns the exit code of the job and what it says."""
    code, said = 0, ""
    for script, when, may_fail, variables in steps:
        if code and when != "always()":
            continue
        options, env = ("-e", "-o", "pipefail"), {**os.environ, **variables}
        if STARTS_ITSELF in env:
            pipes = {"capture_output": True, "text": True}
            shell = ["bash", *options, "-c", script]
            done = subprocess.run(shell, cwd=project, env=env, **pipes, check=False)
            ended, out, err = done.returncode, done.stdout, done.stderr
        else:
            ended, out, err = run_script(script, project, env, *options)
        code = code or (0 if may_fail else ended)
        said += out + err
    return code, said


@pytest.mark.slow
def test_github_lets_no_change_pass_and_shows_the_report(project, service, monkeypatch):
    scenarios(project, base_jobs=300, jobs=300, most=10_000)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    code, said = run(project, github_steps())
    assert code == 0 and "::error" not in said, said
    summary = (project / "summary.md").read_text()
    assert summary.count("pareto.jobs &gt; 10000") == 1  # of this branch, not of the base
    assert "knee.budget &gt; +10%" in summary
    written = {path.name for path in (project / "report").iterdir()}
    report = {"report.html", "report.md", "report.json", "junit.xml"}
    assert written == report | {"diff.xml", "diff.json", "diff.md"}
    assert (project / "tools/called").read_text() == "pip install ./vendor/gpuplan.whl\n"
    assert service.ours == [] and "nothing changed by more than 1%: no comment" in said


def test_gitlab_compares_and_then_keeps_the_exit_code_of_a_gate(project, service, monkeypatch):
    scenarios(project, base_jobs=300, jobs=300, most=10)
    monkeypatch.setenv("GITLAB_CI", "true")
    code, said = run(project, gitlab_steps())
    assert code == 1 and "gate tripped: pareto.jobs" in said, said
    assert said.count("section_start") == 2, said  # the scenario's gates and those on the change
    (job,) = yaml.safe_load((CI / "gitlab.yml").read_text()).values()
    for file in job["artifacts"]["reports"]["junit"]:
        assert (project / file).is_file()
    assert (project / "report/report.html").is_file()
    (comment,) = service.ours  # a gate tripped
    assert "pareto.jobs &gt; 10" in comment and "Inputs and commands" in comment


def test_a_gate_on_the_change_warns_or_fails(project, service, monkeypatch):
    scenarios(project, base_jobs=300, jobs=600, most=10_000)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, said = run(project, github_steps(GPUPLAN_GATES="warn"))
    assert code == 0 and "::warning title=gpuplan gate warning::pareto.knee.budget" in said, said
    assert "comment created" in said and "warning: gate tripped: pareto.knee.budget" in said
    (comment,) = service.ours
    assert "Gates" in comment and comment.count("pareto.knee.budget &gt; +10%") == 1
    code, said = run(project, github_steps()[-2:])
    assert code == 1 and "::error title=gpuplan gate failed::pareto.knee.budget" in said, said
    assert "comment is up to date" in said and len(service.ours) == 1


def test_without_the_variable_nothing_is_installed(project):
    for steps in (github_steps(GPUPLAN=""), gitlab_steps(GPUPLAN="")):
        code, said = run(project, steps[:1])
        assert code != 0 and "set the variable GPUPLAN to a wheel, a folder or a URL" in said
    assert not (project / "tools/called").exists()


CHANGE = {"about": "cost", "change_share": 0.02}


def write_results(project, changes=(), only=(), state="passed", report_state="passed"):
    """What gpuplan report and diff leave for the comment."""
    folder = project / "report"
    folder.mkdir(exist_ok=True)
    (folder / "diff.md").write_text("# The change\n")
    (folder / "report.md").write_text("# The report\n")
    changed = {"changes": list(changes), "only": list(only), "gates": [{"state": state}]}
    (folder / "diff.json").write_text(json.dumps({"results": changed}))
    (folder / "report.json").write_text(json.dumps({"gates": [{"state": report_state}]}))


def comment(project, monkeypatch, name="github"):
    """Run the step that comments; returns its exit code and what it says."""
    if name == "github":
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        ((script, _, _, variables),) = (one for one in github_steps() if "comment.py" in one[0])
    else:
        monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
        (job,) = yaml.safe_load((CI / "gitlab.yml").read_text()).values()
        (script,) = (one for one in job["script"] if "comment.py" in one)
        variables = job["variables"]
    return run(project, [(script, None, False, variables)])


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_one_comment_is_created_then_edited(project, service, monkeypatch, name):
    write_results(project, [CHANGE])
    code, said = comment(project, monkeypatch, name)
    assert code == 0 and "comment created" in said, said
    assert service.ours == ["<!-- gpuplan -->\n\n# The change\n\n# The report"]
    (project / "report/diff.md").write_text("# Another change\n")
    code, said = comment(project, monkeypatch, name)
    assert code == 0 and "up to date" in said, said
    assert service.ours == ["<!-- gpuplan -->\n\n# Another change\n\n# The report"]
    calls = len(service.calls)
    comment(project, monkeypatch, name)
    assert service.calls[calls:] == ["GET", "GET"]  # two pages; nothing to edit
    write_results(project)
    assert comment(project, monkeypatch, name)[0] == 0
    assert service.ours == ["<!-- gpuplan -->\n\nNothing that matters changed by more than 1%."]
    assert len(service.comments) == 151  # those of people are as they were


@pytest.mark.parametrize(
    ("results", "is_silent"),
    [
        ({}, True),
        ({"changes": [{"about": "cost", "change_share": -0.01}]}, True),
        ({"changes": [{"about": None, "change_share": 5.0}]}, True),
        ({"changes": [CHANGE]}, False),
        ({"changes": [{"about": "workload", "change_share": None}]}, False),
        ({"only": [{"name": "sweep"}]}, False),
        ({"state": "warned"}, False),
        ({"report_state": "failed"}, False),
    ],
)
def test_it_is_silent_only_where_nothing_matters(project, service, monkeypatch, results, is_silent):
    write_results(project, **results)
    assert comment(project, monkeypatch)[0] == 0
    assert len(service.ours) == (0 if is_silent else 1)


def test_what_is_too_long_is_named_and_what_is_missing_left_out(project, service, monkeypatch):
    write_results(project)
    (project / "report/diff.json").unlink()
    (project / "report/diff.md").unlink()
    (project / "report/report.md").write_text("x" * 70_000)
    assert comment(project, monkeypatch)[0] == 0
    assert service.ours == [
        "<!-- gpuplan -->\n\n_report.md is too long for a comment; it is in the artifacts._"
    ]


def test_a_token_that_may_not_write_is_told_and_fails_no_job(project, service, monkeypatch):
    write_results(project, [CHANGE])
    service.refuses = True
    code, said = comment(project, monkeypatch)
    assert code == 1 and "403" in said and "may the token write comments?" in said
    assert TOKEN not in said and "Traceback" not in said
    assert next(may for script, _, may, _ in github_steps() if "comment.py" in script)
    code, said = comment(project, monkeypatch, "gitlab")
    assert code == 0 and "no comment" in said
    monkeypatch.delenv("GITLAB_TOKEN")
    assert comment(project, monkeypatch, "gitlab") == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("base", ["no = scenario", "report"])
def test_the_request_that_brings_the_scenario_is_not_compared(project, monkeypatch, base):
    scenarios(project, base_jobs=300, jobs=300, most=10_000)
    there = project / "base/gpuplan.toml"
    if base == "no = scenario":
        there.write_text(base)
    else:
        there.unlink()
    if base == "report":  # one that the base branch keeps is not of its scenario
        (project / "base/report").mkdir()
        (project / "base/report/report.json").write_text("{}")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, said = run(project, github_steps())
    assert code == 0 and "::notice title=gpuplan::not compared" in said, said
    monkeypatch.delenv("GITHUB_ACTIONS")
    (project / "report/report.html").unlink()
    code, said = run(project, gitlab_steps())
    assert code == 0 and "not compared: the target branch" in said, said
    assert (project / "report/report.html").is_file()


@pytest.mark.slow
def test_without_a_base_a_gate_trips_as_ever(project):
    scenarios(project, base_jobs=300, jobs=300, most=10)
    (project / "base/gpuplan.toml").unlink()
    assert [run(project, steps())[0] for steps in (github_steps, gitlab_steps)] == [1, 1]


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    """The settings of the sample site."""
    from gpuplan.cli.app.main import main

    path = tmp_path_factory.mktemp("twin") / "twin.toml"
    known = [f"--sacctmgr={SITE / name}.txt" for name in ("assoc", "qos", "events")]
    files = [str(SITE / "sacct.txt"), f"--slurm-conf={SITE / 'slurm.conf'}", *known]
    assert main(["calibrate", *files, "-o", str(path), "--quiet"]) == 0
    return path


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["github", pytest.param("gitlab", marks=pytest.mark.slow)])
def test_an_edit_of_slurm_conf_gets_one_comment_per_team(project, service, monkeypatch, twin, name):
    if name == "github":
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        steps = github_steps("slurm-github.yml")
    else:
        monkeypatch.setenv("GITLAB_TOKEN", TOKEN)
        steps = gitlab_steps("slurm-gitlab.yml")
    for file in ("sacct.txt", "nodes.conf"):
        shutil.copy(SITE / file, project)
    shutil.copy(twin, project)
    service.comments.append({"id": 999, "body": "<!-- gpuplan -->\n\nof another job"})
    shutil.copy(SITE / "slurm.new.conf", project / "slurm.conf")
    code, said = run(project, steps)
    assert code == 1 and "gate tripped: p95_wait_growth[any team] > 20%" in said, said
    assert "comment created" in said
    ours = [one["body"] for one in service.comments if "gpuplan slurm.conf" in one["body"]]
    (comment,) = ours
    assert comment.startswith(
        "<!-- gpuplan slurm.conf -->\n\n**slurm-conf slurm.conf: waits get longer"
    )
    for team in ("bio", "nlp", "vision"):
        assert f"| {team} |" in comment
    shutil.copy(SITE / "slurm.conf", project / "slurm.conf")
    code, said = run(project, steps)
    assert code == 0 and "comment is up to date" in said, said
    ours = [one["body"] for one in service.comments if "gpuplan slurm.conf" in one["body"]]
    assert len(ours) == 1 and "no wait changes" in ours[0]
    assert len(service.ours) == 1  # that of the other job is as it was


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["github", pytest.param("gitlab", marks=pytest.mark.slow)])
def test_an_edit_of_quotas_gets_one_comment_per_team(project, service, monkeypatch, name):
    (project / "tools" / "git").unlink()  # the one before the change is in a real repository

    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True)

    if name == "github":
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_BASE_REF", "main")
        steps = github_steps("kueue-github.yml")
    else:
        monkeypatch.setenv("GITLAB_TOKEN", TOKEN)
        monkeypatch.setenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")
        steps = gitlab_steps("kueue-gitlab.yml")
    sample = ROOT / "sample_traces" / "kueue" / "workloads.json"
    shutil.copy(sample, project / "kueue.json")
    (project / "kueue").mkdir()
    objects = [thing for thing in json.loads(sample.read_text())["items"]
               if thing["kind"] != "Workload"]  # fmt: skip
    file = project / "kueue" / "queues.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    git("init")
    git("remote", "add", "origin", ".")
    git("add", "kueue")
    git("commit", "-m", "quotas")
    for thing in objects:
        if thing["kind"] == "ClusterQueue":
            for group in thing["spec"]["resourceGroups"]:
                for flavor in group["flavors"]:
                    for resource in flavor["resources"]:
                        resource["nominalQuota"] = int(resource["nominalQuota"]) * 3 // 4
    file.write_text(yaml.safe_dump_all(objects))
    code, said = run(project, steps)
    assert code == 1 and "gate tripped: p95_wait_growth[any team] > 20%" in said, said
    (comment,) = (one["body"] for one in service.comments if "gpuplan kueue" in one["body"])
    assert comment.startswith("<!-- gpuplan kueue -->\n\n**site kueue: ")
    for queue in ("team-a", "team-b"):
        assert f"| {queue} |" in comment
    git("checkout", "kueue")
    code, said = run(project, steps)
    assert code == 0 and "comment is up to date" in said, said
    ours = [one["body"] for one in service.comments if "gpuplan kueue" in one["body"]]
    assert len(ours) == 1 and "no wait changes" in ours[0]
