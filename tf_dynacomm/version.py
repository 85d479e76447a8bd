"""The version of tf_dynacomm, read by `setup.cfg`."""

__version__ = "0.1.0"
