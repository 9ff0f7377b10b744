"""Loading the networks of a checkpoint for an analysis."""

import numpy as np
import pytest
import tiny
import tiny_networks
import tiny_scoring

from electra_tf.analysis import loaded_networks
from electra_tf.analysis.loaded_networks import LoadOptions
from electra_tf.config.analysis import AnalysisConfig


def test_the_networks_of_a_run_read_rows_as_in_its_training(tmp_path):
    _, path = tiny_scoring.write_run(tmp_path)
    config = AnalysisConfig(what="prompts", model=str(path), test=("t",))
    found = loaded_networks.by_kind(str(path), config)
    assert list(found) == ["discriminator", "mlm"]
    main = loaded_networks.load(str(path), config)
    assert loaded_networks.kind_of(main) == "discriminator"
    lengths = [x.reader.max_seq_length for x in (main, *found.values())]
    assert lengths == [16, 16, 16]


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective", [{"objective": "replace_mlm"}, tiny.VARIANTS["coco_lm"]]
)
def test_a_corrector_gives_no_score(tmp_path, objective):
    model, path = tiny_scoring.write_run(tmp_path, **objective)
    found = loaded_networks.by_kind(str(path), LoadOptions())
    assert "corrector_predictions" in {
        x.path.partition("/")[0] for x in model.weights
    }
    generator = model.generator.blocks[0].attention.query.kernel
    np.testing.assert_array_equal(
        found["mlm"].encoder.blocks[0].attention.query.kernel, generator
    )


def test_a_vocabulary_of_its_own_can_precede_the_one_given(tmp_path):
    path = tiny_networks.save(
        tiny_networks.generator(tiny_networks.PERMUTED), tmp_path / "twin"
    )
    given = tmp_path / "vocab.txt"
    given.write_bytes(tiny_networks.VOCABULARY.content)
    options = LoadOptions(vocab_file=str(given))

    def read(**choice):
        network = loaded_networks.load(path, options, **choice)
        return network.reader.vocabulary

    assert read() == tiny_networks.VOCABULARY
    assert read(prefers_own_vocabulary=True) == tiny_networks.PERMUTED
    (tmp_path / "twin" / "vocab.txt").unlink()
    assert read(prefers_own_vocabulary=True) == tiny_networks.VOCABULARY
