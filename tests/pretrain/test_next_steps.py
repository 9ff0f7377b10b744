"""A run ends with what fits its text and the files that it wrote."""

import pytest
import tiny

from electra_tf.pretrain import next_steps

CONFIG = tiny.config()


def test_results_are_named_only_if_there_are_any():
    for has_results in (False, True):
        text = next_steps.describe(
            CONFIG, has_results=has_results, is_demo=False
        )
        assert (",results," in text) is has_results


@pytest.mark.parametrize("is_demo", [False, True])
def test_ones_own_text_is_proposed_only_after_the_demo(is_demo):
    text = next_steps.describe(CONFIG, has_results=True, is_demo=is_demo)
    assert ("configs/small.cfg" in text) is is_demo
    assert (f"score --model={CONFIG.run.model_dir} " in text) is not is_demo
    assert (f"--data_dir={CONFIG.run.data_dir} --mo" in text) is not is_demo
