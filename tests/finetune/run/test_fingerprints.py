import dataclasses

import numpy as np
import tiny_finetuning as tiny

from electra_tf.finetune.examples import InputExample
from electra_tf.finetune.run import fingerprints


def _changed(weights, name="electra/embeddings/word_embeddings"):
    arrays = {key: array.copy() for key, array in weights.arrays.items()}
    arrays[name].flat[-1] = np.nextafter(arrays[name].flat[-1], np.inf)
    return dataclasses.replace(weights, arrays=arrays)


def test_an_encoders_fingerprint_is_of_its_weights_and_tokenizer():
    weights = tiny.weights()
    digest = fingerprints.of_encoder(weights)
    steps = {"global_step": np.array(7)}
    same = [
        tiny.weights(),
        dataclasses.replace(weights, origin="elsewhere"),
        dataclasses.replace(weights, arrays=weights.arrays | steps),
    ]
    assert {fingerprints.of_encoder(each) for each in same} == {digest}
    words = tiny.VOCABULARY.tokens
    vocabulary = dataclasses.replace(
        tiny.VOCABULARY, tokens=(*words[:-1], "##z")
    )
    others = [
        _changed(weights),
        dataclasses.replace(weights, vocabulary=vocabulary),
        dataclasses.replace(weights, do_lower_case=False),
    ]
    digests = {fingerprints.of_encoder(each) for each in others}
    assert len(digests | {digest}) == 4


def test_a_fingerprint_of_examples_is_of_all_fields_in_order():
    first, second = InputExample(0, "a", None, "1"), InputExample(1, "b")
    splits = [[first, second], [second, first], [first]]
    changes = {"text_a": "c", "text_b": "c", "label": "0"}
    for name, value in changes.items():
        splits.append([dataclasses.replace(first, **{name: value}), second])
    digests = {fingerprints.of_examples(examples) for examples in splits}
    assert len(digests) == len(splits)
