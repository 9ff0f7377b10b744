"""Rules of every registered objective, and of one that is only registered."""

import functools

import new_objective
import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.config.objectives import OBJECTIVES, get_class
from electra_tf.pretrain import health
from electra_tf.pretrain import run as pretraining_run
from electra_tf.pretrain.random_keys import TrainingKeys
from electra_tf.util.errors import UserError

pytestmark = pytest.mark.usefixtures("registered")


@pytest.fixture(scope="module")
def registered():
    """Registers `new_objective` during the tests of this module."""
    OBJECTIVES[new_objective.NAME] = "new_objective:ConfidentElectra"
    yield
    del OBJECTIVES[new_objective.NAME]


VARIANTS = [
    name if name in OBJECTIVES else pytest.param(name, marks=pytest.mark.slow)
    for name in tiny.VARIANTS
]
"""Each objective and its variants; tests of the variants are slow."""

TRAINED = [name for name in tiny.VARIANTS if name in OBJECTIVES]
"""Each objective, for tests of whole updates, which its variants share."""


TABLES = ("electra/embeddings/",)
ENCODER = ("electra/encoder/", "electra/embeddings_project/", *TABLES)
GENERATOR = ("generator/", "generator_predictions/")


def _on_encoder(loss, *heads):
    return {loss: (*ENCODER, *heads)}


MASKED_LM = {"masked_lm_loss": (*GENERATOR, *TABLES)}
ONE_NETWORK = _on_encoder("masked_lm_loss", "generator_predictions/")
DETECTION = _on_encoder("disc_loss", "discriminator_predictions/")
ELECTRA = MASKED_LM | DETECTION
CORRECTION = _on_encoder("corrector_loss", "corrector_predictions/")
SELECTION = _on_encoder("selection_loss", "selection_predictions/")
TOWERS = DETECTION | {
    "cloze_loss": ("generator_", "cloze_predictions/", *TABLES)
}
ADVERSARIAL = {"generator_loss": (*GENERATOR, *TABLES)} | DETECTION
REACHED = {
    "adversarial": ADVERSARIAL | {"baseline_loss": ("baseline_predictions/",)},
    "adversarial by a relaxed sample": ADVERSARIAL
    | _on_encoder("disc_loss", "discriminator_predictions/", *GENERATOR),
    "all_tokens_mlm": MASKED_LM
    | _on_encoder("corrector_loss", "corrector_predictions/", "copy_"),
    "coco_lm": ELECTRA
    | CORRECTION
    | _on_encoder("contrast_loss", "contrast_predictions/"),
    "electra": ELECTRA,
    "electra disentangled": DETECTION | {"masked_lm_loss": GENERATOR},
    "electra of a frozen generator": DETECTION,
    "electra of a uniform generator": DETECTION,
    "electra of a unigram generator": DETECTION,
    "electra of two towers": TOWERS,
    "electra that shares words": DETECTION
    | {"masked_lm_loss": (*GENERATOR, "electra/embeddings/word_embeddings")},
    "electra_15": ELECTRA,
    "electric": TOWERS,
    "fast_electra": DETECTION,
    "mc_bert": MASKED_LM | SELECTION,
    "mlm": ONE_NETWORK,
    "replace_mlm": MASKED_LM | CORRECTION,
    "script": ONE_NETWORK | _on_encoder("disc_loss", "generator_predictions/"),
    "teams": MASKED_LM
    | SELECTION
    | {"disc_loss": ("electra/encoder/layer_0/", *ENCODER[1:], "disc")},
    "two_stage": DETECTION,  # in the second stage
}
"""Variant, else its objective -> loss -> scopes that it trains."""


def _make_model(variant, **leaves):
    small = {
        "initializer_range": 0.2,
        "num_hidden_layers": 2 if variant == "teams" else 1,
    }
    of_variant = tiny.VARIANTS.get(variant, {"objective": variant})
    leaves = {**small, **of_variant, **leaves}
    return tiny.model(tiny.config(**leaves), tiny.COUNTED)


def _terms(model, inputs, keys=KEYS, training=True):
    terms = model.compute_losses(inputs, keys=keys, training=training)
    return {name: np.array(term) for name, term in terms.items()}


def _assert_close(found, expected, **tolerances):
    for name, value in expected.items():
        np.testing.assert_allclose(
            np.array(found[name]), value, err_msg=name, **tolerances
        )


