"""The score of exports in lower precision, against its formula."""

import json

import export_quality
import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.finetune.predictor import Predictor

TAGS = ("B-X", "O", "B-X", "I-X", "O")


def _spans(tags):
    """Returns (start, end) of each span of BIO tags."""
    found, start = set(), None
    for i, tag in enumerate([*tags, "O"]):
        if start is not None and not tag.startswith("I"):
            found.add((start, i))
            start = None
        if tag.startswith("B") or (tag.startswith("I") and start is None):
            start = i
    return found


@pytest.mark.slow
def test_score_of_a_tagger_is_the_f1_of_its_spans(
    tmp_path, capsys, products_in_bfloat16
):
    labels = ["B-X", "I-X", "O"]
    model = tiny.write_trained(tmp_path / "model", "chunk", labels=labels)
    random = np.random.default_rng(0)
    sentences = [list(random.choice(tiny.WORDS, 5)) for _ in range(40)]
    text = "\n\n".join(
        "\n".join(
            f"{word} NN {tag}" for word, tag in zip(words, TAGS, strict=True)
        )
        for words in sentences
    )
    (tmp_path / "test.txt").write_text(text)
    config = export_quality.QualityConfig(
        model=model, test_file=f"{tmp_path}/test.txt"
    )
    export_quality.main(config)
    report = json.loads(capsys.readouterr().out)

    answers = [x["prediction"] for x in Predictor(model)(sentences)]
    found = [{(i, *x) for x in _spans(y)} for i, y in enumerate(answers)]
    golden = [{(i, *x) for x in _spans(TAGS)} for i in range(40)]
    hits = sum(len(x & y) for x, y in zip(found, golden, strict=True))
    count = sum(map(len, found)) + sum(map(len, golden))
    assert report["metric"] == "f1" and report["count"] == 200
    assert hits and report["float32"]["score"] == pytest.approx(
        100 * 2 * hits / count
    )
    assert report["float32"]["agreement"] == 1
    for precision in ("bfloat16", "int8"):
        assert 0.8 < report[precision]["agreement"] <= 1
