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
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from electra_tf.config.corpus import BERT_VOCAB_SIZE
from electra_tf.config.model import BertConfig, ModelConfig
from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig, RunConfig
from electra_tf.pretrain import flops
from electra_tf.util import console
from electra_tf.util.flags import run_command

_INFERENCE_TOKENS = 128  # in the paper's table 1


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

    @property
    def num_words(self) -> int:
        """Rows of the word embeddings, those of unused tokens included."""
        return self.corpus.target_vocab_size

    def passes(
        self, num_tokens: int = 0, *, sparse_embed_lookup: bool = False
    ) -> dict[str, flops.Pass]:
        """Returns the passes of the last update, by network name.

        Args:
          num_tokens: tokens in a row; 0 for those of the longest rows.
          sparse_embed_lookup: whether embedding lookups count as 0 FLOPs.
        """
        num_tokens = num_tokens or self.corpus.max_seq_length
        sizes = flops.Sizes(
            self, self.num_words, num_tokens, sparse_embed_lookup
        )
        return get_class(self.objective.objective).passes(sizes)


class Published(NamedTuple):
    """A model of the paper's tables, with the paper's figures.

    Attributes:
      name: name in the paper.
      key: key in `MODEL_FLOPS`.
      table: number of the paper's table; empty if unknown.
      train: pre-training FLOPs in the paper; None if it gives none.
      infer: FLOPs of inference on one row of 128 tokens, likewise.
      network: encoder to count for comparison with `infer`.
    """

    name: str
    key: str
    table: str
    train: float | None
    infer: float | None = None
    network: BertConfig | None = None


_GPT = ModelConfig(model_size="base").discriminator(40_000)
_SMALL = ModelConfig(model_size="small")
_BASE = ModelConfig(model_size="base", generator_hidden_size=1 / 3)
_LARGE = ModelConfig(model_size="large")
_BERT_SMALL, _BERT_BASE, _BERT_LARGE = (
    model.discriminator(BERT_VOCAB_SIZE) for model in (_SMALL, _BASE, _LARGE)
)
_ROBERTA = _LARGE.discriminator(50_265)
_ALBERT = ModelConfig(
    model_size="base", hidden_size=4096, embedding_size=128
).discriminator(30_000)
_T5 = ModelConfig(
    model_size="large", intermediate_size=65_536, num_attention_heads=128
).discriminator(32_000)


def _paper_pass(
    network: BertConfig, num_tokens: int = 512, **counts: int
) -> flops.Pass:
    return flops.Pass(network=network, num_tokens=num_tokens, **counts)


def _paper_run(num_steps: int, batch_size: int, *passes: flops.Pass) -> int:
    return num_steps * batch_size * sum(part.update() for part in passes)


def _bert(
    network: BertConfig, batch_size: int, num_steps: int, num_tokens: int = 512
) -> int:
    # 20 predictions in 128 tokens, 80 in 512, whatever the masked share.
    predictions = num_tokens * 5 // 32
    mlm = _paper_pass(network, num_tokens, num_predictions=predictions)
    return _paper_run(num_steps, batch_size, mlm)


def _electra(
    model: ModelConfig, batch_size: int, num_steps: int, num_tokens: int = 512
) -> int:
    main = model.discriminator(BERT_VOCAB_SIZE)
    discriminator = _paper_pass(main, num_tokens, num_decisions=num_tokens)
    generator = model.generator(BERT_VOCAB_SIZE)
    return _paper_run(num_steps, batch_size, discriminator) + _bert(
        generator, batch_size, num_steps, num_tokens
    )


def _t5() -> int:
    width = 128 * 128  # heads times their size
    encoder = _paper_pass(_T5, attention_width=width)
    decoder = _paper_pass(
        _T5, attention_width=width, num_attentions=2, num_predictions=512
    )
    return _paper_run(1_000_000, 2048, encoder, decoder)


