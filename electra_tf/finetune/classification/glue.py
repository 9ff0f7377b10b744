"""The tasks of GLUE: presets of columns, labels and metrics.

Differs: the original has no WNLI, evaluates MNLI on the matched dev split
alone, and skips rows that it cannot read.
"""

import functools
from collections.abc import Mapping

from electra_tf.data.tables import Layout
from electra_tf.finetune.classification.classification_tasks import (
    ClassificationTask,
    RegressionTask,
    TextPreset,
)

_SENTENCES = ("sentence1", "sentence2")
_F1 = ("accuracy", "precision", "recall", "f1")


def _pair(first: int, second: int, **label: int) -> Layout:
    """Returns the layout of a file of pairs, whose first line is a header."""
    return Layout({"text": first, "text_b": second, **label})


_classification = functools.partial(TextPreset, kind=ClassificationTask)
_ZERO_OR_ONE = {"labels": ("0", "1")}
_binary = functools.partial(_classification, columns=_ZERO_OR_ONE)
_inference = functools.partial(
    _classification,
    features=_SENTENCES,
    labelled=_pair(1, 2, label=-1),
    unlabelled=_pair(1, 2),
    columns={"labels": ("entailment", "not_entailment")},
)

TASKS: Mapping[str, TextPreset] = {
    # Is a sentence acceptable?
    "cola": _binary(
        features=("sentence",),
        labelled=Layout({"text": 3, "label": 1}, num_columns=4),
        unlabelled=Layout({"text": 1}),
        metrics=("mcc", "accuracy"),
        submissions=("CoLA",),
    ),
    # Is a sentence of a review positive?
    "sst": _binary(
        features=("sentence",),
        labelled=Layout({"text": 0, "label": 1}),
        unlabelled=Layout({"text": 1}),
        submissions=("SST-2",),
    ),
    # Do two sentences of the news say the same?
    "mrpc": _binary(
        features=_SENTENCES,
        header_names=("#1 String", "#2 String"),
        labelled=_pair(3, 4, label=0),
        unlabelled=_pair(3, 4),
        columns={**_ZERO_OR_ONE, "is_unordered_pair": True},
        metrics=_F1,
        submissions=("MRPC",),
    ),
    # Do two questions ask the same?
    "qqp": _binary(
        features=("question1", "question2"),
        labelled=_pair(3, 4, label=5),
        unlabelled=_pair(1, 2),
        metrics=_F1,
        submissions=("QQP",),
    ),
    # How much alike are two sentences, from 0 to 5?
    "sts": TextPreset(
        kind=RegressionTask,
        features=_SENTENCES,
        labelled=_pair(7, 8, label=9),
        unlabelled=_pair(7, 8),
        columns={"value_range": (0.0, 5.0), "is_unordered_pair": True},
        num_train_epochs=10.0,
        metrics=("spearman", "pearson", "mse"),
        submissions=("STS-B",),
    ),
    # Does a sentence follow from another?
    "mnli": _classification(
        features=("premise", "hypothesis"),
        header_names=_SENTENCES,
        labelled=_pair(8, 9, label=-1),
        unlabelled=_pair(8, 9),
        diagnostic=_pair(1, 2),
        columns={"labels": ("contradiction", "entailment", "neutral")},
        dev_splits=("dev_matched", "dev_mismatched"),
        test_splits=("test_matched", "test_mismatched", "diagnostic"),
        submissions=("MNLI-m", "MNLI-mm", "AX"),
    ),
    # Does a sentence answer a question?
    "qnli": _inference(
        features=("question", "sentence"), submissions=("QNLI",)
    ),
    # Does a sentence follow from a text?
    "rte": _inference(num_train_epochs=10.0, submissions=("RTE",)),
    # Winograd: does the second sentence resolve the pronoun correctly?
    "wnli": _inference(columns=_ZERO_OR_ONE, submissions=("WNLI",)),
}
