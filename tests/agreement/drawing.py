"""Draws random programs made of `steps` from a source of randomness: Hypothesis or a seeded generator."""

import random
from collections.abc import Callable

from tests.agreement import steps as p


class _Writer:
    """Draws the steps of one program. A method returns None if its step makes no sense at this point."""

    def __init__(self, source: random.Random, n_devices: int) -> None:
        self.random = source
        self.n_devices = n_devices
        self.streams = [n for n, device in enumerate(p.STREAMS) if device < n_devices]
        self.live = {n for n, device in enumerate(p.TENSORS) if device < n_devices}
        self.all_tensors = sorted(self.live)
        self.recorded: set[int] = set()
        self.n_works = 0
        self.open: list[int] = []  # handles of collectives not waited for yet
        self.n_threads = 0
        self.running: set[int] = set()  # threads not joined yet
        self.graphs: dict[int, p.Capture] = {}
        self.raw: set[int] = set()  # tensors without values yet
        self.kept: set[int] = set()  # tensors used by a graph, which must not be reallocated
        self.count = 20  # above the program's initial values

    def number(self) -> int:
        """Return a new number for each step, so that no two steps write the same value."""
        self.count += 1
        return self.count

    def device(self) -> int:
        return self.random.randrange(self.n_devices)

    def stream(self, device: int | None = None) -> int:
        return self.random.choice([n for n in self.streams if device is None or p.STREAMS[n] == device])

    def tensor(self, device: int, *, is_kept: bool = True) -> int | None:
        """Return a live tensor on a device, or None if there is none."""
        some = [n for n in sorted(self.live) if p.TENSORS[n] == device and (is_kept or n not in self.kept)]
        return self.random.choice(some) if some else None

    def place(self, device: int) -> int | None:
        """Return the number of a tensor on a device that can be rebound, or None if there is none."""
        some = [n for n in self.all_tensors if p.TENSORS[n] == device and n not in self.kept | self.raw]
        return self.random.choice(some) if some else None

    def buffer(self) -> int:
        return self.random.randrange(p.N_BUFFERS)

    # -- steps

    def new(self) -> p.Step | None:
        device = self.device()
        target = self.place(device)
        if target is None:
            return None
        self.live.add(target)
        return p.New(self.stream(device), target, self.number())

    def empty(self) -> p.Step | None:
        device = self.device()
        target = self.place(device)
        if target is None:
            return None
        self.live.discard(target)
        self.raw.add(target)
        return p.Empty(self.stream(device), target)

    def fill(self) -> p.Step | None:
        if not self.raw:
            return None
        tensor = self.random.choice(sorted(self.raw))
        self.raw.remove(tensor)
        self.live.add(tensor)
        return p.Fill(self.stream(p.TENSORS[tensor]), tensor, self.number())

    def compute(self) -> p.Step | None:
        device = self.device()
        target, source = self.place(device), self.tensor(device)
        if target is None or source is None:
            return None
        self.live.add(target)
        return p.Compute(self.stream(device), target, source, self.number())

    def change(self) -> p.Simple | None:
        device = self.device()
        target, source = self.tensor(device), self.tensor(device)
        if target is None or source is None or target == source:
            return None
        return p.Change(self.stream(device), target, source)

    def part(self) -> p.Simple | None:
        device = self.device()
        target = self.tensor(device)
        return None if target is None else p.Part(self.stream(device), target, self.random.randrange(2), self.number())

    def peer_copy(self) -> p.Step | None:
        one, other = self.device(), self.device()
        target, source = self.tensor(one), self.tensor(other)
        if target is None or source is None or target == source:
            return None
        stream = self.stream(other)
        return p.PeerCopy(stream, stream if one == other else self.stream(one), target, source)

    def backward(self) -> p.Step | None:
        device = self.device()
        tensor = self.tensor(device, is_kept=False)
        return None if tensor is None else p.Backward(self.stream(device), tensor)

    def free(self) -> p.Step | None:
        tensor = self.tensor(self.device(), is_kept=False)
        if tensor is None:
            return None
        self.live.remove(tensor)
        return p.Free(tensor)

    def record_stream(self) -> p.Step | None:
        device = self.device()
        tensor = self.tensor(device)
        return None if tensor is None else p.RecordStream(tensor, self.stream(device))

    def wait_stream(self) -> p.Simple | None:
        stream, other = self.stream(), self.stream()
        return p.WaitStream(stream, other) if stream != other else None

    def record(self) -> p.Simple:
        event, device = self.random.choice([pair for pair in enumerate(p.EVENTS) if pair[1] < self.n_devices])
        self.recorded.add(event)
        return p.Record(event, self.stream(device))

    def wait(self) -> p.Simple | None:
        return p.Wait(self.random.choice(sorted(self.recorded)), self.stream()) if self.recorded else None

    def synchronize(self) -> p.Simple | None:
        match self.random.randrange(3):
            case 0:
                return p.SyncStream(self.stream())
            case 1:
                return p.SyncDevice(self.device())
            case _:
                return p.SyncEvent(self.random.choice(sorted(self.recorded))) if self.recorded else None

    def copy_buffer(self) -> p.Simple | None:
        device = self.device()
        tensor = self.tensor(device)
        kind = self.random.choice([p.Upload, p.Download])
        return None if tensor is None else kind(self.stream(device), tensor, self.buffer())

    def host(self) -> p.Simple:
        return p.Read(self.buffer()) if self.random.randrange(2) else p.Write(self.buffer(), self.number())

    def item(self) -> p.Step | None:
        device = self.device()
        tensor = self.tensor(device)
        return None if tensor is None else p.Item(self.stream(device), tensor)

    def capture(self) -> p.Step | None:
        """Capture a few changes on a stream other than the default one, often with a fork and a join."""
        device = self.device()
        sides = [n for n in self.streams if p.STREAMS[n] == device and n != p.DEFAULT[device]]
        main = self.random.choice(sides)
        forked = [n for n in sides if n != main and self.random.randrange(2)]
        body: list[p.Simple] = [p.WaitStream(side, main) for side in forked]
        tensors = [n for n in sorted(self.live) if p.TENSORS[n] == device]
        for _ in range(self.random.randint(1, 3) if tensors else 0):
            stream, target, source = (self.random.choice(some) for some in ([main, *forked], tensors, tensors))
            half = self.random.randrange(3)
            if half < 2 or target == source:
                body.append(p.Part(stream, target, half % 2, self.random.choice([3, 5])))
            else:
                body.append(p.Change(stream, target, source))
            self.kept |= {target, source}
        if not tensors:
            return None
        body += [p.WaitStream(main, side) for side in forked]
        graph = len(self.graphs)
        self.graphs[graph] = p.Capture(graph, main, tuple(body))
        return self.graphs[graph]

    def replay(self) -> p.Step | None:
        if not self.graphs:
            return None
        graph = self.random.choice(sorted(self.graphs))
        return p.Replay(graph, self.stream(p.STREAMS[self.graphs[graph].stream]))

    def collective(self) -> p.Step | None:
        target, source = self.tensor(0), self.tensor(0)
        name = self.random.choice(["all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce"])
        if target is None or source is None or (name == "all_reduce") != (target == source):
            return None
        self.kept.add(target)  # the handle keeps it alive
        self.n_works += 1
        self.open.append(self.n_works - 1)
        return p.Collective(self.n_works - 1, self.stream(0), name, target, source)

    def wait_work(self) -> p.Step | None:
        return p.WaitWork(self.open.pop(self.random.randrange(len(self.open))), self.stream(0)) if self.open else None

    def thread(self) -> p.Step | None:
        body = [self.random.choice(_IN_THREADS)(self) for _ in range(self.random.randint(1, 3))]
        steps = tuple(step for step in body if step is not None)
        if not steps:
            return None
        self.n_threads += 1
        self.running.add(self.n_threads - 1)
        return p.Thread(self.n_threads - 1, steps)

    def join(self) -> p.Step | None:
        return p.Join(self.running.pop()) if self.running else None


