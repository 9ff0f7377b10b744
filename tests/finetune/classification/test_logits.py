"""What logits mean: one is a value, those of several labels independent."""

import json

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
import tiny_finetuning as tiny

import electra_tf
from electra_tf import convert_checkpoint
from electra_tf.checkpoint import loading
from electra_tf.config.analysis import ConvertConfig
from electra_tf.finetune import export, scorer
from electra_tf.finetune import run as finetuning_run
from electra_tf.finetune.classification.classification_tasks import MULTI_LABEL
from electra_tf.finetune.preprocessing import Features
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

TEXTS = ["the good film", "it was a bad plot", "very", "the film was it"] * 2
LABELS = ("insult", "threat", "toxic")
SETS = [["toxic"], ["threat", "insult"], [], [*LABELS]] * 2


def _theirs(path, num_labels, **fields):
    """Writes a classifier of Hugging Face's; returns its encoder and head."""
    labels = [f"LABEL_{i}" for i in range(num_labels)]
    known = {"labels": labels, "max_seq_length": 16}
    task = tiny.task("classification", head="hugging_face", metadata=known)
    tiny.write_trained(path / "ours", task)
    written = loading.read(str(path / "ours"))
    kind = "sequence_classification"
    networks = ("discriminator",)
    directory = str(path / "hf")
    loading.write(directory, written, "hf", networks=networks, kind=kind)
    config = json.loads((path / "hf/config.json").read_text())
    (path / "hf/config.json").write_text(json.dumps({**config, **fields}))
    return directory, written


def _logits(written, *texts):
    """Computes dense, gelu, dense on the state of [CLS]."""
    tokenizer = electra_tf.ElectraBackbone(tiny.ENCODER, tiny.VOCABULARY)
    ids = tokenizer.preprocess(*map(tf.constant, texts))
    x = loading.make(written).encoder(**ids).pooled_output.numpy()
    for i, name in enumerate(("dense", "out_proj")):
        x = x * scipy.special.ndtr(x) if i else x  # gelu
        part = f"task_specific/own/classifier/{name}"
        x = x @ written.arrays[f"{part}/kernel"]
        x = x + written.arrays[f"{part}/bias"]
    return x


def test_one_logit_of_hugging_face_is_a_value(tmp_path):
    directory, written = _theirs(tmp_path, 1)
    with pytest.raises(UserError, match="ElectraRegressor"):
        electra_tf.ElectraClassifier.from_finetuned(directory)
    pairs = list(zip(TEXTS[:4], TEXTS[1:5], strict=True))
    first, second = zip(*pairs, strict=True)
    expected = _logits(written, first, second)
    model = electra_tf.ElectraRegressor.from_finetuned(directory)
    found = model.predict(pairs, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    predictor = electra_tf.Predictor(directory)
    found = [answer["prediction"] for answer in predictor(pairs)]
    np.testing.assert_allclose(found, expected[:, 0], atol=1e-5)
    served = export.served_model(predictor).answer_texts(first, second)
    np.testing.assert_allclose(served["prediction"], found, atol=1e-5)
    assert min(found) < 0 or max(found) > 1  # nothing is clipped


def test_independent_labels_have_sigmoids(tmp_path):
    names = {str(i): name for i, name in enumerate(LABELS)}
    fields = {"id2label": names, "problem_type": MULTI_LABEL}
    directory, written = _theirs(tmp_path, 3, **fields)
    logits = _logits(written, TEXTS)
    expected = 1 / (1 + np.exp(-logits))
    sets = [
        [x for x, p in zip(LABELS, row, strict=True) if p > 0.5]
        for row in expected
    ]
    assert {len(x) for x in sets} != {1}
    model = electra_tf.ElectraClassifier.from_finetuned(directory)
    assert model.classify(TEXTS) == sets
    predictor = electra_tf.Predictor(directory)
    answers = predictor(TEXTS)
    assert [answer["prediction"] for answer in answers] == sets
    found = [[*answer["probabilities"].values()] for answer in answers]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    served = export.served_model(predictor).answer_texts(TEXTS)
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-6)
    shown = served["prediction"].numpy().tolist()
    assert [[x.decode() for x in row if x] for row in shown] == sets
    for source, target in (("hf", "electra_tf"), ("electra_tf", "again")):
        files = {"input": str(tmp_path / source)}
        files["output"] = str(tmp_path / target)
        target_format = "hf" if target == "again" else target
        config = ConvertConfig(**files, target_format=target_format)
        convert_checkpoint.main(config)
        cls = electra_tf.ElectraClassifier
        assert cls.from_finetuned(files["output"]).classify(TEXTS) == sets
    stored = json.loads((tmp_path / "again/config.json").read_text())
    assert stored["problem_type"] == MULTI_LABEL


