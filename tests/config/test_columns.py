import pytest

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.util import config_files, config_flags
from electra_tf.util.errors import UserError

REQUIRED = ("--data_dir=d", "--model_name=m", "--task_names=own")


def _parse(*arguments):
    return config_flags.parse(FinetuningConfig, [*REQUIRED, *arguments])


@pytest.mark.parametrize(
    ("kind", "argument", "problem"),
    [
        ("registered", "--text_column=a", "`text_column` .*Set --task_kind"),
        ("regression", "--labels=a,b", "classification, tagging"),
        ("classification", "--value_range=0,5", "regression"),
        ("classification", "--tag_scheme=spans", "tagging"),
        ("classification", "--main_metric=pearson", "accuracy, macro_f1"),
        ("classification", "--labels=a,a", "different labels"),
        ("classification", "--dev_fraction=1", r"in \[0, 1\)"),
        ("classification", "--delimiter=::", "one character"),
        ("classification", '--delimiter="', "one character but a quote"),
        ("classification", "--is_unordered_pair", "--text_b_column"),
        ("classification", "--nohas_header", "number.*text_column='text'"),
        ("classification", "--tfds_splits=dev=test", "--tfds_name"),
        ("regression", "--value_range=5,0", "minimum and the maximum"),
        ("regression", "--value_range=0,inf", "numbers finite"),
    ],
)
def test_column_flags_that_do_not_fit_the_task_are_refused(
    kind, argument, problem
):
    with pytest.raises(UserError, match=problem):
        _parse(f"--task_kind={kind}", argument)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--tfds_name=a", "--train_file=b"), "without `train_file`"),
        (("--tfds_name=a", "--tfds_splits=valid=test"), "like train=train"),
        (("--dev_fraction=0.1", "--dev_file=b"), "0 where there is a dev file"),
        (("--labels=a,b,c", "--main_metric=f1"), "more than two labels"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(arguments, problem):
    with pytest.raises(UserError, match=problem):
        _parse("--task_kind=classification", *arguments)


def test_later_labels_replace_earlier_ones():
    kind = "--task_kind=classification"
    columns = _parse(kind, "--labels=no,yes", "--labels=0,1,2").columns
    assert columns.labels == ("0", "1", "2")


def test_splits_are_translated_to_the_names_of_the_data_set():
    columns = _parse("--tfds_name=a").columns
    ours = ("train", "dev", "dev_matched", "test", "test_matched")
    theirs = ["train", "validation", "validation_matched", "test"]
    theirs.append("test_matched")
    assert [columns.split_of_data_set(name) for name in ours] == theirs
    columns = _parse("--tfds_name=a", "--tfds_splits=dev=train[:9%]").columns
    assert columns.split_of_data_set("dev") == "train[:9%]"
    assert columns.split_of_data_set("train") == "train"


def test_the_location_of_test_rows_is_no_part_of_the_experiment(tmp_path):
    config_files.save_config(tmp_path / "config.json", _parse())
    other = _parse("--test_file=x", "--tfds_data_dir=y")
    config_files.check_same_experiment(tmp_path / "config.json", other)
