"""Checkpoints of any format are exported as SavedModels."""

import export_command
import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_scoring

from electra_tf.analysis.scoring.scorer import Scorer
from electra_tf.checkpoint import calibration, checkpoint_formats
from electra_tf.checkpoint.calibration import Calibration
from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.checkpoint.weights import ENCODER
from electra_tf.pretrain import export
from electra_tf.serving import checkpoint_export
from electra_tf.serving.correction import Correction
from electra_tf.util.errors import ElectraWarning, UserError

TEXTS = ["w1 W2  w3, w4", "", "w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17"]
TOKENIZED = ["w1 w2 w3 [UNK] w4", "", TEXTS[2]]
TEMPERATURE, THRESHOLD = 0.5, 0.55


@pytest.fixture(scope="module")
def model():
    config = tiny.config(num_hidden_layers=1, initializer_range=0.5)
    model = tiny.model(config)
    ids, mask = _rows(TOKENIZED)
    logits = _logits(model, ids, mask)[mask.numpy() > 0]
    shift = model.discriminator_predictions.dense_1.bias
    shift.assign_sub([np.median(logits)])  # some are flagged, some are not
    # The generator likes some of the flagged ones best, in any place.
    tokens = ids.numpy()[mask.numpy() > 0][logits - np.median(logits) > 0.2]
    best = np.isin(np.arange(60), tokens[tokens >= len(tiny.SPECIALS)][:4])
    model.generator_predictions.output_bias.assign_add(9.0 * best)
    return model


def _logits(model, ids, mask):
    states = model.electra(ids, mask, 0 * mask).sequence_output
    return model.discriminator_predictions(states).numpy()


@pytest.fixture(scope="module")
def source(model, tmp_path_factory):
    """Returns a converted checkpoint, with a temperature."""
    bare = tmp_path_factory.mktemp("bare")
    Checkpoints(bare, tiny.checkpoint_variables(model)).save(0)
    (bare / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    weights = checkpoint_formats.read(
        str(bare), num_attention_heads=2, generator_num_attention_heads=1
    )
    directory = bare / "converted"
    checkpoint_formats.write(str(directory), weights, "electra_tf")
    calibration.write(directory, Calibration(TEMPERATURE, "errors", 0))
    return directory


@pytest.fixture(scope="module")
def root(source, tmp_path_factory):
    root = tmp_path_factory.mktemp("saved_model")
    export_command.run(
        f"--checkpoint={source}",
        f"--output_dir={root}",
        f"--threshold={THRESHOLD}",
    )
    return root


def _rows(texts):
    ids = [
        [2, *map(tiny.VOCABULARY.tokens.index, text.split()), 3]
        for text in texts
    ]
    ids = tf.ragged.constant(ids, dtype=tf.int32)
    return ids.to_tensor(), tf.ones_like(ids).to_tensor()


def _expected_repairs(model, ids, row, column):
    """Returns the generator's 5 best other tokens for one masked token."""
    masked = ids[row : row + 1].copy()
    masked[0, column] = tiny.VOCABULARY.mask_id
    mask = np.int32(masked > 0)
    states = model.generator(masked, mask, 0 * mask).sequence_output
    table = model.electra.embeddings.word_embeddings
    logits = model.generator_predictions(states, tf.convert_to_tensor(table))
    logits = logits.numpy()[0, column].astype(np.float64)
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()
    order = np.argsort(-shares)
    is_word = order >= len(tiny.SPECIALS)
    best = order[is_word & (order != ids[row, column])][:5]
    return np.array(tiny.VOCABULARY.tokens, "S")[best], shares[best]


def _correct(source, texts):
    described, _ = checkpoint_export.describe(str(source))
    correction_model = Correction(
        detector=described["discriminator"],
        filler=described["generator"],
        threshold=THRESHOLD,
    )
    return correction_model.correct(tf.constant(texts, tf.string))


@pytest.mark.parametrize(
    "is_saved", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_correction_flags_tokens_and_repairs_them_one_by_one(
    is_saved, model, source, request
):
    if is_saved:
        path = request.getfixturevalue("root") / "correction/text/1"
        loaded = tf.saved_model.load(path)
        found = loaded.serving_default(tf.constant(TEXTS))
    else:
        found = _correct(source, TEXTS)
    found = {name: value.numpy() for name, value in found.items()}
    ids, mask = _rows(TOKENIZED)
    logits = _logits(model, ids, mask)
    expected = 1 / (1 + np.exp(-logits / TEMPERATURE))
    is_text = (mask.numpy() > 0) & (ids.numpy() != 2) & (ids.numpy() != 3)
    expected = np.where(is_text, expected, 0)
    np.testing.assert_allclose(
        found["probability_replaced"], expected, atol=1e-5
    )
    flags = expected > THRESHOLD
    assert 2 < flags.sum() < is_text.sum() - 2
    np.testing.assert_array_equal(found["is_flagged"], flags)
    for row, column in np.argwhere(flags):
        tokens, shares = _expected_repairs(model, ids.numpy(), row, column)
        top = found["top_tokens"][row, column]
        np.testing.assert_array_equal(top, tokens)
        top = found["top_probabilities"][row, column]
        np.testing.assert_allclose(top, shares, atol=1e-5)
    assert set(found["top_tokens"][~flags].flat) == {b""}
    assert not found["top_probabilities"][~flags].any()
    spans = [(0, 2), (3, 5), (7, 9), (9, 10), (11, 13)]
    starts, ends = (found[f"{side}_byte"] for side in ("start", "end"))
    assert [*zip(starts[0, 1:6], ends[0, 1:6], strict=True)] == spans
    assert not starts[~is_text].any() and not ends[~is_text].any()


def test_answers_are_at_the_temperature_and_0_on_padding(model, source):
    detector = checkpoint_export.describe(str(source))[0]["discriminator"]
    ids, mask = _rows(TOKENIZED)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * mask}
    replaced = 1 / (1 + np.exp(-_logits(model, ids, mask) / TEMPERATURE))
    np.testing.assert_allclose(
        detector.probability_replaced(inputs),
        mask.numpy() * replaced,
        atol=1e-5,
    )
    is_token = mask.numpy() > 0
    np.testing.assert_allclose(
        detector.log_probs(inputs)[is_token],
        np.log(1 - replaced)[is_token],
        atol=1e-4,
    )


@pytest.mark.parametrize(
    ("precision", "products"), [("int8", "float32"), ("bfloat16", "bfloat16")]
)
def test_only_bfloat16_changes_the_products(
    source, monkeypatch, precision, products
):
    exported = []
    monkeypatch.setattr(
        checkpoint_export,
        "export_networks",
        lambda x, *_, **__: exported.append(x),
    )
    checkpoint_export.export(
        str(source), "x", threshold=0.5, precision=precision
    )
    for network in exported[0].values():
        assert network.encoder.compute_dtype == products


def test_a_corrector_is_only_exported_with_its_run(tmp_path):
    model = tiny.model(tiny.config(objective="replace_mlm"))
    weights = export.weights_of(model)
    checkpoint_formats.write(str(tmp_path), weights, "electra_tf")
    with pytest.raises(UserError, match="with a corrector. Name its run"):
        checkpoint_export.describe(str(tmp_path))


def test_correction_answers_no_texts(source):
    found = _correct(source, [])
    assert {value.shape[0] for value in found.values()} == {0}


@pytest.mark.slow
def test_networks_answer_as_the_models(model, root):
    names = sorted(path.parent.name for path in root.glob("*/text"))
    assert names == ["correction", "discriminator", "generator"]
    batch = tiny.batch(2, 32)  # as many as there are positions
    batch = batch._replace(segment_ids=0 * batch.segment_ids)
    loaded = tf.saved_model.load(root / "discriminator/ids/1")
    found = loaded.serving_default(*batch)["probability_replaced"]
    logits = _logits(model, *batch[:2]) / TEMPERATURE
    expected = batch.input_mask.numpy() / (1 + np.exp(-logits))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    loaded = tf.saved_model.load(root / "generator/ids/1")
    found = loaded.encode(*batch)["sequence_output"]
    expected = model.generator(*batch).sequence_output
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["hf", "encoder"])
def test_other_formats_and_encoders_alone_are_exported(
    target, model, source, tmp_path
):
    weights = checkpoint_formats.read(str(source))
    options = {"hf": {}, "encoder": {"networks": [ENCODER]}}[target]
    checkpoint_formats.write(str(tmp_path / "x"), weights, "hf", **options)
    export_command.run(
        f"--checkpoint={tmp_path / 'x'}", f"--output_dir={tmp_path}"
    )
    name = "encoder" if target == "encoder" else "discriminator"
    loaded = tf.saved_model.load(tmp_path / name / "text/1")
    found = loaded.encode(tf.constant(TEXTS[2:]))["sequence_output"]
    ids, mask = _rows(TEXTS[2:])
    expected = model.electra(ids, mask, 0 * mask).sequence_output
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (tmp_path / "correction").exists() == (target == "hf")


