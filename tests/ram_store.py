"""TensorFlow's ram:// as a store of `epath`, in place of gs:// and the like."""

from etils.epath import backend, gpath, register


def install():
    """Makes `epath.Path("ram://...")` read and write TensorFlow's memory."""
    gpath._URI_PREFIXES += ("ram://",)
    gpath._URI_SCHEMES |= {"ram"}
    gpath._URI_MAP_ROOT["ram://"] = "/ram/"
    gpath._PREFIX_TO_BACKEND["ram"] = backend.tf_backend
    register.register_path_cls("ram://")(gpath.PosixGPath)
