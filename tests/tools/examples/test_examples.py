"""Every example runs without warnings."""

import pathlib
import runpy
import warnings

import pytest
import tiny_finetuning as tiny
import tiny_scoring

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


@pytest.mark.slow
@pytest.mark.usefixtures("products_in_bfloat16")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda x: x.stem)
def test_an_example_warns_of_nothing(
    script, path, tmp_path, monkeypatch, capfd
):
    arguments = [str(script), f"--model={path}"]
    if script.stem == "pretrain_with_keras":
        arguments = [str(script), f"--output={tmp_path}/trained"]
    elif script.stem == "prompt_texts":
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
    assert not [x for x in caught if x.category is UserWarning]
    output = capfd.readouterr()
    assert LAST[script.stem] in output.out.rstrip().splitlines()[-1]
    assert "WARNING" not in output.err