_IN_THREADS: tuple[Callable[[_Writer], p.Simple | None], ...] = (
    _Writer.change,
    _Writer.part,
    _Writer.wait_stream,
    _Writer.record,
    _Writer.wait,
    _Writer.synchronize,
    _Writer.copy_buffer,
    _Writer.host,
)
_KINDS: tuple[Callable[[_Writer], p.Step | None], ...] = (
    _Writer.new,
    *[_Writer.empty] * 2,
    *[_Writer.fill] * 3,
    *[_Writer.compute] * 2,
    *[_Writer.change] * 3,
    *[_Writer.part] * 2,
    *[_Writer.peer_copy] * 2,
    _Writer.backward,
    _Writer.free,
    _Writer.record_stream,
    *[_Writer.wait_stream] * 6,
    *[_Writer.record] * 2,
    *[_Writer.wait] * 3,
    _Writer.synchronize,
    *[_Writer.copy_buffer] * 2,
    _Writer.host,
    _Writer.item,
    _Writer.capture,
    *[_Writer.replay] * 3,
    _Writer.thread,
    *[_Writer.join] * 2,
)


_WITH_COLLECTIVES = (*_KINDS, *[_Writer.collective] * 12, *[_Writer.wait_work] * 6)
_ONE_HAS_COLLECTIVES_IN = 6


def draw(source: random.Random) -> p.Program:
    """Draw a program that uses one or two devices."""
    n_devices = source.choice([1, 2])
    writer = _Writer(source, n_devices)
    kinds = _KINDS if source.randrange(_ONE_HAS_COLLECTIVES_IN) else _WITH_COLLECTIVES
    drawn = [source.choice(kinds)(writer) for _ in range(source.randint(4, 16))]
    drawn += [writer.join() for _ in sorted(writer.running)]
    drawn += [writer.wait_work() for _ in list(writer.open)]
    drawn += [writer.fill() for _ in sorted(writer.raw)]
    return p.Program(tuple(step for step in drawn if step is not None), n_devices)
