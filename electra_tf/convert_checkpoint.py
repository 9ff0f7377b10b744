r"""Converts checkpoints between our format, the original's and Hugging Face's.

python -m electra_tf.convert_checkpoint --target_format=hf \
  --input=electra_small/electra_small --output=electra_small_hf

--input can be

  of tf1         an original checkpoint, pre-trained or fine-tuned: its path
                 without the file extension, or its directory;
  of electra_tf  one of our checkpoints, or <data_dir>/models/<model_name> for
                 the newest one of a run;
  of hf          a transformers ELECTRA directory with model.safetensors; two
                 such directories, separated by a comma, the discriminator's
                 first; or a directory of them, named discriminator and
                 generator.

The sizes of the networks are inferred from the shapes of the weights, each of
which must belong to one of them. Only the number of attention heads cannot be
inferred: it is hidden_size / 64 unless a file or a flag says otherwise.

Training can go on from the output: the step and Adam's slots are kept, or set
to 0 where the input has none (except in hf, which cannot store them). Only
arrays, JSON and text are read.
"""

from electra_tf.config.analysis import ConvertConfig
from electra_tf.util import console
from electra_tf.util.flags import run_command


def main(config: ConvertConfig) -> None:
    """Converts a checkpoint."""
    from electra_tf.checkpoint import convert, loading

    loaded = loading.read(
        config.input,
        vocab_file=config.vocab_file,
        num_attention_heads=config.num_attention_heads,
        generator_num_attention_heads=config.generator_num_attention_heads,
    )
    console.say(convert.describe(loaded))
    ready = convert.prepare(loaded, config)
    for path in convert.write(ready, config):
        console.say(f"Wrote {path}")


if __name__ == "__main__":
    run_command(main, ConvertConfig)
