"""Capture modes: which calls are prohibited while a graph is being captured."""

from threading import get_ident

MODES = ("global", "thread_local", "relaxed")


class CaptureMode:
    """The mode of a capture.

    Args:
        name: "global", "thread_local" or "relaxed".
        device: the device of the capture.

    Raises:
        RuntimeError: there is no such mode.

    Source:
        CUDA Runtime API, cudaThreadExchangeStreamCaptureMode: potentially unsafe calls; torch/csrc/cuda/Graph.cpp.
    """

    def __init__(self, name: str = "global", device: int = 0) -> None:
        if name not in MODES:
            expected = "Expected `global`, `thread_local`, or `relaxed`"
            raise RuntimeError(f"Unknown capture error mode. {expected}, got {name}")
        self._name = name
        self._device = device
        self._thread = get_ident()

    def prohibits(self, device: int | None = None) -> bool:
        """Return whether the calling thread must not make potentially unsafe calls, such as querying an event.

        Args:
            device: the device that the call synchronizes. Captured streams prohibit that in any mode.
        """
        is_unsafe = self._name == "global" or (self._name == "thread_local" and get_ident() == self._thread)
        return is_unsafe or device == self._device