ROWS = [{"text": x, "label": y} for x, y in zip(TEXTS, SETS, strict=True)]
TARGETS = [[label in labels for label in LABELS] for labels in SETS]


def _losses(logits, targets):
    return np.logaddexp(0, np.where(targets, -logits, logits)).mean(-1)


def test_a_column_of_lists_holds_sets_of_labels(tmp_path):
    path = tiny.write(tmp_path, "own", "train.jsonl", ROWS)
    task = tiny.task("classification", tmp_path, train_file=str(path))
    examples = task.get_examples("train")
    assert [list(example.label) for example in examples] == SETS
    features = Features(task.featurize(examples, is_training=True))
    batch = features.batch(tf.range(8), 16)
    np.testing.assert_array_equal(batch["label_ids"], TARGETS)
    logits = np.random.default_rng(0).normal(size=(8, 3))
    found = task.head().losses({"logits": np.float32(logits)}, batch)
    np.testing.assert_allclose(found, _losses(logits, TARGETS), rtol=1e-5)
    tiny.write(tmp_path, "own", "train.jsonl", [*ROWS, ROWS[0] | {"label": 1}])
    task = tiny.task("classification", tmp_path, train_file=str(path))
    with pytest.raises(UserError):
        task.get_examples("train")


@pytest.mark.slow
def test_sets_of_labels_are_learnt_from_lists(tmp_path):
    tiny.write_model(tmp_path)
    for split in ("train", "dev", "test"):
        tiny.write(tmp_path, "own", f"{split}.jsonl", ROWS)
    settings = {"task_names": ("own",), "task_kind": "classification"}
    settings |= {"num_trials": 1, "num_train_epochs": 40.0, "main_metric": "f1"}
    config = tiny.config(tmp_path, **settings, write_test_outputs=True)
    report = finetuning_run.run(config)
    assert report["summary"]["dev"]["accuracy"]["median"] == 100
    models = tmp_path / "models/tiny"
    trial = models / "finetuning_models/own_model_1"
    predictor = electra_tf.Predictor(trial)
    assert [{*x["prediction"]} for x in predictor(TEXTS)] == [*map(set, SETS)]
    model = electra_tf.ElectraClassifier.from_finetuned(str(trial))
    assert [*map(set, model.classify(TEXTS))] == [*map(set, SETS)]
    (file,) = models.glob("submissions/**/*.csv")
    assert json.loads(file.read_text().splitlines()[3].split(",")[1]) == []


def test_keras_learns_sets_of_labels(tmp_path):
    tiny.write_model(tmp_path)
    path, options = str(tmp_path / "models/tiny"), {"is_multi_label": True}
    with seeds.seed_initializers(0):
        model = electra_tf.ElectraClassifier.from_checkpoint(
            path, labels=LABELS, **options
        )
    model.compile(model.make_optimizer(1e-2), run_eagerly=True)
    losses = model.fit(TEXTS, SETS, 4, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < 0.95 * losses[0]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    logits = again.predict(TEXTS, verbose=0)
    sets = [
        [x for x, y in zip(LABELS, row > 0, strict=True) if y] for row in logits
    ]
    assert again.classify(TEXTS) == sets
    right = (logits > 0) == np.array(TARGETS)
    expected = [_losses(logits, TARGETS).mean(), right.mean()]
    scores = again.evaluate(TEXTS, SETS, verbose=0)
    assert scores == pytest.approx(expected, rel=1e-4)
    for labels in (["toxic", "rude"], [1, 0, 1]):
        with pytest.raises(UserError):
            model.dataset(TEXTS[:1], [labels])
    with pytest.raises(UserError):
        model.fit(TEXTS, SETS, class_weight={"toxic": 2.0})


def test_metrics_of_sets_count_sets_labels_and_decisions():
    targets = np.array([[1, 0], [1, 1], [0, 0], [0, 1]], bool)
    found = scorer.classification_metrics(targets, targets ^ [[1, 0]] * 4)
    assert found["accuracy"] == 0 and found["macro_f1"] == 50
    found = scorer.classification_metrics(targets, targets | [True, False])
    expected = {"accuracy": 50, "precision": 400 / 6, "recall": 100, "f1": 80}
    assert {x: found[x] for x in expected} == pytest.approx(expected)
