"""Every reader reads a file, or raises an error that says what is wrong.

Whatever the file holds, a reader raises no other exception, never hangs, and
allocates no memory for sizes that a header merely claims. Each entry of
`READERS` is a reader. They stand in one file, as they keep one promise.
"""

import contextlib
import dataclasses
import io
import json
import struct
import tarfile
from collections.abc import Callable

import corpora
import fuzzing
import hypothesis
import multilingual
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import safetensors
import sentencepiece
import tiny_corpus
import tiny_finetuning
import tiny_networks
from hypothesis.internal.conjecture import providers
from sentencepiece import sentencepiece_model_pb2

from electra_tf.checkpoint import calibration, checkpoint_formats, loading
from electra_tf.checkpoint.hugging_face import directory as hugging_face
from electra_tf.config.corpus import CorpusConfig
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data import (
    dataset_files,
    recovery,
    verification_cache,
    vocabularies,
)
from electra_tf.data.formats import conll, inputs
from electra_tf.data.formats.rows import BadRowError
from electra_tf.data.records import Records
from electra_tf.finetune import task_builder, task_description
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.model import sentencepiece_model
from electra_tf.util import config_files, config_flags
from electra_tf.util.errors import NonFiniteLossError, UserError

FLAGS = b"""\
# of a run
--data_dir=d
--model_name=m
--num_train_steps=100
--mask_prob=0.15
--hidden_size=64
--num_attention_heads=4
--seq_length_phases=64:0.9,128:0.1:16
--length_buckets=32,64
--checkpoint_milestones=0.5,1
--corpus=a,b
--nodo_eval
"""
TASK_FLAGS = b"""\
--data_dir=d
--model_name=m
--task_names=own
--task_kind=regression
--train_file=x.csv
--value_range=0,1.5
--num_train_epochs=2.5
--max_seq_length=32
--delimiter=;
--hidden_dropout_prob=0.1
"""
HPARAMS = {
    "model_name": "m",
    "data_dir": "d",
    "num_train_steps": 100,
    "learning_rate": 5e-4,
    "corpus": ["a", "b"],
    "electra_objective": True,
    "model": {"hidden_size": 64, "generator_sharing": "none"},
    "length_buckets": [32, 64],
    "vocab_size": None,
}
ANSWER = {"text": "good", "answer_start": 8, "char_spans": [[8, 11]]}
QUESTION = {
    "id": "q1",
    "qid": "q1",
    "question": "what",
    "answers": [ANSWER],
    "detected_answers": [ANSWER],
}
CONTEXT = {"context": "it is a good film", "qas": [QUESTION]}
SQUAD = {"data": [{"title": "t", "paragraphs": [CONTEXT]}]}
MRQA = {**CONTEXT, "qas": [{**QUESTION, "answers": ["good"]}]}
LINES = (
    b'{"text": "a good film", "label": 1, "words": ["a", "b"], "tags": ["O",'
    b' "B-X"]}\n{"text": "\\u00e9", "label": "0", "words": ["c"], "tags": '
    b'["B-Y"]}\n'
)
TABLE = b'text,label\n"a ""good"", film",0\nbad,1\n'
TSV = b"text\tlabel\na good film\t0\nbad\t1\n"
QA_TABLE = (
    b"question\tcontext\tanswer\tanswer_start\nwhat\ta good film\tgood\t2\n"
)
CONLL = b"it O\nis O\ngood B-X\n\na O\nbad B-Y\nfilm I-Y\n"
CONLLU = b"# s\n1\tit\t_\tA\n2-3\tx\t_\t_\n2\tis\t_\tB\n\n1\ta\t_\tA\n"
TEXT = "Grüße aus Wien\n\n".encode() * 20
RECORDS = CorpusConfig(max_seq_length=tiny_corpus.LENGTH)
SHARD = "pretrain_data.tfrecord-0-of-1"


@dataclasses.dataclass(frozen=True)
class Reader:
    """A reader, and a valid file for it.

    Attributes:
      read: path -> None.
      name: of the file.
      content: of the file; or a function, directory -> None, that writes it
        and its neighbours.
      fix_checksums: content -> the content with matching checksums or sizes.
    """

    read: Callable
    name: str
    content: bytes | Callable
    fix_checksums: Callable = bytes


def flags(config_class, flag="flagfile"):
    return lambda path: config_flags.parse(config_class, [f"--{flag}={path}"])


def save_config(directory):
    config = config_flags.parse(
        PretrainingConfig, FLAGS.decode().splitlines()[1:]
    )
    config_files.save_config(directory / "config.json", config)


