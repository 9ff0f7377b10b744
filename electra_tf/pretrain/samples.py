"""Shows what the two networks do to real text, for a person to read."""

import numpy as np
import tensorflow as tf

from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.corruption import Prediction
from electra_tf.pretrain.evaluation import evaluation_keys
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import PretrainingModel

_COLOURS = {"caught": 32, "missed": 33, "false alarm": 31, "same": 36}
_WIDTHS = (16, 16, 16, 11)


def has_verdicts(model: PretrainingModel) -> bool:
    """Says whether a model has a discriminator, for `table` to show."""
    return isinstance(model, Electra) and bool(model.detector)


def table(
    model: Electra,
    dataset: tf.data.Dataset,
    num_samples: int,
    *,
    in_colour: bool = False,
) -> str:
    """Corrupts and judges some records of a data set's first batch.

    Args:
      model: a trained generator and discriminator.
      dataset: of `Inputs`.
      num_samples: number of records; of one with several documents the first
        is shown.
      in_colour: whether to colour the verdicts for a terminal.

    Returns:
      Each record's corrupted text, and under it one line for each token that
      was masked or flagged: original, masked, generated, P(replaced), verdict.
    """
    batch = Inputs(*next(iter(dataset)))
    size = batch.input_ids.shape[0]
    rows = tf.range(0, size, max(1, size // num_samples))[:num_samples]
    inputs = Inputs(*(tf.gather(x, rows) for x in batch))
    prediction = model.forward(
        inputs, keys=evaluation_keys(rows), training=False
    )
    inputs = getattr(prediction, "inputs", inputs)  # if it rearranged them
    arrays = tf.nest.map_structure(np.asarray, (inputs, prediction))
    lengths = (arrays[0].input_mask == 1).sum(1)
    return "\n\n".join(
        _sample(row, *arrays, model.vocabulary, in_colour)
        for row in range(len(lengths))
        if lengths[row]
    )


def _sample(
    row: int,
    inputs: Inputs,
    prediction: Prediction,
    vocabulary: Vocabulary,
    in_colour: bool,
) -> str:
    length = int((inputs.input_mask[row] == 1).sum())
    original = inputs.input_ids[row]
    masked = prediction.masked.inputs.input_ids[row]
    corrupted = prediction.fake.inputs.input_ids[row]
    probability = np.exp(-np.logaddexp(0.0, -prediction.disc_logits[row]))
    used = prediction.masked.weights[row] > 0
    chosen = set(prediction.masked.positions[row][used].tolist())
    is_fake = prediction.fake.is_fake_tokens[row] > 0
    lines, marks = [], {}
    for t in range(length):
        verdict = _verdict(is_fake[t], probability[t] > 0.5, t in chosen)
        if verdict is None:
            continue
        cells = [
            vocabulary.tokens[original[t]],
            vocabulary.tokens[masked[t]],
            vocabulary.tokens[corrupted[t]] if t in chosen else "",
            f"{probability[t]:.2f}",
        ]
        row_text = "".join(
            cell.ljust(width)
            for cell, width in zip(cells, _WIDTHS, strict=True)
        )
        marks[t] = verdict
        lines.append("  " + row_text + _paint(verdict, verdict, in_colour))
    heads = ("original", "masked", "generated", "P(replaced)")
    header = "".join(
        head.ljust(width + (head == "P(replaced)"))
        for head, width in zip(heads, _WIDTHS, strict=True)
    )
    text = _text(corrupted[:length], marks, vocabulary, in_colour)
    return "\n".join([text, "  " + header + "verdict", *lines])


def _verdict(is_fake: bool, is_flagged: bool, was_masked: bool) -> str | None:
    if is_fake:
        return "caught" if is_flagged else "missed"
    if is_flagged:
        return "false alarm"
    return "same" if was_masked else None


def _text(
    ids: np.ndarray,
    marks: dict[int, str],
    vocabulary: Vocabulary,
    in_colour: bool,
) -> str:
    """Joins word pieces to text; marked tokens stand in square brackets."""
    text = ""
    for t, token_id in enumerate(ids):
        glue = "" if vocabulary.continues_word[token_id] or not text else " "
        token = vocabulary.surface(token_id)
        if t in marks:
            token = _paint(f"[{token}]", marks[t], in_colour)
        text += glue + token
    return text


def _paint(text: str, verdict: str, in_colour: bool) -> str:
    return f"\x1b[{_COLOURS[verdict]}m{text}\x1b[0m" if in_colour else text
