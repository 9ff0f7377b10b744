"""What every registered objective keeps, checked without further code."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.config.objective_traits import TRAITS
from electra_tf.model.modeling import BertModel
from electra_tf.model.two_tower import TwoTowerModel
from electra_tf.pretrain import export, pretraining_run
from electra_tf.pretrain.random_keys import TrainingKeys
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

KEYS = seeds.row_keys(0, tf.constant(0), tf.range(8))


def _make_model(variant, **leaves):
    return pretraining_run.make_model(
        tiny.config(initializer_range=0.2, **tiny.VARIANTS[variant], **leaves),
        tiny.COUNTED,
        tf.distribute.get_strategy(),
    )


@pytest.fixture(scope="module", params=tiny.VARIANTS)
def model(request):
    return _make_model(request.param)


def _terms(model, inputs, keys=KEYS, training=True):
    terms = model.compute_losses(inputs, keys=keys, training=training)
    return {name: np.array(term) for name, term in terms.items()}


def test_every_loss_is_a_term(model):
    assert set(model.loss_weights) <= set(_terms(model, tiny.batch()))


def test_sizes_of_losses_are_the_weights_of_their_terms(model):
    sizes = model.loss_sizes(tiny.batch(), keys=KEYS)
    terms = _terms(model, tiny.batch())
    assert sizes.keys() == model.loss_weights.keys()
    for name, size in sizes.items():
        assert float(size) == terms[name][1]


def test_the_same_keys_give_the_same_terms(model):
    first, second = (_terms(model, tiny.batch()) for _ in range(2))
    for name, term in first.items():
        np.testing.assert_array_equal(second[name], term)


def test_other_keys_give_other_losses(model):
    other = seeds.row_keys(1, tf.constant(0), tf.range(8))
    first = _terms(model, tiny.batch())
    second = _terms(model, tiny.batch(), other)
    for name in model.loss_weights:
        # Two towers read the clean text: without dropout they draw nothing.
        if name != "cloze_loss":
            assert first[name][0] != second[name][0]


def test_terms_of_parts_add_up(model):
    inputs = tiny.batch()
    whole = _terms(model, inputs)
    halves = [
        _terms(model, type(inputs)(*(x[rows] for x in inputs)), KEYS[rows])
        for rows in (slice(0, 4), slice(4, 8))
    ]
    for name, term in whole.items():
        total = halves[0][name] + halves[1][name]
        np.testing.assert_allclose(total, term, rtol=1e-4, atol=1e-4)


def test_rows_of_padding_count_nothing(model):
    inputs = tiny.batch()
    padded = type(inputs)(*(tf.pad(x, [[0, 8], [0, 0]]) for x in inputs))
    keys = seeds.row_keys(0, tf.constant(0), tf.range(16))
    expected = _terms(model, inputs)
    for name, term in _terms(model, padded, keys).items():
        np.testing.assert_allclose(term, expected[name], rtol=1e-5, atol=1e-5)


def test_a_batch_of_nothing_has_finite_losses_and_gradients(model):
    empty = type(tiny.batch())(*(tf.zeros_like(x) for x in tiny.batch()))
    weights = dict.fromkeys(model.loss_weights, tf.constant(0.0))
    terms, gradients, _ = model.forward_backward(empty, KEYS, weights)
    assert all(np.isfinite(np.array(term)).all() for term in terms.values())
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_what_a_late_discriminator_delays_no_other_loss_trains(model):
    if "disc_loss" not in model.loss_weights:
        return
    variables = model.trainable_variables
    with tf.GradientTape(persistent=True) as tape:
        terms = model.compute_losses(tiny.batch(), keys=KEYS, training=True)
        means = {name: terms[name].mean() for name in model.loss_weights}
    trained = {
        name: {
            v.path
            for v, gradient in zip(
                variables,
                tape.gradient(mean, [v.value for v in variables]),
                strict=True,
            )
            if gradient is not None
        }
        for name, mean in means.items()
    }
    alone = trained.pop("disc_loss").difference(*trained.values())
    assert model.late_paths == alone


def test_gradients_are_those_of_the_total_loss(model):
    inputs = tiny.batch()
    weights = model.loss_sizes(inputs, keys=KEYS)
    _, gradients, _ = model.forward_backward(inputs, KEYS, weights)
    # The generator's samples make the loss piecewise smooth, so the check is
    # by automatic differentiation of the total, not by differences.
    with tf.GradientTape() as tape:
        terms = model.compute_losses(inputs, keys=KEYS, training=True)
        loss = model.total_loss(terms)
    values = [variable.value for variable in model.trainable_variables]
    zero = tf.UnconnectedGradients.ZERO
    wanted = tape.gradient(loss, values, unconnected_gradients=zero)
    for actual, expected in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(
            actual, tf.convert_to_tensor(expected), rtol=1e-4, atol=1e-6
        )


def test_every_variable_gets_a_gradient_first_or_last(model):
    inputs, largest = tiny.batch(), 0.0
    for keys in (TrainingKeys(KEYS, tf.zeros([8])), KEYS):
        weights = model.loss_sizes(inputs, keys=keys)
        _, gradients, _ = model.forward_backward(inputs, keys, weights)
        largest += np.array([np.abs(gradient).max() for gradient in gradients])
    for variable, value in zip(model.trainable_variables, largest, strict=True):
        # A bias on all keys alike cancels in the softmax.
        if "/key/bias" not in variable.path:
            assert value > 0, variable.path


OF_WHOLE_ROWS = {
    name
    for name, leaves in tiny.VARIANTS.items()
    if leaves.get("objective", "").endswith(("_sentence", "coco_lm"))
}


@pytest.mark.parametrize("variant", sorted(OF_WHOLE_ROWS))
def test_what_is_said_of_whole_rows_needs_one_document_in_each(variant):
    with pytest.raises(UserError, match="Received: packing=packed"):
        _make_model(variant, packing="packed")


@pytest.mark.parametrize(
    "variant", sorted(tiny.VARIANTS.keys() - OF_WHOLE_ROWS)
)
def test_documents_that_share_a_row_know_nothing_of_each_other(variant):
    """A sum over two documents: what one adds does not depend on the other."""
    model = _make_model(variant, packing="packed")
    inputs = tiny.packed_batch()
    words, numbers = inputs.input_ids.numpy(), inputs.input_mask.numpy()

    def sums(*changes):
        """Sums over the batch with the words of some documents changed."""
        ids = [
            np.where(
                np.isin(numbers, changed) & (words > 4),
                5 + (words + 20) % 55,
                words,
            )
            for changed in changes
        ]
        batch = type(inputs)(*(tf.concat([x, x], 0) for x in inputs))
        batch = batch._replace(input_ids=tf.concat(ids, 0))
        return _terms(model, batch, tf.concat([KEYS, KEYS], 0))

    one_each, both_or_none = sums([2], [3]), sums([2, 3], [])
    for name, term in both_or_none.items():
        np.testing.assert_allclose(
            one_each[name], term, atol=1e-4, err_msg=name
        )
    weights = model.loss_sizes(inputs, keys=KEYS)
    _, gradients, _ = model.forward_backward(inputs, KEYS, weights)
    for variable, gradient in zip(
        model.trainable_variables, gradients, strict=True
    ):
        assert np.isfinite(gradient).all()
        is_blind = "/key/bias" in variable.path  # cancels in the softmax
        if variable.path.startswith("electra/encoder") and not is_blind:
            assert np.abs(gradient).max() > 0, variable.path


def test_the_checkpoint_holds_every_variable(model):
    held = pretraining_run.checkpoint_variables(model)
    weights = {variable.path for variable in model.variables}
    assert len(model.variables) == len(weights)
    assert len(held) == len(weights) + 2 * len(model.trainable_variables) + 1
    assert weights <= held.keys()


@pytest.fixture(scope="module")
def pair():
    """One for all: a second on the same devices would repeat its keys."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:3"])


