"""Pre-training with ELECTRA: the peers of `peer_step.py --job=pretrain`.

Generator (a quarter of the width, shared embeddings) and discriminator are
trained jointly on rows of random tokens. In both peers the generator's head
reads the masked positions only.
"""

import machine
import numpy as np
from peers import FIRST_WORD, MASK, Peer, Setting, tensorflow, torch_peer

_LEARNING_RATE = 5e-4
_WEIGHT_DECAY = 0.01
_DISC_WEIGHT = 50.0
_GENERATOR_SHARE = 4
_MASK_PROB = 0.15
_NUM_WEIGHTS_UPDATES = 7


def batch(setting: Setting) -> np.ndarray:
    """Makes filled rows of random tokens, int32 [B, L]."""
    shape = (setting.batch_size, setting.length)
    words = np.random.default_rng(0).integers(
        FIRST_WORD, setting.sizes["vocab_size"], shape
    )
    return words.astype(np.int32)


def electra_tf(setting: Setting) -> Peer:
    """Makes our peer: the update of `run_pretraining`."""
    tensorflow(setting.threads)
    import matrix_products
    from steps import Steps

    from electra_tf.configure_pretraining import PretrainingConfig

    flags = {
        "data_dir": "none",
        "model_name": "none",
        **setting.sizes,
        "generator_hidden_size": 1 / _GENERATOR_SHARE,
        "max_seq_length": setting.length,
        "train_batch_size": setting.batch_size,
        "mask_prob": _MASK_PROB,
        "disc_weight": _DISC_WEIGHT,
        "learning_rate": _LEARNING_RATE,
        "weight_decay_rate": _WEIGHT_DECAY,
        "num_warmup_steps": 0,
        "precision": setting.precision,
        "strategy": "one",
        "packing": "packed" if setting.packed_share else "carry",
    }
    config = PretrainingConfig.from_flags(flags)
    steps = Steps(config, packed_share=setting.packed_share)

    def figures() -> dict[str, float]:
        flops = matrix_products.update_flops(
            config, setting.sizes["vocab_size"]
        )
        return {
            "gflop_per_step": flops * setting.batch_size / 1e9,
            "ceiling_gflop_per_second": matrix_products.ceiling(
                setting.precision
            )
            / 1e9,
            "weights_update_seconds": steps.weights_update_seconds(
                _NUM_WEIGHTS_UPDATES
            ),
        }

    versions = machine.versions("tensorflow", "keras")
    return Peer(versions, steps.update, figures)


def torch(setting: Setting) -> Peer:
    """Makes a peer of Hugging Face's two models in a plain PyTorch loop."""
    import torch
    import transformers

    functional = torch.nn.functional
    torch.set_num_threads(setting.threads)
    torch.manual_seed(0)
    discriminator = transformers.ElectraForPreTraining._from_config(
        transformers.ElectraConfig(**setting.sizes),
        attn_implementation="sdpa",
    )
    smaller = {
        name: max(1, setting.sizes[name] // _GENERATOR_SHARE)
        for name in ("hidden_size", "num_attention_heads", "intermediate_size")
    }
    generator = transformers.ElectraForMaskedLM._from_config(
        transformers.ElectraConfig(**setting.sizes | smaller),
        attn_implementation="sdpa",
    )
    embeddings = discriminator.electra.embeddings
    generator.electra.embeddings = embeddings
    generator.generator_lm_head.weight = embeddings.word_embeddings.weight
    discriminator.train()
    generator.train()
    ids = torch.from_numpy(batch(setting)).long()
    mask = torch.ones_like(ids)
    num_masked = int(setting.length * _MASK_PROB)

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
        right = ids.gather(1, positions)
        corrupted = ids.scatter(1, positions, sample(logits))
        verdicts = discriminator(
            input_ids=corrupted, attention_mask=mask
        ).logits.float()  # [B, L]
        is_fake = (corrupted != ids).float()
        return functional.cross_entropy(
            logits.flatten(0, 1), right.flatten()
        ) + _DISC_WEIGHT * functional.binary_cross_entropy_with_logits(
            verdicts, is_fake
        )

    return torch_peer(
        setting,
        [discriminator, generator],
        loss_of,
        learning_rate=_LEARNING_RATE,
        weight_decay=_WEIGHT_DECAY,
    )
