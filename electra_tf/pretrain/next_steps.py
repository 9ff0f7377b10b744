"""The files that a run wrote, and what to do next, as it prints them."""

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.training import callbacks
from electra_tf.util import config_files

_AFTER_DEMO = """\
  Your own text:  python -m electra_tf.run_pretraining \\
                    --flagfile=configs/small.cfg \\
                    --corpus='/path/*.txt' --data_dir=DIR"""
_AFTER_OWN_TEXT = """\
  Score a text:   python -m electra_tf.score --model={run.model_dir} \\
                    --text=TEXT --show
  Fine-tune:      python -m electra_tf.run_finetuning \\
                    --data_dir={run.data_dir} --model_name={run.model_name} \\
                    --task_names=TASK  # then electra_tf.predict"""


def describe(
    config: PretrainingConfig, *, has_results: bool, is_demo: bool
) -> str:
    """Lists the files that a run wrote, and what to do next."""
    run = config.run
    made = {
        config_files.CONFIG_FILE: run.do_train,
        callbacks.METRICS_FILE: run.do_train,
        "results": has_results,
        "saved_model": run.do_export,
    }
    written = ",".join(name for name, is_there in made.items() if is_there)
    first = (_AFTER_DEMO if is_demo else _AFTER_OWN_TEXT).format(run=run)
    return f"""
Files written: {run.model_dir}/{{{written}}}
Next:
{first}
  Longer:         the same command with a larger --num_train_steps and another
                    --model_name
  Another format: python -m electra_tf.export_saved_model --help"""