def _updated_slots(inputs, strategy, **leaves):
    """Returns what one update leaves of the gradients, by path."""
    config = tiny.config(num_hidden_layers=1, initializer_range=0.2, **leaves)
    model = pretraining_run.make_model(config, tiny.COUNTED, strategy)
    num_replicas = strategy.num_replicas_in_sync
    values = strategy.experimental_distribute_values_from_function(
        lambda context: type(inputs)(
            *(
                tf.split(x, num_replicas)[context.replica_id_in_sync_group]
                for x in inputs
            )
        )
    )
    tf.function(lambda x: strategy.run(model.update, (x,)))(values)
    held = pretraining_run.checkpoint_variables(model)
    return {k: v.numpy() for k, v in held.items() if k.endswith("/adam_m")}


@pytest.mark.slow
@pytest.mark.parametrize("name", tiny.VARIANTS)
def test_micro_batches_of_two_replicas_learn_what_one_batch_does(name, pair):
    inputs, leaves = tiny.batch(), tiny.VARIANTS[name]
    whole = _updated_slots(inputs, tf.distribute.get_strategy(), **leaves)
    parts = _updated_slots(
        inputs, pair, gradient_accumulation_steps=2, **leaves
    )
    for path, slot in parts.items():
        np.testing.assert_allclose(
            slot, whole[path], rtol=1e-3, atol=1e-5, err_msg=path
        )
    assert any(np.abs(slot).max() > 1e-3 for slot in whole.values())


