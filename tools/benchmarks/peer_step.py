"""Measures one training update against Hugging Face's models in PyTorch.

    python -m pip install -e '.[hf-test]'
    OMP_WAIT_POLICY=passive python tools/benchmarks/peer_step.py

Both train generator (a quarter of the width) and discriminator jointly on the
same rows of random tokens: forward and backward pass with dropout, clipping and
Adam. PyTorch has its fused attention, bfloat16 by autocast, memory kept between
updates as ours is, and its fused or foreach optimizer or torch.compile. Each
peer runs in a process of its own, and they take turns on an idle machine.

Prints one JSON line: wall-clock and CPU seconds of an update, peak memory in
10^9 bytes, and the time of PyTorch's fastest variant divided by ours, turn by
turn.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import measuring
import numpy as np

from electra_tf.util import console

FIRST_WORD, MASK = 5, 4  # ids
LEARNING_RATE, WEIGHT_DECAY, DISC_WEIGHT, MASK_PROB = 5e-4, 0.01, 50.0, 0.15
VARIANTS = ("fused", "foreach", "compiled")


def main() -> None:
    """Measures the peers in turn, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=measuring.SIZES, default="small")
    parser.add_argument("--num_hidden_layers", type=int, default=12)
    parser.add_argument("--vocab_size", type=int, default=30522)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2, help="in a turn")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("setting", nargs="?", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        _work(args.worker, json.loads(args.setting))
        return
    setting = {
        "sizes": measuring.encoder_sizes(
            args.size, args.num_hidden_layers, args.vocab_size
        ),
        "batch_size": args.batch_size,
        "length": args.max_seq_length,
        "precision": args.precision,
        "threads": args.threads,
    }
    workers = {
        name: measuring.Worker(__file__, name, setting)
        for name in ("electra_tf", *VARIANTS)
    }
    for worker in workers.values():
        worker.ask(2)  # traces, compiles, makes the optimizer's slots
    times = measuring.take_turns(
        workers, args.turns, dict.fromkeys(workers, args.steps)
    )
    for worker in workers.values():
        worker.close()
    packages = ("tensorflow", "keras", "torch", "transformers")
    report = {"benchmark": "peer_step", **measuring.machine(*packages)}
    options = {k: v for k, v in vars(args).items() if v is not None}
    print(json.dumps(report | options | _figures(times)))


def _figures(times: Mapping[str, list[dict[str, float]]]) -> dict[str, Any]:
    ratios = {}
    for kind in ("wall", "cpu"):
        seconds = {n: [turn[kind] for turn in t] for n, t in times.items()}
        fastest = min(
            VARIANTS, key=lambda n, s=seconds: statistics.median(s[n])
        )
        ratios[kind] = measuring.median_ratio(
            seconds[fastest], seconds["electra_tf"]
        )
    return {
        "seconds_per_step": {
            name: {
                kind: measuring.spread(turn[kind] for turn in turns)
                for kind in ("wall", "cpu")
            }
            for name, turns in times.items()
        },
        "peak_memory_gb": {
            n: t[-1]["peak_memory_gb"] for n, t in times.items()
        },
        "torch_over_electra_tf": ratios,
    }


def _work(name: str, setting: Mapping[str, Any]) -> None:
    """Trains on request, in a process of its own."""
    console.keep_memory()  # as our commands do; the same for every peer
    if name == "electra_tf":
        update = electra_tf(setting)
    else:
        update = torch_peer(setting, name)

    def answer(count: int) -> dict[str, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        loss = update(count)
        return {
            "cpu": (time.process_time() - cpu) / count,
            "wall": (time.perf_counter() - wall) / count,
            "loss": loss,
            "peak_memory_gb": measuring.peak_memory_gb(),
        }

    measuring.answer_requests(answer)


def _rows(setting: Mapping[str, Any]) -> np.ndarray:
    """Makes filled rows of random tokens, int32 [B, L]."""
    shape = setting["batch_size"], setting["length"]
    words = np.random.default_rng(0).integers(
        FIRST_WORD, setting["sizes"]["vocab_size"], shape
    )
    return words.astype(np.int32)


def electra_tf(setting: Mapping[str, Any]) -> Callable[[int], float]:
    """Makes our peer: the update of `run_pretraining`."""
    import tensorflow as tf

    from electra_tf.configure_pretraining import PretrainingConfig

    threads = tf.config.threading
    threads.set_intra_op_parallelism_threads(setting["threads"])
    threads.set_inter_op_parallelism_threads(setting["threads"])
    config = PretrainingConfig.from_flags(
        {
            "data_dir": "none",
            "model_name": "none",
            **setting["sizes"],
            "generator_hidden_size": 1 / 4,
            "max_seq_length": setting["length"],
            "train_batch_size": setting["batch_size"],
            "mask_prob": MASK_PROB,
            "disc_weight": DISC_WEIGHT,
            "learning_rate": LEARNING_RATE,
            "weight_decay_rate": WEIGHT_DECAY,
            "num_warmup_steps": 0,
            "strategy": "one",
            "precision": setting["precision"],
        }
    )
    steps = measuring.Steps(config)

    def update(count: int) -> float:
        return float(steps.losses(count)[-1])

    return update


def torch_peer(
    setting: Mapping[str, Any], variant: str
) -> Callable[[int], float]:
    """Makes a peer of Hugging Face's two models in a plain PyTorch loop."""
    import torch
    import transformers

    functional, sizes = torch.nn.functional, setting["sizes"]
    torch.set_num_threads(setting["threads"])
    torch.manual_seed(0)
    discriminator = transformers.ElectraForPreTraining._from_config(
        transformers.ElectraConfig(**sizes), attn_implementation="sdpa"
    )
    quarter = {
        name: max(1, sizes[name] // 4)
        for name in ("hidden_size", "num_attention_heads", "intermediate_size")
    }
    generator = transformers.ElectraForMaskedLM._from_config(
        transformers.ElectraConfig(**sizes | quarter),
        attn_implementation="sdpa",
    )
    embeddings = discriminator.electra.embeddings
    generator.electra.embeddings = embeddings
    generator.generator_lm_head.weight = embeddings.word_embeddings.weight
    discriminator.train()
    generator.train()
    ids = torch.from_numpy(_rows(setting)).long()
    mask = torch.ones_like(ids)
    num_masked = int(setting["length"] * MASK_PROB)

    def logits_at(positions: torch.Tensor) -> torch.Tensor:
        masked = ids.scatter(1, positions, MASK)
        states = generator.electra(input_ids=masked, attention_mask=mask)[0]
        width = states.shape[-1]
        picked = states.gather(1, positions[..., None].expand(-1, -1, width))
        head = generator.generator_predictions
        return generator.generator_lm_head(head(picked)).float()  # [B, N, V]

    @torch.no_grad()
    def sample(logits: torch.Tensor) -> torch.Tensor:
        ends = logits.softmax(-1).cumsum(-1)
        target = torch.rand(*logits.shape[:-1], 1) * ends[..., -1:]
        drawn = torch.searchsorted(ends, target)[..., 0]
        return drawn.clamp(max=logits.shape[-1] - 1)  # [B, N]

    def loss_of() -> torch.Tensor:
        positions = torch.rand(ids.shape).topk(num_masked).indices  # [B, N]
        logits = logits_at(positions)
        corrupted = ids.scatter(1, positions, sample(logits))
        verdicts = discriminator(
            input_ids=corrupted, attention_mask=mask
        ).logits.float()  # [B, L]
        mlm = functional.cross_entropy(
            logits.flatten(0, 1), ids.gather(1, positions).flatten()
        )
        disc = functional.binary_cross_entropy_with_logits(
            verdicts, (corrupted != ids).float()
        )
        return mlm + DISC_WEIGHT * disc

    modules = (discriminator, generator)
    weights = {id(w): w for module in modules for w in module.parameters()}
    optimizer = torch.optim.AdamW(
        weights.values(),
        lr=LEARNING_RATE,
        weight_decay=WEIGHT_DECAY,
        **{"foreach" if variant == "foreach" else "fused": True},
    )
    if variant == "compiled":
        loss_of = torch.compile(loss_of)
    is_half = setting["precision"] == "bfloat16"

    def update(count: int) -> float:
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
                loss = loss_of()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
        return loss.item()

    return update


if __name__ == "__main__":
    main()
