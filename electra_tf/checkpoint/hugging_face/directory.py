"""One network in one directory, in the format of Hugging Face's transformers.

| file | read | written |
|---|---|---|
| config.json | yes | yes |
| model.safetensors | yes; else model.safetensors.index.json | yes |
| vocab.txt, tokenizer.json, tokenizer_config.json | if present | yes |

The network's encoder is named `electra`, the generator's too. Each tensor of a
file is used once or the file is refused, so that nothing is lost or guessed.
Tensors of half precision become float32.

Differs: settings of transformers that do not affect the function of a network
(`classifier_dropout`, `problem_type`, added tokens) are not kept.

Source: transformers, models/electra/modeling_electra.py; the names are in
`names`.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping

from electra_tf.checkpoint.architecture import Architecture, Shape, infer
from electra_tf.checkpoint.hugging_face import config as configs
from electra_tf.checkpoint.hugging_face import tensors, tokenizer, weight_files
from electra_tf.checkpoint.hugging_face.config import (
    CLASSES,
    CONFIG_FILE,
    KINDS,
    LABELLED,
    QUESTION_ANSWERING,
    Config,
)
from electra_tf.checkpoint.weights import Weights, check_vocabulary
from electra_tf.util.errors import UserError


def read(directory: str | os.PathLike[str]) -> Weights:
    """Reads one network."""
    directory = pathlib.Path(directory)
    config = Config.from_directory(directory)
    path = weight_files.weights_file(directory)
    class_name, arrays = tensors.from_hugging_face(
        path, weight_files.read_tensors(path), config
    )
    try:
        architecture = infer(
            {name: array.shape for name, array in arrays.items()},
            num_attention_heads=1,  # replaced below by that of config.json
        )
        for modules in architecture.tasks.values():
            _check_modules(modules, class_name)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    encoder = config.encoder(architecture.encoder)
    architecture = dataclasses.replace(architecture, encoder=encoder)
    labels = ()
    if class_name in LABELLED:
        labels = config.labels(_num_outputs(architecture))
    return Weights(
        origin=str(directory),
        arrays=arrays,
        architecture=architecture,
        labels=labels,
        **tokenizer.read(directory)._asdict(),
    )


def write(
    directory: str | os.PathLike[str], weights: Weights, *, kind: str = ""
) -> None:
    """Writes one network, without slots and step, for transformers to load."""
    architecture = weights.architecture
    class_name = _class_to_write(architecture, kind)
    if weights.vocabulary is None:
        raise UserError(
            "A directory of Hugging Face's must hold the vocabulary. Received: "
            f"none beside {weights.origin}. Give --vocab_file."
        )
    check_vocabulary(weights)
    config = configs.content(
        architecture.encoder,
        class_name,
        task=next(iter(architecture.tasks), ""),
        labels=_labels(weights) if class_name in LABELLED else (),
    )
    contents = {
        CONFIG_FILE: config,
        **tokenizer.contents(
            weights.vocabulary,
            do_lower_case=weights.do_lower_case is not False,
            strip_accents=weights.strip_accents is not False,
            max_length=architecture.encoder.max_position_embeddings,
        ),
    }
    arrays = tensors.to_hugging_face(_in_units(weights), class_name)
    weight_files.write(pathlib.Path(directory), contents, arrays)


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


def _class_to_write(architecture: Architecture, kind: str) -> str:
    """Returns the class of transformers that computes the network."""
    heads = (*architecture.heads, *architecture.tasks)
    if architecture.generator is not None or len(heads) > 1:
        networks = ["discriminator", "generator"]
        networks = networks[: 1 + (architecture.generator is not None)]
        raise UserError(
            "A directory of Hugging Face's must be one network with at most "
            f"one head. Received: {', '.join(networks)} with the heads "
            f"{', '.join(heads) or 'none'}. Choose a network with --network; "
            "of a model with several tasks, only the encoder can be written "
            "(--network=encoder)."
        )
    if architecture.tasks:
        ((task, modules),) = architecture.tasks.items()
        if kind not in KINDS:
            raise UserError(
                f"`kind` must be one of {', '.join(KINDS)}, to say what the "
                f"head of {task!r} computes. Received: kind={kind!r}."
            )
        _check_modules(modules, KINDS[kind])
        return KINDS[kind]
    found = [n for n, known in CLASSES.items() if known.heads == heads]
    if kind or not found:
        raise UserError(
            "transformers' ELECTRA classes have a discriminator head, a "
            "generator head or no head; `kind` is only for fine-tuned heads. "
            f"Received: kind={kind!r}, heads={', '.join(heads) or 'none'}."
        )
    return found[0]


def _check_modules(modules: Mapping[str, Shape], class_name: str) -> None:
    """Checks that a head has the modules of the class's head."""
    expected = CLASSES[class_name].modules
    widths = {shape[1] for shape in modules.values()}
    fits = class_name != QUESTION_ANSWERING or widths == {1}
    if modules.keys() != {*expected} or not fits:
        shapes = (f"{name} {list(shape)}" for name, shape in modules.items())
        raise UserError(
            f"The head of {class_name} must be made of {_joined(expected)}: "
            f"{CLASSES[class_name].reason}. Received: {_joined(shapes)}. "
            "Serve another head with electra_tf, fine-tune with "
            "--head=hugging_face, or convert the encoder alone "
            "(--network=encoder)."
        )


def _joined(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _num_outputs(architecture: Architecture) -> int:
    """Returns the number of labels of a fine-tuned head."""
    (modules,) = architecture.tasks.values()
    return modules.get("classifier/out_proj", modules.get("dense"))[1]


def _labels(weights: Weights) -> tuple[str, ...]:
    """Returns the labels of a head, or as many placeholders."""
    count = _num_outputs(weights.architecture)
    labels = weights.labels or tuple(f"LABEL_{i}" for i in range(count))
    if len(labels) != count:
        raise UserError(
            f"There must be one label for each of the head's {count} outputs. "
            f"Received: {', '.join(labels)}."
        )
    return labels