MODEL_FLOPS: Mapping[str, float] = {
    # 10 epochs over 768,648,884 words, in batches of 20 rows of 128.
    "elmo": 2 * 10 * 768_648_884 * 568_093_262_680 / (20 * 128),
    # 500,000 updates of 8192 rows; the number is that of 32 rows.
    "xlnet": 2 * 500_000 * 8192 * 15_064_773_691_518 / 32,
    "gpt": _paper_run(960_800, 128, _paper_pass(_GPT, num_predictions=512)),
    "bert_small": _bert(_BERT_SMALL, 128, 1_450_000, 128),
    "bert_base": _bert(_BERT_BASE, 256, 1_000_000),
    "bert_large": _bert(_BERT_LARGE, 256, 1_000_000),
    "bert_large_464k": _bert(_BERT_LARGE, 2048, 464_000),
    "electra_small": _electra(_SMALL, 128, 1_000_000, 128),
    "electra_base": _electra(_BASE, 256, 766_000),
    "electra_400k": _electra(_LARGE, 2048, 400_000),
    "electra_1.75M": _electra(_LARGE, 2048, 1_750_000),
    "roberta_100k": _bert(_ROBERTA, 8000, 100_000),
    "roberta": _bert(_ROBERTA, 8000, 500_000),
    "albert": _bert(_ALBERT, 4096, 1_500_000),
    "t5_11b": _t5(),
}
"""FLOPs of whole pre-trainings, by the original's names of the models."""

PUBLISHED = (
    Published("ELMo", "elmo", "1", 3.3e18, 2.6e10),
    Published("GPT", "gpt", "1", 4.0e19, 3.0e10, _GPT),
    Published("BERT-Small", "bert_small", "1", 1.4e18, 3.7e9, _BERT_SMALL),
    Published("BERT-Base", "bert_base", "1", 6.4e19, 2.9e10, _BERT_BASE),
    Published(
        "ELECTRA-Small", "electra_small", "1", 1.4e18, 3.7e9, _BERT_SMALL
    ),
    Published("ELECTRA-Base", "electra_base", "1", 6.4e19, 2.9e10, _BERT_BASE),
    Published("BERT-Large", "bert_large", "2", 1.9e20),
    Published("BERT-Large (ours)", "bert_large_464k", "2", 7.1e20),
    Published("RoBERTa-100K", "roberta_100k", "2", 6.4e20),
    Published("RoBERTa-500K", "roberta", "2", 3.2e21),
    Published("XLNet", "xlnet", "2", 3.9e21),
    Published("ELECTRA-400K", "electra_400k", "2", 7.1e20),
    Published("ELECTRA-1.75M", "electra_1.75M", "2", 3.1e21),
    Published("ALBERT", "albert", "", 3.1e22),
    Published("T5-11B", "t5_11b", "", None),
)


def main(config: FlopsConfig) -> None:
    """Prints the paper's models, then the configuration."""
    for line in (*paper_table(), "", *config_table(config)):
        console.say(line)


def paper_table() -> Iterator[str]:
    """Yields the lines of the table of the paper's models."""
    yield "The paper's models, in floating-point operations (FLOPs)"
    yield ""
    yield f"{'':29}{'whole pre-training':>22}{'one row of 128 tokens':>26}"
    yield _row("model", "table", ("paper", "here", "ratio") * 2)
    for model in PUBLISHED:
        train = _comparison_cells(model.train, MODEL_FLOPS[model.key])
        infer = model.network and inference_flops(
            model.network, _INFERENCE_TOKENS
        )
        columns = (*train, *_comparison_cells(model.infer, infer))
        yield _row(model.name, model.table, columns)
    yield ""
    yield "paper  what the paper prints, in the table of that number"
    yield "here   counted by this program, by the rules of the original's"
    yield "*      not what the paper prints when rounded to two digits"
    yield ""
    yield "ELMo and XLNet: counted by the original's authors with a profiler."
    yield "ELECTRA-Small: the original gives another number, too."


