"""Configuration of a corpus, and of its data set for each row length."""

import pytest

from electra_tf.config.corpus import CorpusConfig
from electra_tf.util.errors import UserError


def test_each_row_length_has_one_data_set_in_its_own_directory():
    config = CorpusConfig(
        max_seq_length=512,
        seq_length_phases="128:0.5,64:0.2,128:0.2,512:0.1",
        length_buckets=(32, 64, 256),
    )
    data_sets = config.data_sets
    assert [d.max_seq_length for d in data_sets] == [64, 128, 512]
    assert [d.row_lengths for d in data_sets] == [
        (32, 64),
        (32, 64, 128),
        (32, 64, 256, 512),
    ]
    assert [d.seq_length_phases for d in data_sets] == [""] * 3
    directories = [config.directory_of(d, "a/b/") for d in data_sets]
    assert directories == ["a/b_64", "a/b_128", "a/b/"]
    assert CorpusConfig().data_sets == (CorpusConfig(),)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seq_length_phases": "64:0.5,512:0.5"}, "--max_seq_length=512"),
        ({"seq_length_phases": "32:0.5,64:0.5"}, "--max_seq_length=64"),
        ({"seq_length_phases": "4:0.5,128:0.5"}, "none below 5"),
        ({"length_buckets": (64, 32)}, "ascending"),
        ({"length_buckets": (32, 32)}, "ascending"),
        ({"length_buckets": (4, 32)}, "from 5"),
        ({"length_buckets": (32, 129)}, "max_seq_length=128"),
        ({"max_seq_length": 4}, "`max_seq_length` must be at least 5"),
        ({"vocab_size": 5}, "`vocab_size` must be at least 6"),
        ({"held_out_fraction": 1.0}, r"`held_out_fraction` .*\[0, 1\)"),
        ({"num_shards": -1}, "`num_shards` must be at least 0"),
        ({"packing": "tight"}, "`packing`.*carry.*original.*packed"),
        ({"vocab_file": "spm.model"}, "tokenizer='wordpiece'"),
        ({"sentencepiece_model_type": "bpe"}, "Set --tokenizer=sentencepiece"),
        (
            {"vocab_file": "vocab.txt", "tokenizer": "sentencepiece"},
            "must end in .model",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(values, message):
    with pytest.raises(UserError, match=message):
        CorpusConfig(**values)


def test_the_default_vocabulary_is_named_by_its_tokenizer():
    assert CorpusConfig().default_vocab_name == "vocab.txt"
    config = CorpusConfig(tokenizer="sentencepiece")
    assert config.default_vocab_name == "spm.model"
