"""Four logical CPU devices for every test, made before TensorFlow starts."""

import gc
import os
import signal

import pytest
from etils.epath import backend, gpath, register

from electra_tf.util import console

console.keep_memory()
# ram:// of TensorFlow stands in for gs:// and the like in `epath`.
gpath._URI_PREFIXES += ("ram://",)
gpath._URI_SCHEMES |= {"ram"}
gpath._URI_MAP_ROOT["ram://"] = "/ram/"
gpath._PREFIX_TO_BACKEND["ram"] = backend.tf_backend
register.register_path_cls("ram://")(gpath.PosixGPath)
gc.set_threshold(50_000)  # as commands do
# Tests of signals also run where they are ignored, as under nohup.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf  # noqa: E402 (after the variables it reads)

from electra_tf.util import distribution  # noqa: E402

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 4,
)
tf.random.set_seed(0)  # the order of `Dataset.shuffle` depends on it, too
gc.collect()
gc.freeze()  # later collections do not search TensorFlow's own objects


@pytest.fixture
def products_in_bfloat16(monkeypatch):
    """Keeps matrix products in bfloat16 even on CPUs that truncate them."""
    monkeypatch.setattr(distribution, "has_bfloat16", lambda: True)
