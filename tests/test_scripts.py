"""Commands from flags to files; `test_nets` has the values that they write."""

import json

import golden_arrays
import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_finetuning
import tiny_scoring
from corpora import tar, write
from test_nets import run

from electra_tf.checkpoint import bundles
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.util.errors import UserError
from electra_tf.util.flags import save_config


@pytest.mark.parametrize(
    "engine", ["local", pytest.param("beam", marks=pytest.mark.extras)]
)
def test_text_becomes_a_vocabulary_and_records(tmp_path, engine):
    """What is built from a directory may lie in it."""
    text = "It was the best of times, it was the worst of times.\n"
    lines = (f"{text}Chapter {i} ends." for i in range(50))
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    vocab_file, output = tmp_path / "vocab.txt", tmp_path / "records"
    vocabulary = (f"--vocab_file={vocab_file}", "--vocab_size=80")
    run("build_vocab", f"--corpus={tmp_path}", *vocabulary)
    flags = f"--corpus-dir {tmp_path} --vocab-file={vocab_file} --overwrite"
    flags += f" --output-dir={output} --max-seq-length 16 --no-lower-case"
    for _ in range(2):
        run("build_pretraining_dataset", *flags.split(), f"--engine={engine}")
        manifest = json.loads((output / "manifest.json").read_text())
        assert not manifest["do_lower_case"]
        counts = manifest["counts"]
        assert counts["files"] == 1
        assert counts["tokens_kept"] == counts["tokens_read"] > 0


def test_openwebtext_is_built_as_the_original_does(tmp_path):
    text = "The web, page {}.\n\nIt has a title and text.\n"
    for number in range(3):
        name = f"openwebtext/urlsf_subset00-{number}_data.xz"
        pages = [(f"{number}-{i}", text.format(i).encode()) for i in range(4)]
        write(tmp_path / name, tar(pages), ".xz")
    vocabulary = "[PAD] [UNK] [CLS] [SEP] [MASK] the web page it has"
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary.split()))
    flags = f"--data-dir {tmp_path} --max-seq-length 16 --num-processes 1"
    flags += " --no-strip-accents --do-lower-case"
    run("build_openwebtext_pretraining_dataset", *flags.split())
    path = tmp_path / "pretrain_tfrecords/manifest.json"
    manifest = json.loads(path.read_text())
    assert manifest["counts"]["documents"] == 12
    assert manifest["counts"]["lines"] == 24
    assert not manifest["strip_accents"] and manifest["do_lower_case"]


