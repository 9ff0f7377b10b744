"""Examples of how to call SavedModels, for their model cards."""

from collections.abc import Mapping

from electra_tf.serving.saved_models import Signatures

_TEXTS = {
    "text": "the chef ate the meal",
    "text_b": "the meal was eaten",
    "question": "who ate the meal?",
    "context": "In the end the chef ate the meal.",
}
_MASKED = {"text": "the chef [MASK] the meal"}
_IDS = (
    "ids = tf.constant([[1, 2, 3]])  # of the vocabulary\n"
    "ones, zeros = tf.ones_like(ids), tf.zeros_like(ids)"
)
_ID_ARGUMENTS = "input_ids=ids, input_mask=ones, segment_ids=zeros"
_CARD = """\
In TensorFlow, from this directory:

```python
import tensorflow as tf
import tensorflow_text  # the operations that read text

{texts}
```

Of ids, without tensorflow_text:

```python
import tensorflow as tf

{ids}
```

`saved_model_cli show --all --dir=DIR` lists inputs and outputs of each.
"""


_WEIGHTS = {
    "float32": "",
    "bfloat16": "Weights and products are of bfloat16, for machines that have "
    "instructions for it.\n\n",
    "int8": "Weights are stored in int8, with a float32 scale for each output; "
    "products are of float32.\n\n",
}


def usage(models: Mapping[str, Signatures], precision: str = "float32") -> str:
    """Returns an example of each signature."""
    texts, ids = [], [_IDS]
    for directory, signatures in models.items():
        place = f"{directory}/" if directory else ""
        examples = _MASKED if directory == "generator" else _TEXTS
        arguments = ", ".join(
            f'{name}=tf.constant(["{examples[name]}"])'
            for name in signatures.text_names
        )
        texts += _calls(f"{place}text/1", signatures.of_text, arguments)
        if signatures.of_ids:
            ids += _calls(f"{place}ids/1", signatures.of_ids, _ID_ARGUMENTS)
    card = _CARD.format(texts="\n".join(texts), ids="\n".join(ids))
    return _WEIGHTS[precision] + card


def _calls(path: str, names: Mapping, arguments: str) -> list[str]:
    load = f'model = tf.saved_model.load("{path}")'
    calls = (f'model.signatures["{name}"]({arguments})' for name in names)
    return [load, *calls]
