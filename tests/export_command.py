"""The command `export_saved_model`, run in this process."""

from electra_tf import export_saved_model
from electra_tf.util.flags import parse_flags


def run(*flags):
    """Exports what the flags of a command line ask for."""
    config = export_saved_model.ExportConfig
    export_saved_model.main(parse_flags(config, flags))
