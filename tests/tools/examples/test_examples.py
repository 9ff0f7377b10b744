"""Every example runs without warnings, and is short."""

import pathlib
import runpy
import warnings

import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny
import tiny_scoring

import electra_tf

DIRECTORY = pathlib.Path(__file__).parents[3] / "tools/examples"
SCRIPTS = sorted(DIRECTORY.glob("*.py"))
# Script -> part of its last line.
LAST = {
    "answer_questions": "[",
    "classify_reviews": "keras.saving.load_model",
    "custom_model": " [",
    "frozen_features": "layer 0: accuracy",
    "pretrain_with_keras": "P(replaced): [[",
    "prompt_texts": "nats): A dull plot",
    "rate_texts": "stars: The end",
    "tag_words": "Then/",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("data")
    tiny.write_model(data_dir)
    return str(data_dir / "models/tiny")


@pytest.fixture
def eagerly():
    """Runs functions eagerly: compiling them takes a script seconds."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def _run(script, path, tmp_path, monkeypatch, capfd):
    arguments = [str(script), f"--model={path}"]
    if script.stem == "pretrain_with_keras":
        arguments = [str(script), f"--output={tmp_path}/trained"]
    if script.stem == "prompt_texts":
        _, path = tiny_scoring.write_run(tmp_path)
        arguments = [str(script), f"--model={path}"]
    elif script.stem != "frozen_features":
        arguments.append("--epochs=1")
    if script.stem == "classify_reviews":
        arguments.append(f"--output={tmp_path}/film.keras")
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.syspath_prepend(DIRECTORY)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        runpy.run_path(str(script), run_name="__main__")
    found = [str(x.message) for x in caught if x.category is UserWarning]
    output = capfd.readouterr()
    assert LAST[script.stem] in output.out.rstrip().splitlines()[-1]
    return found, output.err


@pytest.mark.usefixtures("eagerly")
def test_an_example_runs(path, tmp_path, monkeypatch, capfd):
    script = DIRECTORY / "classify_reviews.py"
    _run(script, path, tmp_path, monkeypatch, capfd)


@pytest.mark.slow
@pytest.mark.usefixtures("products_in_bfloat16")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda x: x.stem)
def test_an_example_warns_of_nothing(
    script, path, tmp_path, monkeypatch, capfd
):
    found, errors = _run(script, path, tmp_path, monkeypatch, capfd)
    assert not found and "WARNING" not in errors


def test_the_custom_model_ignores_padding(monkeypatch):
    monkeypatch.syspath_prepend(DIRECTORY)
    example = runpy.run_path(str(DIRECTORY / "custom_model.py"))
    short, long = (
        example["make_model"](
            electra_tf.ElectraBackbone(
                tiny.ENCODER, tiny.VOCABULARY, max_seq_length=length
            )
        )
        for length in (8, 16)
    )
    long.set_weights(short.get_weights())
    texts = tf.constant(["a film", "the plot is very good"])
    np.testing.assert_allclose(long(texts), short(texts), rtol=1e-4, atol=1e-6)
