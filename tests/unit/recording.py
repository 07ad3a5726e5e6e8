"""The calls that a backend makes, as text.

Each call is one line. Streams are "cuda:0" if they are default streams, else "s1", "s2" in order of creation. Memory
is 1, 2 in order of allocation, preceded by "r" or "w" for a read or a write (a write may also read). Events are
"e1", "e2".
"""

UNSHOWN = frozenset(
    """view describe_allocation name name_at name_view object_created object_destroyed event stream host release acquire
    acquire_all clocks rewind advance""".split()
)
"""Calls that only announce objects, order threads, or separate alternatives."""


class Recording:
    """Forwards calls to a session and records them as text."""

    def __init__(self, session, n_devices):
        self._session = session
        self._n_devices = n_devices
        self.calls = []
        self.names = {}
        self._events, self._memory = {}, {}

    def __getattr__(self, name):
        method = getattr(self._session, name)

        def call(*args, **kwargs):
            shown = self._shown(name, *args, **kwargs)
            if shown:
                self.calls.append(shown)
            return method(*args, **kwargs)

        return call if callable(method) else method

    def stream_name(self, stream):
        if not stream:
            return "host"
        return f"cuda:{stream - 1}" if stream <= self._n_devices else f"s{stream - self._n_devices}"

    def _event(self, event):
        return f"e{self._events.setdefault(event, len(self._events) + 1)}"

    def memory(self, allocation):
        return self._memory.setdefault(allocation, len(self._memory) + 1)

    def _accesses(self, accesses):
        return "".join(f" {'w' if is_write else 'r'}{self.memory(a)}" for a, _, is_write in accesses)

    def _shown(self, name, *args, **kwargs):  # noqa: C901  a table of the calls
        if name in UNSHOWN or name.startswith("_"):
            if name == "name":
                self.names[args[:2]] = args[2]
            return ""
        match name, args:
            case "launch", (stream, operator, accesses, _, *more):
                context = f" in a context of {self.stream_name(more[0].stream)}" if more and more[0] else ""
                what = operator.removeprefix("aten::") + self._accesses(accesses)
                return f"launch {self.stream_name(stream)} {what}{context}"
            case "host_access", (operator, accesses, _):
                how = "escape" if kwargs.get("escape") else "host"
                return f"{how} {operator.removeprefix('aten::')}{self._accesses(accesses)}"
            case "allocate", (allocation, home, *_):
                return f"allocate {self.memory(allocation)} on {self.stream_name(home)}"
            case "free", (allocation, _):
                return f"free {self.memory(allocation)}"
            case "record", (event, stream, *_):
                return f"record {self._event(event)} on {self.stream_name(stream)}"
            case "wait", (event, stream, _, via, *_):
                return f"wait {self.stream_name(stream)} for {self._event(event)} ({via or 'torch'})"
            case "wait_stream", (stream, other, _, origins, *_):
                by = ", ".join(how for how in origins if how)
                return f"wait {self.stream_name(stream)} for {self.stream_name(other)}" + (f" ({by})" if by else "")
            case "sync_event", (event, _):
                return f"sync {self._event(event)}"
            case "sync_stream", (stream, _):
                return f"sync {self.stream_name(stream)}" + (" (asked for)" if kwargs["explicit"] else "")
            case "sync_device", (device, _):
                return f"sync device {device}"
            case "record_stream", (allocation, _, stream, _):
                return f"record_stream {self.memory(allocation)} {self.stream_name(stream)}"
            case "elapsed", (start, end, _):
                return f"elapsed {self._event(start)} {self._event(end)}"
            case "capturing", _:
                return ""
            case "replay", (_, stream, _):
                return f"replay on {self.stream_name(stream)}"
            case "capture_begin", (_, stream, *_):
                return f"capture on {self.stream_name(stream)}"
            case "sync_in_capture", (call, _):
                return f"refused {call}"
            case "lost_context", (actual, expected, _):
                return f"lost {self.stream_name(expected)} for {self.stream_name(actual)}"
            case "collective", (stream, operator, _):
                return f"handle of {operator}"
        return name
