"""Hugging Face directories are read and written in full, or refused."""

import dataclasses
import json
import os

import ml_dtypes
import numpy as np
import pytest
import tokenizers
from safetensors.numpy import load_file, save_file

from electra_tf.checkpoint import hugging_face, loading
from electra_tf.checkpoint.architecture import Architecture
from electra_tf.checkpoint.weights import Weights
from electra_tf.config.model import BertConfig
from electra_tf.model import text_reader
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.util.errors import ElectraWarning, UserError

CONFIG = BertConfig(
    vocab_size=10,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=12,
    embedding_size=4,
    max_position_embeddings=6,
    type_vocab_size=3,
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.3,
    initializer_range=0.01,
)
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "##é"))
WIDE = {"dense": (8, 2), "dense_1": (8, 1)}
CLASSIFIER = {"classifier/dense": (8, 8), "classifier/out_proj": (8, 2)}
# Class -> kind of head, fields of the architecture.
NETWORKS = {
    "ElectraModel": ("", {}),
    "ElectraForPreTraining": ("", {"heads": ("discriminator_predictions",)}),
    "ElectraForMaskedLM": ("", {"heads": ("generator_predictions",)}),
    "ElectraForSequenceClassification": (
        "sequence_classification",
        {"tasks": {"sst": CLASSIFIER}},
    ),
    "ElectraForTokenClassification": (
        "token_classification",
        {"tasks": {"chunk": {"dense": (8, 3)}}},
    ),
    "ElectraForQuestionAnswering": (
        "question_answering",
        {"tasks": {"squad": {"dense_1": (8, 1), "dense": (8, 1)}}},
    ),
}


def weights(class_name="ElectraForPreTraining", **fields):
    """Makes a random network; `fields` are of the architecture."""
    fields = {"encoder": CONFIG, **NETWORKS[class_name][1], **fields}
    architecture = Architecture(**fields)
    random = np.random.default_rng(0)
    arrays = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in architecture.shapes().items()
    }
    return Weights(
        origin="somewhere",
        arrays=arrays,
        architecture=architecture,
        vocabulary=VOCABULARY,
        do_lower_case=True,
        strip_accents=False,
    )


def write(directory, class_name="ElectraForPreTraining", **fields):
    kind = NETWORKS[class_name][0]
    hugging_face.write(directory, weights(class_name, **fields), kind=kind)
    return directory


def change(path, **values):
    """Changes fields of a JSON file; None removes one."""
    old = json.loads(path.read_text())
    new = {k: v for k, v in {**old, **values}.items() if v is not None}
    path.write_text(json.dumps(new))


def change_tensors(directory, **tensors):
    """Changes tensors; None removes one."""
    path = directory / "model.safetensors"
    new = {**load_file(path), **tensors}
    save_file({k: v for k, v in new.items() if v is not None}, path)


def assert_equal_arrays(received, expected):
    assert received.keys() == expected.keys()
    for name, array in expected.items():
        assert received[name].dtype == np.float32
        assert received[name].flags.c_contiguous
        assert received[name].shape == array.shape, name
        assert received[name].tobytes() == array.tobytes(), name


def assert_refused(directory):
    with pytest.raises((ValueError, OSError)):
        hugging_face.read(directory)


@pytest.mark.parametrize("class_name", NETWORKS)
def test_the_weights_that_are_written_are_read_to_the_bit(class_name, tmp_path):
    written = weights(class_name)
    kind, _ = NETWORKS[class_name]
    name = "electra/embeddings/LayerNorm/beta/adam_m"
    training = {name: np.zeros(4), "global_step": np.array(3)}  # left out
    trained = dataclasses.replace(written, arrays=written.arrays | training)
    hugging_face.write(tmp_path / "x", trained, kind=kind)
    read = hugging_face.read(tmp_path / "x")
    assert_equal_arrays(read.arrays, written.arrays)
    for field in ("architecture", "vocabulary", "strip_accents"):
        assert getattr(read, field) == getattr(written, field)
    hugging_face.write(tmp_path / "a" / "b", read, kind=kind)
    for path in (tmp_path / "x").iterdir():
        again = tmp_path / "a" / "b" / path.name
        assert path.read_bytes() == again.read_bytes()
    config = json.loads((tmp_path / "x/config.json").read_text())
    assert config["architectures"] == [class_name]


def use_old_names(directory):
    """Renames tensors and adds buffers, as transformers once wrote them."""
    path = directory / "model.safetensors"
    tensors = {"embeddings.position_ids": np.arange(6)[None]}
    for name, tensor in load_file(path).items():
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
    save_file(tensors, path)


