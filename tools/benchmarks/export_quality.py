r"""Measures the loss of task score when a model is exported in fewer bits.

    python tools/benchmarks/export_quality.py --data_dir=DIR --model_name=NAME
    python tools/benchmarks/export_quality.py --model=TRIAL --test_file=test.txt

The first is for a run with a discriminator: the area under the ROC curve of
P(replaced) on held-out records, with tokens replaced by the generator in
float32. The second is for a tagger of spans, on a file of CoNLL columns: F1 of
spans. Predictions come from the graph that an export writes, in each precision.
It prints one JSON line; `agreement` is the share of tokens, or of words, whose
verdict (P(replaced) over 0.5), or tag, is the same as in float32.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf.configure_pretraining import RunConfig
from electra_tf.data import preparation
from electra_tf.finetune import export
from electra_tf.finetune.predictor import Predictor
from electra_tf.finetune.tagging.tagging_metrics import EntityScorer
from electra_tf.pretrain import evaluation, pretrain_data, pretraining_run
from electra_tf.pretrain.metrics import FakeData
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.serving import checkpoint_export, saved_models
from electra_tf.util import config_flags

_PRECISIONS = ("float32", "bfloat16", "int8")
_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class QualityConfig:
    """What to measure."""

    data_dir: str = ""
    """Root of vocabulary, records and models of a run."""

    model_name: str = ""
    """Name of the run."""

    model: str = ""
    """Directory of a fine-tuning trial that tags spans, instead of a run."""

    test_file: str = ""
    """With --model: file of words and tags in columns."""

    max_batches: int = 64
    """Greatest number of batches, of 32 rows or sentences each."""


Evaluation = tuple[float, np.ndarray]
"""The score, and the verdict of each token or the tag of each word."""


def main(config: QualityConfig) -> None:
    """Evaluates in each precision, and prints the scores."""
    measure = _tagger(config) if config.model else _detector(config)
    found = {precision: measure(precision) for precision in _PRECISIONS}
    exact = found["float32"][1]
    report = {
        name: {"score": score, "agreement": float(np.mean(answers == exact))}
        for name, (score, answers) in found.items()
    }
    kind = "f1" if config.model else "disc_auc"
    print(json.dumps({"metric": kind, "count": len(exact), **report}))


def _detector(config: QualityConfig) -> Callable[[str], Evaluation]:
    run = RunConfig(data_dir=config.data_dir, model_name=config.model_name)
    model = pretraining_run.load(run)
    data = preparation.prepare(model.config, log=str)
    dataset = pretrain_data.evaluation_dataset(
        data.held_out, batch_size=_BATCH_SIZE
    )

    @tf.function
    def corrupt(*arrays: tf.Tensor) -> FakeData:
        keys = evaluation.evaluation_keys(tf.range(arrays[0].shape[0]))
        return model.corrupt(Inputs(*arrays), keys=keys, training=False).fake

    batches = [
        (corrupt(*inputs), inputs[1].numpy() > 0)
        for inputs in dataset.take(config.max_batches)
    ]

    def measure(precision: str) -> Evaluation:
        described, _ = checkpoint_export.describe(
            run.model_dir, precision=_compute_precision(precision)
        )
        network = described["discriminator"].network
        answer = _freeze_graph(network.predict, network.layers, precision)
        scores, labels = [], []
        for fake, is_real in batches:
            answers = answer(fake.inputs._asdict())
            scores.append(answers["probability_replaced"].numpy()[is_real])
            labels.append(fake.is_fake_tokens.numpy()[is_real])
        p, is_fake = np.concatenate(scores), np.concatenate(labels)
        return evaluation.area_under_curve(p, is_fake), p > 0.5

    return measure


def _tagger(config: QualityConfig) -> Callable[[str], Evaluation]:
    sentences = [*_sentences(pathlib.Path(config.test_file))]
    sentences = sentences[: config.max_batches * _BATCH_SIZE]

    def measure(precision: str) -> Evaluation:
        predictor = Predictor(
            config.model, precision=_compute_precision(precision)
        )
        served = export.served_model(predictor)
        answer = _freeze_graph(served.answer_texts, served.layers, precision)
        pairs = []
        for first in range(0, len(sentences), _BATCH_SIZE):
            block = sentences[first : first + _BATCH_SIZE]
            texts = [" ".join(words) for words, _ in block]
            tags = answer(tf.constant(texts))["prediction"].numpy()
            for (_, golden), row in zip(block, tags, strict=True):
                found = [tag.decode() or "O" for tag in row[: len(golden)]]
                pairs.append((golden, found))
        f1 = EntityScorer(()).metrics(pairs)["f1"]
        return f1, np.array([tag for _, found in pairs for tag in found])

    return measure


def _compute_precision(precision: str) -> str:
    return "bfloat16" if precision == "bfloat16" else "float32"


def _freeze_graph(
    answer: Callable, layers: Sequence[keras.layers.Layer], precision: str
) -> Callable:
    """Returns the graph of a signature, with weights as constants."""
    endpoints = saved_models.with_constants({"": answer}, layers, precision)
    return tf.function(endpoints[""], autograph=False, reduce_retracing=True)


def _sentences(path: pathlib.Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yields words and tags."""
    for block in path.read_text("utf-8").split("\n\n"):
        rows = [line.split() for line in block.splitlines() if line.strip()]
        if rows:
            yield [row[0] for row in rows], [row[-1] for row in rows]


if __name__ == "__main__":
    config_flags.run(main, QualityConfig)
