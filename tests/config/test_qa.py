import pytest

from electra_tf.config.qa import QAConfig
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

# From the original's configure_finetuning.py.
ORIGINAL = {
    "max_query_length": 64,
    "doc_stride": 128,
    "n_best_size": 20,
    "max_answer_length": 30,
    "answerable_classifier": True,
    "answerable_uses_start_logits": True,
    "answerable_weight": 0.5,
    "joint_prediction": True,
    "beam_size": 20,
}


@pytest.mark.parametrize("name", ORIGINAL)
def test_names_and_defaults_are_the_originals(name):
    arguments = ["--data_dir=d", "--model_name=m", "--task_names=squad"]
    config = config_flags.parse(FinetuningConfig, arguments)
    assert getattr(config.qa.fitted(512), name) == ORIGINAL[name]


def test_the_threshold_of_no_answer_is_that_of_the_head_unless_given():
    assert QAConfig().threshold("electra") == -2.75
    assert QAConfig().threshold("hugging_face") == 0
    given = QAConfig(qa_na_threshold=1.5)
    assert given.threshold("electra") == given.threshold("hugging_face") == 1.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_query_length", 0),
        ("doc_stride", 0),
        ("beam_size", 0),
        ("n_best_size", 0),
        ("max_answer_length", 0),
        ("answerable_weight", -0.1),
        ("qa_na_threshold", float("nan")),
    ],
)
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(UserError, match=f"`{name}` must be.*Received"):
        QAConfig(**{name: value})


@pytest.mark.parametrize("length", [12, 31, 128, 512])
def test_fitted_questions_and_strides_leave_windows_that_overlap(length):
    fitted = QAConfig(beam_size=3).fitted(length)
    fitted.check_row_length(length)
    assert fitted.beam_size == 3 and fitted.fitted(2 * length) == fitted
    assert fitted.max_query_length == min(64, length // 4)
    assert fitted.doc_stride <= length - 3 - fitted.max_query_length


def test_a_row_holds_the_question_three_special_tokens_and_the_stride():
    given = QAConfig(max_query_length=10, doc_stride=20)
    given.check_row_length(33)
    with pytest.raises(UserError, match=r"10 \+ 20 \+ 3, max_seq_length=32"):
        given.check_row_length(32)


@pytest.mark.parametrize("length", [195, 256, 384, 512])
def test_original_lengths_stay_where_they_fit(length):
    fitted = QAConfig().fitted(length)
    assert (fitted.max_query_length, fitted.doc_stride) == (64, 128)


def test_given_lengths_win_over_fitted_ones():
    given = QAConfig(max_query_length=24, doc_stride=64)
    assert given.fitted(128) == given
    assert QAConfig(max_query_length=24).fitted(64).doc_stride == 18
    assert QAConfig(doc_stride=50).fitted(64).max_query_length == 11
    with pytest.raises(UserError, match="Set for example max_query_length=16"):
        QAConfig(max_query_length=64).fitted(64).check_row_length(64)
