"""Invalid labels and weights that are not finite are refused by name."""

import json

import numpy as np
import pytest
import tiny_networks

from electra_tf.checkpoint import bundles, checkpoint_formats
from electra_tf.util.errors import NonFiniteLossError, UserError


@pytest.mark.parametrize("labels", [None, 3, [1]])
def test_labels_that_are_no_texts_are_refused(tmp_path, labels):
    tiny_networks.save(tiny_networks.discriminator(), tmp_path)
    path = tmp_path / "architecture.json"
    stored = json.loads(path.read_text()) | {"labels": labels}
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError, match=r"architecture\.json must have the"):
        checkpoint_formats.read(str(tmp_path))


@pytest.mark.promise(
    "A checkpoint with an infinity or no number in it: fine-tuning, conversion "
    "and every other command that reads it name the variable and end with "
    "exit code 4"
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(tmp_path, bad):
    tiny_networks.save(tiny_networks.discriminator(), tmp_path)
    prefix = bundles.find(tmp_path)
    arrays = bundles.read(prefix)
    name = "electra/encoder/layer_0/output/dense/bias"
    arrays[name][3] = bad
    bundles.write(prefix, arrays)
    message = rf"model\.ckpt-0 must hold finite .* in {name}\. Name an older"
    with pytest.raises(NonFiniteLossError, match=message):
        checkpoint_formats.read(str(tmp_path))
