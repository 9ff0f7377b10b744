"""Fine-tuning a classifier: the peers of `peer_step.py --job=finetune`."""

import machine
import numpy as np
from peers import Peer, Setting, random_rows, tensorflow, torch_peer

_NUM_CLASSES = 2
_LEARNING_RATE = 1e-4


def batch(setting: Setting) -> dict[str, np.ndarray]:
    """Makes rows of random tokens, between half and completely filled.

    Shapes: returns [B, L], [B].
    """
    rng = np.random.default_rng(0)
    shape = (setting.batch_size, setting.length)
    ids, mask = random_rows(rng, setting.sizes["vocab_size"], shape)
    labels = rng.integers(0, _NUM_CLASSES, shape[0]).astype(np.int32)
    return {"ids": ids, "mask": mask, "labels": labels}


def electra_tf(setting: Setting) -> Peer:
    """Makes our peer: the update of `run_finetuning`."""
    tf = tensorflow(setting.threads)
    import keras

    from electra_tf import configure_finetuning as configure
    from electra_tf.config.model import BertConfig
    from electra_tf.finetune.classification import classification_heads
    from electra_tf.finetune.finetuning_model import FinetuningModel
    from electra_tf.model.layers import POLICIES
    from electra_tf.model.modeling import BertModel
    from electra_tf.training import training_utils

    config = configure.FinetuningConfig(
        run=configure.RunConfig(data_dir="none", model_name="none"),
        task=configure.TaskConfig(task_names=("sst",)),
        optimizer=configure.OptimizerConfig(learning_rate=_LEARNING_RATE),
        training=configure.TrainingConfig(
            train_batch_size=setting.batch_size,
        ),
    )
    keras.utils.set_random_seed(0)
    encoder = BertModel(
        BertConfig(**setting.sizes), dtype=POLICIES[setting.precision]
    )
    encoder.build((None, None))
    head = classification_heads.ClassificationHead(
        "sst", _NUM_CLASSES, "hugging_face"
    ).build_for(encoder.config.hidden_size)
    model = FinetuningModel(
        config, encoder, [head], seed=0, num_train_steps=10_000
    )
    model.compile(optimizer=model.make_optimizer())
    block = training_utils.make_block(model, tf.distribute.get_strategy())
    arrays = batch(setting)
    rows = {
        "input_ids": arrays["ids"],
        "input_mask": arrays["mask"],
        "segment_ids": np.zeros_like(arrays["ids"]),
        "label_ids": arrays["labels"],
    }
    dataset = tf.data.Dataset.from_tensors({head.name: rows})
    batches = iter(dataset.repeat())

    def update(count: int) -> float:
        total, weight = block(batches, count)["sst_loss"][-1]
        return float(total / weight)

    return Peer(machine.versions("tensorflow", "keras"), update)


def torch(setting: Setting) -> Peer:
    """Makes a peer of Hugging Face's classifier in a plain PyTorch loop."""
    import torch
    import transformers

    torch.set_num_threads(setting.threads)
    torch.manual_seed(0)
    model = transformers.ElectraForSequenceClassification._from_config(
        transformers.ElectraConfig(**setting.sizes, num_labels=_NUM_CLASSES),
        attn_implementation="sdpa",
    )
    model.train()
    arrays = {k: torch.from_numpy(v).long() for k, v in batch(setting).items()}

    def loss_of() -> torch.Tensor:
        return model(
            input_ids=arrays["ids"],
            attention_mask=arrays["mask"],
            labels=arrays["labels"],
        ).loss

    return torch_peer(
        setting,
        [model],
        loss_of,
        learning_rate=_LEARNING_RATE,
        weight_decay=0.0,
    )
