"""The table of packings says what is dropped and what is padding."""

import importlib
import pathlib
import random

import pytest

from electra_tf.model.tokenization import SPECIAL_TOKENS

TOOL = pathlib.Path(__file__).parents[2] / "tools/replication/packing_table.py"
WORDS = [f"w{i}" for i in range(50)]


def test_each_length_and_packing_has_a_row(tmp_path, monkeypatch, capsys):
    rng = random.Random(0)
    documents = [
        "\n".join(
            " ".join(rng.choices(WORDS, k=rng.randint(1, 30)))
            for _ in range(rng.randint(1, 5))
        )
        for _ in range(60)
    ]
    text = "\n\n".join(documents)
    (tmp_path / "corpus.txt").write_text(text)
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("".join(f"{x}\n" for x in (*SPECIAL_TOKENS, *WORDS)))
    arguments = f"--corpus={tmp_path}/corpus.txt --vocab_file={vocab_file}"
    arguments = f"{TOOL} {arguments} --lengths=16,64"
    monkeypatch.setattr("sys.argv", arguments.split())
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOL.parent)
        importlib.import_module(TOOL.stem).main()
    head, _, *rows = capsys.readouterr().out.splitlines()
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    found = {}
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        values = dict(zip(columns, cells, strict=True))
        found[values["tokens in a row"], values["packing"]] = values
        assert values["tokens read"] == f"{len(text.split()):,}"
    assert len(found) == 6
    for length in ("16", "64"):
        original, carry, packed = (
            found[length, name] for name in ("original", "carry", "packed")
        )
        assert original["dropped"] != "0.00%"
        assert carry["kept"] == packed["kept"] == "100.00%"
        assert carry["documents in a record"] == "1.00"
        assert float(packed["documents in a record"]) > 1
        assert float(packed["padding"].rstrip("%")) < 5
        assert float(carry["padding"].rstrip("%")) > 5
