r"""Prints pre-training FLOPs of the paper's models and of a configuration.

python -m electra_tf.flops_computation
python -m electra_tf.flops_computation --flagfile=configs/base.cfg

Without flags the configuration is ELECTRA-Small's; without --vocab_size the
vocabulary has 30,522 word pieces. pretrain/flops.py says what counts as one
floating-point operation (FLOP).

Source: the original's flops_computation.py; paper tables 1 and 2.
"""

import dataclasses
import textwrap
from collections.abc import Mapping

from electra_tf.config.corpus import BERT_VOCAB_SIZE
from electra_tf.config.model import BertConfig, ModelConfig
from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig, RunConfig
from electra_tf.pretrain import flops
from electra_tf.util import console
from electra_tf.util.flags import run_command


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnyRunConfig(RunConfig):
    """Fields of a run, without effect; a run's flagfile may set them."""

    data_dir: str = "unused"
    """Root of vocabulary, records and models; without effect here."""
    model_name: str = "unused"
    """Names the directory of a run; without effect here."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlopsConfig(PretrainingConfig):
    """A pre-training configuration that needs no directories."""

    run: AnyRunConfig = AnyRunConfig()


_SMALL = ModelConfig(model_size="small")
_BASE = ModelConfig(model_size="base", generator_hidden_size=1 / 3)
_LARGE = ModelConfig(model_size="large")
_BERT_SMALL, _BERT_BASE, _BERT_LARGE = (
    model.discriminator(BERT_VOCAB_SIZE) for model in (_SMALL, _BASE, _LARGE)
)


def _bert(
    network: BertConfig, batch_size: int, num_steps: int, num_tokens: int = 512
) -> int:
    # 20 predictions in 128 tokens, 80 in 512, whatever the masked share.
    predictions = num_tokens * 5 // 32
    mlm = flops.Pass(
        network=network, num_tokens=num_tokens, num_predictions=predictions
    )
    return num_steps * batch_size * mlm.update()


def _electra(
    model: ModelConfig, batch_size: int, num_steps: int, num_tokens: int = 512
) -> int:
    discriminator = flops.Pass(
        network=model.discriminator(BERT_VOCAB_SIZE),
        num_tokens=num_tokens,
        num_decisions=num_tokens,
    )
    generator = model.generator(BERT_VOCAB_SIZE)
    return num_steps * batch_size * discriminator.update() + _bert(
        generator, batch_size, num_steps, num_tokens
    )


MODEL_FLOPS: Mapping[str, float] = {
    "bert_small": _bert(_BERT_SMALL, 128, 1_450_000, 128),
    "bert_base": _bert(_BERT_BASE, 256, 1_000_000),
    "bert_large": _bert(_BERT_LARGE, 256, 1_000_000),
    "bert_large_464k": _bert(_BERT_LARGE, 2048, 464_000),
    "electra_small": _electra(_SMALL, 128, 1_000_000, 128),
    "electra_base": _electra(_BASE, 256, 766_000),
    "electra_400k": _electra(_LARGE, 2048, 400_000),
    "electra_1.75M": _electra(_LARGE, 2048, 1_750_000),
}
"""FLOPs of whole pre-trainings, by the original's names of the models."""

# Name in the paper and in MODEL_FLOPS; table of the paper, and its FLOPs of the
# whole training and of inference on a row of 128 tokens; the encoder to count.
PUBLISHED = (
    ("BERT-Small", "bert_small", "1", 1.4e18, 3.7e9, _BERT_SMALL),
    ("BERT-Base", "bert_base", "1", 6.4e19, 2.9e10, _BERT_BASE),
    ("ELECTRA-Small", "electra_small", "1", 1.4e18, 3.7e9, _BERT_SMALL),
    ("ELECTRA-Base", "electra_base", "1", 6.4e19, 2.9e10, _BERT_BASE),
    ("BERT-Large", "bert_large", "2", 1.9e20, None, None),
    ("BERT-Large (ours)", "bert_large_464k", "2", 7.1e20, None, None),
    ("ELECTRA-400K", "electra_400k", "2", 7.1e20, None, None),
    ("ELECTRA-1.75M", "electra_1.75M", "2", 3.1e21, None, None),
)

_TITLE = """\
The paper's models: FLOPs of the whole pre-training, then of inference on one
row of 128 tokens; as the paper prints them in the table of that number, and
counted here.
"""
_LOOKUPS = """\
dense: reading a word is a product with a one-hot vector, as in the paper and in
the table above. sparse: it costs nothing."""


def main(config: FlopsConfig) -> None:
    """Prints the paper's models, then the configuration."""
    rows = [("model", "table", *("paper", "here", "ratio") * 2)]
    for name, key, table, train, infer, network in PUBLISHED:
        here = network and inference_flops(network, 128)
        cells = _compare(train, MODEL_FLOPS[key]) + _compare(infer, here)
        rows.append((name, table, *cells))
    console.say(_TITLE)
    console.say(console.aligned_table(rows))
    updates = ", then ".join(
        f"{phase.num_steps:,} updates of {phase.batch_size:,} rows of "
        f"{phase.max_seq_length:,} tokens"
        for phase in config.phases
    )
    title = f"This configuration: {config.objective.objective}, {updates}"
    console.say(textwrap.fill(title, 79))
    dense = config_flops(config)
    sparse = config_flops(config, sparse_embed_lookup=True)
    rows = [("", "dense lookup", "sparse lookup")]
    rows += [(x, f"{dense[x]:.3e}", f"{sparse[x]:.3e}") for x in dense]
    console.say(console.aligned_table(rows))
    console.say(_LOOKUPS)


def config_flops(
    config: FlopsConfig, *, sparse_embed_lookup: bool = False
) -> dict[str, int]:
    """Counts the FLOPs of a configuration: updates, the whole run, inference.

    Updates are split by network only if there is one phase.
    """
    objective = get_class(config.objective.objective)
    num_words = config.corpus.target_vocab_size
    counts: dict[str, int] = {}
    for number, phase in enumerate(config.phases, 1):
        rows, length = phase.batch_size, phase.max_seq_length
        sizes = flops.Sizes(config, num_words, length, sparse_embed_lookup)
        passes = objective.passes(sizes)
        name = f"update, phase {number}"
        if len(config.phases) == 1:
            name = "update"
            for network, part in passes.items():
                counts[f"update, {network}"] = rows * part.update()
        counts[name] = flops.update_flops(passes, rows)
    counts["whole run"] = flops.training_flops(
        config,
        num_words,
        config.training.num_train_steps,
        sparse_embed_lookup=sparse_embed_lookup,
    )
    counts["inference, one row"] = inference_flops(
        config.model.discriminator(num_words),
        config.corpus.max_seq_length,
        sparse_embed_lookup=sparse_embed_lookup,
    )
    return counts


def inference_flops(
    network: BertConfig, num_tokens: int, *, sparse_embed_lookup: bool = False
) -> int:
    """Counts the FLOPs of encoder and binary head in inference on one row."""
    return flops.Pass(
        network=network,
        num_tokens=num_tokens,
        num_decisions=num_tokens,
        sparse_embed_lookup=sparse_embed_lookup,
    ).forward()


def _compare(paper: float | None, here: float | None) -> tuple[str, str, str]:
    """Formats the paper's figure, ours and their ratio."""
    return (
        f"{paper:.1e}" if paper else "-",
        f"{here:.3e}" if here else "-",
        f"{here / paper:.2f}" if here and paper else "",
    )


if __name__ == "__main__":
    run_command(main, FlopsConfig)
