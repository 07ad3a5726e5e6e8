"""Methods of values that are no objects of the program: streams, events, tensors, containers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syncheck.hb.ids import StreamId, WaitCall
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    Attribute,
    Call,
    Class,
    Constant,
    Context,
    Event,
    Function,
    Future,
    Generator,
    Graph,
    Instance,
    Mapping,
    Module,
    Optimizer,
    Partial,
    Query,
    Sequence,
    Stream,
    Symbol,
    Tensor,
    Thread,
    Value,
    Work,
    tensors_in,
    truth,
)
from syncheck.lint.models.containers import Containers

if TYPE_CHECKING:
    from syncheck.lint.interp.calls import Calls

Method = Callable[[Any, str, Call], Value | None]


class Methods:
    """Calls methods by the kind of their owner."""

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls
        self._machine = calls.machine
        containers = Containers(calls.machine)
        self._by_kind: dict[type[Value], Method] = {
            Stream: self._stream,
            Context: self._context,
            Event: self._event,
            Tensor: self._tensor,
            Sequence: containers.of_items,
            Mapping: containers.of_table,
            Module: self._net,
            Optimizer: self._optimizer,
            Work: self._work,
            Graph: self._graph,
            Thread: self._thread,
            Future: self._future,
            Generator: containers.of_running,
            Instance: self._instance,
            Constant: self._constant,
            Attribute: self._attribute,
            Partial: self._constant,
            Function: self._constant,
            Class: self._constant,
        }

    def call(self, owner: Value, name: str, call: Call) -> Value:
        """Call a method."""
        method = self._by_kind.get(type(owner), self._unknown)
        found = method(owner, name, call)
        return self._calls.call_unknown(name, call) if found is None else found

    def _unknown(self, owner: Value, name: str, call: Call) -> Value | None:
        """Call a method of a value of which nothing is known: some say what they return."""
        del owner
        if name == "cuda" or (name == "to" and call.flag("non_blocking", 1)):
            return self._calls.transfers.move(call, name)
        return None

    def _attribute(self, owner: Attribute, name: str, call: Call) -> Value | None:
        if owner.name == "data" and isinstance(owner.owner, Tensor):
            return self.call(owner.owner, name, call)
        return self._unknown(owner, name, call)

    def _constant(self, owner: Value, name: str, call: Call) -> Value | None:
        del owner, name
        return UNKNOWN if not any(isinstance(v, Stream | Event | Tensor) for v in call.values()) else None

    # -- streams and events

    def _stream(self, owner: Stream, name: str, call: Call) -> Value | None:
        machine, first = self._machine, call.get("stream" if name == "wait_stream" else "event", 0)
        if name == "wait_stream" and isinstance(first, Stream):
            machine.wait_stream(owner, first, call.node)
        elif name == "wait_event" and isinstance(first, Event):
            machine.wait(first, owner, WaitCall.STREAM_WAIT_EVENT, call.node)
        elif name == "record_event":
            event = first if isinstance(first, Event) else machine.new_event(call.node, timing=False)
            machine.record(event, owner, call.node)
            return event
        elif name == "synchronize":
            machine.sync_stream(owner.ident, call.node, explicit=True)
        elif name == "query":
            return Query(None)
        elif name == "__enter__":
            return self._calls.api.stream_context(owner, call.node).enter()
        else:
            return None
        return NONE

    def _event(self, owner: Event, name: str, call: Call) -> Value | None:
        machine, first = self._machine, call.get("stream", 0)
        stream = first if isinstance(first, Stream) else None
        if first is not None and stream is None and truth(first) is not False and name in {"record", "wait"}:
            owner.escaped |= name == "record"
            machine.assume_synchronized()
            return NONE
        if name == "record":
            machine.record(owner, stream, call.node)
        elif name == "wait":
            machine.wait(owner, stream, WaitCall.EVENT_WAIT, call.node)
        elif name == "synchronize":
            machine.sync_event(owner, call.node)
        elif name == "query":
            return Query(owner)
        elif name == "elapsed_time":
            other = call.get("end_event", 0)
            if isinstance(other, Event) and not (owner.escaped or other.escaped or machine.ordering_only):
                machine.session.elapsed(owner.ident, other.ident, machine.site(call.node))
            return UNKNOWN
        else:
            return None
        return NONE

    def _context(self, owner: Context, name: str, call: Call) -> Value | None:
        if name == "__enter__":
            return owner.enter()
        if name == "__exit__":
            owner.leave()
            return NONE
        return self._calls.call_unknown("", call)

    # -- tensors

    def _tensor(self, owner: Tensor, name: str, call: Call) -> Value | None:
        calls = self._calls
        moved = calls.transfers.method(owner, name, call)
        if moved is not None:
            return moved
        special = getattr(self, f"_tensor_{name}", None)
        if special is not None:
            value: Value = special(owner, call)
            return value
        if any(isinstance(value, Function | Partial) for value in call.values()):
            return calls.call_unknown(name, call)
        return calls.operators.method(owner, name, call)

    def _tensor_record_stream(self, owner: Tensor, call: Call) -> Value:
        stream, block, machine = call.get("s", 0), owner.block, self._machine
        if isinstance(stream, Stream) and stream.ident and block.ident and not machine.ordering_only:
            if block.device is not None and not block.escaped:
                view = machine.view(owner.part, is_write=False)
                machine.session.record_stream(block.ident, view, stream.ident, machine.site(call.node))
        else:
            block.escaped = True
        return NONE

    def _tensor_numpy(self, owner: Tensor, call: Call) -> Value:
        self._machine.touch_host("Tensor.numpy()", [(owner, False)], call.node, escape=True)
        return self._calls.operators.alias(owner, owner.part)

    def _tensor_backward(self, owner: Tensor, call: Call) -> Value:
        """Run the backward pass: on the stream of the forward pass, with torch's own waits around it."""
        machine = self._machine
        device = owner.block.device
        if device is None or not owner.leaves:
            return NONE
        current, forward = machine.current(device), owner.stream or machine.current(device)
        machine.join(forward, current)
        gradients: list[Tensor] = []
        for leaf in owner.leaves:
            if leaf.grad is None and leaf.block.device is not None:
                leaf.grad = Tensor(machine.allocate(leaf.block.device, call.node), stream=forward)
            gradients += [leaf.grad] if leaf.grad is not None else []
        seeds = tensors_in(Sequence(call.values()))
        own = [tensor for tensor in gradients if tensor.block.device == device]
        touched = [*((tensor, False) for tensor in (owner, *seeds)), *((tensor, True) for tensor in own)]
        machine.launch(forward, "aten::backward", touched, call.node)
        for gradient in gradients:
            other = gradient.block.device
            if other is not None and other != device:  # the engine makes the streams wait for each other
                machine.join(machine.current(other), forward)
                machine.launch(machine.current(other), "aten::backward", [(gradient, True)], call.node)
        self._call_hooks(_graph_of(owner), forward, call)
        machine.join(current, forward)
        owner.keeps = ()
        return NONE

    def _call_hooks(self, tensors: list[Tensor], forward: StreamId, call: Call) -> None:
        """Call the hooks on tensors, on the stream of the forward pass."""
        thread = self._machine.thread
        before = dict(thread.streams)
        thread.streams = thread.streams | {self._machine.device_of(forward): forward}
        for tensor in tensors:
            for hook, takes_tensor in tensor.hooks:
                gradient = tensor.grad or Tensor(self._machine.allocate(tensor.block.device, call.node), stream=forward)
                self._calls.call(hook, Call(call.node, [tensor if takes_tensor else gradient]))
        thread.streams = before

    def _tensor_register_hook(self, owner: Tensor, call: Call) -> Value:
        owner.hooks += [(hook, False) for hook in call.args[:1]]
        return UNKNOWN

    def _tensor_register_post_accumulate_grad_hook(self, owner: Tensor, call: Call) -> Value:
        owner.hooks += [(hook, True) for hook in call.args[:1]]
        return UNKNOWN

    def _tensor_untyped_storage(self, owner: Tensor, call: Call) -> Value:
        del call
        return Attribute(owner, "data")

    def _tensor_resize_(self, owner: Tensor, call: Call) -> Value:
        if isinstance(call.get("", 0), Constant) and truth(call.get("", 0) or UNKNOWN) is False:
            self._machine.release(owner.block)
        return owner

    # -- layers and optimizers

    def _net(self, owner: Module, name: str, call: Call) -> Value | None:
        if name in {"to", "cuda", "cpu"}:
            return self._calls.transfers.move_net(owner, call, name)
        if name in {"eval", "train", "half", "bfloat16", "float", "requires_grad_", "double", "share_memory"}:
            return owner
        if name in {"parameters", "buffers"}:
            return Sequence([owner.weight] if owner.weight is not None else [])
        if name == "zero_grad":
            if owner.weight is not None and not self._machine.ordering_only:
                owner.weight.grad = None
            return NONE
        return UNKNOWN

    def _optimizer(self, owner: Optimizer, name: str, call: Call) -> Value | None:
        machine = self._machine
        if name == "zero_grad":
            for parameter in owner.parameters if not machine.ordering_only else ():
                parameter.grad = None
        elif name == "step":
            for parameter in owner.parameters:
                device = parameter.block.device
                if parameter.grad is not None and device is not None:
                    touched = [(parameter.grad, False), (parameter, True)]
                    machine.launch(machine.current(device), "aten::_foreach_add_", touched, call.node)
        return UNKNOWN

    # -- collectives, graphs, threads

    def _work(self, owner: Work, name: str, call: Call) -> Value | None:
        if name in {"wait", "synchronize"}:
            self._calls.collectives.wait(owner, call)
            return UNKNOWN
        self._calls.collectives.escape(owner)
        self._machine.assume_synchronized()
        return UNKNOWN

    def _graph(self, owner: Graph, name: str, call: Call) -> Value | None:
        machine = self._machine
        if name == "replay" and owner.has_captured and not machine.ordering_only:
            stream = machine.current(machine.thread.device)
            if stream:
                machine.session.replay(owner.ident, stream, machine.site(call.node))
        elif name in {"capture_begin", "capture_end"}:
            self._calls.api.capture(owner, call.node, is_begin=name == "capture_begin")
        return UNKNOWN

    def _thread(self, owner: Thread, name: str, call: Call) -> Value | None:
        if owner.waits_inside:
            return self._calls.call_unknown("", Call(call.node, [*owner.args, *owner.kwargs.values()]))
        if name == "start":
            self._calls.in_new_thread(owner.target, Call(call.node, list(owner.args), dict(owner.kwargs)))
        return UNKNOWN

    def _future(self, owner: Future, name: str, call: Call) -> Value | None:
        del call
        return owner.value if name in {"result", "wait", "get"} else UNKNOWN

    # -- objects

    def _instance(self, owner: Instance, name: str, call: Call) -> Value | None:
        """Call a method that the object's class does not have: a base's that is not known."""
        if owner.kind.is_net:
            found = self._module_method(owner, name, call)
            if found is not None:
                return found
        run = owner.kind.find("run")
        is_thread = any(isinstance(base, Symbol) and base.path == "threading.Thread" for base in owner.kind.bases)
        if is_thread and name == "start" and run is not None:
            return self._calls.in_new_thread(run, Call(call.node, [owner]))
        return UNKNOWN if is_thread else None

    def _module_method(self, owner: Instance, name: str, call: Call) -> Value | None:
        nets = [value for value in owner.attributes.values() if isinstance(value, Module)]
        lists = [value.items for value in owner.attributes.values() if isinstance(value, Sequence)]
        nets += [value for items in lists for value in items if isinstance(value, Module)]
        if name in {"to", "cuda", "cpu"}:
            for net in nets:
                self._calls.transfers.move_net(net, call, name)
            return owner
        if name in {"eval", "train", "half", "float", "bfloat16", "requires_grad_"}:
            return owner
        if name in {"parameters", "buffers"}:
            return Sequence([net.weight for net in nets if net.weight is not None])
        if name in {"register_buffer", "register_parameter"}:
            text = call.get("name", 0)
            if isinstance(text, Constant) and len(call.args) > 1:
                owner.attributes[str(text.value)] = call.args[1]
            return NONE
        return UNKNOWN if name in {"zero_grad", "state_dict", "__init__"} else None


def _graph_of(root: Tensor) -> list[Tensor]:
    """Return the tensors that a backward pass goes through, from its root."""
    found: dict[int, Tensor] = {}
    waiting = [root]
    while waiting:
        tensor = waiting.pop()
        if id(tensor) not in found:
            found[id(tensor)] = tensor
            waiting += tensor.keeps
    return list(found.values())
