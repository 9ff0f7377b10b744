"""The log of a build: its progress, and what became of the text."""

import dataclasses

import pytest
import tiny_corpus
from tiny_corpus import (
    DOCUMENTS,
    VOCABULARY,
    WORDS,
    logged_document_counts,
    stop_after,
)

from electra_tf.data import build_log, dataset_builder, shards
from electra_tf.data.corpus import expand
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary


def build(config, directory, vocabulary=VOCABULARY):
    """Builds a data set; returns the lines of its log."""
    output = []
    tiny_corpus.build(config, directory, vocabulary, log=output.append)
    return output


def test_progress_is_logged_periodically(
    config, tmp_path, monkeypatch, small_shards
):
    monkeypatch.setattr(build_log.console, "SECONDS_BETWEEN_LOGS", 0)
    output = build(config, tmp_path)
    numbers = logged_document_counts(output)
    assert numbers == sorted(numbers) and numbers[-1] == len(DOCUMENTS)
    written = [line for line in output if line.startswith("Writing: ")]
    number = written[-1].split()[1]
    assert written[-1] == f"Writing: {number} of {number} records"


def test_a_resumed_build_logs_the_bytes_read_before_and_now(
    config, tmp_path, monkeypatch, small_shards
):
    with monkeypatch.context() as patch:
        patch.setattr(shards, "build", stop_after(shards.build, 1))
        with pytest.raises(KeyboardInterrupt):
            build(config, tmp_path)
    plan = shards.plan(expand(config.corpus), config, VOCABULARY, str(tmp_path))
    before, total = plan[0].num_text_bytes, sum(s.num_text_bytes for s in plan)
    assert 0 < before < total
    monkeypatch.setattr(
        build_log.console, "format_speed", lambda n, _: f"{n} bytes"
    )
    assert (
        f"Built from {total / 1e6:.1f} MB: {before / 1e6:.1f} MB by an earlier "
        f"build that was stopped, and now {total - before} bytes:"
    ) in build(config, tmp_path)


def test_a_build_with_all_shards_done_logs_that_it_read_nothing(
    config, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(dataset_builder, "merge", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build(config, tmp_path)
    monkeypatch.setattr(
        build_log.console, "format_speed", lambda n, _: f"{n} bytes"
    )
    assert any("and now 0 bytes:" in line for line in build(config, tmp_path))


@pytest.mark.parametrize(("fraction", "is_met"), [(0.001, False), (0.3, True)])
def test_a_held_out_share_far_from_its_target_gives_a_warning(
    config, tmp_path, capsys, fraction, is_met
):
    build(dataclasses.replace(config, held_out_fraction=fraction), tmp_path)
    output = capsys.readouterr().err
    text = f"records are held out where held_out_fraction={fraction} asks"
    assert (text not in output) == is_met


@pytest.mark.parametrize("num_missing", [0, 6, 60])
def test_the_share_of_unknown_tokens_is_logged_and_a_large_one_warned_of(
    config, tmp_path, capsys, num_missing
):
    known = WORDS[num_missing:]
    text = "\n".join(
        build(
            dataclasses.replace(config, held_out_fraction=0.0),
            tmp_path,
            Vocabulary((*SPECIAL_TOKENS, *known)),
        )
    )
    lines = " ".join(line for document in DOCUMENTS for line in document)
    words = lines.lower().split()
    share = sum(word not in known for word in words) / len(words)
    logged = f"[UNK]: {share:.3%} of the training tokens"
    assert (logged in text) == ("[UNK]" in text) == (num_missing > 0)
    warning = f"{share:.1%} of the training tokens are [UNK]. Is the vocab"
    assert (warning in capsys.readouterr().err) == (num_missing == 60)


@pytest.mark.parametrize("fraction", [0.0, 0.3])
def test_pieces_of_long_documents_in_both_splits_are_logged(
    config, tmp_path, monkeypatch, fraction
):
    config = dataclasses.replace(
        config, held_out_fraction=fraction, blanks_separate_docs=False
    )
    monkeypatch.setattr(shards.corpus, "MAX_DOCUMENT_CHARACTERS", 500)
    text = "\n".join(build(config, tmp_path))
    assert "times, in documents that are too long" in text
    assert ("held out while the others are trained on" in text) == (
        fraction > 0
    )


def test_the_time_that_is_left_is_that_of_the_text_that_is_left(monkeypatch):
    clock, lines = [0.0], []
    monkeypatch.setattr(build_log.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(build_log.console, "SECONDS_BETWEEN_LOGS", 0)
    progress = build_log.ProgressLog(lines.append)
    before = build_log.Statistics(text_bytes=60_000_000)
    progress.begin_text(before, 100_000_000, is_search=False)
    clock[0] = 100.0
    progress.log_text(1, 10_000_000)
    assert lines[0].endswith("60.0 MB by an earlier build, about 5 min left")
