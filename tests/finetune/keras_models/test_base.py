"""What all Keras models with a tokenizer share."""

import tiny_finetuning as tiny

import electra_tf


def test_a_seed_of_none_is_random_and_is_kept():
    models = [
        electra_tf.ElectraRegressor(tiny.ENCODER, tiny.VOCABULARY, seed=None)
        for _ in range(2)
    ]
    assert models[0].seed != models[1].seed
    assert models[0].get_config()["seed"] == models[0].seed
    texts = tiny.WORDS * 2
    orders = [
        [
            batch["input_ids"].numpy().tolist()
            for batch in models[0].dataset(texts, shuffle=shuffle)
        ]
        for shuffle in (False, True)
    ]
    assert orders[0] != orders[1]
