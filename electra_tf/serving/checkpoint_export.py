"""The networks of any checkpoint as SavedModels: ours, the original's, others.

    <directory>/discriminator/{text,ids}/1
    <directory>/generator/{text,ids}/1
    <directory>/correction/text/1    of both
    <directory>/encoder/{text,ids}/1 of an encoder without a head

They answer like those of `pretrain/export.py`, but without what only a run
knows, for example that its discriminator computes energies.
"""

from electra_tf.checkpoint import calibration, loading, model_card
from electra_tf.checkpoint.weights import select
from electra_tf.model.layers import POLICIES
from electra_tf.serving import correction, endpoints, saved_models
from electra_tf.serving.correction import Correction
from electra_tf.serving.endpoints import Detector, MaskFiller
from electra_tf.serving.saved_models import Network
from electra_tf.serving.usage import usage
from electra_tf.util import storage
from electra_tf.util.errors import UserError

Networks = dict[str, Detector | MaskFiller | Network]


def export(
    path: str,
    directory: storage.Path,
    *,
    vocab_file: str = "",
    threshold: float,
    precision: str = "float32",
) -> list[storage.Path]:
    """Writes the networks of a checkpoint as SavedModels, and a model card."""
    products = precision if precision == "bfloat16" else "float32"
    described, step = describe(path, vocab_file=vocab_file, precision=products)
    return export_networks(
        described,
        directory,
        facts=model_card.NO_FACTS,
        step=step,
        threshold=threshold,
        precision=precision,
    )


def export_networks(
    described: Networks,
    directory: storage.Path,
    *,
    facts: model_card.Facts,
    step: int,
    threshold: float | None,
    precision: str,
) -> list[storage.Path]:
    """Writes networks as SavedModels, and a model card."""
    single = each_alone(described)
    signatures = {name: x.signatures for name, x in single.items()}
    detector, filler = map(described.get, ("discriminator", "generator"))
    is_both = isinstance(detector, Detector) and isinstance(filler, MaskFiller)
    if threshold is not None and is_both:
        signatures[correction.NAME] = Correction(
            detector=detector, filler=filler, threshold=threshold
        ).signatures
    written = [
        place
        for name, served in signatures.items()
        for place in saved_models.export(
            served, directory / name, precision=precision
        )
    ]
    parts = {
        name: model_card.Part(network.encoder.config, network.num_weights)
        for name, network in single.items()
    }
    model_card.write(
        directory,
        parts,
        facts,
        "saved_model",
        step=step,
        usage=usage(signatures, precision),
    )
    return written


def each_alone(described: Networks) -> dict[str, Network]:
    """Returns the networks by name, to export each alone."""
    return {
        name: part if isinstance(part, Network) else part.network
        for name, part in described.items()
    }


def describe(
    path: str, *, vocab_file: str = "", precision: str = "float32"
) -> tuple[Networks, int]:
    """Describes the networks of a checkpoint, and returns its step."""
    weights = loading.read_with_vocabulary(path, vocab_file)
    if "corrector" in weights.networks:
        raise UserError(
            "A checkpoint must hold a discriminator, a generator or an "
            f"encoder. Received: {weights.origin}, with a corrector. Name its "
            "run with --data_dir and --model_name."
        )
    temperature = temperature_of(weights.origin, weights.step)
    described = {}
    for name in weights.networks:
        part = select(weights, name)
        longest = part.architecture.encoder.max_position_embeddings
        length = loading.row_length(0, weights.max_seq_length, longest)
        made = loading.make(part, POLICIES[precision], max_seq_length=length)
        found = endpoints.describe(made, temperature)
        described["encoder" if isinstance(found, Network) else name] = found
    return described, weights.step


def temperature_of(path: str, step: int) -> float:
    """Returns the temperature of `calibration.read_for_checkpoint`, else 1."""
    found = calibration.read_for_checkpoint(path, step)
    return found.temperature if found else 1.0
