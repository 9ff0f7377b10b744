"""The columns of custom tasks, and question answering.

A custom task is defined by files and the names of their columns.
"""

import dataclasses
from collections.abc import Mapping
from typing import Self

from electra_tf.util.errors import UserError
from electra_tf.util.flags import Checked, bounded, one_of

METRICS: Mapping[str, tuple[str, ...]] = {
    "classification": ("accuracy", "macro_f1", "mcc", "f1"),
    "regression": ("spearman", "pearson", "r2"),
    "tagging": ("f1", "accuracy"),
    "qa": ("f1", "exact_match"),
}
"""Kind -> the metrics by which checkpoints may be selected."""

REGISTERED = "registered"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnsConfig(Checked):
    """A custom task: its kind, and the column of each input.

    A column is a name in the first line of a .csv or .tsv file, a field of a
    .jsonl file (dots for nested fields) or a feature of a data set.
    """

    task_kind: str = one_of(REGISTERED, *METRICS)
    """Kind of a custom task; "registered" for built-in tasks, known by name."""
    train_file: str = ""
    """Training rows: .csv, .tsv or .jsonl; for tagging also .txt, .conll and
    .conllu, for qa also SQuAD's and MRQA's formats. May be compressed. Default:
    <data_dir>/finetuning_data/<task>/train.*."""
    dev_file: str = ""
    """Rows to evaluate on. Default: dev.* beside the training rows."""
    dev_fraction: float = bounded(0.0, 0, 1)
    """Share of the training rows to hold out as dev rows if there is no dev
    file, by a hash of their texts; not exact, as rows that share a text, or
    that such rows link, stay on one side."""
    text_column: str = "text"
    """Column of the text, or of the first text of a pair."""
    text_b_column: str = ""
    """Column of the second text of a pair. Default: single texts."""
    label_column: str = "label"
    """Column of the label, of the list of labels that hold (.jsonl), or of the
    value; test files may lack it."""
    words_column: str = ""
    """Tagging: field of the list of words, or number of their column, from 1.
    Default: words; column 1, or 2 in .conllu files."""
    tags_column: str = ""
    """Tagging: field of the list of tags, or number of their column, from 1.
    Default: tags; the last column, or 4 in .conllu files."""
    question_column: str = "question"
    """Question answering: column of the question."""
    context_column: str = "context"
    """Question answering: column of the text that holds the answer."""
    answer_column: str = "answer"
    """Question answering: column of the answer, or of a list of correct
    answers, of which the first that occurs is trained on."""
    answer_start_column: str = "answer_start"
    """Question answering: column of the answer's offset in characters, by
    default that of its first occurrence, if possible as whole words."""
    has_unanswerable: bool = False
    """Question answering: rows without an answer are not bad rows."""
    has_header: bool = True
    """The first line names the columns, which else are numbers from 1."""
    delimiter: str = ""
    """Delimiter of columns: one character, or "tab". Default: by the file. Only
    .csv files have fields in double quotes."""
    labels: tuple[str, ...] = ()
    """Labels of a classification, in order; for tagging the kinds of spans, or
    tags, which integers number. Default: those of the training rows, sorted."""
    value_range: tuple[float, ...] = ()
    """Minimum and maximum of a regression. Default: of the training rows."""
    is_unordered_pair: bool = False
    """Both orders of a pair mean the same; see `double_unordered`."""
    tag_scheme: str = one_of("auto", "spans", "tags")
    """spans (IOB, BIOES or BILOU, a dash and a kind), scored by F1; or one tag
    per word, scored by accuracy. auto: spans if all tags have that form."""
    main_metric: str = ""
    """Metric that selects the checkpoint: accuracy (default), macro_f1, mcc or
    f1; spearman (default), pearson or r2; for tagging f1 or accuracy; for qa f1
    (default) or exact_match."""
    tfds_name: str = ""
    """Read a data set that TensorFlow Datasets has prepared, as glue/cola."""
    tfds_splits: tuple[str, ...] = ()
    """Splits of the data set, as train=train[:90%],dev=train[90%:]. Default:
    train, validation and test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        metric, metrics = self.main_metric, METRICS.get(self.task_kind, ())
        if metric and metric not in metrics:
            raise UserError(
                f"main_metric={metric} is not one of {', '.join(metrics)}."
            )
        if len({*self.labels}) < len(self.labels):
            raise UserError(f"labels={','.join(self.labels)} has duplicates.")

    @property
    def is_custom(self) -> bool:
        """True for a task that is defined by files and columns."""
        return self.task_kind != REGISTERED


_SPECIAL = 3  # [CLS] question [SEP] context [SEP]
_QUESTION, _STRIDE = 64, 128  # the original's


@dataclasses.dataclass(frozen=True, kw_only=True)
class QAConfig(Checked):
    """Context windows, head and decoding of question answering."""

    max_query_length: int | None = bounded(None, 1)
    """Maximum tokens of a question; longer ones are cut. Default: 64, or a
    quarter of a short row."""
    doc_stride: int | None = bounded(None, 1)
    """Tokens between the starts of two windows on a context. Default: 128, or
    half of what the question leaves in a short row."""
    joint_prediction: bool = True
    """Predict the end of an answer given its start; otherwise independently, as
    Hugging Face's head does."""
    beam_size: int = bounded(20, 1)
    """Start positions that are tried, and end positions for each."""
    answerable_classifier: bool = True
    """Train a classifier of whether a question has an answer. Without it, "no
    answer" is an answer at [CLS]."""
    answerable_uses_start_logits: bool = True
    """That classifier also reads the states weighted by the start logits."""
    answerable_weight: float = bounded(0.5, 0)
    """Weight of the loss of that classifier."""
    max_answer_length: int = bounded(30, 1)
    """Maximum tokens in an answer."""
    n_best_size: int = bounded(20, 1)
    """Answers that are kept for each question."""
    qa_na_threshold: float | None = None
    """A question whose no-answer score is above this gets no answer. Default:
    the best on the dev split, stored with the trial; while there is none,
    -2.75, as in the original, or 0 with Hugging Face's head."""

    def threshold(self, head: str) -> float:
        """Returns `qa_na_threshold`, or its default for a kind of head."""
        if self.qa_na_threshold is not None:
            return self.qa_na_threshold
        return 0.0 if head == "hugging_face" else -2.75

    def fitted(self, length: int) -> Self:
        """Returns a copy whose lengths fit into rows of `length` tokens."""
        question, stride = self.max_query_length, self.doc_stride
        room = length - _SPECIAL
        if question is None:
            is_short = _QUESTION + (stride or _STRIDE) > room
            most = min(_QUESTION, length // 4, room - (stride or 1))
            question = max(1, most) if is_short else _QUESTION
        if stride is None:
            is_short = question + _STRIDE > room
            stride = max(1, (room - question) // 2) if is_short else _STRIDE
        if question + stride > room:  # windows would leave gaps
            raise UserError(
                f"max_query_length={question} + doc_stride={stride} + "
                f"{_SPECIAL} is above max_seq_length={length}."
            )
        return dataclasses.replace(
            self, max_query_length=question, doc_stride=stride
        )
