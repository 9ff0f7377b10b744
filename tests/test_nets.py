"""The commands write for fixed inputs what they wrote before.

    python tests/test_nets.py

rewrites tests/golden/nets.json. Its content changes only in a commit that says
what changed, and why that is right.

Files that version 0.1 wrote, in tests/golden/written, still open: `.keras`
files, trials of fine-tuning, and a pre-training run stopped after one update.
"""

import contextlib
import hashlib
import importlib
import json
import pathlib
import random
import shutil
import tempfile
import typing

import golden_arrays
import keras
import numpy as np
import pretraining_command
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the operations of SavedModels)

import electra_tf
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util.flags import (
    check_same_experiment,
    load_config,
    parse_flags,
)

PATH = golden_arrays.HERE / "golden/nets.json"
WRITTEN = golden_arrays.HERE / "golden/written"
GOLDEN = json.loads(PATH.read_text("utf-8"))
ANSWERS = json.loads((WRITTEN / "answers.json").read_text("utf-8"))
KINDS = ("classification", "regression", "tagging", "qa")
PACKINGS = {
    "carry": (),
    "original": ("--packing=original",),
    "packed": ("--packing=packed",),
    "phases": ("--seq_length_phases=32:0.9,64:0.1",),
    "duplicates": ("--drop_duplicates",),
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXTS = [
    *("the good film is very", "it was a bad plot", "good", "", "bad ."),
    *("a bad bad film", "dead ace bad", "The GOOD film", "the é film"),
    *("中 bad", "bag fade", "  cab   dab ", "a b c d e f g h", "hage"),
    *("good - bad", "was it good ?", "ghebg ab", "x"),
    *("the plot was very good", "fab " * 12),
]


def run(command, *flags):
    main = importlib.import_module(f"electra_tf.{command}").main
    config_class = typing.get_type_hints(main)["config"]
    main(parse_flags(config_class, [str(flag) for flag in flags]))


def write_corpus(directory):
    """Writes a megabyte of text in two files, and a vocabulary."""
    rng = random.Random(0)
    words = [
        "".join(rng.choices(LETTERS, k=rng.randint(1, 9))) for _ in "x" * 900
    ]
    words += ["Émile", "ÜBER", "naïve", "東京", "don't", "3.14", "(see", "end)"]

    def document():
        lines = rng.choice((1, 2, 3, 20))
        return "\n".join(
            " ".join(rng.choices(words, k=rng.randint(3, 30))) + "."
            for _ in range(lines)
        )

    documents = [document() for _ in range(1500)]
    documents[700] = documents[3]
    middle = len(documents) // 2
    halves = {"a.txt": documents[:middle], "b.txt": documents[middle:]}
    for name, part in halves.items():
        (directory / name).write_text("\n\n".join(part) + "\n", "utf-8")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,'()-0123456789"]
    tokens += [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokens += sorted({word for word in words[:300] if len(word) > 1})
    vocabulary = directory / "vocab.txt"
    vocabulary.write_text("\n".join(tokens) + "\n", "utf-8")


def records(packing):
    """Returns the digest of each file of records of a built data set."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        write_corpus(root)
        flags = (
            f"--corpus={root}/a.txt,{root}/b.txt --vocab_file={root}/vocab.txt "
            f"--output_dir={root}/out --max_seq_length=64 --num_shards=3 "
            "--held_out_fraction=0.1"
        )
        run("build_pretraining_dataset", *flags.split(), *PACKINGS[packing])
        return digests(root, "*.tfrecord*")


def digests(root, *patterns):
    """Returns path -> start of a file's SHA-256."""
    return {
        str(path.relative_to(root)): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()[:16]
        for path in sorted(x for p in patterns for x in root.rglob(p))
    }


@contextlib.contextmanager
def written_run():
    """Yields the data directory of the run of version 0.1."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        shutil.copytree(WRITTEN / "run", root, dirs_exist_ok=True)
        for name in ("models/run/config", "pretrain_tfrecords/manifest"):
            path = root / f"{name}.json"
            text = path.read_text("utf-8").replace("/data", str(root))
            path.write_text(text, "utf-8")
        yield root


def scores():
    """Returns the objects that `score` writes for each text."""
    with written_run() as root:
        lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
        (root / "in.jsonl").write_text(lines, "utf-8")
        texts = (f"--input={root}/in.jsonl", f"--output={root}/out.jsonl")
        scores = "--scores=mlm,discriminator"
        run("score", f"--model={root}/models/run", *texts, scores)
        lines = (root / "out.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def run_signatures():
    """Returns model -> signature -> outputs for the texts of the run."""
    with written_run() as root:
        run("export_saved_model", f"--data_dir={root}", "--model_name=run")
        return {
            f"{network}/text": answers_of(
                root / f"models/run/saved_model/{network}/text/1"
            )
            for network in ("discriminator", "generator")
        }


def answers_of(directory):
    """Returns signature -> outputs summed over all but their first axis."""
    model = tf.saved_model.load(str(directory))
    found = {}
    for name, signature in sorted(model.signatures.items()):
        _, inputs = signature.structured_input_signature
        arrays = {
            key: tf.constant(TEXTS if spec.dtype == tf.string else 0.5)
            for key, spec in inputs.items()
        }
        outputs = signature(**arrays)
        found[name] = {key: as_list(outputs[key]) for key in sorted(outputs)}
    return found


def as_list(value):
    """Returns strings as lists, numbers summed over all axes but the first."""
    if isinstance(value, tf.RaggedTensor):
        return value.to_list()
    if value.dtype != tf.string and value.shape.rank > 1:
        value = tf.cast(value, tf.float64)
        weights = tf.cast(tf.range(tf.size(value[0])) + 1, tf.float64)
        flat = tf.reshape(value, [tf.shape(value)[0], -1])
        value = tf.linalg.matvec(flat, tf.math.rsqrt(weights))
    return value.numpy().tolist()


def predictions(kind):
    """Returns the answers of a fine-tuned model of version 0.1."""
    directory = WRITTEN / ("trial" if kind == "classification" else kind)
    inputs = TEXTS
    if kind == "tagging":
        inputs = [text.split() for text in TEXTS if text.split()]
    if kind == "qa":
        inputs = [("was it good", text) for text in TEXTS if text.strip()]
    answers = electra_tf.Predictor(directory)(inputs)
    return [
        {**answer, "nbest": answer["nbest"][:3]} if kind == "qa" else answer
        for answer in answers
    ]


def conversions():
    """Returns the digests of weights as tf1, as hf, and as tf1 again."""
    with written_run() as root:
        source, found = root / "models/run", {}
        for target_format, name in (("tf1", "a"), ("hf", "b"), ("tf1", "c")):
            paths = (f"--input={source}", f"--output={root / name}")
            flags = f"--target_format={target_format} --noslots"
            vocabulary = f"--vocab_file={root}/vocab.txt"
            run("convert_checkpoint", *paths, vocabulary, *flags.split())
            source = root / name
            patterns = ("*.safetensors", "*.txt", "*.data-*")
            found[name] = digests(source, *patterns)
    return found


def _check(found, expected):
    assert golden_arrays.close(
        json.loads(json.dumps(found, default=bytes.decode)), expected
    )


@pytest.mark.parametrize("packing", PACKINGS)
def test_records_are_the_same_bytes(packing):
    found = records(packing)
    assert found == GOLDEN["records"][packing]


def test_scores_are_the_same():
    _check(scores(), GOLDEN["scores"])


def test_saved_models_answer_the_same():
    _check(run_signatures(), GOLDEN["signatures"])


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_the_same(kind):
    _check(predictions(kind), GOLDEN["predictions"][kind])


def test_converted_weights_are_the_same_bytes():
    assert conversions() == GOLDEN["conversions"]


@pytest.mark.parametrize("name", ["classifier", "tagger"])
def test_keras_files_answer_the_same(name):
    assert electra_tf.ElectraClassifier and electra_tf.ElectraTagger
    model = keras.saving.load_model(WRITTEN / f"{name}.keras")
    texts = TEXTS[:2]
    inputs = [text.split() for text in texts] if name == "tagger" else texts
    found = model.predict(inputs, verbose=0)
    for row, expected in zip(found, ANSWERS[name], strict=True):
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


def test_the_configuration_of_a_run_is_read_as_it_was_written():
    path = WRITTEN / "run/models/run/config.json"
    stored = json.loads(path.read_text("utf-8"))
    config = load_config(path, PretrainingConfig)
    assert config.training.precision == stored["training"]["precision"]
    check_same_experiment(path, config)


@pytest.mark.slow
def test_a_run_goes_on_as_it_did():
    with written_run() as root:
        log = root / "models/run/metrics.jsonl"
        *_, expected = map(json.loads, log.read_text("utf-8").splitlines())
        flags = ("--num_train_steps=2", "--num_hidden_layers=2")
        pretraining_command.main(root, "run", *flags, "--vocab_size=150")
        *_, found = map(json.loads, log.read_text("utf-8").splitlines())
    assert found["step"] == expected["step"] == 2
    for name in ("loss", "disc_loss", "masked_lm_loss", "gradient_norm"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5)


if __name__ == "__main__":
    content = {
        "records": {name: records(name) for name in PACKINGS},
        "scores": scores(),
        "signatures": run_signatures(),
        "predictions": {kind: predictions(kind) for kind in KINDS},
        "conversions": conversions(),
    }
    text = json.dumps(content, ensure_ascii=False, default=bytes.decode)
    PATH.write_text(text.replace("}, ", "},\n ") + "\n", "utf-8")
