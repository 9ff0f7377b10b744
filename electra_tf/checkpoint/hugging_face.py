"""One network in one directory, in the format of Hugging Face's transformers.

Files: config.json, model.safetensors (or shards, read through their index),
vocab.txt, tokenizer.json and tokenizer_config.json. Each tensor is used once or
the file is refused; half precision becomes float32. Exceptions to the names in
`names`: a bare encoder has no prefix `electra.`; a generator's output table is
its word embeddings; one matrix scores the start and the end of an answer.

Differs: settings that do not affect the function of a network are not kept;
tokens that were added are found in any letter case where text is lower-cased.
Whatever the files say, their tokenizers read a special token such as `[MASK]`
in a text as that token; change a final capital sigma to the non-final small
one; keep unassigned characters; do not know punctuation and accents of Unicode
9 or later; and take U+2B820 to U+2B91F, of a CJK block, for letters.

Source: transformers, models/electra/configuration_electra.py,
modeling_electra.py and models/bert/tokenization_bert.py; tokenizers,
normalizers/bert.rs.
"""

import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes  # noqa: F401  numpy then knows bfloat16
import numpy as np

from electra_tf.checkpoint import architecture, names
from electra_tf.checkpoint.architecture import Architecture
from electra_tf.checkpoint.weights import Weights
from electra_tf.model import tokenization
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.util import files
from electra_tf.util.errors import UserError
from electra_tf.util.flags import CONFIG_FILE

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
VOCAB_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
_SPECIAL_FILE = "special_tokens_map.json"

_ENCODER = "ElectraModel"
_OF_HEADS = {
    (): _ENCODER,
    (architecture.DISCRIMINATOR_HEAD,): "ElectraForPreTraining",
    (architecture.GENERATOR_HEAD,): "ElectraForMaskedLM",
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


# Only this class uses tokenizer.json unchanged in both transformers 4 and 5:
# BertTokenizer of 5 is rebuilt, and then maps words of more than 100 characters
# to [UNK].
_CLASS = "PreTrainedTokenizerFast"
# If a field is present, only these values give the same tokens as ours.
_CONFIG_FIELDS = {
    "tokenizer_class": (
        None,
        "BertTokenizer",
        "BertTokenizerFast",
        "ElectraTokenizer",
        "ElectraTokenizerFast",
        _CLASS,
        "TokenizersBackend",
    ),
    "tokenize_chinese_chars": (True,),
    "do_basic_tokenize": (True,),
    "never_split": (None, []),
}
_TOKENIZER_FIELDS = {
    "model.type": ("WordPiece",),
    "model.unk_token": ("[UNK]",),
    "model.continuing_subword_prefix": (tokenization.SUFFIX_INDICATOR,),
    "pre_tokenizer.type": ("BertPreTokenizer",),
    "normalizer.type": ("BertNormalizer",),
    "normalizer.clean_text": (True,),
    "normalizer.handle_chinese_chars": (True,),
}


def read(directory: str | os.PathLike[str]) -> Weights:
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
        shapes = {name: array.shape for name, array in arrays.items()}
        heads = settings["num_attention_heads"]
        sizes = architecture.infer(shapes, num_attention_heads=heads)
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
        architecture=sizes.with_fields(**settings),
        labels=tuple(labels[str(i)] for i in range(count)) if labels else (),
        problem_type=config.get("problem_type") or "",
        **_read_tokenizer(directory),
    )


def write(
    directory: str | os.PathLike[str], weights: Weights, *, kind: str = ""
) -> None:
    """Writes one network, without slots and step, for transformers to load."""
    import safetensors.numpy

    directory, sizes = pathlib.Path(directory), weights.architecture
    class_name = _class_to_write(sizes, kind)
    vocabulary = weights.known_vocabulary()
    config = {
        "architectures": [class_name],
        "model_type": "electra",
        **dataclasses.asdict(sizes.encoder),
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
        if weights.problem_type:
            config["problem_type"] = weights.problem_type
    # Version 0.8 of safetensors ignores strides: it would write a transposed
    # array in memory order.
    tensors = {
        name: np.ascontiguousarray(array, np.float32)
        for name, array in _to_theirs(weights, class_name).items()
    }
    directory.mkdir(parents=True, exist_ok=True)
    json_files = {CONFIG_FILE: config, **_tokenizer_files(weights)}
    for name, content in json_files.items():
        files.write_json(directory / name, content)
    vocabulary.write(directory / VOCAB_FILE)
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
            f"The head of {task} is not that of {class_name}: run_finetuning "
            "makes one with --head=hugging_face (and --joint_prediction=false),"
            " or convert the encoder alone (--network=encoder)."
        )
    return class_name


