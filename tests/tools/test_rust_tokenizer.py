"""The comparison with the tokenizer in Rust: differing lines and causes."""

import importlib
import json
import pathlib

import pytest

from electra_tf.model.tokenization import SPECIAL_TOKENS
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.huggingface

TOOL = pathlib.Path(__file__).parents[2] / "tools/replication/rust_tokenizer.py"
WORDS = ["don", "'", "t", "say", "cafe", ".", "a", "##a", "α", "##ς", "##σ"]
ALIKE = ["Don't say Café.", "A  SAY\tCAFÉ", "don\u00adt say, twice – 中a"]
OTHER = {
    "special token": "say [MASK].",
    "long word": f"a {'a' * 101}",
    "character (Mn)": "say a\u08d4a",  # of Unicode 9
    "final sigma": "don ΑΣ",
}


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOL.parent)
        yield importlib.import_module(TOOL.stem)


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{x}\n" for x in [*SPECIAL_TOKENS, *WORDS]))
    return str(path)


def _run(tool, lines, vocab_file, capsys, *flags):
    corpus = pathlib.Path(vocab_file).with_name("text.txt")
    corpus.write_text("\n".join(lines))
    config = config_flags.parse(
        tool.ComparisonConfig,
        [f"--corpus={corpus}", f"--vocab_file={vocab_file}", *flags],
    )
    tool.main(config)
    return [json.loads(x) for x in capsys.readouterr().out.splitlines()]


def test_lines_alike_are_counted(tool, vocab_file, capsys):
    reports = _run(tool, ALIKE, vocab_file, capsys)
    assert [report["mode"] for report in reports] == list(tool.MODES)
    for report in reports:
        assert report["lines"] == 3
        assert report["differing_lines"] == 0
        assert report["causes"] == report["examples"] == {}
    assert reports[0]["tokens"] == 6 + 3 + 7


@pytest.mark.parametrize("cause", OTHER)
def test_lines_that_differ_are_told_with_the_cause(
    tool, vocab_file, capsys, cause
):
    lines = [*ALIKE, OTHER[cause], OTHER[cause]]
    (report,) = _run(tool, lines, vocab_file, capsys, "--modes=uncased")
    assert report["differing_lines"] == 2
    assert report["causes"] == {cause: 2}
    example = report["examples"][cause]
    assert example["text"] in OTHER[cause]
    assert example["here"] != example["there"]


def test_bad_modes_and_missing_files_are_refused(tool):
    with pytest.raises(UserError, match="uncased, .* Received: lower"):
        tool.ComparisonConfig(
            corpus=tool.CorpusConfig(corpus=("a",), vocab_file="v"),
            modes=("lower",),
        )
    with pytest.raises(UserError, match="`vocab_file` must be given"):
        tool.ComparisonConfig()
