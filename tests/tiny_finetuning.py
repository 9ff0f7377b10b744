"""Tiny tasks and an encoder that the tests of fine-tuning share."""

import dataclasses
import json

import numpy as np

from electra_tf import convert_checkpoint
from electra_tf.checkpoint import architecture, loading
from electra_tf.checkpoint.architecture import Architecture
from electra_tf.checkpoint.weights import Weights
from electra_tf.config.analysis import ConvertConfig
from electra_tf.config.model import BertConfig
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune import finetuned, task_builder
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.model.modeling import BertModel
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import flags

WORDS = ("good", "bad", "film", "plot", "very", "the", "a", "is", "was", "it")
VOCABULARY = Vocabulary(
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s")
)
ENCODER = BertConfig(
    vocab_size=VOCABULARY.size,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    embedding_size=8,
    max_position_embeddings=32,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)


def config(data_dir="unused", **leaves):
    values = {
        "data_dir": str(data_dir),
        "model_name": "tiny",
        "task_names": ("sst",),
        "train_batch_size": 8,
        "learning_rate": 3e-3,
        "max_restarts": 0,
        **leaves,
    }
    assert values.keys() <= {
        x.field.name for x in flags.leaves(FinetuningConfig)
    }
    return flags.build(FinetuningConfig, values)


def weights(seed=0):
    """Returns random weights of the encoder, large enough to learn from."""
    random = np.random.default_rng(seed)
    sizes = Architecture(encoder=ENCODER)
    arrays = {}
    for name, shape in sizes.shapes().items():
        arrays[name] = random.normal(size=shape).astype(np.float32) * 0.3
        if name.endswith("gamma"):
            arrays[name] += 1
    return Weights(
        origin="tiny",
        arrays=arrays,
        architecture=sizes,
        vocabulary=VOCABULARY,
        do_lower_case=True,
        strip_accents=True,
    )


def task(name, data_dir="unused", *, longest=32, **leaves):
    vocabulary = leaves.pop("vocabulary", VOCABULARY)
    metadata = leaves.pop("metadata", None)
    if name in task_builder.KINDS:
        leaves = {"task_kind": name, "task_names": ("own",), **leaves}
    settings = config(data_dir, **{"task_names": (name,), **leaves})
    return task_builder.get_task(
        settings,
        settings.task.task_names[0],
        TextTokenizer(vocabulary),
        longest=longest,
        metadata=metadata,
    )


def write(data_dir, task_name, file_name, content):
    """Writes a file of a task: text, or objects as JSON lines."""
    path = data_dir / "finetuning_data" / task_name / file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, str):
        content = "".join(json.dumps(line) + "\n" for line in content)
    path.write_text(content, "utf-8")
    return path


def write_split(task, split, text):
    """Writes the file of a split where a task looks for it."""
    task.directory.mkdir(parents=True, exist_ok=True)
    task.source(split).path.write_text(text, "utf-8")


def golden_model(head):
    """Makes a model of a head and the encoder of the golden arrays."""
    encoder = BertModel(
        BertConfig(
            vocab_size=30522,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            embedding_size=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    encoder.build((None, None))
    return FinetuningModel(config(), encoder, [head], seed=0)


def write_model(data_dir):
    """Writes the encoder where a run looks for it."""
    directory = data_dir / "models" / "tiny"
    loading.write(str(directory), weights(), "electra_tf")


def write_trained(directory, learnt, seed=0, **known):
    """Writes a fine-tuned model with random weights, as a trial does."""
    encoder_weights = weights(seed)
    if isinstance(learnt, str):
        lengths = {"max_query_length": 8, "doc_stride": 8}
        learnt = task(learnt, **lengths, metadata=known)
    head = learnt.head().build_for(ENCODER.hidden_size)
    random = np.random.default_rng(seed)
    heads = {v.path: random.normal(size=v.shape) for v in head.variables}
    arrays = {k: np.float32(v * 0.3) for k, v in heads.items()}
    shapes = {
        name: v.shape
        for name, v in {**encoder_weights.arrays, **arrays}.items()
    }
    written = dataclasses.replace(
        encoder_weights,
        arrays={**encoder_weights.arrays, **arrays},
        architecture=architecture.infer(shapes, num_attention_heads=2),
    )
    loading.write(str(directory), written, "electra_tf")
    finetuned.write_description(directory, [learnt])
    return str(directory)


def convert(path, source, target, target_format):
    """Converts a model in one folder into another; returns its path."""
    files = {"input": str(path / source), "output": str(path / target)}
    config = ConvertConfig(**files, target_format=target_format)
    convert_checkpoint.main(config)
    return config.output


def write_sst(data_dir):
    """Writes a task whose label says whether "good" occurs."""
    directory = data_dir / "finetuning_data" / "sst"
    directory.mkdir(parents=True)
    random = np.random.default_rng(1)
    for split, size in (("train", 48), ("dev", 16), ("test", 5)):
        is_test = split == "test"
        lines = ["index\tsentence" if is_test else "sentence\tlabel"]
        for i in range(size):
            words = list(random.choice(WORDS[2:], random.integers(2, 9)))
            words.insert(random.integers(len(words)), WORDS[i % 2])
            text = " ".join(words)
            lines.append(f"{i}\t{text}" if is_test else f"{text}\t{1 - i % 2}")
        text = "\n".join(lines) + "\n"
        (directory / f"{split}.tsv").write_text(text, "utf-8")


def write_pos(data_dir):
    """Writes a task whose tags say whether a word's index is odd or even."""
    directory = data_dir / "finetuning_data" / "pos"
    directory.mkdir(parents=True)
    random = np.random.default_rng(2)
    for split, size in (("train", 30), ("dev", 8), ("test", 4)):
        lines = []
        for _ in range(size):
            for word in random.integers(len(WORDS), size=5):
                tag = "ODD" if word % 2 else "EVEN"
                lines.append(f"1\t{WORDS[word]}\tx\t{tag}\tx")
            lines.append("")
        (directory / f"{split}.conllu").write_text("\n".join(lines), "utf-8")


def rows(kind, size, seed=0):
    """Returns rows of a custom task that single words decide."""
    random = np.random.default_rng(seed)
    examples = []
    for i in range(size):
        words = list(map(str, random.choice(WORDS[2:], 6)))
        words.insert(random.integers(6), WORDS[i % 2])
        text = " ".join(words)
        examples.append(
            {
                "classification": {"text": text, "label": WORDS[i % 2]},
                "regression": {"text": text, "label": 1.0 + i % 2},
                "tagging": {
                    "words": words,
                    "tags": ["B-X" if w in WORDS[:2] else "O" for w in words],
                },
                "qa": {
                    "question": "the " + WORDS[i % 2],
                    "context": text,
                    "answer": WORDS[i % 2],
                },
            }[kind]
        )
    return examples
