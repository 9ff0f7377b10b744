import numpy as np
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.finetune import preprocessing
from electra_tf.finetune.keras_models import rows
from electra_tf.finetune.preprocessing import TextTokenizer


def test_rows_are_those_of_run_finetuning():
    tokenizer = TextTokenizer(tiny.VOCABULARY)
    words = np.array(tiny.WORDS)
    random = np.random.default_rng(0)
    sizes = random.integers(0, 14, (60, 2))
    first, second = (
        [" ".join(random.choice(words, n)) for n in column]
        for column in sizes.T
    )
    ids = [tokenizer.tokenize(texts) for texts in (first, second)]
    for length in (11, 12):
        found = rows.pack(
            *(tf.ragged.constant([list(x) for x in y], tf.int32) for y in ids),
            tiny.VOCABULARY,
            length,
        )
        for row, (one, two) in enumerate(zip(*ids, strict=True)):
            pair = preprocessing.truncate_pair(one, two, length - 3)
            expected = preprocessing.join(tiny.VOCABULARY, *pair)
            size = len(expected["input_ids"])
            mask = (np.arange(length) < size).tolist()
            assert found["input_mask"][row].numpy().tolist() == mask
            for name, values in expected.items():
                padded = np.pad(values, (0, length - size))
                np.testing.assert_array_equal(found[name][row], padded)
