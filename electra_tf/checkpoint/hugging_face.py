"""One network in one directory, in the format of Hugging Face's transformers.

| file | read | written |
|---|---|---|
| config.json | yes | yes |
| model.safetensors | yes; else model.safetensors.index.json | yes |
| vocab.txt, tokenizer.json, tokenizer_config.json | if present | yes |

The network's encoder is named `electra`, the generator's too. Each tensor of a
file is used once or the file is refused. Tensors of half precision become
float32. Files of other formats can hold code that runs when they are opened;
they are not read.

`names` has the names of most tensors. The exceptions are handled here:

- a bare encoder is saved without the prefix `electra.`;
- the generator's output table is its word embeddings, in some files saved
  twice;
- the two scores of question answering, of the start and of the end, are one
  matrix there and two here.

Differs: settings of transformers that do not affect the function of a network
(`classifier_dropout`, `problem_type`, added tokens) are not kept.

Source: transformers, models/electra/configuration_electra.py and
modeling_electra.py.
"""

import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes  # noqa: F401  numpy then knows bfloat16
import numpy as np

from electra_tf.checkpoint import hugging_face_tokenizer, names
from electra_tf.checkpoint.architecture import (
    DISCRIMINATOR_HEAD,
    GENERATOR_HEAD,
    Architecture,
    infer,
)
from electra_tf.checkpoint.hugging_face_tokenizer import VOCAB_FILE
from electra_tf.checkpoint.weights import Weights, check_vocabulary
from electra_tf.util import files
from electra_tf.util.errors import UserError
from electra_tf.util.flags import CONFIG_FILE

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_ENCODER = "ElectraModel"
_OF_HEADS = {
    (): _ENCODER,
    (DISCRIMINATOR_HEAD,): "ElectraForPreTraining",
    (GENERATOR_HEAD,): "ElectraForMaskedLM",
}
_QA_MODULES = ("dense", "dense_1")  # score the start and the end of an answer
# Kind of a fine-tuned head -> its class and our modules. The original's
# classifier, of one layer, is another function than Hugging Face's of two;
# `joint_prediction` has no place in linear scores of start and end.
_OF_KINDS = {
    "sequence_classification": (
        "ElectraForSequenceClassification",
        ("classifier/dense", "classifier/out_proj"),
    ),
    "token_classification": ("ElectraForTokenClassification", ("dense",)),
    "question_answering": ("ElectraForQuestionAnswering", _QA_MODULES),
}
_PREFIX = "electra."
_TIED = "generator_lm_head.weight"
_TABLE = "electra.embeddings.word_embeddings.weight"
_QA_LEAVES = {"qa_outputs.weight": "kernel", "qa_outputs.bias": "bias"}
# Buffers that transformers computes itself; some of its versions saved them.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# The only values that our network supports, which are the fields' defaults.
_FIXED = {
    "model_type": "electra",
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
}
# Fields of BertConfig that shapes do not determine, with their defaults.
_SETTINGS = {
    "num_attention_heads": 4,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}


def read(directory: str | os.PathLike[str]) -> Weights:
    """Reads one network."""
    directory = pathlib.Path(directory)
    config_file = directory / CONFIG_FILE
    config = files.read_json(config_file)
    for name, value in _FIXED.items():
        if config.get(name, value) != value:
            raise UserError(
                f"{name}={config[name]!r} in {config_file} is not {value!r}."
            )
    settings = {x: config.get(x, default) for x, default in _SETTINGS.items()}
    try:
        arrays = _to_ours(_read_tensors(directory), config)
        sizes = infer(
            {name: array.shape for name, array in arrays.items()},
            num_attention_heads=settings["num_attention_heads"],
        ).with_fields(**settings)
    except UserError as error:
        raise UserError(f"{directory}: {error}") from error
    labels, count = config.get("id2label") or {}, _num_labels(sizes)
    if count and labels and labels.keys() != {str(i) for i in range(count)}:
        raise UserError(
            f"{config_file} has {len(labels)} labels for {count} outputs."
        )
    return Weights(
        origin=str(directory),
        arrays=arrays,
        architecture=sizes,
        labels=tuple(labels[str(i)] for i in range(count)) if labels else (),
        **hugging_face_tokenizer.read(directory),
    )


