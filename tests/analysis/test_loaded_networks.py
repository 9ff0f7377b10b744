"""Loading the networks of a checkpoint for an analysis."""

import types

import pytest
import tiny_scoring

from electra_tf.analysis import loaded_networks
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.util.errors import UserError


def _training_config(length):
    corpus = types.SimpleNamespace(max_seq_length=length)
    return types.SimpleNamespace(corpus=corpus)


@pytest.mark.parametrize(
    ("given", "trained_on", "longest", "expected"),
    [
        (0, 128, 512, 128),
        (0, 128, 64, 64),
        (0, None, 1024, 512),
        (0, None, 64, 64),
        (300, 128, 512, 300),
    ],
)
def test_a_row_is_as_long_as_asked_for_or_as_in_training(
    given, trained_on, longest, expected
):
    training = trained_on and _training_config(trained_on)
    found = loaded_networks.row_length(given, training, longest)
    assert found == expected


@pytest.mark.parametrize("given", [2, 65])
def test_a_row_that_no_network_can_read_is_refused(given):
    with pytest.raises(UserError, match="must be from 3 to 64"):
        loaded_networks.row_length(given, None, 64)


def test_the_networks_of_a_run_read_rows_as_in_its_training(tmp_path):
    _, path = tiny_scoring.write_run(tmp_path)
    config = AnalysisConfig(what="prompts", model=str(path), test=("t",))
    networks = list(loaded_networks.load(str(path), config))
    kinds = [loaded_networks.kind_of(network) for network in networks]
    assert kinds == ["discriminator", "mlm"]
    assert [x.reader.max_seq_length for x in networks] == [16, 16]
