"""Warnings about labels that look like a mistake."""

import pytest
import tiny_finetuning as tiny

from electra_tf.finetune import label_warnings
from electra_tf.finetune.run import finetuning_run


def _warnings_of(*labels, num_rows=100):
    rows = [*labels] * (num_rows // len(labels))
    return label_warnings.of_labels(rows)


@pytest.mark.parametrize("label", ["nan", "NaN", "null", "N/A", "<NA>"])
def test_a_label_that_reads_as_missing_gives_a_warning(label):
    (warning,) = _warnings_of("yes", "no", label)
    assert f"{label!r}" in warning and "33 rows" in warning
    assert "missing" in warning


def test_labels_that_differ_only_by_case_or_format_share_a_warning():
    (warning,) = _warnings_of("Yes", "yes", "no", "0", "0.0", "1", "1.5", "NO ")
    for group in ("'Yes' and 'yes'", "'no' and 'NO '", "'0' and '0.0'"):
        assert group in warning
    assert "'1'" not in warning
    (warning,) = _warnings_of("1", "1.0", "01")
    assert "'1' and '1.0' and '01'" in warning


def test_nearly_as_many_labels_as_rows_are_no_classes():
    texts = [f"text {i}" for i in range(60)]
    (warning,) = label_warnings.of_labels([*texts, *texts[:40]])
    assert "60 labels for 100 rows" in warning and "--label_column" in warning
    numbers = [str(i / 7) for i in range(60)]
    (warning,) = label_warnings.of_labels(numbers)
    assert "--task_kind=regression" in warning


def test_labels_that_have_two_rows_each_are_classes():
    texts = [f"text {i}" for i in range(50)]
    assert label_warnings.of_labels([*texts, *texts]) == []
    (warning,) = label_warnings.of_labels([*texts, *texts[1:]])
    assert "50 labels for 99 rows" in warning
    assert label_warnings.of_labels(texts[:19]) == []
    assert label_warnings.of_labels(texts[:20]) != []


@pytest.mark.parametrize(
    "labels",
    [
        ("0", "1"),
        ("neg", "pos"),
        ("Mild", "Severe", "None"),
        ("1", "2", "3", "4", "5"),
        ("é", "e"),
        tuple(f"intent {i}" for i in range(20)),
    ],
)
def test_good_labels_are_passed_over_in_silence(labels):
    assert _warnings_of(*labels) == []


def test_a_mistyped_tag_does_not_turn_spans_into_tags_in_silence():
    tags = ["O", "B-PER", "I-PER", "B_PER"]
    (warning,) = label_warnings.of_span_tags(tags)
    assert "B-PER, I-PER encode spans" in warning
    assert "but B_PER do not" in warning and "--tag_scheme=spans" in warning
    for good in (tags[:3], ["O", "B_PER"], ["NOUN", "VERB", "X"]):
        assert label_warnings.of_span_tags(good) == []


def test_a_few_rows_may_have_a_label_each():
    assert label_warnings.of_labels(["a", "b", "c"]) == []


@pytest.mark.parametrize(
    ("leaves", "name", "content", "expected"),
    [
        (
            {"task_kind": "classification"},
            "train.csv",
            "text,label\ngood,Yes\nbad,yes\nfilm,nan\n",
            ("'Yes' and 'yes'", "'nan'"),
        ),
        (
            {"task_kind": "tagging"},
            "train.txt",
            "good B-Per\n\nbad B-PER\nfilm O\n",
            ("'PER' and 'Per'",),
        ),
        (
            {"task_kind": "tagging"},
            "train.txt",
            "good B-PER\n\nbad B_PER\nfilm O\n",
            ("but B_PER do not",),
        ),
    ],
)
def test_warnings_come_before_a_training(
    leaves, name, content, expected, tmp_path, capsys
):
    tiny.write_model(tmp_path)
    path = tmp_path / name
    path.write_text(content, "utf-8")
    config = tiny.config(
        tmp_path,
        task_names=("own",),
        train_file=str(path),
        do_eval=False,
        checkpoint="last",
        **leaves,
    )
    finetuning_run.prepare(config)
    stderr = capsys.readouterr().err
    for text in expected:
        assert text in stderr
    assert stderr.count("WARNING: ") == len(expected)
