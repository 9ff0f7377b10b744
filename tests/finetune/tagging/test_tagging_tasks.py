import json
import shutil

import golden_arrays
import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.checkpoint import loading
from electra_tf.config.model import BertConfig
from electra_tf.finetune import task_builder
from electra_tf.finetune.features import Features
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.tagging.tagging_head import TaggingHead
from electra_tf.model.modeling import BertModel
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

GOLDEN = golden_arrays.FULL / "finetune"
HEAD = GOLDEN / "head_chunk.npz"
TABLE = "electra/embeddings/word_embeddings"


def _task(name, tmp_path, *, vocabulary=tiny.VOCABULARY, **leaves):
    config = tiny.config(tmp_path, task_names=(name,), **leaves)
    tokenizer = TextTokenizer(vocabulary)
    return task_builder.get_task(config, tokenizer, longest=64)


def _write(task, split, text):
    task.directory.mkdir(parents=True, exist_ok=True)
    task.path(split).write_text(text, "utf-8")


def test_names_of_any_encoding_become_bioes(tmp_path):
    task = _task("ner", tmp_path)
    text = (
        "-DOCSTART- -X- O O\n\n"
        "the NNP I-NP I-X\nfilm NNP I-NP I-X\nplot NN I-NP I-Y\n\n\n"
        "it PRP I-NP B-Y\n"
    )
    _write(task, "train", text)
    first, second = task.get_examples("train")
    assert first.words == ("the", "film", "plot")
    assert first.tags == ("B-X", "E-X", "S-Y") and second.tags == ("S-Y",)
    assert task.labels == ("B-X", "E-X", "S-Y")


def test_parts_of_speech_are_read_from_conll_u(tmp_path):
    task = _task("pos", tmp_path)
    rows = [("1-2", "its", "_"), ("1", "it", "PRON"), ("2", "is", "AUX")]
    rows += [("2.1", "x", "X")]
    lines = [f"{n}\t{form}\tlemma\t{tag}\t_" for n, form, tag in rows]
    _write(task, "train", "# text = its\n" + "\n".join(lines) + "\n")
    (sentence,) = task.get_examples("train")
    assert sentence.words == ("it", "is") and sentence.tags == ("PRON", "AUX")


@pytest.mark.parametrize(
    ("line", "problem"), [("film", "word and its tag"), ("film X-", "tag must")]
)
def test_a_bad_row_is_an_error_with_file_and_line(line, problem, tmp_path):
    task = _task("chunk", tmp_path)
    _write(task, "dev", f"the B-NP\n{line}\nplot I-NP\n")
    with pytest.raises(UserError, match=rf"dev\.txt, line 2: .*{problem}"):
        task.get_examples("dev")


def test_every_word_has_a_place_of_its_own(tmp_path):
    task = _task("ccg", tmp_path)
    _write(task, "train", "the A\nfilms B\n\u200b C\n[SEP] D\nplot E\n")
    (row,) = task.featurize(task.get_examples("train"), is_training=True)
    # [CLS] the film ##s [UNK] [SEP], in pieces, plot [SEP]
    assert row["labeled_positions"].tolist()[:4] == [1, 2, 4, 5]
    assert row["input_ids"][4] == tiny.VOCABULARY.unk_id
    assert row["input_ids"][row["labeled_positions"][4]] == 8
    assert row["labels"].tolist() == [0, 1, 2, 3, 4]
    assert row["segment_ids"].tolist() == [1] * len(row["input_ids"])


def test_a_tag_that_was_never_seen_is_scored_but_not_learnt(tmp_path):
    task = _task("ccg", tmp_path)
    _write(task, "train", "the A\n")
    _write(task, "dev", "the A\nfilm B\n")
    (row,) = task.featurize(task.get_examples("dev"), is_training=False)
    assert row["labels_mask"].tolist() == [1, 1]
    assert row["loss_mask"].tolist() == [1, 0]


