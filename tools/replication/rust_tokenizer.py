r"""Compares token ids with Hugging Face's Rust tokenizer; prints JSON lines.

    python tools/replication/rust_tokenizer.py --corpus="books/*.txt" \
        --vocab_file=vocab.txt --modes=uncased,uncased_accents

Every line of a corpus is tokenized as in the data pipeline ("here"), and by
`BertWordPieceTokenizer` of the package `tokenizers` ("there"). For each mode
one line is printed: the number of lines of text, how many get different ids,
and why:

  special token: a word contains the name of one, which is not text there.
  long word: words of more than 100 characters are [UNK] there; here, as in the
    original, those of more than 200.
  character (Mn), and so on: a character of this Unicode category is treated
    differently, as the Unicode versions differ.
  final sigma: at the end of a word in capitals; here, as in the original, it is
    lower-cased to the final form of the letter.
  context: none of these.

One example of each is given. Needs the extra [bench].
"""

import collections
import dataclasses
import itertools
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tokenizers

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus
from electra_tf.data.sources import expand
from electra_tf.model import graph_tokenization
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary
from electra_tf.util import config_flags
from electra_tf.util.errors import UserError

_BATCH_LINES = 4096
_RUST_MAX_CHARACTERS = 100

Tokenize = Callable[[list[str]], list[list[int]]]


class Mode(NamedTuple):
    """Normalization of text before it is split.

    Attributes:
      do_lower_case: whether to lower-case.
      strip_accents: whether to drop accents.
    """

    do_lower_case: bool
    strip_accents: bool


MODES: Mapping[str, Mode] = {
    "uncased": Mode(True, True),
    "uncased_accents": Mode(True, False),
    "cased": Mode(False, False),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonConfig:
    """What to compare."""

    corpus: CorpusConfig = CorpusConfig()

    modes: tuple[str, ...] = tuple(MODES)
    """Modes to compare: uncased, uncased_accents (keeps accents), cased."""

    def __post_init__(self) -> None:
        if not self.corpus.corpus or not self.corpus.vocab_file:
            raise UserError(
                "`corpus` and `vocab_file` must be given. Received: "
                f"corpus={','.join(self.corpus.corpus)!r}, "
                f"vocab_file={self.corpus.vocab_file!r}."
            )
        if unknown := set(self.modes) - set(MODES):
            raise UserError(
                f"`modes` must be of {', '.join(MODES)}. Received: "
                f"{', '.join(sorted(unknown))}."
            )


def main(config: ComparisonConfig) -> None:
    """Compares in each mode, and prints the results."""
    for name in config.modes:
        comparison = Comparison(config.corpus.vocab_file, MODES[name])
        report = {
            "comparison": "rust_tokenizer",
            "tokenizers": tokenizers.__version__,
            "mode": name,
            **comparison.run(_lines(config.corpus)),
        }
        print(json.dumps(report, ensure_ascii=False), flush=True)


class Comparison:
    """Tokenizes lines with both tokenizers, and explains the differences.

    Args:
      vocab_file: of word pieces.
      mode: normalization, the same for both.
    """

    def __init__(self, vocab_file: str, mode: Mode) -> None:
        self._vocabulary = Vocabulary.from_file(vocab_file)
        self._tokenize_ours = _make_our_tokenizer(self._vocabulary, mode)
        self._tokenize_rust = _make_rust_tokenizer(vocab_file, mode)

    def run(self, lines: Iterable[str]) -> dict[str, Any]:
        """Compares lines.

        Args:
          lines: of text.

        Returns:
          The numbers of lines, of tokens and of lines that differ; for each
          cause the number of lines, and an example with its tokens here and
          there.
        """
        numbers = collections.Counter(lines=0, tokens=0, differing_lines=0)
        causes: collections.Counter[str] = collections.Counter()
        examples: dict[str, dict] = {}
        for batch in _batches(lines):
            our_ids = self._tokenize_ours(batch)
            numbers["lines"] += len(batch)
            numbers["tokens"] += sum(map(len, our_ids))
            for line in self._differing(batch, our_ids):
                found = self._causes(line)
                numbers["differing_lines"] += 1
                causes.update(found.keys())
                for cause in found.keys() - examples.keys():
                    examples[cause] = self._example(found[cause])
        return {
            **numbers,
            "causes": dict(causes.most_common()),
            "examples": examples,
        }

    def _differing(
        self, texts: list[str], our_ids: list[list[int]] | None = None
    ) -> list[str]:
        """Returns the texts that get different ids there."""
        ids_of_texts = zip(
            texts,
            our_ids or self._tokenize_ours(texts),
            self._tokenize_rust(texts),
            strict=True,
        )
        return [text for text, ours, theirs in ids_of_texts if ours != theirs]

    def _causes(self, line: str) -> dict[str, str]:
        """Returns why a line differs: cause -> a word, or the line."""
        words = self._differing(line.split())
        return {
            cause: word
            for word in words
            for cause in self._causes_of_word(word)
        } or {"context": line}

    def _causes_of_word(self, word: str) -> list[str]:
        if any(token.lower() in word.lower() for token in SPECIAL_TOKENS):
            return ["special token"]
        if len(word) > _RUST_MAX_CHARACTERS:
            return ["long word"]
        characters = sorted(set(word))
        inside = [f"a{character}b" for character in characters]
        differing = set(self._differing(characters + inside))
        return [
            f"character ({unicodedata.category(character)})"
            for character, text in zip(characters, inside, strict=True)
            if {character, text} & differing
        ] or ["final sigma" if "Σ" in word else "context"]

    def _example(self, text: str) -> dict[str, Any]:
        tokens = self._vocabulary.tokens
        return {
            "text": text,
            "here": [tokens[i] for i in self._tokenize_ours([text])[0]],
            "there": [tokens[i] for i in self._tokenize_rust([text])[0]],
        }


def _make_our_tokenizer(vocabulary: Vocabulary, mode: Mode) -> Tokenize:
    tokenizer = graph_tokenization.make_tokenizer(vocabulary, *mode)
    graph = tf.function(
        tokenizer.tokenize,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    return lambda texts: graph(tf.constant(texts, tf.string)).to_list()


def _make_rust_tokenizer(vocab_file: str, mode: Mode) -> Tokenize:
    tokenizer = tokenizers.BertWordPieceTokenizer(
        vocab_file,
        lowercase=mode.do_lower_case,
        strip_accents=mode.strip_accents,
    )
    return lambda texts: [
        row.ids
        for row in tokenizer.encode_batch(texts, add_special_tokens=False)
    ]


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    lines = iter(lines)
    while batch := list(itertools.islice(lines, _BATCH_LINES)):
        yield batch


def _lines(config: CorpusConfig) -> Iterator[str]:
    documents = corpus.read_documents(
        expand(config.corpus, tfds_data_dir=config.tfds_data_dir),
        config,
        statistics=corpus.Statistics(),
    )
    return itertools.chain.from_iterable(documents)


if __name__ == "__main__":
    config_flags.run(main, ComparisonConfig)
