"""Labels beside a checkpoint are texts, or refused by name."""

import json

import pytest
import tiny_networks

from electra_tf.checkpoint import checkpoint_formats
from electra_tf.util.errors import UserError


@pytest.mark.parametrize("labels", [None, 3, [1]])
def test_labels_that_are_no_texts_are_refused(tmp_path, labels):
    tiny_networks.save(tiny_networks.discriminator(), tmp_path)
    path = tmp_path / "architecture.json"
    stored = json.loads(path.read_text()) | {"labels": labels}
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError, match=r"architecture\.json must be as"):
        checkpoint_formats.read(str(tmp_path))