def test_predictions_are_lines_of_json(tmp_path, capsys):
    model = tiny_finetuning.write_trained(tmp_path / "sts", "sts", seed=2)
    source, output = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    source.write_text("good film\tbad plot\nit\nthe plot\tit is\n", "utf-8")
    flags = (f"--model={model}", f"--input={source}", f"--output={output}")
    run("predict", *flags, "--skip_bad_rows")
    answers = [json.loads(x) for x in output.read_text("utf-8").splitlines()]
    assert [answer["line"] for answer in answers] == [1, 3]
    assert capsys.readouterr().out == ""
    run("predict", f"--model={model}", "--text=the plot", "--text_b=it is")
    (alone,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert alone["prediction"] == pytest.approx(answers[1]["prediction"])


def test_scores_are_lines_of_json_with_offsets(tmp_path, capsys):
    _, model = tiny_scoring.write_run(tmp_path)
    source = tmp_path / "in.jsonl"
    source.write_text('{"body": "w1 w2"}\n{"body": " "}\n{"body": "é W4 中"}')
    flags = (f"--input={source}", "--text_field=body", "--num_repairs=2")
    run("score", f"--model={model}", *flags)
    first, empty, last = map(json.loads, capsys.readouterr().out.splitlines())
    values = [x["log_probs"]["discriminator"] for x in first["tokens"]]
    assert first["scores"]["discriminator"] == {
        "total": pytest.approx(sum(values), abs=1e-4),
        "mean": pytest.approx(np.mean(values), abs=1e-4),
        "mean_per_word": pytest.approx(np.mean(values), abs=1e-4),
        "num_tokens": 2,
    }
    assert len(first["tokens"][0]["repairs"]) == 2
    assert set(empty["scores"]["discriminator"].values()) == {0}
    assert empty["tokens"] == []
    fields = ("token", "start", "end", "start_byte", "end_byte")
    tokens = [tuple(x[name] for name in fields) for x in last["tokens"]]
    assert tokens == [
        ("[UNK]", 0, 1, 0, 2),
        ("w4", 2, 4, 3, 5),
        ("[UNK]", 5, 6, 6, 9),
    ]
    run("score", f"--model={model}", "--text=W1 w2", "--show")
    assert "discriminator" in capsys.readouterr().out


def test_the_newest_or_the_named_checkpoint_is_exported(tmp_path):
    """A run may have moved, and its vocabulary."""
    config = tiny.config("moved/away", objective="mlm", num_hidden_layers=1)
    model = tiny.model(config)
    model_dir = tmp_path / "models/tiny"
    store = Checkpoints(model_dir, tiny.checkpoint_variables(model))
    shift = model.electra.blocks[-1].output_norm.beta  # moves all states
    for step in (1, 2):
        shift.assign(tf.fill([16], float(step)))
        store.save(step)
    save_config(model_dir / "config.json", config)
    (tmp_path / "v.txt").write_bytes(tiny.VOCABULARY.content)
    flags = [f"--data_dir={tmp_path}", "--model_name=tiny"]
    with pytest.raises((ValueError, OSError)):
        run("export_saved_model", *flags)
    flags.append(f"--vocab_file={tmp_path}/v.txt")
    named = tmp_path / "named"
    older = (f"--checkpoint={model_dir}/model.ckpt-1", f"--output_dir={named}")
    inputs = tiny.batch(2)
    newest = model.electra(*inputs).sequence_output
    for others, root, shift in (
        ((), model_dir / "saved_model", 0.0),
        (older, named, 1.0),
    ):
        run("export_saved_model", *flags, *others)
        network = tf.saved_model.load(root / "generator/ids/1")
        states = network.encode(*inputs)["sequence_output"]
        np.testing.assert_allclose(newest - states, shift, atol=1e-5)


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
    words = [*tiny.SPECIALS, *(f"w{i}" for i in range(507))]
    (directory / "vocab.txt").write_text("\n".join(words) + "\n")
    return directory / "electra_tiny"


def convert(source, output, *flags):
    run("convert_checkpoint", f"--input={source}", f"--output={output}", *flags)


def test_a_conversion_and_back_keeps_every_bit(original, tmp_path):
    ours, hf, back = (tmp_path / name for name in ("ours", "hf", "back"))
    convert(original, ours, "--num_attention_heads=2")
    convert(ours, tmp_path / "tf1", "--target_format=tf1")
    flags = (ours / "model.cfg").read_text().split()
    assert {"--hidden_size=32", "--generator_hidden_size=0.25"} <= {*flags}
    before = bundles.read(original)
    tiny.assert_same(bundles.read(tmp_path / "tf1/model.ckpt-1234"), before)
    convert(ours, hf, "--target_format=hf")
    convert(hf, back, "--target_format=tf1")
    after = bundles.read(back / "model.ckpt-0")
    assert after.keys() == before.keys()
    for name, array in after.items():
        expected = before[name] * ("adam" not in name and name != "global_step")
        np.testing.assert_array_equal(array, expected, err_msg=name)


def test_one_network_is_converted_without_slots(original, tmp_path):
    flags = ("--network=generator", "--target_format=tf1")
    convert(original, tmp_path, "--noslots", "--reset_step", *flags)
    names = bundles.read(tmp_path / "model.ckpt-0").keys()
    assert "electra/encoder/layer_1/output/dense/kernel" in names
    assert not any("adam" in x or "discriminator" in x for x in names)
    assert not (tmp_path / "model.cfg").exists()  # no run has it alone


CONVERT = "convert_checkpoint --input={alone} --output={output}"


@pytest.mark.parametrize(
    "words",
    [
        "predict --model=m --text=a --input=b",
        "predict --model=m --text_b=a",
        "export_saved_model --model=trial --data_dir=d --model_name=m",
        "export_saved_model --checkpoint=c",
        "export_saved_model --data_dir=d --model_name=missing",
        f"{CONVERT} --target_format=hf --head=question_answering",
        f"{CONVERT} --target_format=hf",  # no vocabulary
        f"{CONVERT} --new_vocab_file=x",
    ],
)
def test_flags_that_do_not_fit_are_refused(words, original, tmp_path):
    output, alone = tmp_path / "x", tmp_path / "alone"
    bundles.write(alone, bundles.read(original))
    with pytest.raises((UserError, ValueError, OSError)):
        run(*words.format(alone=alone, output=output).split())
    assert not output.exists()
