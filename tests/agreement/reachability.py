"""A slow and simple reference for programs made of `steps`: a happens-before graph and the values computed.

A node is a bit, and the set of nodes before it is an integer with their bits set. It shares no code with the engine:
there are no epochs or clocks, nothing is forgotten, and a reported race is not treated as ordered afterwards.

Source:
    CUDA Runtime API, "Stream synchronization behavior", cudaStreamWaitEvent; cudaGraphLaunch: "Each launch is ordered
    behind both any previous work in stream and any previous launches of graphExec."
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial, singledispatchmethod
from typing import NamedTuple, TypeAlias

from tests.agreement import steps as p

LOW, HIGH = frozenset({0}), frozenset({1})
ALL = LOW | HIGH
COLLECTIVES = 99
"""The stream of collectives, on device 0."""
Values = list[float]
"""The values of the two halves of a tensor."""


class Use(NamedTuple):
    """A past access."""

    node: int
    line: int
    halves: frozenset[int]
    is_write: bool
    is_host: bool = False


class Race(NamedTuple):
    """Two unordered lines.

    Attributes:
        kind: "access", "first use" (the earlier line allocates), "reuse" (the later line first uses memory that the
            earlier one is still using), or "branches" (both are in one graph).
        nodes: the earlier and the later access; 0 if there is none.
        tenants: for a first use, the lines that used memory of that stream, freed before, unordered with this use.
    """

    earlier: int
    later: int
    kind: str
    nodes: tuple[int, int] = (0, 0)
    tenants: frozenset[int] = frozenset()

    @property
    def lines(self) -> frozenset[int]:
        return frozenset({self.earlier, self.later})


class Node(NamedTuple):
    """An operation that ran.

    Attributes:
        node: its bit.
        before: the nodes before it.
        accesses: its reads and writes.
        act: applies its effect to the values.
    """

    node: int
    before: int
    accesses: tuple["Access", ...]
    act: Callable[[], None]


@dataclass(eq=False)
class Block:
    """An allocation and its uses.

    Attributes:
        home: the stream it was allocated on; None for host memory.
        born: the nodes that must come before its first use.
        values: its values, if there is no race.
        initial: its initial values.
        reused: uses of freed memory it may get that its stream had not waited for; emptied by its first use.
        earlier: uses of freed memory of its stream that the stream had waited for.
    """

    home: int | None
    born: int
    line: int
    values: Values
    initial: Values = field(init=False)
    uses: list[Use] = field(default_factory=list)
    recorded: set[int] = field(default_factory=set)
    reused: list[Use] = field(default_factory=list)
    earlier: list[Use] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.initial = list(self.values)

    def put(self, values: Values) -> None:
        self.values = list(values)


Access: TypeAlias = tuple[Block, frozenset[int], bool]
"""An allocation, the halves accessed, and whether they are written."""


class Pending(NamedTuple):
    """A use of memory that was freed to its home stream before that stream waited for the use."""

    home: int
    use: Use


@dataclass
class Captured:
    """A graph.

    Attributes:
        effects: the effects of a replay, in capture order.
        accesses: its reads and writes.
        last: its last replay and the nodes before it.
        uses: block id -> its uses during the capture.
        tails: stream -> the nodes captured on it or before it.
    """

    effects: list[tuple[Block, Block, p.Simple]] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    last: int = 0
    uses: dict[int, list[Use]] = field(default_factory=dict)
    tails: dict[int, int] = field(default_factory=dict)


class Reference:
    """Runs a program and records its races and output.

    Args:
        program: the program to run.
        threads_order: treat a finished thread as ordered with later work even without a join.

    Attributes:
        races: all races, in the order of their later lines.
        output: the contents of the program's list `out`, if there is no race.
    """

    def __init__(self, program: p.Program, *, threads_order: bool = False) -> None:
        self.threads_order = threads_order
        self.program = program
        self.races: list[Race] = []
        self.output: list[object] = []
        self.n_nodes = 0
        self.ran: list[Node] = []
        self.host = 0
        self.tails = dict.fromkeys((stream for stream, _ in program.of_devices(p.STREAMS)), 0)
        self.last_launch = dict(self.tails)
        self.events: dict[int, list[tuple[int, int]]] = {}  # event -> its records: (host node, nodes before the record)
        self.starter: int | None = None  # host order of the thread that started the running thread
        self.works: dict[int, tuple[int, Block]] = {}  # handle -> the collective with the nodes before it, its source
        self.held: list[Block] = []
        self.ended: dict[int, int] = {}  # thread -> its host order when it ended
        self.pending: list[Pending] = []
        self.freed: dict[int, list[Use]] = {}
        self.graphs: dict[int, Captured] = {}
        self.line = 0
        self.tensors: dict[int, Block | None] = {
            tensor: Block(p.DEFAULT[device], 0, 0, [float(tensor + p.FIRST_VALUE)] * 2)
            for tensor, device in program.of_devices(p.TENSORS)
        }
        self.buffers = [Block(None, 0, 0, [n + 11.0] * 2) for n in range(p.N_BUFFERS)]
        for line in program.lines:
            self.line = line.number
            match line.step:
                case p.Capture():
                    if line.part is not None:
                        self.capture(line.step, line.part)
                case p.Thread():
                    self.do_in_thread(line.step, line.part)
                case _:
                    self.take(line.step)
        tensors = [None if tensor in program.without_values else block for tensor, block in self.tensors.items()]
        final = [*tensors, *self.buffers]
        self.output += [None if block is None else expanded(block.values) for block in final]

    # -- order

    def node(self) -> int:
        self.n_nodes += 1
        return 1 << self.n_nodes

    def submit(
        self, stream: int, accesses: Sequence[Access], act: Callable[[], None] = lambda: None, after: int = 0
    ) -> None:
        """Launch an operation, ordered after all work on its stream and everything the host has waited for."""
        node = self.node()
        before = self.tails[stream] | self.host | after
        for block, halves, is_write in accesses:
            self.check(block, halves, before, node, is_write=is_write)
        for block, halves, is_write in accesses:
            block.uses.append(Use(node, self.line, halves, is_write))
        self.run(node, before, accesses, act)
        self.tails[stream] = before | node
        self.last_launch[stream] = node

    def run(self, node: int, before: int, accesses: Iterable[Access], act: Callable[[], None]) -> None:
        self.ran.append(Node(node, before, tuple(accesses), act))
        act()

    def check(self, block: Block, halves: frozenset[int], before: int, node: int, *, is_write: bool) -> None:
        by_host = node & self.host
        found = [
            Race(use.line, self.line, "access", (use.node, node))
            for use in block.uses
            if (use.is_write or is_write)
            and use.halves & halves
            and not use.node & before
            and not (use.is_host and by_host)
        ]
        found += [Race(use.line, self.line, "reuse") for use in block.reused if not use.node & before]
        block.reused = []
        if block.born & ~before:
            tenants = frozenset(use.line for use in block.earlier if not use.node & before)
            found.append(Race(block.line, self.line, "first use", tenants=tenants))
        self.races += found

    def host_use(self, block: Block, act: Callable[[], None] = lambda: None, *, is_write: bool) -> None:
        node, before = self.node(), self.host
        self.host |= node
        self.check(block, ALL, before, node, is_write=is_write)
        block.uses.append(Use(node, self.line, ALL, is_write, is_host=True))
        self.run(node, before, [(block, ALL, is_write)], act)

    def follow(self, stream: int, before: int) -> None:
        """Order all later work on a stream after `before`."""
        self.tails[stream] |= before | self.host

    def recorded(self, event: int) -> int:
        """Return the nodes before the latest record of an event that happens before the current point of the host."""
        return next((before for moment, before in reversed(self.events[event]) if moment & self.host), 0)

    def do_in_thread(self, thread: p.Thread, part: p.Simple | None) -> None:
        """Run one line of a thread: its definition, one of its steps, or its start, which returns once it has ended."""
        if part is not None:
            self.take(part)
        elif self.starter is None:
            self.starter = self.host
        else:
            self.ended[thread.number], self.host = self.host, self.starter
            self.starter = None
            if self.threads_order:
                self.host |= self.ended[thread.number]

    # -- alternative orders

    def values_differ(self, race: Race) -> bool:
        """Return whether any value changes if the earlier access and its successors run after the later access."""
        earlier, later = race.nodes
        number = next(number for number, one in enumerate(self.ran) if one.node == later)
        late = [one for one in self.ran[:number] if (one.node | one.before) & earlier]
        assert not any(one.node & self.ran[number].before for one in late)
        soon = [one for one in self.ran[: number + 1] if one not in late]
        return evaluate(self.ran) != evaluate([*soon, *late, *self.ran[number + 1 :]])

    # -- memory

    def allocate(self, stream: int) -> Block:
        known = self.tails[stream] | self.host
        hit = [one for one in self.pending if one.home == stream and not one.use.node & known]
        self.pending = [one for one in self.pending if one not in hit]
        reused = [one.use for one in hit]
        earlier = [use for use in self.freed.get(stream, ()) if use.node & known]
        return Block(stream, self.last_launch[stream], self.line, [0.0, 0.0], reused=reused, earlier=earlier)

    def release(self, block: Block | None) -> None:
        """Drop the last reference to a block."""
        if block is None or block.home is None:
            return
        self.freed.setdefault(block.home, []).extend(block.uses)
        safe = self.tails[block.home] | self.host
        for known in self.ended.values():  # any thread may be the one that frees it
            safe |= known
        for stream in block.recorded:
            safe |= self.tails[stream]
        self.pending += [Pending(block.home, use) for use in block.uses if not use.node & safe]

    def bind(self, tensor: int, block: Block | None) -> None:
        old, self.tensors[tensor] = self.tensors[tensor], block
        if old not in self.held:
            self.release(old)

    def block(self, tensor: int) -> Block:
        block = self.tensors[tensor]
        assert block is not None, "a program must not use a tensor that it has freed"
        return block

    # -- steps

    @singledispatchmethod
    def take(self, step: p.Step) -> None:
        raise TypeError(step)

    @take.register
    def _(self, step: p.New) -> None:
        block = self.allocate(step.stream)
        self.submit(step.stream, [(block, ALL, True)], lambda: block.put([float(step.value)] * 2))
        self.bind(step.tensor, block)

    @take.register
    def _(self, step: p.Empty) -> None:
        self.bind(step.tensor, self.allocate(step.stream))

    @take.register
    def _(self, step: p.Fill) -> None:
        block = self.block(step.tensor)
        self.submit(step.stream, [(block, ALL, True)], lambda: block.put([float(step.value)] * 2))

    @take.register
    def _(self, step: p.Compute) -> None:
        source = self.block(step.source)
        block = self.allocate(step.stream)
        multiply = partial(scale, block, source, step.factor)
        self.submit(step.stream, [(source, ALL, False), (block, ALL, True)], multiply)
        self.bind(step.target, block)

    @take.register
    def _(self, step: p.Change) -> None:
        target, source = self.block(step.target), self.block(step.source)
        self.submit(step.stream, self.accesses_of(step), partial(apply, step, target, source))

    @take.register
    def _(self, step: p.Part) -> None:
        target = self.block(step.target)
        self.submit(step.stream, self.accesses_of(step), partial(apply, step, target, target))

    def accesses_of(self, step: p.Change | p.Part) -> list[Access]:
        target = self.block(step.target)
        if isinstance(step, p.Part):
            return [(target, HIGH if step.half else LOW, True)]
        return [(self.block(step.source), ALL, False), (target, ALL, True)]

    @take.register
    def _(self, step: p.PeerCopy) -> None:
        target, source = self.block(step.target), self.block(step.source)
        self.follow(step.stream, self.tails[step.other])
        self.submit(step.stream, [(source, ALL, False), (target, ALL, True)], lambda: target.put(source.values))
        self.follow(step.other, self.tails[step.stream])

    @take.register
    def _(self, step: p.Backward) -> None:
        source = self.block(step.tensor)
        block, middle = self.allocate(step.stream), Block(None, 0, self.line, [0.0, 0.0])
        self.submit(step.stream, [(source, ALL, False)], partial(scale, middle, source, 3))
        self.submit(step.stream, [(block, ALL, True)], lambda: block.put(middle.values))
        self.bind(step.tensor, block)

    @take.register
    def _(self, step: p.Free) -> None:
        self.bind(step.tensor, None)

    @take.register
    def _(self, step: p.RecordStream) -> None:
        self.block(step.tensor).recorded.add(step.stream)

    @take.register
    def _(self, step: p.WaitStream) -> None:
        self.follow(step.other, 0)
        self.follow(step.stream, self.tails[step.other])

    @take.register
    def _(self, step: p.Record) -> None:
        self.follow(step.stream, 0)
        moment = self.node()
        self.host |= moment
        self.events.setdefault(step.event, []).append((moment, self.tails[step.stream]))

    @take.register
    def _(self, step: p.Wait) -> None:
        self.follow(step.stream, self.recorded(step.event))

    @take.register
    def _(self, step: p.SyncStream) -> None:
        self.host |= self.tails[step.stream]

    @take.register
    def _(self, step: p.SyncEvent) -> None:
        self.host |= self.recorded(step.event)

    @take.register
    def _(self, step: p.SyncDevice) -> None:
        for stream, tail in self.tails.items():
            if (0 if stream == COLLECTIVES else p.STREAMS[stream]) == step.device:
                self.host |= tail

    @take.register
    def _(self, step: p.Join) -> None:
        self.host |= self.ended[step.number]

    @take.register
    def _(self, step: p.Collective) -> None:
        target, source = self.block(step.target), self.block(step.source)
        read = [] if step.is_in_place else [(source, ALL, False)]
        self.tails[COLLECTIVES] = self.tails.get(COLLECTIVES, 0) | self.tails[step.stream]
        act = partial(scale, target, target if step.is_in_place else source, 1)
        self.submit(COLLECTIVES, [*read, (target, ALL, True)], act)
        self.works[step.number] = self.tails[COLLECTIVES], source
        self.held.append(source)

    @take.register
    def _(self, step: p.WaitWork) -> None:
        before, source = self.works[step.number]
        self.follow(step.stream, before)
        self.held.remove(source)
        if source not in self.held and source not in self.tensors.values():
            self.release(source)

    @take.register
    def _(self, step: p.Upload) -> None:
        target, source = self.block(step.tensor), self.buffers[step.buffer]
        self.submit(step.stream, [(source, ALL, False), (target, ALL, True)], lambda: target.put(source.values))

    @take.register
    def _(self, step: p.Download) -> None:
        target, source = self.buffers[step.buffer], self.block(step.tensor)
        self.submit(step.stream, [(source, ALL, False), (target, ALL, True)], lambda: target.put(source.values))

    @take.register
    def _(self, step: p.Read) -> None:
        self.host_use(self.buffers[step.buffer], is_write=False)
        self.output.append(expanded(self.buffers[step.buffer].values))

    @take.register
    def _(self, step: p.Write) -> None:
        buffer = self.buffers[step.buffer]
        self.host_use(buffer, lambda: buffer.put([float(step.value)] * 2), is_write=True)

    @take.register
    def _(self, step: p.Item) -> None:
        block = self.block(step.tensor)
        total = self.allocate(step.stream)
        self.submit(step.stream, [(block, ALL, False), (total, ALL, True)])
        self.host |= self.tails[step.stream]
        self.output.append(sum(expanded(block.values)))
        self.release(total)

    @take.register
    def _(self, step: p.Replay) -> None:
        graph = self.graphs[step.graph]

        def act() -> None:
            for target, source, part in graph.effects:
                apply(part, target, source)

        self.submit(step.stream, graph.accesses, act, graph.last)
        graph.last = self.tails[step.stream]

    def capture(self, step: p.Capture, part: p.Simple) -> None:
        """Capture a step. Nothing runs, and only forks and joins within the capture create order."""
        graph = self.graphs.setdefault(step.graph, Captured(tails={step.stream: 0}))
        match part:
            case p.WaitStream():
                graph.tails[part.stream] = graph.tails.get(part.stream, 0) | graph.tails[part.other]
            case p.Change() | p.Part():
                node = self.node()
                accesses = self.accesses_of(part)
                for block, halves, is_write in accesses:
                    for use in graph.uses.get(id(block), ()):
                        if (
                            (use.is_write or is_write)
                            and use.halves & halves
                            and not use.node & graph.tails[part.stream]
                        ):
                            self.races.append(Race(use.line, self.line, "branches"))
                for block, halves, is_write in accesses:
                    graph.uses.setdefault(id(block), []).append(Use(node, self.line, halves, is_write))
                graph.tails[part.stream] |= node
                graph.accesses += accesses
                source = self.block(part.source) if isinstance(part, p.Change) else self.block(part.target)
                graph.effects.append((self.block(part.target), source, part))


def scale(target: Block, source: Block, factor: int) -> None:
    target.put([value * factor for value in source.values])


def apply(step: p.Simple, target: Block, source: Block) -> None:
    """Apply a step to the values of its tensors."""
    match step:
        case p.Change():
            target.values = [value + 2 * old for value, old in zip(source.values, target.values, strict=True)]
        case p.Part():
            target.values[step.half] *= step.factor


def evaluate(nodes: Sequence[Node]) -> list[object]:
    """Return the values that each node reads and leaves, and the final values, if the nodes run in this order."""
    accesses = [access for node in nodes for access in node.accesses]
    for block, _, _ in accesses:
        block.values = list(block.initial)
    seen: dict[int, list[float]] = {}
    for node in nodes:
        read = [block.values[half] for block, halves, is_write in node.accesses if not is_write for half in halves]
        node.act()
        seen[node.node] = read + [block.values[half] for block, halves, _ in node.accesses for half in halves]
    return [sorted(seen.items()), sorted((id(block), *block.values) for block, _, _ in accesses)]


def expanded(values: Sequence[float]) -> list[float]:
    return [value for value in values for _ in range(p.HALF)]
