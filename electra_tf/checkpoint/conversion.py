"""Conversion of checkpoints: selected networks, new vocabulary, new sizes."""

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from electra_tf.checkpoint import (
    checkpoint_formats,
    resizing,
    weights,
)
from electra_tf.checkpoint.architecture import (
    COMMON_FIELDS,
    SLOTS,
    STEP,
    size_flags,
)
from electra_tf.checkpoint.weights import NETWORKS, Weights
from electra_tf.config.conversion import ConvertConfig
from electra_tf.config.corpus import CorpusConfig
from electra_tf.model import sentencepiece_model
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, files, storage
from electra_tf.util.errors import UserError

_FLAGS = "model.cfg"
# Share of a vocabulary above which pieces show how its text was read.
_CLEAR_SHARE = 0.01
# Flag -> what text keeps without it.
_KEPT = {"do_lower_case": "capital letters", "strip_accents": "accents"}
# Kind of our tasks -> that of the fine-tuned head.
_KINDS = {
    "classification": "sequence_classification",
    "regression": "sequence_classification",
    "tagging": "token_classification",
    "qa": "question_answering",
}
# Kind of a fine-tuned head -> the original's tasks that have it.
_TASKS = {
    "sequence_classification": "cola sst mrpc sts qqp mnli qnli rte wnli",
    "token_classification": "chunk ner pos ccg",
    "question_answering": "squad squadv1 newsqa naturalqs triviaqa searchqa",
}


def describe(loaded: Weights) -> str:
    """Describes a checkpoint: networks, sizes, slots, step."""
    names = {*loaded.arrays}
    num_slots = sum(name.endswith(SLOTS) for name in names)
    num_weights = len(names) - num_slots - (STEP in names)
    flags = size_flags(loaded.architecture)
    sizes = checkpoint_formats.sizes(loaded)
    extras = loaded.architecture.extras
    lines = [
        f"Read {loaded.origin}: {num_weights} weights, {num_slots} slots of "
        f"Adam, step {loaded.step:,}; all used.",
        *(f"  {name}: {size:,} parameters" for name, size in sizes.items()),
        *(
            f"  {scope}: weights of its objective only"
            for scope in sorted({x.partition("/")[0] for x in extras})
        ),
        *(
            f"  {task}: fine-tuned head of {', '.join(modules)}"
            for task, modules in loaded.architecture.tasks.items()
        ),
        "  " + " ".join(f"--{name}={value}" for name, value in flags.items()),
    ]
    if loaded.heads_are_assumed:
        lines.append(
            "  attention heads: not stored in any file; the original's number "
            "for this width, unless --num_attention_heads sets another"
        )
    if loaded.vocabulary is None:
        lines.append("  vocabulary: not found; give it with --vocab_file")
    return "\n".join(lines)


def prepare(loaded: Weights, config: ConvertConfig) -> Weights:
    """Applies the requested changes, and prints the counts of changed rows."""
    if config.num_hidden_layers:
        loaded = _with_lowest_layers(loaded, config)
    if config.new_vocab_file and loaded.vocabulary is None:
        raise UserError(
            "`new_vocab_file` needs the vocabulary of the input, whose tokens "
            f"keep their embeddings. Received: none beside {loaded.origin}. "
            "Set --vocab_file."
        )
    if config.new_vocab_file or config.vocab_size:
        vocabulary = None
        if config.new_vocab_file:
            vocabulary = Vocabulary.from_file(config.new_vocab_file)
        size = config.vocab_size or vocabulary.size
        loaded, rows = resizing.resize_vocabulary(
            loaded, size, vocabulary, seed=config.seed
        )
        console.say(rows.describe("Word embeddings"))
        if vocabulary is not None:
            settings = _text_settings(vocabulary)
            loaded = dataclasses.replace(loaded, **settings)
            console.say(_describe_text(loaded))
    if config.max_position_embeddings:
        loaded, rows = resizing.resize_positions(
            loaded, config.max_position_embeddings
        )
        console.say(rows.describe("Position embeddings"))
    ready = weights.with_slots(loaded)
    if config.reset_step:
        step = {STEP: ready.arrays[STEP] * 0}
        ready = dataclasses.replace(ready, arrays={**ready.arrays, **step})
    return ready if config.slots else weights.without_slots(ready)


def _text_settings(vocabulary: Vocabulary) -> dict[str, bool | None]:
    """Returns what a vocabulary shows of its letter case and accents."""
    if vocabulary.sentencepiece:
        return sentencepiece_model.normalization(
            vocabulary.sentencepiece
        )._asdict()
    pieces = [
        token
        for token in vocabulary.tokens
        if not (token.startswith("[") and token.endswith("]"))  # as [CLS]
    ]
    changes = {
        "do_lower_case": str.lower,
        "strip_accents": sentencepiece_model.strip_accents,
    }
    return {
        name: False
        if sum(change(x) != x for x in pieces) > _CLEAR_SHARE * len(pieces)
        else None
        for name, change in changes.items()
    }


