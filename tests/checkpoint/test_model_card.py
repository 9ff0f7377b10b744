"""A model card states the facts of its run, and its snippets run."""

import contextlib
import json
import os
import re

import pytest
import tiny

from electra_tf.checkpoint import conversion, model_card
from electra_tf.checkpoint.checkpoints import Checkpoints
from electra_tf.convert_checkpoint import ConvertConfig, main
from electra_tf.pretrain import export, run_facts
from electra_tf.pretrain.flops import training_flops
from electra_tf.serving import saved_models
from electra_tf.util import config_files

MANIFEST = {
    "corpus": ["/a/*.txt", "demo"],
    "do_lower_case": True,
    "strip_accents": False,
    "packing": "packed",
    "vocab_size": 60,
    "counts": {
        "documents": 1234,
        "text_bytes": 56789,
        "tokens_read": 4321,
        "tokens_dropped": 0,
        "padding_share": 0.01234,
    },
}

METRICS = {"global_step": 12, "training_flops": 3.5, "disc_auc": 0.87654321}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the directory of a run and its model."""
    data_dir = tmp_path_factory.mktemp("data")
    config = tiny.config(data_dir)
    model = tiny.model(config)
    model.optimizer.iterations.assign(12)
    model_dir = data_dir / "models/tiny"
    Checkpoints(model_dir, tiny.checkpoint_variables(model)).save(12)
    config_files.save_config(model_dir / "config.json", config)
    (data_dir / "vocab.txt").write_bytes(tiny.VOCABULARY.content)
    for path, value in (
        (data_dir / "pretrain_tfrecords/manifest.json", MANIFEST),
        (model_dir / "results/pretraining_eval.json", METRICS),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(value))
    return model_dir, model


def convert(run, directory, target):
    main(
        ConvertConfig(
            input=str(run[0]), output=str(directory), target_format=target
        )
    )


def snippets(directory):
    text = (directory / model_card.NAME).read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def execute(directory):
    """Runs a card's snippets in its directory, but none for transformers."""
    printed = snippets(directory)
    own = [snippet for snippet in printed if "transformers" not in snippet]
    assert own
    with contextlib.chdir(directory):
        for snippet in own:
            exec(snippet, {})
    return printed


def test_the_card_tells_what_is_known_of_the_run(run, tmp_path):
    convert(run, tmp_path / "x", "electra_tf")
    text = (tmp_path / "x" / model_card.NAME).read_text()
    config = run[1].config
    assert text.startswith("---\nlibrary_name: tf-keras\n")
    assert text.split("---\n")[1].endswith("license: unknown\n")
    for expected in (
        "# tiny\n",
        "| updates | 12 |",
        f"| training FLOPs | {training_flops(config, 60, 12):.3e} |",
        "| objective | electra |",
        "| sources | /a/*.txt, demo |",
        "| tokens read | 4,321 |",
        "| packing | packed |",
        "| padding | 1.2% |",
        "| disc_auc | 0.876543 |",
        "| hidden_size | 16 | 8 |",
        "|  | discriminator | generator |",
    ):
        assert expected in text, expected
    for other in METRICS.keys() - {"disc_auc"}:
        assert other not in text


def test_the_card_of_another_step_has_no_metrics(run):
    model_dir, model = run
    assert run_facts.of_directory(model_dir, 12).metrics.keys() == {"disc_auc"}
    other = run_facts.of_directory(model_dir, 11)
    assert other == run_facts.of_run(model.config, 11)
    assert other.model_name == "tiny" and not other.metrics


def test_metrics_remain_if_the_step_is_reset(run, tmp_path):
    main(
        ConvertConfig(
            input=str(run[0]), output=str(tmp_path / "x"), reset_step=True
        )
    )
    assert "| disc_auc |" in (tmp_path / "x" / model_card.NAME).read_text()


@pytest.mark.parametrize("target", ["tf1", "electra_tf"])
def test_snippets_in_the_card_of_a_checkpoint_run(run, tmp_path, target):
    convert(run, tmp_path / "x", target)
    execute(tmp_path / "x")


