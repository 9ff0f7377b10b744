r"""Converts weights from and to the original's checkpoints and Hugging Face's.

python -m electra_tf.convert_checkpoint --source_format=tf1 --target_format=hf \
  --input=electra_small/electra_small --output=electra_small_hf

--input can be

  of tf1         an original checkpoint, pre-trained or fine-tuned: its path
                 without the ending, or its directory;
  of electra_tf  one of ours, or <data_dir>/models/<model_name> for its newest;
  of hf          a directory of transformers' ELECTRA with model.safetensors;
                 two with a comma between, the discriminator's first; or a
                 directory of both.

The sizes of the networks are told from the shapes of the weights, each of
which must have its place. Only the number of attention heads cannot be told:
it is one for every 64 of the width unless a file or a flag says otherwise.

The output continues where the input is: its step and Adam's slots are kept, or
made 0 where there are none (not in hf, which has no place for them). Nothing
but arrays, JSON and text is read.
"""

from electra_tf.config.conversion import ConvertConfig
from electra_tf.util import config_flags, console, signals, storage


@signals.interruptible()
def main(config: ConvertConfig) -> None:
    """Converts a checkpoint."""
    with console.quiet_imports():
        from electra_tf.checkpoint import checkpoint_formats, conversion
        from electra_tf.pretrain import run_facts

    loaded = checkpoint_formats.read(
        config.input,
        config.source_format,
        vocab_file=config.vocab_file,
        num_attention_heads=config.num_attention_heads,
        generator_num_attention_heads=config.generator_num_attention_heads,
    )
    console.say(conversion.describe(loaded))
    ready = conversion.prepare(loaded, config)
    model_dir = storage.as_path(loaded.origin).parent
    facts = run_facts.of_directory(model_dir, ready.step)
    paths = conversion.write(ready, config, facts)
    for path in paths:
        console.say(f"Wrote {path}")
    console.say(conversion.next_steps(ready, config))


if __name__ == "__main__":
    config_flags.run(main, ConvertConfig)