class Case:
    """A variant's model, with results computed once for all tests."""

    def __init__(self, variant):
        self.variant = variant
        self.model = _make_model(variant)
        self.inputs = tiny.batch()

    @functools.cached_property
    def denominators(self):
        return self.model.loss_denominators(self.inputs, keys=KEYS)

    @functools.cached_property
    def terms(self):
        rows, weights = self.inputs, self.denominators
        terms, *_ = self.model.forward_backward(rows, KEYS, weights)
        return {name: np.array(term) for name, term in terms.items()}

    @functools.cached_property
    def repetition(self):
        """Terms again, and loss -> path -> gradient of its mean."""
        values = [v.value for v in self.model.trainable_variables]
        paths = [v.path for v in self.model.trainable_variables]
        with tf.GradientTape(persistent=True) as tape:
            terms = self.model.compute_losses(
                self.inputs, keys=KEYS, training=True
            )
            means = {k: terms[k].mean() for k in self.model.loss_weights}
        return terms, {
            name: dict(zip(paths, tape.gradient(mean, values), strict=True))
            for name, mean in means.items()
        }


@pytest.fixture(scope="module", params=[*VARIANTS, new_objective.NAME])
def case(request, registered):
    return Case(request.param)


def test_loss_denominators_are_the_weights_of_the_metrics(case):
    assert case.denominators.keys() == case.model.loss_weights.keys()
    for name, denominator in case.denominators.items():
        assert float(denominator) == case.terms[name][1]


def test_the_same_keys_give_the_same_terms(case):
    _assert_close(case.repetition[0], case.terms, rtol=0)


def test_metrics_of_halves_add_up_and_rows_of_padding_count_nothing(case):
    rows = tf.range(8)[:, None]
    first, second = (
        _terms(case.model, type(case.inputs)(*(x * half for x in case.inputs)))
        for half in (tf.cast(rows < 4, tf.int32), tf.cast(rows >= 4, tf.int32))
    )
    total = {name: first[name] + second[name] for name in first}
    _assert_close(total, case.terms, rtol=1e-5, atol=1e-5)


def test_a_batch_of_nothing_has_finite_losses_and_gradients(case):
    empty = tf.nest.map_structure(tf.zeros_like, case.inputs)
    weights = dict.fromkeys(case.model.loss_weights, tf.constant(0.0))
    terms, gradients, _ = case.model.forward_backward(empty, KEYS, weights)
    assert all(np.isfinite(np.array(term)).all() for term in terms.values())
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_each_loss_reaches_exactly_its_networks(case):
    gradients, trained = case.repetition[1], {}
    of_objective = REACHED.get(case.model.config.objective.objective)
    scopes = REACHED.get(case.variant, of_objective)
    for loss, by_path in gradients.items():
        trained[loss] = {p for p, x in by_path.items() if x is not None}
        if scopes is not None:
            reached = {p for p in by_path if p.startswith(scopes.get(loss, ()))}
            assert trained[loss] == reached, loss
        for path in trained[loss]:
            if "/key/bias" not in path:  # cancels in the softmax
                gradient = tf.convert_to_tensor(by_path[path])
                assert np.any(gradient), (loss, path)
    if "disc_loss" in trained:
        alone = trained.pop("disc_loss").difference(*trained.values())
        assert case.model.discriminator_only_paths == alone


def test_losses_of_generators_and_of_verdicts_equal_their_formulas(case):
    """Losses of a single objective are tested in its own file."""
    out, terms = tiny.forward(case.model, case.inputs)
    means = {name: float(term.mean()) for name, term in terms.items()}
    if "masked_lm_loss" in terms:
        nats = tiny.softmax_nats(out.mlm_logits, out.masked.ids)
        expected = nats[out.masked.weights.numpy() > 0].mean()
        assert means["masked_lm_loss"] == pytest.approx(expected, rel=1e-5)
    if "disc_loss" in terms and case.variant != "electra_15":
        labels = out.fake.is_fake_tokens.numpy() > 0
        if case.variant != "electric":
            is_other = out.fake.inputs.input_ids != out.inputs.input_ids
            np.testing.assert_array_equal(labels, is_other)
        real = out.inputs.is_real.numpy()
        expected = tiny.sigmoid_nats(out.disc_logits, labels)[real].mean()
        assert means["disc_loss"] == pytest.approx(expected, rel=1e-5)
    total = sum(w * means[k] for k, w in case.model.loss_weights.items())
    assert float(tiny.total_loss(case.model, terms)) == pytest.approx(total)


def test_the_first_loss_is_at_chance(case):
    """Energies are not exactly 0 at first: `electric` gets more tolerance."""
    model = _make_model(case.variant, initializer_range=0.02)
    keys = TrainingKeys(KEYS, tf.zeros([8]))
    terms = model.compute_losses(case.inputs, keys=keys, training=True)
    np.testing.assert_allclose(
        tiny.total_loss(model, terms),
        health.expected_start(model),
        rtol=0.15 if case.variant == "electric" else 0.05,
    )


