"""Files of examples: which files are found, and which rows are sampled."""

import pytest
from analysis_configs import config

from electra_tf.analysis.examples import example_files
from electra_tf.util.errors import UserError


def _find(*paths, endings=()):
    return example_files.find(config(*paths), "test", endings)


def test_a_directory_stands_for_the_files_in_it_each_once(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("c.txt", "b/a.txt", ".hidden"):
        (tmp_path / name).touch()
    found = _find(tmp_path, tmp_path / "c.txt")
    names = [path.removeprefix(f"{tmp_path}/") for path in found]
    assert names == ["b/a.txt", "c.txt"]


def test_a_directory_gives_only_files_of_fitting_endings_if_any_fits(tmp_path):
    for name in ("a.src.gz", "b.ref0"):
        (tmp_path / name).touch()
    packed, reference = (str(tmp_path / x) for x in ("a.src.gz", "b.ref0"))
    assert _find(tmp_path, endings=[".src"]) == [packed]
    assert _find(tmp_path, endings=[".x"]) == [packed, reference]
    assert _find(reference, endings=[".src"]) == [reference]


def test_files_must_be_there(tmp_path):
    for path in (tmp_path, tmp_path / "none.txt"):
        with pytest.raises(UserError, match=f"{path}', which has none"):
            _find(path)
    with pytest.raises(UserError, match="`dev` must name .* Set --dev"):
        example_files.find(config(), "dev")


def test_max_examples_samples_each_file_by_seed_and_keeps_the_order():
    files = {"a": range(50), "b": range(50, 103)}

    def chosen(count, seed=0):
        given = config(max_examples=count, seed=seed)
        return example_files.read(given, files, files.get)

    samples = [chosen(5, seed) for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]
    for sample in samples:
        assert len(set(sample)) == 10 and sample == sorted(sample)
        assert sum(x < 50 for x in sample) == 5
    assert chosen(0) == chosen(60) == [*range(103)]
    with pytest.raises(UserError, match="a must hold examples. Received: none"):
        example_files.read(config(), ["a"], lambda _: [])