def _describe_text(loaded: Weights) -> str:
    """Describes the letter case and the accents of a new vocabulary."""
    flags = [
        f"--{'' if is_set else 'no'}{name}"
        for name, is_set in weights.text_flags(loaded).items()
    ]
    text = " ".join(flags) or "not known"
    unknown = [
        f"--no{name} if its text keeps {what}"
        for name, what in _KEPT.items()
        if getattr(loaded, name) is None and loaded.do_lower_case is not False
    ]
    if unknown:
        text += f". Give {', '.join(unknown)}: pre-training takes either"
    return f"Letter case and accents of the new vocabulary: {text}."


def _with_lowest_layers(loaded: Weights, config: ConvertConfig) -> Weights:
    """Keeps the lowest layers of the encoder, without a head."""
    encoder = weights.select(loaded, weights.ENCODER)
    kept = resizing.keep_layers(encoder, config.num_hidden_layers)
    console.say(
        f"Layers: the lowest {config.num_hidden_layers} of "
        f"{encoder.architecture.encoder.num_hidden_layers} kept."
    )
    return kept


def write(ready: Weights, config: ConvertConfig) -> list[storage.Path]:
    """Writes the weights; if that fails, no file stays."""
    target_format, network = config.target_format, config.network
    networks = NETWORKS if network == "both" else (network,)
    if network == weights.ENCODER:
        ready = weights.select(ready, network)
        networks = ready.networks
    kind = _kind(ready, config)
    is_theirs = checkpoint_formats.format_of(config.input) == "hf"
    if is_theirs != (target_format == "hf") and _is_tagger(ready, kind):
        ready = _with_one_segment(ready, 0 if is_theirs else 1)
    output = checkpoint_formats.open_output(config.output, target_format)
    with output as root:
        paths = checkpoint_formats.write_to(
            root, ready, target_format, networks=networks, kind=kind
        )
        if target_format != "hf" and network == "both":
            flags = _flags(ready)
            lines = [f"--{name}={value}\n" for name, value in flags.items()]
            files.atomic_write_text(root / _FLAGS, "".join(lines))
    return paths


def _is_tagger(ready: Weights, kind: str) -> bool:
    """Returns whether the head tags words, by its kind or else its modules."""
    if kind:
        return kind == "token_classification"
    return any({*x} == {"dense"} for x in ready.architecture.tasks.values())


def _with_one_segment(ready: Weights, trained_segment: int) -> Weights:
    """Gives all segments the embedding that a tagger was trained with."""
    name = "electra/embeddings/token_type_embeddings"
    table = ready.arrays[name]
    rows = np.broadcast_to(table[trained_segment], table.shape)
    return dataclasses.replace(ready, arrays={**ready.arrays, name: rows})


def _flags(ready: Weights) -> dict[str, Any]:
    """Returns the flags of run_pretraining that continue the training."""
    encoder = ready.architecture.encoder
    flags = size_flags(ready.architecture) | weights.text_flags(ready)
    flags |= {name: getattr(encoder, name) for name in sorted(COMMON_FIELDS)}
    longest = encoder.max_position_embeddings
    length = ready.max_seq_length or CorpusConfig.max_seq_length
    if ready.max_seq_length or longest < length:
        flags["max_seq_length"] = min(length, longest)
    if ready.vocabulary is not None:
        flags["tokenizer"] = ready.vocabulary.kind
    if ready.objective:
        flags["objective"] = ready.objective
    return flags


def _kind(ready: Weights, config: ConvertConfig) -> str:
    """Returns the kind of a fine-tuned head for hf; empty without such a
    head."""
    given, tasks = config.head, ready.architecture.tasks
    if config.target_format != "hf" or not tasks:
        if given == "auto":
            return ""
        raise UserError(
            "`head` needs a fine-tuned head, written for hf. Received: head="
            f"{given}, target_format={config.target_format}, {len(tasks)} "
            "fine-tuned heads. Leave --head out."
        )
    known = _KINDS.get(ready.task_kind)
    if known and given not in (known, "auto"):
        raise UserError(
            f"`head` must be {known}, or left out: the task of {ready.origin} "
            f"is {ready.task_kind}. Received: head={given}."
        )
    if known or given != "auto":
        return known or given
    return _inferred_kind(*next(iter(tasks.items())))


def _inferred_kind(task: str, modules: Collection[str]) -> str:
    """Infers the kind of a head without a description, as the original's."""
    if "classifier/dense" in modules:
        return "sequence_classification"
    if len(modules) > 1:
        return "question_answering"
    for kind, names in _TASKS.items():
        if task in names.split():
            return kind
    raise UserError(
        "`head` must be the kind of the fine-tuned head. Received: head=auto "
        f"for {task!r}, which is not a task of the original's. Set --head."
    )
