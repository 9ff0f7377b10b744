r"""Measures what an export in fewer bits loses of a task's score.

    python tools/benchmarks/export_quality.py --data_dir=DIR --model_name=NAME
    python tools/benchmarks/export_quality.py --model=TRIAL --test_file=test.txt

The first is a run with a discriminator: the area under the ROC curve of
P(replaced) over held-out records, whose replaced tokens are the generator's in
float32. The second is a tagger of spans, on a file of CoNLL columns: F1 of
spans. Each is exported in each precision, and the SavedModel of it answers. It
prints one JSON line; `agreement` is the share of tokens, or of words, where the
verdict (P(replaced) over 0.5), or the tag, is that of float32.
"""

import dataclasses
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers its operations)

from electra_tf import export_saved_model
from electra_tf.configure_pretraining import RunConfig
from electra_tf.export_saved_model import ExportConfig
from electra_tf.finetune.tagging.tagging_metrics import EntityScorer
from electra_tf.pretrain import evaluation, pretrain_data, pretraining_run
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util import config_flags

_PRECISIONS = ("float32", "bfloat16", "int8")
_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class QualityConfig:
    """What is measured."""

    data_dir: str = ""
    """Of a run."""

    model_name: str = ""
    """Of a run."""

    model: str = ""
    """Directory of a trial that tags spans, instead of a run."""

    test_file: str = ""
    """Words and tags in columns, of a trial."""

    max_batches: int = 64
    """Batches of 32 rows, or sentences."""


Found = tuple[float, np.ndarray]
"""The score, and the verdict or tag of each token or word."""


def main(config: QualityConfig) -> None:
    """Exports in each precision, and prints the scores."""
    measure = _tagger(config) if config.model else _detector(config)
    names = {
        name: getattr(config, name)
        for name in ("data_dir", "model_name", "model")
    }
    found: dict[str, Found] = {}
    for precision in _PRECISIONS:
        with tempfile.TemporaryDirectory() as directory:
            export_saved_model.main(
                ExportConfig(output_dir=directory, precision=precision, **names)
            )
            found[precision] = measure(pathlib.Path(directory))
    exact = found["float32"][1]
    report = {
        name: {"score": score, "agreement": float(np.mean(answers == exact))}
        for name, (score, answers) in found.items()
    }
    kind = "f1" if config.model else "disc_auc"
    print(json.dumps({"metric": kind, "count": len(exact), **report}))


def _detector(config: QualityConfig) -> Callable[[pathlib.Path], Found]:
    run = RunConfig(data_dir=config.data_dir, model_name=config.model_name)
    model = pretraining_run.load(run)
    held_out = pretraining_run.held_out_records(model.config)
    dataset = pretrain_data.evaluation_dataset(held_out, batch_size=_BATCH_SIZE)
    batches = [
        model.corrupt(
            Inputs(*inputs),
            keys=evaluation.evaluation_keys(tf.range(_BATCH_SIZE)),
            training=False,
        )
        for inputs in dataset.take(config.max_batches)
        if inputs[0].shape[0] == _BATCH_SIZE
    ]

    def measure(directory: pathlib.Path) -> Found:
        loaded = tf.saved_model.load(directory / "discriminator/ids/1")
        scores, labels = [], []
        for made in batches:
            is_real = made.inputs.input_mask.numpy() > 0
            answers = loaded.serving_default(*made.fake.inputs)
            scores.append(answers["probability_replaced"].numpy()[is_real])
            labels.append(made.fake.is_fake_tokens.numpy()[is_real])
        p, is_fake = np.concatenate(scores), np.concatenate(labels)
        return evaluation.area_under_curve(p, is_fake), p > 0.5

    return measure


def _tagger(config: QualityConfig) -> Callable[[pathlib.Path], Found]:
    sentences = [*_sentences(pathlib.Path(config.test_file))]
    sentences = sentences[: config.max_batches * _BATCH_SIZE]

    def measure(directory: pathlib.Path) -> Found:
        loaded = tf.saved_model.load(directory / "text/1")
        pairs = []
        for first in range(0, len(sentences), _BATCH_SIZE):
            block = sentences[first : first + _BATCH_SIZE]
            texts = [" ".join(words) for words, _ in block]
            tags = loaded.serving_default(tf.constant(texts))["prediction"]
            for (_, golden), row in zip(block, tags.numpy(), strict=True):
                found = [tag.decode() or "O" for tag in row[: len(golden)]]
                pairs.append((golden, found))
        f1 = EntityScorer(()).metrics(pairs)["f1"]
        return f1, np.array([tag for _, found in pairs for tag in found])

    return measure


def _sentences(path: pathlib.Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yields words and tags."""
    for block in path.read_text().split("\n\n"):
        rows = [line.split() for line in block.splitlines() if line.strip()]
        if rows:
            yield [row[0] for row in rows], [row[-1] for row in rows]


if __name__ == "__main__":
    config_flags.run(main, QualityConfig)
