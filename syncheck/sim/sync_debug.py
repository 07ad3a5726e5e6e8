"""`torch.cuda.set_sync_debug_mode`: warns or raises when an operator makes the host wait."""

import warnings
from enum import IntEnum

_TEXT = "called a synchronizing CUDA operation"


class Level(IntEnum):
    """Action when an operator makes the host wait."""

    SILENT = 0
    WARN = 1
    RAISE = 2


_NAMES = {"default": Level.SILENT, "warn": Level.WARN, "error": Level.RAISE}


class SyncDebug:
    """The sync debug mode of this process.

    Source:
        torch/cuda/__init__.py, `set_sync_debug_mode`; c10/cuda/CUDAFunctions.cpp, `warn_or_error_on_sync`, which is
        called by `stream_synchronize` and `memcpy_and_sync` but not by `device_synchronize` or events.

    Attributes:
        level: the action taken.
    """

    def __init__(self) -> None:
        self.level = Level.SILENT

    def choose(self, debug_mode: int | str) -> None:
        """Set the level.

        Raises:
            RuntimeError: the name or number does not exist; the message is torch's.
        """
        if isinstance(debug_mode, str):
            if debug_mode not in _NAMES:
                raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
            self.level = _NAMES[debug_mode]
        elif debug_mode in set(Level):
            self.level = Level(debug_mode)
        else:
            raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")

    def check(self) -> None:
        """Warn or raise, according to the level, before the host waits for a stream.

        Raises:
            RuntimeError: the level is RAISE.
        """
        if self.level is Level.RAISE:
            raise RuntimeError(_TEXT)
        if self.level is Level.WARN:
            warnings.warn(_TEXT, UserWarning, stacklevel=2)
