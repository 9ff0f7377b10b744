"""`convert_checkpoint` on a checkpoint with the original's names and shapes."""

import golden_arrays
import numpy as np
import pytest

from electra_tf.checkpoint import bundles
from electra_tf.convert_checkpoint import ConvertConfig, main

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY += [f"w{i}" for i in range(507)]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Returns the prefix of a checkpoint like one of the original."""
    directory = tmp_path_factory.mktemp("original")
    path = golden_arrays.HERE / "golden/model/small_like_vars.npz"
    arrays = {n: a for n, a in np.load(path).items() if n != "global_step"}
    rng = np.random.default_rng(0)
    slots = {
        f"{name}/{slot}": rng.random(array.shape).astype(np.float32)
        for name, array in arrays.items()
        for slot in ("adam_m", "adam_v")
    }
    step = {"global_step": np.array(1234, np.int64)}
    bundles.write(directory / "electra_tiny", {**arrays, **slots, **step})
    (directory / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return directory / "electra_tiny"


def convert(source, output, **options):
    main(ConvertConfig(input=str(source), output=str(output), **options))


def assert_equal(expected, actual, *, leave_out=()):
    assert expected.keys() == actual.keys()
    for name, array in expected.items():
        if not any(part in name for part in leave_out):
            np.testing.assert_array_equal(array, actual[name], err_msg=name)


def test_a_round_trip_keeps_every_bit(original, tmp_path, capsys):
    convert(original, tmp_path / "ours", num_attention_heads=2)
    convert(tmp_path / "ours", tmp_path / "tf1", target_format="tf1")
    flags = (tmp_path / "ours/model.cfg").read_text().split()
    assert {
        "--hidden_size=32",
        "--generator_hidden_size=0.25",
        "--generator_sharing=embeddings",
    } <= {*flags}
    before = bundles.read(original)
    assert_equal(before, bundles.read(tmp_path / "tf1/model.ckpt-1234"))
    convert(tmp_path / "ours", tmp_path / "hf", target_format="hf")
    convert(tmp_path / "hf", tmp_path / "back", target_format="tf1")
    after = bundles.read(tmp_path / "back/model.ckpt-0")
    assert_equal(before, after, leave_out=("adam", "global_step"))
    assert not any(a.any() for n, a in after.items() if "adam" in n)
    stdout = capsys.readouterr().out
    assert "82 weights, 164 slots" in stdout and "35,169 parameters" in stdout


def test_one_network_is_converted_without_slots(original, tmp_path):
    options = {"network": "generator", "target_format": "tf1"}
    convert(original, tmp_path, slots=False, reset_step=True, **options)
    names = bundles.read(tmp_path / "model.ckpt-0").keys()
    assert "electra/encoder/layer_1/output/dense/kernel" in names
    assert not any("adam" in x or "discriminator" in x for x in names)
    assert not (tmp_path / "model.cfg").exists()  # no run has it alone


@pytest.mark.parametrize(
    "options",
    [
        {"target_format": "hf", "head": "question_answering"},
        {"target_format": "hf"},  # no vocabulary
        {"new_vocab_file": "x"},
    ],
)
def test_what_does_not_fit_is_refused(options, original, tmp_path):
    bundles.write(tmp_path / "alone", bundles.read(original))
    with pytest.raises((ValueError, OSError)):
        convert(tmp_path / "alone", tmp_path / "x", **options)
    assert not (tmp_path / "x").exists()
