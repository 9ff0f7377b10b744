"""The launcher, the accelerator check on a CPU, studies, and every example."""

import json
import runpy
import subprocess
import sys
import warnings

import accelerator_check
import launch_local
import pytest
import studies
import study_report
import tiny_finetuning
import tiny_scoring

EXAMPLES = studies.ROOT / "tools/examples"
SHIPPED = sorted((studies.ROOT / "configs/studies").glob("*.toml"))
STUDIES = [path for path in SHIPPED if path != studies.PROBES]


def stem(path):
    return path.stem


WORKER = """
import json, os, pathlib, signal, sys, time
number = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
log = pathlib.Path(sys.argv[1], str(number))
with log.open("a") as f:
    f.write("start\\n")
if log.read_text() == "start\\n":
    if number == 1:
        {}
    while not log.with_name("1").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    sys.exit(7)
"""
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize(
    ("failure", "restarts", "starts", "code"),
    [
        (KILLED, 1, 2, 0),
        (KILLED, 0, 1, 137),
        ("sys.exit(1)", 2, 2, 0),
        ("sys.exit(2)", 2, 1, 2),
        ("sys.exit(42)", 2, 1, 42),
    ],
)
def test_failures_that_may_pass_start_all_again(
    tmp_path, failure, restarts, starts, code
):
    """The other workers end with exit code 7, as those that lost one do."""
    work = WORKER.format(failure)
    command = [sys.executable, "-S", "-c", work, str(tmp_path)]
    found = launch_local.launch(command, num_workers=3, max_restarts=restarts)
    assert found == code
    counts = [path.read_text().count("start") for path in tmp_path.iterdir()]
    assert counts == [starts] * 3


@pytest.mark.slow
def test_the_checks_pass_on_a_cpu():
    words = [sys.executable, accelerator_check.__file__]
    words += ["--device=cpu", "--quick"]
    output = subprocess.check_output(words, text=True)
    assert output.count("| pass |") == 3


@pytest.mark.parametrize("path", STUDIES, ids=stem)
def test_arms_of_a_shipped_study_cost_the_same_and_have_results(path):
    study = studies.read_study(path)
    studies.read_probes(study.probes)
    for arm in study.arms.keys() - {*study.first_weights}:
        flops = studies.count_flops(study.runs(arm, 1e-3)[0].config)
        assert flops == pytest.approx(study.training_flops, rel=1e-3)
    results = studies.Results(path.with_suffix(".jsonl"))
    for arm in study.arms:
        seeds = {x["seed"] for x in results.records if x["arm"] == arm}
        assert study_report.runs_of(study, results).get(arm) or not seeds


STUDY = """
question = "Which?"
source = "none"
flagfile = "configs/demo.cfg"
flags = [
  "--num_hidden_layers=1", "--hidden_size=16", "--embedding_size=8",
  "--num_attention_heads=1", "--generator_hidden_size=0.5", "--vocab_size=150",
  "--max_seq_length=16", "--train_batch_size=4", "--nodo_export",
  "--held_out_fraction=0.2",
]
baseline = "electra"
training_flops = 1e8
seeds = [0]
learning_rates = [0.001]
[arms]
electra = []
bert = ["--objective=mlm"]
"""


@pytest.mark.slow
def test_a_study_trains_its_arms_once(tmp_path):
    (tmp_path / "which.toml").write_text(STUDY)
    documents = (f"a b ab {i:b}.\nbab bb.\n\n" for i in range(400))
    (tmp_path / "text.txt").write_text("".join(documents))
    command = [
        *(sys.executable, studies.ROOT / "tools/replication/study.py"),
        *(f"--study={tmp_path}/which.toml", f"--data_dir={tmp_path}"),
        f"--corpus={tmp_path}/text.txt",
    ]
    subprocess.run(command, check=True)
    results = (tmp_path / "studies/which.jsonl").read_text()
    arms = [json.loads(line)["arm"] for line in results.splitlines()]
    assert arms == ["electra", "bert"]
    subprocess.run(command, check=True)
    assert (tmp_path / "studies/which.jsonl").read_text() == results


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("data")
    tiny_finetuning.write_model(data_dir)
    return data_dir / "models/tiny"


@pytest.mark.slow
@pytest.mark.usefixtures("products_in_bfloat16")
@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=stem)
def test_an_example_warns_of_nothing(
    script, encoder, tmp_path, monkeypatch, capfd
):
    flags = [f"--model={encoder}"]
    if script.stem == "pretrain_with_keras":
        flags = [f"--output={tmp_path}/trained"]
    elif script.stem == "prompt_texts":
        flags = [f"--model={tiny_scoring.write_run(tmp_path)[1]}"]
    elif script.stem != "frozen_features":
        flags.append("--epochs=1")
    if script.stem == "classify_reviews":
        flags.append(f"--output={tmp_path}/film.keras")
    monkeypatch.setattr("sys.argv", [str(script), *flags])
    monkeypatch.syspath_prepend(EXAMPLES)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        runpy.run_path(str(script), run_name="__main__")
    assert not [x for x in caught if x.category is UserWarning]
    output = capfd.readouterr()
    assert output.out and "WARNING" not in output.err
