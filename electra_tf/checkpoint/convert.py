"""Conversion of checkpoints: selected networks, new vocabulary, new sizes."""

import dataclasses
from typing import Any

import numpy as np
from etils import epath

from electra_tf.checkpoint import architecture, loading, weights
from electra_tf.checkpoint.architecture import SLOTS, STEP
from electra_tf.checkpoint.weights import NETWORKS, Weights
from electra_tf.config.analysis import ConvertConfig
from electra_tf.config.corpus import CorpusConfig
from electra_tf.model import sentencepiece_model
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import console, files
from electra_tf.util.errors import UserError

# Kind of our tasks -> that of the fine-tuned head.
_KINDS = {
    "classification": "sequence_classification",
    "regression": "sequence_classification",
    "tagging": "token_classification",
    "qa": "question_answering",
}
_TAGGING_TASKS = ("chunk", "ner", "pos", "ccg")  # the original's


def describe(loaded: Weights) -> str:
    num_slots = sum(name.endswith(SLOTS) for name in loaded.arrays)
    num_weights = len(loaded.arrays.keys() - {STEP}) - num_slots
    lines = [
        f"Read {loaded.origin}: {num_weights} weights, {num_slots} slots of "
        f"Adam, step {loaded.step:,}.",
        *(f"  {x}: {n:,} parameters" for x, n in loading.sizes(loaded).items()),
    ]
    if loaded.architecture.tasks:
        lines.append(f"  fine-tuned: {', '.join(loaded.architecture.tasks)}")
    if loaded.heads_are_assumed:
        lines.append("  attention heads: assumed; set --num_attention_heads")
    if loaded.vocabulary is None:
        lines.append("  vocabulary: not found; set --vocab_file")
    return "\n".join(lines)


def prepare(loaded: Weights, config: ConvertConfig) -> Weights:
    """Applies the requested changes, and prints the counts of changed rows."""
    if config.num_hidden_layers:
        encoder = weights.select(loaded, weights.ENCODER)
        loaded = weights.keep_layers(encoder, config.num_hidden_layers)
    vocabulary, size = None, config.vocab_size
    if config.new_vocab_file:
        loaded.known_vocabulary()  # to compare with
        vocabulary = Vocabulary.from_file(config.new_vocab_file)
        size = size or vocabulary.size
    if size:
        loaded, counts = weights.resize_vocabulary(
            loaded, size, vocabulary, seed=config.seed
        )
        console.say(counts)
    if vocabulary is not None:
        lower = strip = None
        if model := vocabulary.sentencepiece:
            lower, strip = sentencepiece_model.normalization(model)
        loaded = dataclasses.replace(
            loaded, do_lower_case=lower, strip_accents=strip
        )
        loaded = weights.with_case(loaded)
    if config.max_position_embeddings:
        loaded, counts = weights.resize_positions(
            loaded, config.max_position_embeddings
        )
        console.say(counts)
    loaded = weights.with_slots(loaded)
    if config.reset_step:
        loaded.arrays[STEP] = loaded.arrays[STEP] * 0
    return loaded if config.slots else weights.without_slots(loaded)


def write(ready: Weights, config: ConvertConfig) -> list[epath.Path]:
    """Writes the weights, and the flags that continue their training."""
    target_format, network = config.target_format, config.network
    networks = NETWORKS if network == "both" else (network,)
    if network == weights.ENCODER:
        ready = weights.select(ready, network)
        networks = ready.networks
    kind = _kind(ready, config)
    is_tagger = kind == "token_classification" or any(
        {*x} == {"dense"} for x in ready.architecture.tasks.values()
    )
    is_theirs = loading.format_of(config.input) == "hf"
    if is_theirs != (target_format == "hf") and is_tagger:
        # The original tags with segment 1, Hugging Face with segment 0.
        name = "electra/embeddings/token_type_embeddings"
        table = ready.arrays[name]
        row = table[:2][0 if is_theirs else -1]
        arrays = {**ready.arrays, name: np.broadcast_to(row, table.shape)}
        ready = dataclasses.replace(ready, arrays=arrays)
    paths = loading.write(
        config.output, ready, target_format, networks=networks, kind=kind
    )
    if target_format != "hf" and network == "both":
        lines = [f"--{name}={x}\n" for name, x in _flags(ready).items()]
        path = epath.Path(config.output) / "model.cfg"
        files.atomic_write_text(path, "".join(lines))
    return paths


def _flags(ready: Weights) -> dict[str, Any]:
    """Returns the flags of run_pretraining that continue the training."""
    encoder = ready.architecture.encoder
    flags = architecture.size_flags(ready.architecture)
    flags |= weights.text_flags(ready)
    for name in sorted(architecture.COMMON_FIELDS):
        flags[name] = getattr(encoder, name)
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
    """Returns the kind of a fine-tuned head for hf, "" without such a head."""
    given = "" if config.head == "auto" else config.head
    if config.target_format != "hf" or not ready.architecture.tasks:
        if given:
            raise UserError(f"No fine-tuned head to write with --head={given}")
        return ""
    task, modules = next(iter(ready.architecture.tasks.items()))
    known = _KINDS.get(ready.task_kind, "")
    if "classifier/dense" in modules:
        known = "sequence_classification"
    elif len(modules) > 1:
        known = "question_answering"
    elif task in _TAGGING_TASKS:
        known = "token_classification"
    if given and known not in ("", given) or not (known or given):
        raise UserError(
            f"The head of {task!r} is {known or 'unknown'}, not "
            f"--head={config.head}."
        )
    return known or given
