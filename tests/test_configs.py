"""Shipped configurations: they parse, and state what a result costs."""

import pathlib

import pytest

from electra_tf.config.objectives import get_class
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.finetune.task_builder import TASKS
from electra_tf.util.flags import parse_flags

CONFIGS = pathlib.Path(__file__).parent.parent / "configs"
# Table 6 of the paper: layers, hidden, heads, feed-forward, embedding, the
# generator's hidden size and heads, mask %, length, rate, batch, steps.
TABLE_6 = {
    "small": (12, 256, 4, 1024, 128, 64, 1, 15, 128, 5e-4, 128, 1_000_000),
    "base": (12, 768, 12, 3072, 768, 256, 4, 15, 512, 2e-4, 256, 766_000),
    "large": (24, 1024, 16, 4096, 1024, 256, 4, 25, 512, 2e-4, 2048, 400_000),
}


def _parse(*names):
    flags = [f"--flagfile={CONFIGS / name}.cfg" for name in names]
    return parse_flags(PretrainingConfig, flags)


@pytest.mark.parametrize("size", TABLE_6)
def test_sizes_are_those_of_the_paper(size):
    config = _parse(size)
    discriminator = config.model.discriminator(30522)
    generator = config.model.generator(30522)
    assert TABLE_6[size] == (
        discriminator.num_hidden_layers,
        discriminator.hidden_size,
        discriminator.num_attention_heads,
        discriminator.intermediate_size,
        discriminator.embedding_size,
        generator.hidden_size,
        generator.num_attention_heads,
        round(100 * config.masking.mask_prob),
        config.corpus.max_seq_length,
        config.optimizer.learning_rate,
        config.training.train_batch_size,
        config.training.num_train_steps,
    )
    assert config.optimizer.num_warmup_steps == 10_000
    assert config.optimizer.weight_decay_rate == 0.01
    assert discriminator.hidden_dropout_prob == 0.1
    assert generator.num_hidden_layers == discriminator.num_hidden_layers
    assert generator.intermediate_size == 4 * generator.hidden_size


@pytest.mark.parametrize("size", ["demo", "mini", "small", "base", "large"])
@pytest.mark.parametrize(
    "path", sorted((CONFIGS / "ablations").glob("*.cfg")), ids=lambda p: p.stem
)
def test_an_ablation_is_valid_at_each_size(path, size):
    header = " ".join(path.read_text().replace("#", "").split())
    if size != "demo" and "Use it after configs/demo.cfg" in header:
        pytest.skip("the header says that other sizes need other flags")
    config = _parse(size, f"ablations/{path.stem}")
    get_class(config.objective.objective).check(config)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_configuration_keeps_all_other_defaults(name):
    flags = [f"--flagfile={CONFIGS / 'finetune' / name}.cfg"]
    config = parse_flags(FinetuningConfig, flags)
    assert config.task.task_name == name
    run = _parse("demo").run
    assert config.run.model_dir == run.model_dir
    plain = parse_flags(
        FinetuningConfig,
        [f"--data_dir={run.data_dir}", f"--model_name={run.model_name}"]
        + [f"--task_names={name}"],
    )
    assert config == plain