def shard(directory):
    """Splits the weights into two files; returns tensor -> file."""
    path = directory / "model.safetensors"
    tensors, shards = load_file(path), {}
    path.unlink()
    for i in (0, 1):
        part = {name: tensors[name] for name in [*tensors][i::2]}
        save_file(part, directory / f"{i}.safetensors")
        shards |= dict.fromkeys(part, f"{i}.safetensors")
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    return shards


@pytest.mark.parametrize("rewrite", [use_old_names, shard])
def test_old_tensor_names_and_shards_are_read(rewrite, tmp_path):
    rewrite(write(tmp_path, "ElectraModel"))
    read = hugging_face.read(tmp_path)
    assert_equal_arrays(read.arrays, weights("ElectraModel").arrays)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_becomes_float32(dtype, tmp_path):
    path = write(tmp_path) / "model.safetensors"
    save_file({n: x.astype(dtype) for n, x in load_file(path).items()}, path)
    arrays = weights().arrays
    arrays = {n: x.astype(dtype).astype(np.float32) for n, x in arrays.items()}
    assert_equal_arrays(hugging_face.read(tmp_path).arrays, arrays)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("encoder.layer.0.adapter.weight", (2, 2)),
        ("embeddings.LayerNorm.gamma", (4,)),  # and `weight`
        ("encoder.layer.0.output.dense.bias", None),
        ("qa_outputs.weight", (3, 8)),
    ],
)
def test_tensors_of_another_network_are_refused(name, shape, tmp_path):
    tensor = None if shape is None else np.zeros(shape, "f")
    change_tensors(write(tmp_path, "ElectraModel"), **{name: tensor})
    assert_refused(tmp_path)


def test_damaged_shards_and_other_files_are_refused(tmp_path):
    shards = shard(write(tmp_path))
    index = tmp_path / "model.safetensors.index.json"
    shards[next(iter(shards))] = "../1.safetensors"
    index.write_text(json.dumps({"weight_map": shards}))
    assert_refused(tmp_path)
    index.unlink()
    assert_refused(tmp_path)
    os.truncate(write(tmp_path) / "model.safetensors", 1000)
    assert_refused(tmp_path)


def test_missing_config_fields_get_the_defaults_of_transformers(tmp_path):
    write(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "electra"}')
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    assert hugging_face.read(tmp_path).architecture.encoder == (
        dataclasses.replace(CONFIG, initializer_range=0.02, **rates)
    )


def test_the_generators_output_table_must_equal_the_word_embeddings(tmp_path):
    write(tmp_path, "ElectraForMaskedLM")
    change(tmp_path / "config.json", tie_word_embeddings=False)
    assert_refused(tmp_path)
    written = weights("ElectraForMaskedLM").arrays
    table = written["electra/embeddings/word_embeddings"].copy()
    change_tensors(tmp_path, **{"generator_lm_head.weight": table})
    assert_equal_arrays(hugging_face.read(tmp_path).arrays, written)
    table[3, 2] += 1e-6
    change_tensors(tmp_path, **{"generator_lm_head.weight": table})
    assert_refused(tmp_path)


@pytest.mark.parametrize("labels", [(), ("O", "I", "B")])
def test_labels_come_back_in_the_order_of_the_outputs(labels, tmp_path):
    written = weights("ElectraForTokenClassification")
    written = dataclasses.replace(written, labels=labels)
    hugging_face.write(tmp_path, written, kind="token_classification")
    expected = labels or ("LABEL_0", "LABEL_1", "LABEL_2")
    assert hugging_face.read(tmp_path).labels == expected
    change(tmp_path / "config.json", id2label={"0": "a"})
    assert_refused(tmp_path)


def test_a_regression_is_written_in_the_units_of_its_values(tmp_path):
    modules = CLASSIFIER | {"classifier/out_proj": (8, 1)}
    written = weights(heads=(), tasks={"task": modules})
    written = dataclasses.replace(written, value_range=(1.0, 5.0))
    hugging_face.write(tmp_path, written, kind="sequence_classification")
    arrays = dict(written.arrays)
    last = "task_specific/task/classifier/out_proj"
    arrays[f"{last}/kernel"] = 4 * arrays[f"{last}/kernel"]
    arrays[f"{last}/bias"] = 1 + 4 * arrays[f"{last}/bias"]
    assert_equal_arrays(hugging_face.read(tmp_path).arrays, arrays)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"generator": CONFIG, "heads": ()}, ""),
        ({"heads": ("discriminator_predictions", "generator_predictions")}, ""),
        ({"heads": ("cloze_predictions",)}, ""),
        ({}, "token_classification"),
        ({"tasks": {"x": {"dense": (8, 2)}}}, "sequence_classification"),
        ({"tasks": {"x": WIDE}}, "question_answering"),
    ],
)
def test_a_network_that_transformers_cannot_compute_is_refused(
    fields, kind, tmp_path
):
    fields = {"heads": ()} | fields if "tasks" in fields else fields
    with pytest.raises(UserError):
        hugging_face.write(tmp_path / "x", weights(**fields), kind=kind)
    assert not os.listdir(tmp_path)