def config_table(config: FlopsConfig) -> Iterator[str]:
    """Yields the lines of the table of a configuration."""
    updates = ", then ".join(
        f"{phase.num_steps:,} updates of {phase.batch_size:,} rows of "
        f"{phase.max_seq_length:,} tokens"
        for phase in config.phases
    )
    title = f"This configuration: {config.objective.objective}, {updates}"
    yield textwrap.fill(title, 79)
    yield ""
    yield f"{'':26}{'dense lookup':>14}{'sparse lookup':>15}"
    dense = config_flops(config)
    sparse = config_flops(config, sparse_embed_lookup=True)
    for name in dense:
        texts = (_format_count(counts[name], 3) for counts in (dense, sparse))
        yield "{:26}{:>14}{:>15}".format(name, *texts)
    yield ""
    yield "dense   reading a word is a product with a one-hot vector: the"
    yield "        paper's rule, and that of the table above"
    yield "sparse  reading a word costs nothing"


def config_flops(
    config: FlopsConfig, *, sparse_embed_lookup: bool = False
) -> dict[str, int]:
    """Counts the FLOPs of a configuration.

    Every row counts as one of the greatest length: how many are shorter, with
    `length_buckets`, depends on the corpus.

    Args:
      config: the configuration.
      sparse_embed_lookup: whether embedding lookups count as 0 FLOPs.

    Returns:
      Name -> FLOPs, of updates, the whole run, and inference. Updates are split
      by network only if there is one phase.
    """
    options = {"sparse_embed_lookup": sparse_embed_lookup}
    counts: dict[str, int] = {}
    for phase in config.phases:
        rows = phase.batch_size
        passes = config.passes(phase.max_seq_length, **options)
        update = flops.update_flops(passes, rows)
        if len(config.phases) == 1:
            for name, part in passes.items():
                counts[f"update, {name}"] = rows * part.update()
            counts["update"] = update
        else:
            counts[f"update, phase {len(counts) + 1}"] = update
    num_steps = config.training.num_train_steps
    return {
        **counts,
        "whole run": flops.training_flops(
            config, config.num_words, num_steps, **options
        ),
        "inference, one row": inference_flops(
            config.model.discriminator(config.num_words),
            config.corpus.max_seq_length,
            **options,
        ),
    }


def inference_flops(
    network: BertConfig, num_tokens: int, *, sparse_embed_lookup: bool = False
) -> int:
    """Counts the FLOPs of encoder and binary head in inference on one row.

    Args:
      network: the shape of the encoder.
      num_tokens: tokens in the row; the paper's table 1 has 128.
      sparse_embed_lookup: whether embedding lookups count as 0 FLOPs.
    """
    return flops.Pass(
        network=network,
        num_tokens=num_tokens,
        num_decisions=num_tokens,
        sparse_embed_lookup=sparse_embed_lookup,
    ).forward()


def _comparison_cells(
    published: float | None, computed: float | None
) -> tuple[str, str, str]:
    """Returns the paper's figure, ours and their ratio, as text."""
    paper, here = _format_count(published, 1), _format_count(computed, 3)
    if published is None or computed is None:
        return paper, here, ""
    mark = " " if _format_count(computed, 1) == paper else "*"
    return paper, here, f"{computed / published:.2f}{mark}"


def _format_count(count: float | None, digits: int) -> str:
    """Writes a number as the paper does, 6.4e19."""
    if count is None:
        return "-"
    mantissa, exponent = f"{count:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _row(name: str, table: str, columns: tuple[str, ...]) -> str:
    widths = (8, 11, 7) * 2
    cells = zip(columns, widths, strict=True)
    numbers = "".join(f"{text:>{width}}" for text, width in cells)
    return f"{name:21}{table:>5}{numbers}".rstrip()


if __name__ == "__main__":
    run_command(main, FlopsConfig)