def write(
    directory: str | os.PathLike[str], weights: Weights, *, kind: str = ""
) -> None:
    """Writes one network, without slots and step, for transformers to load."""
    import safetensors.numpy

    directory, sizes = pathlib.Path(directory), weights.architecture
    class_name = _class_to_write(sizes, kind)
    if weights.vocabulary is None:
        raise UserError(
            f"No vocabulary beside {weights.origin}: set --vocab_file."
        )
    check_vocabulary(weights)
    config = {
        "architectures": [class_name],
        "model_type": "electra",
        **sizes.encoder.to_dict(),
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
    }
    del config["attention_initializer"]
    if sizes.tasks:
        config["finetuning_task"] = next(iter(sizes.tasks))
    if count := _num_labels(sizes):
        labels = weights.labels or [f"LABEL_{i}" for i in range(count)]
        if len(labels) != count:
            raise UserError(f"{len(labels)} labels for {count} outputs.")
        config["id2label"] = {str(i): name for i, name in enumerate(labels)}
        config["label2id"] = {name: i for i, name in enumerate(labels)}
    tokenizer = hugging_face_tokenizer.contents(
        weights.vocabulary,
        do_lower_case=weights.do_lower_case is not False,
        strip_accents=weights.strip_accents is not False,
        max_length=sizes.encoder.max_position_embeddings,
    )
    # Version 0.8 of safetensors ignores strides: it would write a transposed
    # array in memory order.
    tensors = {
        name: np.ascontiguousarray(array, np.float32)
        for name, array in _to_theirs(weights, class_name).items()
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in {CONFIG_FILE: config, **tokenizer}.items():
        files.write_json(directory / name, content)
    files.atomic_write_bytes(directory / VOCAB_FILE, weights.vocabulary.content)
    content = safetensors.numpy.save(tensors, {"format": "pt"})
    files.atomic_write_bytes(directory / WEIGHTS_FILE, content)


def _read_tensors(directory: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads the weights: one file, or the shards that an index names."""
    import safetensors

    shards, index = {WEIGHTS_FILE}, directory / INDEX_FILE
    if not (directory / WEIGHTS_FILE).exists() and index.exists():
        shards = {*files.read_json(index)["weight_map"].values()}
    tensors = {}
    for shard in sorted(shards):
        if not re.fullmatch(r"[^/\0]+\.safetensors", shard):
            raise UserError(f"{INDEX_FILE} names {shard!r}.")
        try:
            with safetensors.safe_open(directory / shard, "np") as file:
                for name in file.keys():
                    if not name.endswith(_BUFFERS):
                        array = file.get_tensor(name)
                        tensors[name] = np.asarray(array, np.float32)
        except safetensors.SafetensorError as error:
            raise UserError(f"{shard}: {error}") from error
    return tensors


def _to_ours(
    tensors: dict[str, np.ndarray], config: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns the arrays of a network under our names."""
    if not any(name.startswith(_PREFIX) for name in tensors):
        tensors = {f"{_PREFIX}{name}": x for name, x in tensors.items()}
    tied = tensors.pop(_TIED, None)
    is_generator = any(name.startswith("generator_") for name in tensors)
    is_untied = is_generator and config.get("tie_word_embeddings") is False
    if (tied is not None or is_untied) and not (
        np.array_equal(tied, tensors.get(_TABLE))
    ):
        raise UserError(
            f"{_TIED} is not the table of word embeddings, which is the only "
            "one of ELECTRA's generator."
        )
    task = config.get("finetuning_task")
    if not isinstance(task, str) or not task or "/" in task:
        task = "task"
    arrays = {}
    for name, tensor in tensors.items():
        if name in _QA_LEAVES:
            rows = np.expand_dims(tensor, -1)  # [2, H, 1] and [2, 1]
            for module, row in zip(_QA_MODULES, rows, strict=True):
                leaf = _QA_LEAVES[name]
                arrays[f"task_specific/{task}/{module}/{leaf}"] = row
            continue
        ours, is_transposed = names.from_hugging_face(name, task)
        if ours in arrays:
            raise UserError(f"{name} is stored under two names.")
        array = tensor.T if is_transposed else tensor
        arrays[ours] = np.ascontiguousarray(array)
    return arrays


def _to_theirs(weights: Weights, class_name: str) -> dict[str, np.ndarray]:
    """Returns tensors with Hugging Face's names and layout."""
    arrays, sizes = dict(weights.arrays), weights.architecture
    task, modules = next(iter(sizes.tasks.items()), ("", {}))
    if task and weights.value_range:  # of a regression, which gives 0 to 1
        low, high = weights.value_range
        last = f"task_specific/{task}/{[*modules][-1]}"
        arrays[f"{last}/kernel"] = arrays[f"{last}/kernel"] * (high - low)
        arrays[f"{last}/bias"] = arrays[f"{last}/bias"] * (high - low) + low
    tensors = {}
    for name in sizes.shapes():
        theirs, is_transposed = names.to_hugging_face(name, task)
        if class_name == _ENCODER:
            theirs = theirs.removeprefix(_PREFIX)
        tensors[theirs] = arrays[name].T if is_transposed else arrays[name]
    if modules.keys() == {*_QA_MODULES}:
        for theirs in _QA_LEAVES:
            leaf = theirs.removeprefix("qa_outputs.")
            start = tensors.pop(f"classifier.{leaf}")
            end = tensors.pop(f"task_specific.{task}.dense_1.{leaf}")
            tensors[theirs] = np.concatenate([start, end])
    return tensors


def _class_to_write(sizes: Architecture, kind: str) -> str:
    """Returns the class of transformers that computes the network."""
    heads = (*sizes.heads, *sizes.tasks)
    if sizes.generator is not None or len(heads) > 1:
        raise UserError(
            "A directory of Hugging Face's holds one network with one head, "
            f"not {', '.join(heads)}: choose with --network."
        )
    if not sizes.tasks:
        if kind or heads not in _OF_HEADS:
            raise UserError(
                f"transformers has no ELECTRA with {heads}, kind={kind!r}."
            )
        return _OF_HEADS[heads]
    ((task, modules),) = sizes.tasks.items()
    class_name, expected = _OF_KINDS[kind]
    is_wide = any(shape[1] > 1 for shape in modules.values())
    if modules.keys() != {*expected} or (expected == _QA_MODULES and is_wide):
        raise UserError(
            f"The head of {task} is not that of {class_name}: fine-tune with "
            "--head=hugging_face (and --joint_prediction=false), or convert "
            "the encoder alone (--network=encoder)."
        )
    return class_name


def _num_labels(sizes: Architecture) -> int:
    """Returns the number of labels of a fine-tuned head; 0 for others."""
    for modules in sizes.tasks.values():
        if modules.keys() != {*_QA_MODULES}:
            return modules.get("classifier/out_proj", modules.get("dense"))[1]
    return 0