def test_long_sentences_are_tagged_to_the_last_word(tmp_path):
    task = _task("ccg", tmp_path, max_seq_length=10)
    words = [tiny.WORDS[i % 10] for i in range(50)]
    _write(task, "train", "".join(f"{word} {word}\n" for word in words))
    examples = task.get_examples("train")
    rows = list(task.featurize(examples, is_training=True))
    assert len(rows) > 1 and max(len(r["input_ids"]) for r in rows) == 10
    head = task.head()
    with keras.name_scope("task_specific"):
        head.build((None, 16))
    encoder = loading.make(tiny.weights()).encoder
    model = FinetuningModel(
        task.config, encoder, [head], seed=0, num_train_steps=1
    )
    features = Features(rows, task.get_feature_specs())
    outputs = model.outputs_of(task.name, features, 3)
    places = Features(rows, task.get_feature_specs()).batch(
        tf.range(len(rows)), 16
    )
    width = outputs["predictions"].shape[1]
    outputs["predictions"] = places["labels"].numpy()[:, :width]
    scores = task.get_scorer().score(outputs, examples)
    assert scores["accuracy"] == 100, "each word has its own label"


def _golden_task(tmp_path, **leaves):
    shutil.copytree(GOLDEN / "data_dir", tmp_path, dirs_exist_ok=True)
    vocabulary = Vocabulary.from_file(str(golden_arrays.VOCAB_FILE))
    return _task(
        "chunk", tmp_path, vocabulary=vocabulary, max_seq_length=64, **leaves
    )


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden arrays")
def test_rows_are_those_of_the_original(tmp_path):
    task = _golden_task(tmp_path, original_spans=True)
    golden = json.loads((GOLDEN / "features.json").read_text("utf-8"))
    mapping = golden["chunk/label_mapping"]
    names = {number: tag for tag, number in mapping.items()}
    compared = 0
    for split in ("train", "dev"):
        examples = task.get_examples(split)
        rows = list(task.featurize(examples, is_training=True))
        for case in golden[f"chunk/{split}"]["rows"]:
            example = examples[case["example"]["eid"]]
            tags = [names[number] for number in case["example"]["labels"]]
            assert list(example.tags) == tags
            if len(example.words) == 43 or "[SEP]" in example.words:
                continue  # cut, or out of place, there
            (row,) = [r for r in rows if r["eid"] == example.eid]
            there = case["features"][0]
            for name in ("input_ids", "segment_ids"):
                size = len(row[name])
                assert row[name].tolist() == there[name][:size]
            for name in ("labels_mask", "labeled_positions"):
                size = len(row[name])
                assert row[name].tolist() == there[f"chunk_{name}"][:size]
            compared += 1
    assert compared == 4


@pytest.mark.skipif(not HEAD.exists(), reason="needs the golden arrays")
def test_logits_and_losses_are_those_of_the_original():
    golden = dict(np.load(HEAD))
    table = np.zeros((30522, 16), np.float32)
    table[golden["used_ids"]] = golden[f"var/{TABLE}__rows_used_ids"]
    golden[f"var/{TABLE}"] = table
    config = BertConfig(
        vocab_size=30522,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        embedding_size=16,
    )
    encoder, head = BertModel(config), TaggingHead("chunk", 11)
    encoder.build((None, None))
    with keras.name_scope("task_specific"):
        head.build((None, 32))
    model = FinetuningModel(
        tiny.config(), encoder, [head], seed=0, num_train_steps=1
    )
    for variable in model.trainable_variables:
        variable.assign(golden[f"var/{variable.path}"])
    names = ("labels", "labels_mask", "labeled_positions")
    batch = {name: tf.constant(golden[f"in/chunk_{name}"]) for name in names}
    for name in ("input_ids", "input_mask", "segment_ids"):
        batch[name] = tf.constant(golden[f"in/{name}"])
    batch["loss_mask"] = batch["labels_mask"]
    batch["first_word"] = tf.zeros(4, tf.int32)
    outputs = model.outputs("chunk", batch)
    np.testing.assert_allclose(
        outputs["logits"], golden["train/logits"], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(
        outputs["predictions"], golden["train/predictions"]
    )
    np.testing.assert_allclose(
        head.losses(outputs, batch), golden["train/loss"], rtol=2e-5
    )
