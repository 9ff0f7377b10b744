"""Studies: arms of equal cost, results that are found again, a whole run."""

import dataclasses
import json
import subprocess
import sys

import pytest
import studies
import study_report

SHIPPED = sorted((studies.ROOT / "configs/studies").glob("*.toml"))
STUDIES = [path for path in SHIPPED if path != studies.PROBES]
TEXT = """
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


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
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


def test_trials_that_learnt_nothing_choose_no_rate(tmp_path):
    path = tmp_path / "which.toml"
    path.write_text(TEXT)
    study = studies.read_study(path)
    study = dataclasses.replace(study, learning_rates=(1e-3, 2e-3, 4e-3))
    results = studies.Results(tmp_path / "which.jsonl")
    gates = dict(zip(study.learning_rates, (0.97, 0.9, 0.96), strict=True))
    for run in study.trials("electra"):
        assert results.learning_rate(study, "electra") is None
        key = {"run": run.name, "fingerprint": run.fingerprint}
        rate = run.learning_rate
        results.add({**key, "learning_rate": rate, "gate": gates[rate]})
    assert results.learning_rate(study, "electra") == 2e-3


@pytest.mark.slow
def test_a_study_trains_its_arms_once(tmp_path):
    path = tmp_path / "which.toml"
    path.write_text(TEXT)
    documents = (f"a b ab {i:b}.\nbab bb.\n\n" for i in range(400))
    (tmp_path / "text.txt").write_text("".join(documents))
    command = [
        *(sys.executable, studies.ROOT / "tools/replication/study.py"),
        *(f"--study={path}", f"--data_dir={tmp_path}"),
        f"--corpus={tmp_path}/text.txt",
    ]
    subprocess.run(command, check=True)
    lines = (tmp_path / "studies/which.jsonl").read_text()
    assert [json.loads(x)["arm"] for x in lines.splitlines()] == [
        *("electra", "bert")
    ]
    subprocess.run(command, check=True)
    assert (tmp_path / "studies/which.jsonl").read_text() == lines
