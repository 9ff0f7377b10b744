"""Models for ONNX Runtime and LiteRT answer as the model they came from."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_finetuning

from electra_tf.export_saved_model import ExportConfig, main
from electra_tf.finetune import export as finetune_export
from electra_tf.finetune.finetuned import Predictor
from electra_tf.pretrain import export as pretrain_export
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.serving import portable, saved_models
from electra_tf.util.errors import UserError

pytestmark = pytest.mark.extras

DOCS = pathlib.Path(__file__).parents[2] / "docs/serving.md"
FORMATS = ("onnx", "tflite")
SHAPES = ((1, 1), (5, tiny.LENGTH), (2, 3))  # rows, tokens
ROUNDING = {"atol": 1e-4, "rtol": 1e-4}
"""Two runtimes add float32 in different orders, on each processor in others."""


@pytest.fixture(scope="module", autouse=True)
def _require_packages():
    pytest.importorskip("tf2onnx")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Returns a model, and the directory of its networks in all formats."""
    config = tiny.config(num_hidden_layers=1, initializer_range=0.5)
    model = Electra(config, tiny.VOCABULARY)
    root = tmp_path_factory.mktemp("pretrained")
    for path in pretrain_export.export(model, root):
        if path.parent.name == "ids":
            portable.convert(path, FORMATS)
    return model, root


def _run(directory, name, inputs):
    """Runs a converted model as a program without TensorFlow does."""
    path = directory / name / f"model.{name}"
    if name == "tflite":
        from ai_edge_litert.interpreter import Interpreter

        return Interpreter(str(path)).get_signature_runner()(**inputs)
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    names = [x.name for x in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def _inputs(num_words, shape):
    """Returns random rows, the last of which has padding."""
    random = np.random.default_rng(1)
    mask = np.ones(shape, np.int32)
    mask[-1, 2:] = 0
    ids = random.integers(1, num_words, shape, np.int32)
    segments = random.integers(2, size=shape, dtype=np.int32)
    return {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": segments * mask,
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FORMATS)
def test_networks_answer_rows_of_any_size(name, shape, pretrained):
    model, root = pretrained
    inputs = _inputs(tiny.VOCABULARY.size, shape)
    states = model.electra(**inputs).sequence_output
    logits = model.discriminator_predictions(states).numpy()
    expected = inputs["input_mask"] / (1 + np.exp(-logits))
    found = _run(root / "discriminator", name, inputs)
    assert list(found) == ["probability_replaced"]
    np.testing.assert_allclose(
        found["probability_replaced"], expected, **ROUNDING
    )
    states = model.generator(**inputs).sequence_output
    table = tf.convert_to_tensor(model.electra.embeddings.word_embeddings)
    expected = model.generator_predictions(states, table)
    found = _run(root / "generator", name, inputs)
    np.testing.assert_allclose(found["logits"], expected, **ROUNDING)


@pytest.mark.parametrize("is_joint", [True, False])
def test_question_answering_converts_but_for_joint_prediction_in_tflite(
    is_joint, tmp_path
):
    lengths = {"max_query_length": 8, "doc_stride": 8}
    task = tiny_finetuning.task("squad", joint_prediction=is_joint, **lengths)
    model = tiny_finetuning.write_trained(tmp_path / "model", task)
    predictor = Predictor(model)
    _, path = finetune_export.export(predictor, tmp_path)
    if is_joint:
        with pytest.raises(Exception, match="TensorList"):
            portable.convert(path, ["tflite"])
    names = FORMATS[:1] if is_joint else FORMATS
    portable.convert(path, names)
    inputs = _inputs(tiny_finetuning.VOCABULARY.size, (3, 9))
    tensors = {name: tf.constant(x) for name, x in inputs.items()}
    expected = predictor.model.outputs("squad", tensors)
    for name in names:
        found = _run(tmp_path, name, inputs)
        assert found.keys() == expected.keys()
        for key, tensor in expected.items():
            np.testing.assert_allclose(found[key], tensor, **ROUNDING)


def test_the_command_writes_what_the_documentation_runs(tmp_path, capsys):
    model = tiny_finetuning.write_trained(tmp_path / "model", "sst")
    root = tmp_path / "OUT/discriminator"
    main(ExportConfig(model=model, output_dir=str(root), formats=FORMATS))
    names = ["text/1", "ids/1", "onnx/model.onnx", "tflite/model.tflite"]
    assert capsys.readouterr().out == "".join(
        f"Exported {root / name}\n" for name in names
    )
    snippets = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    (code,) = (snippet for snippet in snippets if "onnxruntime" in snippet)
    blocked = (
        "import sys\nsys.modules.update(tensorflow=None, electra_tf=None)\n"
    )
    report = "\nprint(len(outputs), len(answer))"
    command = [sys.executable, "-c", blocked + code + report]
    shown = subprocess.check_output(command, text=True, cwd=tmp_path)
    assert shown.split()[-2:] == ["2", "2"]


@pytest.mark.parametrize("error", [1e-3, np.nan])
def test_a_model_that_answers_otherwise_is_not_written(
    error, tmp_path, monkeypatch
):
    table, path = tf.constant([[0.5], [1.5], [2.5]]), tmp_path / "ids/1"

    def answer(input_ids, input_mask, segment_ids):
        del input_mask, segment_ids
        return {"x": tf.gather(table, input_ids)}

    def wrong(model, signature):
        content, run = portable._onnx(model, signature)
        return content, lambda x: {k: y + error for k, y in run(x).items()}

    saved_models.write(path, {"serving_default": answer}, saved_models.IDS)
    monkeypatch.setitem(portable._CONVERTERS, "onnx", wrong)
    with pytest.raises(UserError):
        portable.convert(path, ["onnx"])
    assert not (tmp_path / "onnx").exists()
