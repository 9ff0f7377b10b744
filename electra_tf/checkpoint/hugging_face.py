"""One network in one directory, in the format of Hugging Face's transformers.

| file | read | written |
|---|---|---|
| config.json | yes | yes |
| model.safetensors | yes; else model.safetensors.index.json | yes |
| vocab.txt, tokenizer.json, tokenizer_config.json | if present | yes |

The network's encoder is named `electra`, the generator's too. Each tensor of a
file is used once or the file is refused, so that nothing is lost or guessed.
Tensors of half precision become float32. Files of other formats can hold code
that runs when they are opened; they are not read.

`names` has the names of most tensors. The exceptions are handled here:

- a bare encoder is saved without the prefix `electra.`;
- old files name the weights of LayerNorm gamma and beta;
- the generator's output table is its word embeddings, in some files saved
  twice;
- the two scores of question answering, of the start and of the end, are one
  matrix there and two here.

Differs: settings of transformers that do not affect the function of a network
(`classifier_dropout`, `problem_type`, added tokens) are not kept.

Source: transformers, models/electra/configuration_electra.py and
modeling_electra.py.
"""

import dataclasses
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
from electra_tf.checkpoint.weights import Arrays, Weights, check_vocabulary
from electra_tf.util import files
from electra_tf.util.errors import UserError, listed
from electra_tf.util.flags import CONFIG_FILE

ENCODER = "ElectraModel"
PRE_TRAINING = "ElectraForPreTraining"
MASKED_LM = "ElectraForMaskedLM"
SEQUENCE_CLASSIFICATION = "ElectraForSequenceClassification"
TOKEN_CLASSIFICATION = "ElectraForTokenClassification"
QUESTION_ANSWERING = "ElectraForQuestionAnswering"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

