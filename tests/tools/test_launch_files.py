"""The files of tools/launch, with fakes of Slurm and Python."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import launch_local
import pytest
import yaml

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util import config_flags
from electra_tf.util.errors import ExitCode

ROOT = pathlib.Path(__file__).parents[2]
LAUNCH = ROOT / "tools" / "launch"
_NO_RESTART_CODES = launch_local.NO_RESTART_CODES - {ExitCode.STOPPED_BY_SIGNAL}
_PYTHON = """#!/bin/bash
echo "$TF_CONFIG $*" >> "$LOG"
exit "${CODE:-0}"
"""
_SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
for SLURM_PROCID in 0 1; do
    export SLURM_PROCID
    "$@"
    code=$?
    highest=$((code > highest ? code : highest))
done
exit "$highest"
"""
_SCONTROL = """#!/bin/bash
case $1 in
    show) printf 'n1\\nn2\\n' ;;
    requeue) echo "requeue $2" >> "$LOG" ;;
esac
"""


@pytest.fixture
def run(tmp_path):
    """Runs a script with the fakes; returns exit code and lines of the log."""
    for name, text in (
        ("python", _PYTHON),
        ("srun", _SRUN),
        ("scontrol", _SCONTROL),
    ):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)

    def call(*words, **extra):
        log = tmp_path / "log"
        extra |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log)}
        ended = subprocess.run(
            words, env={**os.environ, **extra}, cwd=ROOT, timeout=30
        )
        return ended.returncode, log.read_text().splitlines()

    return call


def _tf_config(addresses, number):
    """Returns the TF_CONFIG of a worker."""
    task = {"type": "worker", "index": number}
    return {"cluster": {"worker": addresses}, "task": task}


def _parse_log_line(line):
    """Returns TF_CONFIG and the arguments of a worker's command."""
    tf_config, end = json.JSONDecoder().raw_decode(line)
    return tf_config, line[end:].split()


def test_a_worker_gets_its_tf_config_and_its_flags(run):
    script = str(LAUNCH / "worker.sh")
    code, lines = run("bash", script, "a:1,b:2,c:3", "2", "--do_eval", CODE="7")
    tf_config, words = _parse_log_line(*lines)
    assert code == 7 and tf_config == _tf_config(["a:1", "b:2", "c:3"], 2)
    assert words == ["-m", "electra_tf.run_pretraining", "--do_eval"]


def test_slurm_starts_a_worker_a_node(run):
    variables = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_ID": "5"}
    code, lines = run("bash", str(LAUNCH / "slurm.sh"), "--x=y", **variables)
    assert code == 0 and len(lines) == 2
    for number, line in enumerate(lines):
        tf_config, words = _parse_log_line(line)
        assert tf_config == _tf_config(["n1:2222", "n2:2222"], number)
        assert words[-1] == "--x=y"


@pytest.mark.parametrize(
    ("code", "num_restarts", "is_requeued"),
    [
        (0, 0, False),
        (6, 0, False),
        (7, 19, True),
        (7, 20, False),
        (42, 20, True),  # a run may need any number of jobs
        (137, 0, True),
    ],
)
def test_slurm_requeues_what_a_restart_can_continue(
    run, code, num_restarts, is_requeued
):
    variables = {
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_ID": "5",
        "SLURM_RESTART_COUNT": str(num_restarts),
    }
    ended, lines = run(
        "bash", str(LAUNCH / "slurm.sh"), CODE=str(code), **variables
    )
    assert ended == code
    assert ("requeue 5" in lines) == is_requeued


def test_slurm_never_requeues_permanent_failures():
    text = (LAUNCH / "slurm.sh").read_text()
    (codes,) = re.findall(r"    (0 \| .*)\) ;;", text)
    assert set(map(int, codes.split(" | "))) == {0, *_NO_RESTART_CODES}


@pytest.fixture(scope="module")
def manifest():
    text = (LAUNCH / "kubernetes.yaml").read_text()
    return list(yaml.safe_load_all(text))


def test_kubernetes_objects_fit_each_other(manifest):
    service, job = manifest
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    spec, name = job["spec"], job["metadata"]["name"]
    pod = spec["template"]["spec"]
    (worker,) = pod["containers"]
    assert service["spec"]["selector"] == {"job-name": name}
    assert service["spec"]["clusterIP"] == "None"
    assert pod["subdomain"] == service["metadata"]["name"]
    (port,) = service["spec"]["ports"]
    assert worker["ports"] == [{"containerPort": port["port"]}]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    (addresses,) = worker["env"]
    expected = [
        f"{name}-{i}.{pod['subdomain']}:{port['port']}"
        for i in range(spec["completions"])
    ]
    assert addresses["value"].split(",") == expected
    claimed = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in worker["volumeMounts"]} == claimed


def _drop_unknown(given, kept):
    """Returns an object without the keys that are not in a kept one."""
    if isinstance(given, dict):
        return {
            k: _drop_unknown(v, kept[k]) for k, v in given.items() if k in kept
        }
    if isinstance(given, list):
        return [_drop_unknown(*pair) for pair in zip(given, kept, strict=False)]
    return given


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl")
@pytest.mark.parametrize(
    ("number", "words"),
    [(0, ["selector", "job-name=electra"]), (1, ["env", "ADDED=1"])],
)
def test_kubernetes_types_have_every_field_of_the_manifest(
    tmp_path, manifest, number, words
):
    """When kubectl changes an object, it drops fields that it does not know."""
    given = {**manifest[number], "misspelt": 1}
    path = tmp_path / "object.json"
    path.write_text(json.dumps(given))
    command = ["kubectl", "set", *words, "--local", "-f", path, "-o", "json"]
    kept = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert _drop_unknown(given, json.loads(kept.stdout)) == manifest[number]


def test_kubernetes_restarts_what_the_launcher_restarts(manifest):
    spec = manifest[1]["spec"]
    (worker,) = spec["template"]["spec"]["containers"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    codes = {}
    for rule in spec["podFailurePolicy"]["rules"]:
        if "onExitCodes" in rule:
            assert rule["onExitCodes"]["containerName"] == worker["name"]
            assert rule["onExitCodes"]["operator"] == "In"
            codes[rule["action"]] = set(rule["onExitCodes"]["values"])
    assert codes == {
        "FailJob": _NO_RESTART_CODES,
        "Ignore": {ExitCode.STOPPED_BY_SIGNAL},
    }


def test_kubernetes_runs_a_command_that_is_understood(run, manifest):
    (worker,) = manifest[1]["spec"]["template"]["spec"]["containers"]
    variables = {entry["name"]: entry["value"] for entry in worker["env"]}
    _, (line,) = run(*worker["command"], JOB_COMPLETION_INDEX="1", **variables)
    tf_config, words = _parse_log_line(line)
    assert tf_config == _tf_config(variables["ADDRESSES"].split(","), 1)
    assert words[:2] == ["-m", "electra_tf.run_pretraining"]
    config = config_flags.parse(PretrainingConfig, words[2:])
    assert config.run.data_dir == "/data"
