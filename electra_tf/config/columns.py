"""The configuration of custom tasks; needs no TensorFlow.

Such a task is defined by files and the names of their columns. `METRICS` lists
the kinds of tasks, `_READ_BY` the kinds that read each flag.
"""

import dataclasses
import math
import re
from collections.abc import Mapping

from electra_tf.util.config_fields import (
    Checked,
    bounded,
    given_once,
    one_of,
    require,
)
from electra_tf.util.errors import UserError

METRICS: Mapping[str, tuple[str, ...]] = {
    "classification": ("accuracy", "macro_f1", "mcc", "f1"),
    "regression": ("spearman", "pearson", "r2"),
    "tagging": ("f1", "accuracy"),
    "qa": ("f1", "exact_match"),
}
"""Kind -> the metrics by which checkpoints may be selected."""

REGISTERED = "registered"
_TEXTS = ("classification", "regression")
_READ_BY: Mapping[str, tuple[str, ...]] = {
    "text_column": _TEXTS,
    "text_b_column": _TEXTS,
    "label_column": _TEXTS,
    "is_unordered_pair": _TEXTS,
    "has_header": (*_TEXTS, "qa"),
    "delimiter": (*_TEXTS, "qa"),
    "quoting": (*_TEXTS, "qa"),
    "question_column": ("qa",),
    "context_column": ("qa",),
    "answer_column": ("qa",),
    "answer_start_column": ("qa",),
    "has_unanswerable": ("qa",),
    "words_column": ("tagging",),
    "tags_column": ("tagging",),
    "tag_scheme": ("tagging",),
    "labels": ("classification", "tagging"),
    "value_range": ("regression",),
    "tfds_name": (REGISTERED, *METRICS),
    "tfds_splits": (REGISTERED, *METRICS),
}
_SPLIT = re.compile(r"(train|dev\w*|test\w*|diagnostic)=(\S+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnsConfig(Checked):
    """A custom task: its kind, and the column of each input.

    A column is a name in the first line of a .csv or .tsv file, a field of a
    .jsonl file (dots for nested fields) or a feature of a data set.
    """

    task_kind: str = one_of(REGISTERED, *METRICS)
    """Kind of a custom task: predict a label, a value, a tag for every word, or
    a span of a context; "registered" for built-in tasks, known by name."""

    train_file: str = ""
    """Training rows: .csv, .tsv or .jsonl; for tagging .jsonl, or .txt, .conll
    or .conllu with one word a line; for qa also .json in SQuAD's format or
    .jsonl in MRQA's. May be compressed: .gz, .xz, .bz2 or .zst. Default:
    <finetuning_data_dir>/<task>/train.*."""

    dev_file: str = ""
    """Rows to evaluate on. Default: <finetuning_data_dir>/<task>/dev.*."""

    dev_fraction: float = bounded("in [0, 1)", 0.0)
    """Share of the training rows to hold out as dev rows if there is no dev
    file, by a hash of their texts. Rows that share a text, such as a context
    or either text of a pair, are on the same side, as are those that such rows
    link; so the share is not exact."""

    text_column: str = "text"
    """Column of the text, or of the first text of a pair."""

    text_b_column: str = ""
    """Column of the second text of a pair. Default: single texts."""

    label_column: str = "label"
    """Column of the label or the value; test files may lack it."""

    words_column: str = ""
    """Tagging: field of the list of words (.jsonl), or number of the column of
    words, from 1. Default: words; column 1, or 2 in .conllu files."""

    tags_column: str = ""
    """Tagging: field of the list of tags (.jsonl), or number of the column of
    tags, from 1. Default: tags; the last column, or 4 in .conllu files."""

    question_column: str = "question"
    """Question answering: column of the question."""

    context_column: str = "context"
    """Question answering: column of the text that holds the answer."""

    answer_column: str = "answer"
    """Question answering: column of the answer, or of a list of correct
    answers, of which the first that occurs is trained on. Test files may
    lack it."""

    answer_start_column: str = "answer_start"
    """Question answering: column of the offset in characters, from 0, at which
    an answer begins, or of a list of them. Without it, the first occurrence of
    the answer's text in the context is used that has no letter or digit on
    either side; or else the first one, which may be inside another word."""

    has_unanswerable: bool = False
    """Question answering: whether rows without an answer are unanswerable
    questions; otherwise they are bad rows. In a test file they are if any row
    has an answer."""

    has_header: bool = True
    """Whether the first line of .csv and .tsv files names the columns;
    otherwise columns are given by number, from 1."""

    delimiter: str = ""
    """Delimiter of columns: one character, or "tab". Default: a comma
    in .csv files, a tab in .tsv files."""

    quoting: str = one_of("auto", "true", "false")
    """Whether fields may be quoted in double quotes, and then contain
    delimiters and line breaks; auto: only in .csv files."""

    labels: tuple[str, ...] = given_once()
    """Labels of a classification, in order; for tagging the tags, or the
    kinds of spans. Default: the classes of a data set, else those of the
    training rows, sorted."""

    value_range: tuple[float, ...] = ()
    """Minimum and maximum value of a regression. Default: those of the
    training rows."""

    is_unordered_pair: bool = False
    """Whether both orders of a pair mean the same; see `double_unordered`."""

    tag_scheme: str = one_of("auto", "spans", "tags")
    """Meaning of tags: spans (B, I, E or S, a dash and a kind), scored by F1;
    or one tag per word, scored by accuracy. Auto: spans if all tags have that
    form."""

    main_metric: str = ""
    """Metric that selects the checkpoint. Classification: accuracy, macro_f1,
    mcc or, with two labels, f1 of the second; regression: spearman, pearson or
    r2; tagging: f1 or accuracy; qa: f1 or exact_match. Default: accuracy,
    spearman; f1 for spans and qa."""

    tfds_name: str = ""
    """Read the rows from a data set that TensorFlow Datasets has already
    prepared: NAME, NAME/CONFIG, also with /VERSION, as glue/cola or
    imdb_reviews."""

    tfds_splits: tuple[str, ...] = ()
    """Splits of the data set, as train=train[:90%],dev=train[90%:]. Default:
    train=train,dev=validation,test=test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_use()
        require(
            self,
            "delimiter",
            "one character but a quote or the end of a line, or tab",
            lambda text: (
                text in ("", "tab") or (len(text) == 1 and text not in '"\r\n')
            ),
        )
        require(
            self, "labels", "different labels", lambda x: len({*x}) == len(x)
        )
        require(
            self,
            "value_range",
            "the minimum and the maximum, in this order",
            lambda x: (
                not x or (len(x) == 2 and -math.inf < x[0] < x[1] < math.inf)
            ),
        )
        require(
            self,
            "tfds_splits",
            "like train=train,dev=validation,test=test",
            lambda x: all(map(_SPLIT.fullmatch, x)),
        )
        self._check_metric()
        self._check_columns()
        self._check_sources()

    def _check_use(self) -> None:
        """Refuses flags that this kind of task does not read."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kinds = _READ_BY.get(field.name, tuple(METRICS))
            if field.name == "task_kind" or self.task_kind in kinds:
                continue
            if value != field.default:
                raise UserError(
                    f"`{field.name}` is for tasks of the kinds "
                    f"{', '.join(kinds)}. Received: {field.name}={value!r}, "
                    f"task_kind={self.task_kind}. Set --task_kind, or leave "
                    f"--{field.name} out."
                )

    def _check_metric(self) -> None:
        offered = METRICS.get(self.task_kind, ())
        expected = f"one of {', '.join(offered)}"
        require(self, "main_metric", expected, lambda x: not x or x in offered)
        if self.main_metric == "f1" and len(self.labels) > 2:
            if self.task_kind == "classification":
                raise UserError(
                    "`main_metric` must not be f1 where there are more than "
                    "two labels. Received: labels="
                    f"{','.join(self.labels)}. Set --main_metric=macro_f1."
                )

    def _check_columns(self) -> None:
        if self.is_unordered_pair and not self.text_b_column:
            raise UserError(
                "`is_unordered_pair` must be used with pairs of texts. "
                "Received: no `text_b_column`. Set --text_b_column, or "
                "--nois_unordered_pair."
            )
        if not self.has_header:
            names = "text_column text_b_column label_column"
            if self.task_kind == "qa":
                names = "question_column context_column answer_column"
            require(
                self,
                names,
                "the number of a column, from 1, where files have no header",
                lambda x: not x or (x.isdecimal() and int(x) > 0),
            )

    def _check_sources(self) -> None:
        """Refuses two sources for one split."""
        sources = ("train_file", "dev_file", "tfds_name")
        given = [name for name in sources if getattr(self, name)]
        if self.tfds_name and len(given) > 1:
            raise UserError(
                f"`tfds_name` must be given without `{given[0]}`: rows come "
                f"from files or from a data set. Received: tfds_name="
                f"{self.tfds_name!r}, "
                f"{given[0]}={getattr(self, given[0])!r}."
            )
        if self.tfds_splits and not self.tfds_name:
            raise UserError(
                "`tfds_splits` must be used with a data set. Received: no "
                "`tfds_name`. Set --tfds_name."
            )
        if self.dev_fraction and self.dev_file:
            raise UserError(
                "`dev_fraction` must be 0 where there is a dev file. Received: "
                f"dev_fraction={self.dev_fraction:g}, "
                f"dev_file={self.dev_file!r}. Leave one of them out."
            )

    @property
    def is_custom(self) -> bool:
        """Whether this is a custom task."""
        return self.task_kind != REGISTERED

    def split_of_data_set(self, split: str) -> str:
        """Returns the data set's name of a split."""
        given = dict(text.split("=", 1) for text in self.tfds_splits)
        default = split.replace("dev", "validation", 1)
        return given.get(split, default)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesConfig:
    """Files that do not affect training."""

    test_file: str = ""
    """Test rows of a custom task, to predict; scored if all have labels.
    Default: <finetuning_data_dir>/<task>/test.*, with --write_test_outputs."""

    tfds_data_dir: str = ""
    """Directory of prepared tfds data sets. Default: $TFDS_DATA_DIR or
    ~/tensorflow_datasets."""