# Class of transformers -> starts of the names of its head's tensors.
_HEAD_TENSORS = {
    PRE_TRAINING: ("discriminator_predictions.",),
    MASKED_LM: ("generator_predictions.", "generator_lm_head."),
    SEQUENCE_CLASSIFICATION: ("classifier.dense.", "classifier.out_proj."),
    TOKEN_CLASSIFICATION: ("classifier.weight", "classifier.bias"),
    QUESTION_ANSWERING: ("qa_outputs.",),
}
_OF_HEADS = {
    (): ENCODER,
    (DISCRIMINATOR_HEAD,): PRE_TRAINING,
    (GENERATOR_HEAD,): MASKED_LM,
}
_QA_MODULES = ("dense", "dense_1")  # score the start and the end of an answer
# Kind of a fine-tuned head -> its class and our modules. The original's
# classifier, of one layer, is another function than Hugging Face's of two;
# `joint_prediction` has no place in linear scores of start and end.
_OF_KINDS = {
    "sequence_classification": (
        SEQUENCE_CLASSIFICATION,
        ("classifier/dense", "classifier/out_proj"),
    ),
    "token_classification": (TOKEN_CLASSIFICATION, ("dense",)),
    "question_answering": (QUESTION_ANSWERING, _QA_MODULES),
}
_PREFIX = "electra."
_TIED = "generator_lm_head.weight"
_TABLE = "electra.embeddings.word_embeddings.weight"
_QA_LEAVES = {"qa_outputs.weight": "kernel", "qa_outputs.bias": "bias"}
# Buffers that transformers computes itself; some of its versions saved them.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# The only values that our network supports, which are the fields' defaults.
_FIXED = {
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
    config = files.read_json(directory / CONFIG_FILE)
    for name, value in {"model_type": "electra", **_FIXED}.items():
        if config.get(name, _FIXED.get(name)) != value:
            raise UserError(
                f"{name}={config.get(name)!r} in {directory / CONFIG_FILE} is "
                f"not {value!r}."
            )
    path, tensors = _read_tensors(directory)
    class_name, arrays = _to_ours(path, tensors, config)
    settings = {x: config.get(x, default) for x, default in _SETTINGS.items()}
    try:
        sizes = infer(
            {name: array.shape for name, array in arrays.items()},
            num_attention_heads=settings["num_attention_heads"],
        ).with_fields(**settings)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    labels = ()
    if class_name in (SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION):
        known, count = config.get("id2label") or {}, _num_outputs(sizes)
        if known and known.keys() != {str(i) for i in range(count)}:
            raise UserError(
                f"{directory / CONFIG_FILE} has {len(known)} labels for "
                f"{count} outputs."
            )
        labels = tuple(known[str(i)] for i in range(len(known)))
    return Weights(
        origin=str(directory),
        arrays=arrays,
        architecture=sizes,
        labels=labels,
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
    if class_name in (SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION):
        count = _num_outputs(sizes)
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
    # Version 0.8 ignores strides: it would write a transposed array in memory
    # order.
    tensors = {
        name: np.ascontiguousarray(array)
        for name, array in _to_theirs(_in_units(weights), class_name).items()
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in {CONFIG_FILE: config, **tokenizer}.items():
        files.write_json(directory / name, content)
    vocabulary = "".join(f"{token}\n" for token in weights.vocabulary.tokens)
    files.atomic_write_text(directory / VOCAB_FILE, vocabulary)
    content = safetensors.numpy.save(tensors, {"format": "pt"})
    files.atomic_write_bytes(directory / WEIGHTS_FILE, content)


def _read_tensors(
    directory: pathlib.Path,
) -> tuple[pathlib.Path, dict[str, np.ndarray]]:
    """Reads the weights: one file, or the shards that an index names."""
    import safetensors

    path, shards = directory / WEIGHTS_FILE, [WEIGHTS_FILE]
    if not path.exists() and (directory / INDEX_FILE).exists():
        path = directory / INDEX_FILE
        shards = sorted({*files.read_json(path)["weight_map"].values()})
    tensors = {}
    for shard in shards:
        if not re.fullmatch(r"[^/\0]+\.safetensors", shard):
            raise UserError(f"{path} names {shard!r}.")
        try:
            with safetensors.safe_open(directory / shard, "np") as file:
                for name in file.keys():
                    if not name.endswith(_BUFFERS):
                        array = file.get_tensor(name)
                        tensors[name] = np.asarray(array, np.float32)
        except safetensors.SafetensorError as error:
            raise UserError(f"{directory / shard}: {error}") from error
    return path, tensors


def _to_ours(
    path: pathlib.Path, tensors: Arrays, config: Mapping[str, Any]
) -> tuple[str, dict[str, np.ndarray]]:
    """Returns the class of a network and its arrays under our names."""
    is_bare = not any(name.startswith(_PREFIX) for name in tensors)
    renamed = {}
    for name, array in tensors.items():
        full = name
        if is_bare and name.startswith(("embeddings", "encoder.")):
            full = f"{_PREFIX}{name}"
        full = full.replace("LayerNorm.gamma", "LayerNorm.weight")
        full = full.replace("LayerNorm.beta", "LayerNorm.bias")
        renamed[full] = array
    classes = [
        class_name
        for class_name, starts in _HEAD_TENSORS.items()
        if any(name.startswith(starts) for name in renamed)
    ] or [ENCODER]
    if len(classes) > 1 or len(renamed) < len(tensors):
        raise UserError(f"{path} has more than one of {', '.join(classes)}.")
    tied, is_tied = renamed.pop(_TIED, None), config.get("tie_word_embeddings")
    if classes == [MASKED_LM] and (tied is not None or is_tied is False):
        if tied is None or not np.array_equal(tied, renamed.get(_TABLE)):
            raise UserError(
                f"{_TIED} in {path} is not the table of word embeddings, which "
                "is the only one of ELECTRA's generator."
            )
    task = config.get("finetuning_task")
    if not isinstance(task, str) or not task or "/" in task:
        task = "task"
    layers = {x.split(".")[3] for x in renamed if ".encoder.layer." in x}
    table = names.table(len(layers), task)
    ours = {theirs: (x, flipped) for x, (theirs, flipped) in table.items()}
    arrays, unknown = {}, []
    for name, tensor in renamed.items():
        if name in ours:
            variable, is_transposed = ours[name]
            array = tensor.T if is_transposed else tensor
            arrays[variable] = np.ascontiguousarray(array)
        elif name in _QA_LEAVES:
            leaf = _QA_LEAVES[name]
            parts = np.expand_dims(tensor, -1)  # [2, H, 1] and [2, 1]
            for module, part in zip(_QA_MODULES, parts, strict=True):
                arrays[f"task_specific/{task}/{module}/{leaf}"] = part
        else:
            unknown.append(name)
    if unknown:
        raise UserError(f"{path} has unknown tensors: {listed(unknown)}.")
    return classes[0], arrays


def _to_theirs(weights: Weights, class_name: str) -> dict[str, np.ndarray]:
    """Returns tensors with Hugging Face's names and layout."""
    arrays = {n: np.asarray(x, np.float32) for n, x in weights.arrays.items()}
    tensors, done = {}, set()
    if class_name == QUESTION_ANSWERING:
        (task,) = weights.architecture.tasks
        for theirs, leaf in _QA_LEAVES.items():
            ours = [f"task_specific/{task}/{x}/{leaf}" for x in _QA_MODULES]
            tensors[theirs] = np.concatenate([arrays[name].T for name in ours])
            done.update(ours)
    sizes = weights.architecture
    task = next(iter(sizes.tasks), "")
    table = names.table(sizes.encoder.num_hidden_layers, task)
    for name in sizes.shapes():
        if name not in done:
            theirs, is_transposed = table[name]
            if class_name == ENCODER:
                theirs = theirs.removeprefix(_PREFIX)
            tensors[theirs] = arrays[name].T if is_transposed else arrays[name]
    return tensors


def _in_units(weights: Weights) -> Weights:
    """Scales the output of a regression from [0, 1] to its range of values."""
    if not (weights.value_range and weights.architecture.tasks):
        return weights
    low, high = weights.value_range
    ((task, modules),) = weights.architecture.tasks.items()
    module = f"task_specific/{task}/{[*modules][-1]}"
    kernel, bias = f"{module}/kernel", f"{module}/bias"
    arrays = {
        **weights.arrays,
        kernel: (high - low) * weights.arrays[kernel],
        bias: (high - low) * weights.arrays[bias] + low,
    }
    return dataclasses.replace(weights, arrays=arrays)


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
    widths = {shape[1] for shape in modules.values()}
    if modules.keys() != {*expected} or (
        class_name == QUESTION_ANSWERING and widths != {1}
    ):
        raise UserError(
            f"The head of {task} is not that of {class_name}: fine-tune with "
            "--head=hugging_face (and --joint_prediction=false), or convert "
            "the encoder alone (--network=encoder)."
        )
    return class_name


def _num_outputs(sizes: Architecture) -> int:
    """Returns the number of labels of a fine-tuned head."""
    (modules,) = sizes.tasks.values()
    return modules.get("classifier/out_proj", modules.get("dense"))[1]
