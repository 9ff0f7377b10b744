import pytest

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

GIVEN = ("--data_dir=d", "--model_name=m", "--task_names=own")


def _parse(*arguments):
    return config_flags.parse(FinetuningConfig, [*GIVEN, *arguments])


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
def test_what_no_task_reads_is_refused(kind, argument, problem):
    with pytest.raises(UserError, match=problem):
        _parse(f"--task_kind={kind}", argument)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tfds_name=a", "--train_file=b"),
        ("--tfds_name=a", "--tfds_splits=valid=test"),
        ("--dev_fraction=0.1", "--dev_file=b"),
        ("--labels=a,b,c", "--main_metric=f1"),
    ],
)
def test_flags_must_agree(arguments):
    with pytest.raises(UserError, match="must"):
        _parse("--task_kind=classification", *arguments)


def test_later_labels_take_the_place_of_those_of_a_flagfile():
    kind = "--task_kind=classification"
    columns = _parse(kind, "--labels=no,yes", "--labels=0,1,2").columns
    assert columns.labels == ("0", "1", "2")


def test_splits_of_a_data_set_are_named_as_it_does():
    columns = _parse("--tfds_name=a").columns
    ours = ("train", "dev", "dev_matched", "test", "test_matched")
    theirs = ["train", "validation", "validation_matched", "test"]
    theirs.append("test_matched")
    assert [columns.split_of_data_set(name) for name in ours] == theirs
    columns = _parse("--tfds_name=a", "--tfds_splits=dev=train[:9%]").columns
    assert columns.split_of_data_set("dev") == "train[:9%]"
    assert columns.split_of_data_set("train") == "train"


def test_where_test_rows_are_changes_no_experiment(tmp_path):
    config_flags.save_config(tmp_path / "config.json", _parse())
    other = _parse("--test_file=x", "--tfds_data_dir=y")
    config_flags.check_same_experiment(tmp_path / "config.json", other)