def read_vocabulary(path, lowers=True):
    is_model = path.suffix == ".model"
    tokenizer = "sentencepiece" if is_model else "wordpiece"
    config = CorpusConfig(
        tokenizer=tokenizer, do_lower_case=lowers, strip_accents=lowers
    )
    found = vocabularies.open_vocabulary(config, str(path))
    if is_model:
        sentencepiece.SentencePieceProcessor(
            model_proto=found.sentencepiece
        ).encode(["Grüße aus Wien, ﬁne ①"])


def sentencepiece_writer(*, has_rules):
    """Returns a writer of a model with or without normalization rules."""

    def write(directory):
        model = sentencepiece_model.learn(
            multilingual.SENTENCES,
            vocab_size=300,
            model_type="unigram",
            do_lower_case=True,
            strip_accents=True,
        )
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        if not has_rules:
            proto.normalizer_spec.ClearField("precompiled_charsmap")
        (directory / "spm.model").write_bytes(proto.SerializeToString())

    return write


def open_records(path, **options):
    pattern = str(path.with_name("pretrain_data.tfrecord*"))
    return Records.open(pattern, RECORDS, tiny_corpus.VOCABULARY, **options)


def record_reader(**options):
    """Returns a reader that verifies records even if they were read before."""

    def read(path):
        path.with_name(verification_cache.CACHE_FILE).unlink(missing_ok=True)
        open_records(path, **options)

    return read


def build(directory, has_manifest=True):
    config = tiny_corpus.write(directory / "text", tiny_corpus.DOCUMENTS[:4])
    config = dataclasses.replace(config, held_out_fraction=0, num_shards=1)
    with contextlib.redirect_stdout(None):
        tiny_corpus.build(config, directory)
    if not has_manifest:
        (directory / dataset_files.MANIFEST).unlink()


def build_without_manifest(directory):
    build(directory, has_manifest=False)


def build_with_cache(directory):
    build(directory)
    open_records(directory / SHARD)


def fix_cache_checksum(content):
    """Recomputes the checksum of a verification cache."""
    with contextlib.suppress(ValueError, TypeError, LookupError):
        entries = json.loads(content)["files"]
        return json.dumps(verification_cache._with_checksum(entries)).encode()
    return content


def fix_record_checksums(content):
    """Recomputes the checksums of records, up to the first impossible size."""
    fixed, position = b"", 0
    while position + 12 <= len(content):
        size = content[position : position + 8]
        end = position + 12 + int.from_bytes(size, "little")
        fixed += _with_checksum(size)
        if end + 4 > len(content):
            break
        fixed += _with_checksum(content[position + 12 : end])
        position = end + 4
    return fixed + content[len(fixed) :]


def fix_index_checksum(content):
    """Recomputes the checksum of the first block of a bundle's index."""
    if len(content) < 48:
        return content
    end = _varint(content[-48:])  # start of the next block
    if not 5 <= end <= len(content):
        return content
    return _with_checksum(content[: end - 4]) + content[end:]


def _varint(content):
    number = 0
    for i, byte in enumerate(content[:9]):
        number |= (byte & 127) << 7 * i
        if byte < 128:
            break
    return number


def _with_checksum(data):
    return recovery._with_checksum(data)


def fix_header_size(content):
    """Corrects the header size of a safetensors file."""
    end = content.find(b"}}", 8)
    size = len(content) - 8 if end < 0 else end + 2 - 8
    return struct.pack("<Q", max(size, 0)) + content[8:]


def read_counts(path):
    dataset_files.read_unigram_counts([path.parent], tiny_corpus.VOCABULARY)


def compressed(ending, content=TEXT):
    return corpora.COMPRESS[ending](content)


