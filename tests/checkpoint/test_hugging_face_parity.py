"""Our networks compute the same as those of Hugging Face's transformers."""

import dataclasses
import unicodedata

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import reference_tokenizer  # noqa: E402
import tensorflow as tf  # noqa: E402
import tiny_networks  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

from electra_tf.checkpoint import hugging_face, loading  # noqa: E402
from electra_tf.model import tensor_ops  # noqa: E402
from electra_tf.model.networks import ElectraDiscriminator  # noqa: E402
from electra_tf.model.tokenization import (  # noqa: E402
    SPECIAL_TOKENS,
    Vocabulary,
)

pytestmark = pytest.mark.extras

SIZES = {
    "small": {"embedding_size": 8, "hidden_size": 16, "num_attention_heads": 2},
    "base": {"embedding_size": 24, "hidden_size": 24, "num_attention_heads": 3},
}
VOCAB_SIZE = 60
VOCABULARY = Vocabulary(
    (*SPECIAL_TOKENS, *map(str, range(VOCAB_SIZE - len(SPECIAL_TOKENS))))
)
KINDS = {
    "ElectraModel": "",
    "ElectraForPreTraining": "",
    "ElectraForMaskedLM": "",
    "ElectraForSequenceClassification": "sequence_classification",
    "ElectraForTokenClassification": "token_classification",
    "ElectraForQuestionAnswering": "question_answering",
}
LABELS = ("B-PER", "O", "ü")


def random_model(class_name, size):
    options = SIZES[size]
    if "Classification" in class_name:
        options = options | {
            "id2label": dict(enumerate(LABELS)),
            "label2id": {label: i for i, label in enumerate(LABELS)},
        }
    config = transformers.ElectraConfig(
        vocab_size=VOCAB_SIZE,
        num_hidden_layers=2,
        intermediate_size=40,
        max_position_embeddings=12,
        type_vocab_size=3,
        hidden_dropout_prob=0.25,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.03,
        **options,
    )
    model = getattr(transformers, class_name)(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, 0.2, generator=generator)
            if name.endswith("LayerNorm.weight"):
                parameter.add_(1.0)
    return model.eval()


def batch():
    random = np.random.default_rng(2)
    ids = random.integers(1, VOCAB_SIZE, [3, 12])
    mask = np.ones([3, 12], np.int64)
    for row, length in enumerate((12, 7, 3)):
        ids[row, length:] = mask[row, length:] = 0
    segments = (np.arange(12) >= 5) * mask
    return ids, mask, segments


def their_outputs(model):
    ids, mask, segments = map(torch.tensor, batch())
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=mask, token_type_ids=segments)
    names = ("last_hidden_state", "logits", "start_logits", "end_logits")
    return [out[name].numpy() for name in names if name in out]


def our_outputs(weights):
    """Runs our network, with the heads of transformers as formulas."""
    network, arrays = loading.make(weights), weights.arrays
    names = ("input_ids", "input_mask", "segment_ids")
    inputs = (tf.constant(x, tf.int32) for x in batch())
    outputs = network(dict(zip(names, inputs, strict=True)))
    others = {*arrays} ^ {variable.path for variable in network.weights}
    assert all(name.startswith("task_specific/task/") for name in others)
    x = outputs["sequence_output"]

    def dense(x, name):
        name = f"task_specific/task/{name}"
        return x @ arrays[f"{name}/kernel"] + arrays[f"{name}/bias"]

    modules = {name.split("/", 2)[-1].rpartition("/")[0] for name in others}
    if "classifier/dense" in modules:
        hidden = tensor_ops.gelu(dense(x[:, 0], "classifier/dense"))
        found = [dense(hidden, "classifier/out_proj")]
    elif "dense_1" in modules:
        found = [dense(x, name)[..., 0] for name in ("dense", "dense_1")]
    elif modules:
        found = [dense(x, "dense")]
    else:
        found = [outputs.get("logits", x)]
    return [np.asarray(output) for output in found]