def _num_labels(sizes: Architecture) -> int:
    """Returns the number of labels of a fine-tuned head; 0 for others."""
    for modules in sizes.tasks.values():
        if modules.keys() != {*_QA_MODULES}:
            return modules.get("classifier/out_proj", modules.get("dense"))[1]
    return 0


def _read_tokenizer(directory: pathlib.Path) -> dict[str, Any]:
    """Reads letter case and accents, None if not known, and the vocabulary."""
    config = _read_checked(directory / TOKENIZER_CONFIG_FILE, _CONFIG_FIELDS)
    tokenizer = _read_checked(directory / TOKENIZER_FILE, _TOKENIZER_FIELDS)
    normalizer = tokenizer.get("normalizer") or {}
    theirs = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}
    settings = {}
    for ours, name in theirs.items():
        given = {config.get(ours), normalizer.get(name)} - {None}
        if len(given) > 1:
            raise UserError(f"Two files in {directory} differ in {ours}.")
        settings[ours] = next(iter(given), None)
    if settings["strip_accents"] and settings["do_lower_case"] is False:
        raise UserError(
            f"The tokenizer in {directory} strips accents of capital letters."
        )
    if settings["strip_accents"] is None:
        settings["strip_accents"] = settings["do_lower_case"]
    if (directory / VOCAB_FILE).exists():
        vocabulary = Vocabulary.from_file(str(directory / VOCAB_FILE))
    elif tokenizer:
        tokens = {i: x for x, i in tokenizer["model"]["vocab"].items()}
        ids = range(max(tokens, default=-1) + 1)  # those of duplicates lack
        vocabulary = Vocabulary(tuple(tokens.get(i, "") for i in ids))
    else:
        return settings
    added = [*tokenizer.get("added_tokens", ())]
    decoder = config.get("added_tokens_decoder", {}).items()
    added += [{**token, "id": int(i)} for i, token in decoder]
    if words := [x["content"] for x in added if x.get("single_word")]:
        raise UserError(f"{words[0]!r} in {directory} is added as a word only.")
    ids = {x["content"]: x["id"] for x in added}
    special = {**_read_checked(directory / _SPECIAL_FILE, {}), **config}
    for token in special.get("additional_special_tokens") or ():
        name = token if isinstance(token, str) else token["content"]
        if name in vocabulary.ids:
            ids.setdefault(name, vocabulary.ids[name])
    return {"vocabulary": vocabulary.with_added(ids), **settings}


def _read_checked(
    path: pathlib.Path, fields: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """Reads a JSON file and checks some fields; {} if it is missing."""
    if not path.exists():
        return {}
    values = files.read_json(path)
    for name, allowed in fields.items():
        value = values
        for key in name.split("."):
            value = (value or {}).get(key, allowed[0])
        if value not in allowed:
            raise UserError(
                f"{name}={value!r} in {path} is of another tokenizer than "
                "ELECTRA's. To read the weights alone, move the file away."
            )
    return values


def _tokenizer_files(weights: Weights) -> dict[str, Any]:
    """Returns file name -> value of the JSON files of a tokenizer."""
    import tokenizers

    vocabulary, sizes = weights.vocabulary, weights.architecture.encoder
    do_lower_case = weights.do_lower_case is not False
    strip_accents = do_lower_case and weights.strip_accents is not False
    if vocabulary.sentencepiece:
        raise UserError("transformers has no ELECTRA of SentencePiece models.")
    config = {
        "tokenizer_class": _CLASS,
        "do_lower_case": do_lower_case,
        "strip_accents": strip_accents,
        "tokenize_chinese_chars": True,
        "model_max_length": sizes.max_position_embeddings,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": True,
        **{f"{x.strip('[]').lower()}_token": x for x in SPECIAL_TOKENS},
    }
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            dict(vocabulary.ids),
            unk_token="[UNK]",
            max_input_chars_per_word=tokenization.MAX_INPUT_CHARS_PER_WORD,
        )
    )
    tokenizer.add_special_tokens(sorted(SPECIAL_TOKENS, key=vocabulary.ids.get))
    for token in vocabulary.added:  # in any letter case, as here
        added = tokenizers.AddedToken(token, normalized=do_lower_case)
        tokenizer.add_tokens([added])
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(
        lowercase=do_lower_case, strip_accents=strip_accents
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(x, vocabulary.ids[x]) for x in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    return {
        TOKENIZER_FILE: json.loads(tokenizer.to_str()),
        TOKENIZER_CONFIG_FILE: config,
    }