def tar(directory):
    names = ["a/" + "long" * 40 + ".txt", "b.txt", "é" * 60 + ".jsonl"]
    with tarfile.open(directory / "a.tar", "w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(LINES)
            archive.addfile(info, io.BytesIO(LINES))


def parquet(directory):
    table = pyarrow.table({"text": ["Grüße", "", "Wien" * 9] * 4})
    pyarrow.parquet.write_table(table, directory / "a.parquet")


def rows_of(kind, **columns):
    """Returns a reader of the training rows of a task, by its kind or name."""
    is_custom = kind in task_builder.KINDS
    names = "own" if is_custom else kind

    def read(path):
        if is_custom:
            columns.update(train_file=str(path), task_kind=kind)
        leaves = {**columns, "finetuning_data_dir": str(path.parent.parent)}
        config = tiny_finetuning.config(task_names=(names,), **leaves)
        task = task_builder.get_task(config, TOKENIZER, longest=32)
        examples = task.get_examples("train")
        assert examples
        list(task.featurize(examples[:8], is_training=True))

    return read


def rows_to_predict(**spec):
    """Returns a reader of rows for prediction."""

    def read(path):
        source = inputs.of_file(str(path), "auto", inputs.InputSpec(**spec))
        for _, content in source.rows:
            with contextlib.suppress(BadRowError):
                source.parse(content)

    return read


def read_task(path):
    description = task_description.read(path.parent)
    task = task_description.make_task(description, TOKENIZER)
    task.head()
    task.get_scorer()
    assert task.describe() and task.input_spec


def describe(kind, **metadata):
    """Returns a writer of the description of a task."""

    def write(directory):
        task_metadata = {
            "labels": ["O", "B-X"],
            "max_seq_length": 32,
            **metadata,
        }
        task = tiny_finetuning.task(
            kind, metadata=task_metadata, vocabulary=tiny_finetuning.VOCABULARY
        )
        task_description.write(directory, [task])

    return write


def read_checkpoint(path):
    checkpoint_formats.read(str(path.parent))


def save_checkpoint(directory):
    tiny_networks.save(tiny_networks.discriminator(), directory)


def save_hugging_face(directory):
    weights = loading.weights_of(tiny_networks.discriminator())
    hugging_face.write(directory, weights)


def save_shards(directory):
    save_hugging_face(directory)
    (directory / "model.safetensors").rename(directory / "a.safetensors")
    with contextlib.suppress(FileNotFoundError):
        (directory / "vocab.txt").unlink()
    with safetensors.safe_open(directory / "a.safetensors", "np") as file:
        shards = dict.fromkeys(file.keys(), "a.safetensors")
    index = {"metadata": {}, "weight_map": shards}
    path = directory / "model.safetensors.index.json"
    path.write_text(json.dumps(index))


def read_hugging_face(path):
    hugging_face.read(path.parent)


def save_calibration(directory):
    calibration.write(directory, calibration.Calibration(1.5, "x", 3))


def read_calibration(path):
    found = calibration.read(path.parent)
    assert found is None or 0 < found.temperature < np.inf


TOKENIZER = TextTokenizer(tiny_finetuning.VOCABULARY)
WORDS = {"names": ("words",), "takes_words": True}
READERS = {
    "flags": Reader(flags(PretrainingConfig), "a.cfg", FLAGS),
    "flags of tasks": Reader(flags(FinetuningConfig), "a.cfg", TASK_FLAGS),
    "hparams": Reader(
        flags(PretrainingConfig, "hparams"),
        "a.json",
        json.dumps(HPARAMS).encode(),
    ),
    "configuration": Reader(
        lambda path: config_files.load_config(path, PretrainingConfig),
        "config.json",
        save_config,
    ),
    "vocabulary": Reader(
        read_vocabulary, "vocab.txt", tiny_corpus.VOCABULARY.content
    ),
    "SentencePiece": Reader(
        lambda path: read_vocabulary(path, lowers=False),
        "spm.model",
        sentencepiece_writer(has_rules=False),
    ),
    "rules of SentencePiece": Reader(
        read_vocabulary, "spm.model", sentencepiece_writer(has_rules=True)
    ),
    "records": Reader(record_reader(), SHARD, build_without_manifest),
    "records with checksums": Reader(
        record_reader(), SHARD, build_without_manifest, fix_record_checksums
    ),
    "records to recover": Reader(
        record_reader(skip_corrupt_records=True),
        SHARD,
        build,
        fix_record_checksums,
    ),
    "manifest": Reader(record_reader(), dataset_files.MANIFEST, build),
    "verification cache": Reader(
        open_records,
        verification_cache.CACHE_FILE,
        build_with_cache,
        fix_cache_checksum,
    ),
    "counts": Reader(read_counts, dataset_files.UNIGRAM_COUNTS, build),
    "counted": Reader(read_counts, dataset_files.MANIFEST, build),
    "text": Reader(corpora.read, "a.txt", TEXT),
    "JSON lines": Reader(corpora.read, "a.jsonl", LINES),
    "gz": Reader(corpora.read, "a.gz", compressed(".gz")),
    "xz": Reader(corpora.read, "a.xz", compressed(".xz")),
    "bz2": Reader(corpora.read, "a.bz2", compressed(".bz2")),
    "zst": Reader(corpora.read, "a.zst", compressed(".zst")),
    "tar": Reader(corpora.read, "a.tar", tar),
    "Parquet": Reader(corpora.read, "a.parquet", parquet),
    "csv": Reader(rows_of("classification"), "a.csv", TABLE),
    "tsv": Reader(rows_of("regression"), "a.tsv", TSV),
    "rows": Reader(rows_of("classification"), "a.jsonl", LINES),
    "skipped rows": Reader(
        rows_of("regression", skip_bad_rows=True), "a.jsonl", LINES
    ),
    "sentences": Reader(rows_of("tagging"), "a.jsonl", LINES),
    "CoNLL": Reader(rows_of("tagging"), "a.conll", CONLL),
    "CoNLL-U": Reader(rows_of("tagging"), "a.conllu", CONLLU),
    "xz of a task": Reader(
        rows_of("tagging"), "a.conll.xz", compressed(".xz", CONLL)
    ),
    "SQuAD": Reader(rows_of("qa"), "a.json", json.dumps(SQUAD).encode()),
    "MRQA": Reader(rows_of("qa"), "a.jsonl", json.dumps(MRQA).encode()),
    "questions": Reader(rows_of("qa"), "a.tsv", QA_TABLE),
    "csv to answer": Reader(
        rows_to_predict(names=("text", "label")), "a.csv", TABLE
    ),
    "tsv to answer": Reader(
        rows_to_predict(names=("text", "label")),
        "a.tsv",
        TSV,
    ),
    "lines to answer": Reader(
        rows_to_predict(names=("text",)), "a.txt.gz", compressed(".gz")
    ),
    "CoNLL-U to answer": Reader(
        rows_to_predict(**WORDS, word_files={".conllu": conll.CONLLU}),
        "a.conllu",
        CONLLU,
    ),
    "task.json": Reader(read_task, "task.json", describe("classification")),
    "task.json of values": Reader(
        read_task,
        "task.json",
        describe("regression", labels=[], value_range=[0, 5]),
    ),
    "task.json of tags": Reader(
        read_task,
        "task.json",
        describe("tagging", is_spans=True, encoding="BIO"),
    ),
    "index of a checkpoint": Reader(
        read_checkpoint, "model.ckpt-0.index", save_checkpoint
    ),
    "index with checksums": Reader(
        read_checkpoint,
        "model.ckpt-0.index",
        save_checkpoint,
        fix_index_checksum,
    ),
    "data of a checkpoint": Reader(
        read_checkpoint, "model.ckpt-0.data-00000-of-00001", save_checkpoint
    ),
    "architecture.json": Reader(
        read_checkpoint, "architecture.json", save_checkpoint
    ),
    "safetensors": Reader(
        read_hugging_face, "model.safetensors", save_hugging_face
    ),
    "header of safetensors": Reader(
        read_hugging_face,
        "model.safetensors",
        save_hugging_face,
        fix_header_size,
    ),
    "shards": Reader(
        read_hugging_face, "model.safetensors.index.json", save_shards
    ),
    "config.json": Reader(read_hugging_face, "config.json", save_hugging_face),
    "tokenizer.json": Reader(
        read_hugging_face, "tokenizer.json", save_hugging_face
    ),
    "tokens of tokenizer.json": Reader(
        read_hugging_face, "tokenizer.json", save_shards
    ),
    "tokenizer_config.json": Reader(
        read_hugging_face, "tokenizer_config.json", save_hugging_face
    ),
    "calibration.json": Reader(
        read_calibration, "calibration.json", save_calibration
    ),
}


def contents_of(valid):
    """Returns a strategy of files that differ from a valid one."""
    line, _, rest = valid.partition(b"\n")
    for text, after in ((valid, b""), (line, b"\n" + rest)):
        with contextlib.suppress(ValueError):
            value = json.loads(text)
            changed = fuzzing.documents(value).map(lambda x, end=after: x + end)
            return changed | fuzzing.mutations(valid)
    return fuzzing.mutations(valid)


def fuzz(name, directory, max_examples):
    """Runs a reader on many mutated files."""
    reader = READERS[name]
    path = directory / "own" / reader.name
    path.parent.mkdir()
    if isinstance(reader.content, bytes):
        path.write_bytes(reader.content)
    else:
        reader.content(path.parent)
    valid = path.read_bytes()
    reader.read(path)

    @hypothesis.settings(
        max_examples=max_examples,
        database=None,
        deadline=None,  # `fuzzing.limits` bounds the CPU time
        derandomize=True,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(contents_of(valid).map(reader.fix_checksums))
    def check(content):
        path.write_bytes(content)
        expected_errors = contextlib.suppress(UserError, NonFiniteLossError)
        with fuzzing.limits(), expected_errors:
            reader.read(path)

    check()


@pytest.fixture(autouse=True)
def same_examples_everywhere(monkeypatch):
    """Hides constants of imported modules, which Hypothesis would use."""
    nothing = providers._get_local_constants().__class__()
    monkeypatch.setattr(providers, "_get_local_constants", lambda: nothing)


@pytest.mark.parametrize("name", READERS)
def test_any_file_is_read_or_refused_with_a_known_error(tmp_path, name):
    fuzz(name, tmp_path, max_examples=6)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_any_of_many_files_is_read_or_refused_with_a_known_error(
    tmp_path, name
):
    fuzz(name, tmp_path, max_examples=50)