RATE = {"generator_learning_rate": 1.0}
REFUSED = (
    ("electra", {**RATE, "generator_sharing": "all"}),
    ("electra", {"generator_type": "two_tower", "generator_sharing": "all"}),
    ("electric", {"temperature": 2.0}),
    ("electric", {"masking_strategy": "span"}),
    ("fast_electra", {"generator_sharing": "embeddings"}),
    ("fast_electra", {"temperature_end": 2.0}),
    ("fast_electra", RATE),
    ("mlm", {"disc_weight_steps": (0, 2)}),
    ("mlm", {"generator_type": "two_tower"}),
    ("mlm", {"freeze_generator": True}),
    ("adversarial", {"generator_sharing": "all"}),
    ("adversarial", {"original_behaviour": ("masking",)}),
    ("adversarial by a relaxed sample", {"original_behaviour": ("sampling",)}),
    ("coco_lm", {"packing": "packed"}),
    ("script", {"generator_sharing": "gradient_disentangled"}),
    ("two_stage", {"generator_sharing": "embeddings"}),
    ("two_stage", {"disc_weight_steps": (0, 2)}),
    (new_objective.NAME, {"generator_type": "uniform"}),
)


@pytest.mark.parametrize(("variant", "leaves"), REFUSED)
def test_incompatible_flags_are_refused(variant, leaves):
    with pytest.raises(UserError):
        _make_model(variant, **leaves)


@pytest.mark.parametrize(
    "variant", [name for name in TRAINED if not get_class(name).has_row_loss]
)
def test_documents_that_share_a_row_know_nothing_of_each_other(variant):
    """Metrics are sums over documents, whose parts are independent."""
    model = _make_model(variant, packing="packed")
    inputs, keys = tiny.packed_batch(), tf.concat([KEYS, KEYS], 0)
    words, numbers = inputs.input_ids.numpy(), inputs.input_mask.numpy()

    def changed(*changes):
        """Returns two batches, each with words of some documents changed."""
        batch = type(inputs)(*(tf.concat([x, x], 0) for x in inputs))
        other_words = 5 + (words + 20) % 55
        ids = [
            np.where(np.isin(numbers, x) & (words > 4), other_words, words)
            for x in changes
        ]
        return batch._replace(input_ids=tf.concat(ids, 0))

    one_each = _terms(model, changed([2], [3]), keys)
    both_or_none = changed([2, 3], [])
    weights = model.loss_denominators(both_or_none, keys=keys)
    terms, gradients, _ = model.forward_backward(both_or_none, keys, weights)
    _assert_close(terms, one_each, rtol=1e-7, atol=1e-4)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.fixture(scope="module")
def pair():
    """Two replicas, shared: a second strategy on them repeats its keys."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:3"])


def _updated_slots(inputs, strategy, **leaves):
    """Returns Adam's means of the gradients after one update, by path."""
    config = tiny.config(num_hidden_layers=1, initializer_range=0.2, **leaves)
    model = pretraining_run.make_model(config, tiny.COUNTED, strategy)
    parts = [tf.split(x, strategy.num_replicas_in_sync) for x in inputs]

    def update():
        context = tf.distribute.get_replica_context()
        number = context.replica_id_in_sync_group
        model.update(type(inputs)(*(tf.gather(x, number) for x in parts)))

    tf.function(strategy.run, autograph=False)(update)
    saved = tiny.arrays(model)
    return {k: v for k, v in saved.items() if k.endswith("/adam_m")}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_replicas_and_their_parts_learn_what_one_batch_does(name, pair):
    inputs, leaves = tiny.batch(), tiny.VARIANTS[name]
    whole = _updated_slots(inputs, tf.distribute.get_strategy(), **leaves)
    # Micro-batches double the time of tracing: only those of grouped rows.
    num_parts = get_class(name).batch_group_size(tiny.config(**leaves))
    parts = _updated_slots(
        inputs, pair, gradient_accumulation_steps=num_parts, **leaves
    )
    _assert_close(parts, whole, rtol=1e-3, atol=1e-5)
    assert any(np.abs(slot).max() > 1e-3 for slot in whole.values())


@pytest.mark.slow
@pytest.mark.parametrize("variant", TRAINED)
def test_xla_computes_the_same(variant):
    model, inputs = _make_model(variant), tiny.batch()
    weights = model.loss_denominators(inputs, keys=KEYS)
    compiled = tf.function(
        model.forward_backward, autograph=False, jit_compile=True
    )
    terms, gradients, _ = compiled(inputs, KEYS, weights)
    _assert_close(terms, _terms(model, inputs), rtol=1e-3, atol=1e-4)
    expected = model.forward_backward(inputs, KEYS, weights).gradients
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("variant", TRAINED)
def test_a_resumed_run_ends_with_the_same_bits(variant):
    states = {0: {}}

    def train(begin, end):
        model = _make_model(
            variant, num_hidden_layers=1, hidden_dropout_prob=0.1
        )
        variables = tiny.checkpoint_variables(model)
        for name, array in states[begin].items():
            variables[name].assign(array)
        update = tf.function(model.update, autograph=False)
        for seed in range(begin, end):
            update(tiny.batch(seed=seed))
            states.setdefault(seed + 1, tiny.arrays(model))
        return tiny.arrays(model)

    whole = train(0, 4)
    tiny.assert_same(train(2, 4), whole)