def test_the_card_of_an_encoder_describes_it_and_its_snippets_run(
    run, tmp_path
):
    main(
        ConvertConfig(
            input=str(run[0]),
            output=str(tmp_path / "x"),
            target_format="electra_tf",
            network="encoder",
        )
    )
    (first, *_) = execute(tmp_path / "x")
    assert 'ElectraBackbone.from_checkpoint(".")' in first
    text = (tmp_path / "x" / model_card.NAME).read_text()
    assert "The encoder gives each token of a text a vector." in text
    assert "discriminator" not in text and "disc_auc" not in text


@pytest.mark.parametrize(
    "leaves", [{"vocab_size": tiny.VOCABULARY.size + 8}, {"new_vocab_file": ""}]
)
def test_a_network_with_new_words_has_no_metrics_of_the_old(
    run, tmp_path, leaves
):
    if "new_vocab_file" in leaves:
        path = tmp_path / "words.txt"
        path.write_bytes(tiny.VOCABULARY.content + b"another\n")
        leaves = {"new_vocab_file": str(path)}
    output = tmp_path / "x"
    main(ConvertConfig(input=str(run[0]), output=str(output), **leaves))
    assert "disc_auc" not in (output / model_card.NAME).read_text()


@pytest.fixture(scope="module")
def corrector():
    """Returns the weights of a model that predicts every token."""
    return export.weights_of(tiny.model(tiny.config(objective="replace_mlm")))


@pytest.mark.parametrize("network", ["both", "corrector"])
@pytest.mark.parametrize("target", ["electra_tf", "hf"])
def test_snippets_in_the_card_of_a_corrector_run(
    corrector, tmp_path, network, target
):
    config = ConvertConfig(
        input="model",
        output=str(tmp_path / "x"),
        target_format=target,
        network=network,
    )
    (path, *_) = conversion.write(corrector, config)
    execute(path if target == "hf" else path.parent)


@pytest.mark.slow
def test_snippets_in_the_card_of_a_saved_model_run(run, tmp_path, monkeypatch):
    first, *_ = export.networks_of(run[1]).items()
    monkeypatch.setattr(export, "_describe", lambda *_: dict([first]))
    export.export(run[1], tmp_path)
    execute(tmp_path)
    assert "| disc_auc |" in (tmp_path / model_card.NAME).read_text()


def test_the_card_of_an_export_in_bfloat16_names_updates_and_metrics(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(saved_models, "export", lambda *_, **options: [])
    export.export(run[1], tmp_path, precision="bfloat16")
    text = (tmp_path / model_card.NAME).read_text()
    assert "| updates | 12 |" in text
    assert "| disc_auc |" in text


def test_each_directory_of_hugging_faces_has_its_card(run, tmp_path):
    convert(run, tmp_path / "x", "hf")
    discriminator, generator = (
        execute(tmp_path / "x" / name)
        for name in ("discriminator", "generator")
    )
    assert "ElectraForPreTraining" in discriminator[1]
    assert "ElectraForMaskedLM" in generator[1]
    text = (tmp_path / "x/generator" / model_card.NAME).read_text()
    assert "pipeline_tag: fill-mask\n" in text
    assert "replaced" not in text.replace("not replaced", "")


@pytest.mark.huggingface
def test_snippets_for_transformers_run(run, tmp_path):
    pytest.importorskip("transformers")
    convert(run, tmp_path / "x", "hf")
    for name in os.listdir(tmp_path / "x"):
        printed = snippets(tmp_path / "x" / name)
        with contextlib.chdir(tmp_path / "x" / name):
            exec(printed[-1], {})


def test_a_directory_without_a_run_has_no_facts(tmp_path):
    assert run_facts.of_directory(tmp_path, 7) == model_card.NO_FACTS
    (tmp_path / "config.json").write_text('{"model_type": "electra"}')
    assert run_facts.of_directory(tmp_path, 7) == model_card.NO_FACTS
