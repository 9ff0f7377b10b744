"""Our networks compute what the original's code computed, number for number."""

import dataclasses

import golden_arrays
import numpy as np
import pytest

from original_parity import networks

FORWARD, GRADIENT = 2e-5, 1e-4
DIRECTORY = golden_arrays.ROOT / "model"
# The original makes a corrupted batch for this objective and never reads it.
UNUSED = {"bert_mlm": {"fake/input_ids", "fake/is_fake_tokens"}}
INTERNAL = {"mask/sample_logits", "fake/sampled_tokids"}


@pytest.mark.parametrize("name", networks.cases(DIRECTORY))
def test_every_number_is_the_originals(name):
    case = networks.load(DIRECTORY, name)
    found = {d.quantity: d for d in networks.compare(case)}
    for quantity, difference in found.items():
        limit = GRADIENT if difference.is_relative else FORWARD
        assert difference.value <= limit, quantity
    computed = {k for k in case.arrays if not k.startswith(("in/", "noise/"))}
    left_out = computed - found.keys()
    assert left_out <= UNUSED.get(name, set()) | INTERNAL
    assert {"gradients", "gradient norm"} <= found.keys()
    assert ("after update 3" in found) == bool(case.after_steps)


def test_original_sampling_is_needed_for_parity():
    """Without the switch the logits differ, so the parity test can fail."""
    case = networks.load(DIRECTORY, "small_like")
    arrays = dict(case.arrays)
    arrays["noise/u_gumbel"] = arrays["noise/u_gumbel"][..., 0]
    objective = dataclasses.replace(
        case.config.objective, original_sampling=False
    )
    other = case._replace(
        arrays=arrays,
        config=dataclasses.replace(case.config, objective=objective),
        gradients={},
        after_steps={},
    )
    found = {d.quantity: d.value for d in networks.compare(other)}
    assert found["mlm/logits"] <= FORWARD
    assert found["disc/logits"] > 0.01


def test_the_worst_variable_counts_and_key_biases_are_apart():
    ours = {"a": [3.0, 4.0], "b": [3.0, 5.0]}
    theirs = {"a": [3.0, 4.5], "b": [3.0, 4.0]}
    ours |= {"0/key/bias": [0.1, -0.2], "1/key/bias": [0.1]}
    theirs |= {"0/key/bias": [0.0, 0.0], "1/key/bias": [0.0]}
    pair = ({k: np.array(v) for k, v in x.items()} for x in (ours, theirs))
    found = networks._largest_differences("gradients", *pair)
    assert [(d.quantity, d.value, d.is_relative) for d in found] == [
        ("gradients", 1.0 / 5.0, True),
        ("gradients, key biases", 0.2, False),
    ]


def test_random_keys_repeat_the_originals_positions():
    case = networks.load(DIRECTORY, "small_like")
    prediction = networks.make_model(case).forward(
        networks.batch(case), keys=networks.random_keys(case), training=False
    )
    masked = prediction.masked
    raw = case.arrays["noise/masked_lm_positions_raw"]
    used = masked.weights.numpy() > 0
    np.testing.assert_array_equal(masked.positions.numpy()[used], raw[used])
    assert len(raw[0][used[0]]) > len(set(raw[0][used[0]])), "a double hit"