def test_texts_longer_than_a_row_of_the_training_score_as_with_scorer(tmp_path):
    _, path = tiny_scoring.write_run(tmp_path)
    text = " ".join(f"w{7 * i % 55}" for i in range(60))
    scorer = Scorer.from_checkpoint(path)
    (expected,) = scorer.score([text], scores=["discriminator"])
    assert scorer.max_seq_length == tiny.LENGTH
    described, _ = checkpoint_export.describe(str(path))
    endpoints = described["discriminator"].network.signatures.of_text
    found = endpoints["score"](tf.constant([text]))["log_probs"][0]
    np.testing.assert_allclose(
        found,
        [token.log_probs["discriminator"] for token in expected.tokens],
        atol=1e-5,
    )


def test_a_scorer_and_an_export_share_the_temperature(source, tmp_path):
    path = str(tmp_path / "hf")
    checkpoint_formats.write(path, checkpoint_formats.read(str(source)), "hf")
    directory = Scorer.from_checkpoint(path).directory
    calibration.write(directory, Calibration(TEMPERATURE, "errors", 0))
    described, _ = checkpoint_export.describe(path)
    assert described["discriminator"].temperature == TEMPERATURE


def test_a_temperature_of_another_step_is_not_used(source):
    assert checkpoint_export.temperature_of(str(source), 0) == TEMPERATURE
    with pytest.warns(ElectraWarning, match="step 0, not at 7"):
        assert checkpoint_export.temperature_of(str(source), 7) == 1
    assert (
        checkpoint_export.temperature_of(str(source.parent / "model"), 7) == 1
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--checkpoint={}"], "`output_dir`"),
        (["--checkpoint={}", "--output_dir=x", "--model=y"], "both"),
        (["--model={}", "--vocab_file=x"], "`vocab_file`"),
        (["--model={}", "--threshold=1"], r"`threshold`.*in \(0, 1\)"),
        (["--model={}", "--precision=float16"], "float16.*one of.*int8"),
    ],
)
def test_flags_that_do_not_fit_are_refused(flags, message, source):
    with pytest.raises(UserError, match=message):
        export_command.run(*(flag.format(source) for flag in flags))


def test_a_checkpoint_without_vocabulary_is_refused(source, tmp_path):
    for path in source.glob("[!v]*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(UserError, match="--vocab_file"):
        export_command.run(
            f"--checkpoint={tmp_path}", f"--output_dir={tmp_path / 'x'}"
        )
    assert not (tmp_path / "x").exists()