def assert_same(ours, theirs):
    """Compares outputs at real tokens; those at padding may differ."""
    mask = batch()[1].astype(bool)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        if a.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        assert np.ptp(b) > 0.1
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("class_name", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_network_of_transformers_computes_the_same_here_and_is_kept_bit_exact(
    class_name, size, tmp_path
):
    model = random_model(class_name, size)
    model.save_pretrained(tmp_path / "old")
    weights = hugging_face.read(tmp_path / "old")
    is_labelled = "Classification" in class_name
    assert weights.labels == (LABELS if is_labelled else ())
    assert_same(our_outputs(weights), their_outputs(model))
    weights = dataclasses.replace(weights, vocabulary=VOCABULARY)
    hugging_face.write(tmp_path / "new", weights, kind=KINDS[class_name])
    old, new = (
        load_file(tmp_path / x / "model.safetensors") for x in ("old", "new")
    )
    assert old.keys() == new.keys()
    for name, array in old.items():
        assert array.dtype == new[name].dtype
        assert array.shape == new[name].shape
        assert array.tobytes() == new[name].tobytes(), name
    again, problems = getattr(transformers, class_name).from_pretrained(
        tmp_path / "new", output_loading_info=True
    )
    assert not any(problems.values()), problems
    ours, theirs = (
        transformers.AutoConfig.from_pretrained(tmp_path / x).to_dict()
        for x in ("new", "old")
    )
    others = {"transformers_version", "_name_or_path", "finetuning_task"}
    for name in ours.keys() - others:
        assert ours[name] == theirs[name], name
    for ours, theirs in zip(
        their_outputs(again.eval()), their_outputs(model), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


# Without the differences that `hugging_face` documents.
STRINGS = (
    """
Hello, world!|ALL CAPS and MiXeD|don't can't o'clock|naïve café résumé
Ünïcödé ÀÉÎÕÜ àéîõü|Ångström Ærøskøbing|ﬁne ﬂuﬀ ﬃ|ﬀ Straße STRAẞE
İstanbul ıI iİ|Dž ǅ ǆ|e\u0301 vs é|A\u030a\u0327\u0301|\u0301 alone
中文 and 漢字kanji中|日本語のテキスト|한국어 각 \u1100\u1161\u11a8|ﾊﾝｶｸ ＦＵＬＬ
tab\there|nul\x00l bell\x07 del\x7f|zero\u200bwidth\u200djoin|soft\xadhyphen
\ufeffbom|\ufffdreplaced\ufffd|nbsp\u00a0here|em\u2003space\u3000wide
line\u2028sep\u2029par|vt\x0bff\x0cfs\x1c|nel\x85x|ltr\u200ertl\u200f
$100 + 5% = x^2|a_b-c/d\\e|`tick` ~tilde~ |<html>&amp;</html>|“quotes” ‘x’…
¿qué? ¡sí!|« guillemets » —dash–|٣ arabic ١٢|मानक हिन्दी|ไทย ภาษา|עִבְרִית
Ελληνικά ΑΒΓ|Привет Ёлка ёлка Й|ქართული|ŁÓDŹ łódź|emoji 😀 👩‍👩‍👧|✊🏽|™ © ®
° µ Å Ω|𝐛𝐨𝐥𝐝 𝔘𝔫|㍿ ① ½ ²|ǰ ŉ ΐ|Ⅷ ⅷ Ⓐ|[ brackets ] [x]|# ## ##a|  spaces   |.|
x\u0345y|ﷺ|q\u0323\u0307|ẛ\u0323|\u1e9b|\U00020000\U0002a6df\uf900 cjk|𐐀𐐨
""".strip("\n")
    .replace("\n", "|")
    .split("|")
    + ["x" * 150, "y" * 200, "z" * 201, "é" * 120]
)


@pytest.mark.parametrize(
    ("lower", "strip"), [(True, True), (True, False), (False, False)]
)
def test_their_tokenizer_gives_our_ids(lower, strip, tmp_path):
    text = "".join(STRINGS)
    text += text.lower() + text.upper()
    text += unicodedata.normalize("NFD", text)
    # Both drop NUL, which a vocabulary must not hold.
    characters = sorted({c for c in text if c != "\0" and not c.isspace()})
    pieces = [p for c in characters for p in (c, f"##{c}")]
    tokens = (*SPECIAL_TOKENS[:3], "he", *SPECIAL_TOKENS[3:], "##llo", *pieces)
    vocabulary = Vocabulary(tokens)
    network = ElectraDiscriminator(
        dataclasses.replace(tiny_networks.CONFIG, vocab_size=vocabulary.size),
        vocabulary,
        do_lower_case=lower,
        strip_accents=strip,
    )
    hugging_face.write(tmp_path, loading.weights_of(network))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.model_max_length == 32
    assert theirs.mask_token_id == vocabulary.mask_id
    for text in STRINGS:
        ids = reference_tokenizer.tokenize(text, vocabulary, lower, strip)
        assert theirs(text, add_special_tokens=False)["input_ids"] == ids, text
    row = theirs("hello", "he")
    he = vocabulary.ids["he"], vocabulary.ids["##llo"]
    cls, sep = vocabulary.cls_id, vocabulary.sep_id
    assert row["input_ids"] == [cls, *he, sep, he[0], sep]
    assert row["token_type_ids"] == [0] * 4 + [1] * 2
    back = hugging_face.read(tmp_path)
    assert back.vocabulary == vocabulary
    assert (back.do_lower_case, back.strip_accents) == (lower, strip)