def test_bfloat16_is_for_products_of_encoders_alone(
    model, request, products_in_bfloat16
):
    variant = request.node.callspec.params["model"]
    rounded = _make_model(variant, precision="bfloat16")
    policies = {
        layer.compute_dtype
        for layer in rounded.layers
        if isinstance(layer, (BertModel, TwoTowerModel))
    }
    assert policies == {"bfloat16"}
    assert {variable.dtype for variable in rounded.variables} == {"float32"}
    terms = _terms(rounded, tiny.batch())
    exact = _terms(model, tiny.batch())
    for name in model.loss_weights:
        found, expected = (x[name][0] / x[name][1] for x in (terms, exact))
        assert found != expected
        assert found == pytest.approx(expected, rel=0.1), name


@pytest.mark.slow
@pytest.mark.parametrize("variant", tiny.VARIANTS)
def test_xla_computes_the_same(variant):
    model, inputs = _make_model(variant), tiny.batch()
    weights = model.loss_sizes(inputs, keys=KEYS)
    compiled = tf.function(model.forward_backward, jit_compile=True)
    terms, gradients, _ = compiled(inputs, KEYS, weights)
    for name, term in _terms(model, inputs).items():
        np.testing.assert_allclose(
            np.array(terms[name]), term, rtol=1e-3, atol=1e-4, err_msg=name
        )
    expected = model.forward_backward(inputs, KEYS, weights).gradients
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("variant", tiny.VARIANTS)
def test_a_resumed_run_ends_with_the_same_bits(variant):
    leaves = {"num_hidden_layers": 1, "hidden_dropout_prob": 0.1}
    tiny.assert_resumes(lambda: _make_model(variant, **leaves), [2], 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant", [name for name in tiny.VARIANTS if name in TRAITS]
)
def test_verdicts_are_those_of_the_saved_model(variant, tmp_path):
    model = _make_model(variant)
    paths = export.export(model, tmp_path)
    assert paths
    path = tmp_path / "discriminator" / "ids" / "1"
    if path not in paths or variant == "electric":
        return
    inputs = tiny.batch(3)
    loaded = tf.saved_model.load(str(path))
    found = loaded.serving_default(*inputs)
    expected = tf.sigmoid(model.discriminate(inputs))
    np.testing.assert_allclose(
        found["probability_replaced"],
        tf.where(inputs.is_real, expected, 0.0),
        rtol=1e-4,
        atol=1e-6,
    )