def test_either_file_keeps_ids_after_separators_and_duplicates(tmp_path):
    pieces = ("a", "\u2028", "b", "a")
    vocabulary = Vocabulary(SPECIAL_TOKENS + pieces)
    hugging_face.write(
        tmp_path, dataclasses.replace(weights(), vocabulary=vocabulary)
    )
    with pytest.warns(ElectraWarning):
        assert hugging_face.read(tmp_path).vocabulary == vocabulary
    (tmp_path / "vocab.txt").unlink()
    back = hugging_face.read(tmp_path).vocabulary
    assert back.size == 9 and [*map(back.ids.get, pieces)] == [8, 6, 7, 8]
    (tmp_path / TOKENIZER).unlink()
    assert hugging_face.read(tmp_path).vocabulary is None


ADDED = {"[E1]": 7, "[/E1]": 8}
ENTRIES = [{"content": token, "id": i} for token, i in ADDED.items()]
DECODER = dict(zip("78", ENTRIES, strict=True))
NAMES = ["[E1]", {"content": "[/E1]"}]


@pytest.mark.parametrize(
    "content",
    [
        {"added_tokens.json": ADDED},
        {TOKENIZER_CONFIG: {"added_tokens_decoder": DECODER}},
        {TOKENIZER: {"added_tokens": ENTRIES}},
        {
            "vocab.txt": VOCABULARY.with_added(ADDED).content.decode(),
            "special_tokens_map.json": {"additional_special_tokens": NAMES},
        },
    ],
)
def test_added_tokens_are_read_from_any_file_and_written(content, tmp_path):
    write(tmp_path / "a")
    for name, value in content.items():
        path = tmp_path / "a" / name
        if path.exists() and isinstance(value, dict):
            value = json.loads(path.read_text()) | value
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    read = hugging_face.read(tmp_path / "a")
    assert read.vocabulary == VOCABULARY.with_added(ADDED)
    hugging_face.write(tmp_path / "b", read)
    loading.write(tmp_path / "c", read, "electra_tf")
    for path in (tmp_path / "b", tmp_path / "c"):
        assert loading.read(str(path)).vocabulary == read.vocabulary
    (tmp_path / "b/vocab.txt").unlink()
    assert hugging_face.read(tmp_path / "b").vocabulary == read.vocabulary
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "b" / TOKENIZER))
    assert theirs.encode("a[/e1]a", add_special_tokens=False).ids == [5, 8, 5]
    config = text_reader.vocabulary_config(read.vocabulary)
    assert text_reader.vocabulary_from_config(config) == read.vocabulary


def test_strip_accents_defaults_to_do_lower_case(tmp_path):
    write(tmp_path)
    (tmp_path / TOKENIZER).unlink()
    for lower, strip, expected in (
        *((None, None, None), (None, False, False)),
        *((True, None, True), (True, False, False), (False, None, False)),
    ):
        stored = {"do_lower_case": lower, "strip_accents": strip}
        (tmp_path / TOKENIZER_CONFIG).write_text(json.dumps(stored))
        read = hugging_face.read(tmp_path)
        assert (read.do_lower_case, read.strip_accents) == (lower, expected)


@pytest.mark.parametrize(
    ("name", "part", "values"),
    [
        ("config.json", "", {"model_type": "bert"}),
        ("config.json", "", {"layer_norm_eps": 1e-5}),
        ("config.json", "", {"num_attention_heads": 3}),
        (TOKENIZER, "model", {"type": "BPE"}),
        (TOKENIZER, "normalizer", {"lowercase": False}),
        (TOKENIZER_CONFIG, "", {"tokenizer_class": "BertJapaneseTokenizer"}),
        (TOKENIZER_CONFIG, "", {"do_lower_case": False}),
    ],
)
def test_another_network_or_tokenizer_is_refused(name, part, values, tmp_path):
    stored = json.loads((write(tmp_path) / name).read_text())
    values = {part: stored[part] | values} if part else values
    change(tmp_path / name, **values)
    assert_refused(tmp_path)
