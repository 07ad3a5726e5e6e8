"""Operators: the tensors that torch's functions and methods read, write and return."""

import ast
from collections.abc import Iterable
from typing import Any

from syncheck.hb.ids import NO_ALLOCATION
from syncheck.lint.interp.block_inputs import block_inputs
from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.exchanged import exchanged_variables, target_of
from syncheck.lint.interp.graph_results import taken_from
from syncheck.lint.interp.identities import is_unknown
from syncheck.lint.interp.machine import N_DEVICES, Machine, TensorAccess
from syncheck.lint.interp.premises import Premise, description_of
from syncheck.lint.interp.rows import index_of, is_strided, of_method, selected
from syncheck.lint.interp.values import (
    MOVED,
    UNKNOWN,
    UNKNOWN_STREAM,
    WHOLE,
    Block,
    Call,
    Constant,
    Device,
    DeviceIndex,
    Part,
    Sequence,
    Tensor,
    Value,
)
from syncheck.lint.prefilter import GIVEN_DEVICES
from syncheck.semantics.operators import ALLOCATING
from syncheck.semantics.python_api import (
    ALIASES,
    CASTS,
    COMBINING,
    COMPARING,
    MEMBERS_WITHOUT_MEMORY,
    NEW,
    OVERWRITING,
    PARTS,
    REORDERING,
    RETURNING_VALUES,
    operator_of,
)
from syncheck.semantics.waits import MASKED, HostWait, host_wait
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_DEVICES = GIVEN_DEVICES | {"_device"}
"""Names of the devices that programs are given to run on."""
_OTHER_BACKENDS = frozenset({"cpu", "host", "tpu", "xla", "mps"})
"""Words in the names of functions that run on something other than a GPU."""
_ON_SEVERAL = "aten::_foreach_"
"""Beginning of the names of operators whose tensors may be on several GPUs."""
_OF_CONTAINERS = frozenset("append appendleft extend extendleft insert pop popleft popitem setdefault".split())
"""Methods that containers have and tensors do not, so that the object is not a tensor when they are called."""


class _Facts:
    """See `syncheck.semantics.waits.TensorFacts`."""

    def is_tensor(self, value: object) -> bool:
        """Return whether an argument is a tensor."""
        return isinstance(value, Tensor)

    def is_on_gpu(self, tensor: Tensor) -> bool:
        """Return whether a tensor is on a GPU."""
        return tensor.block.device is not None

    def is_mask(self, tensor: Tensor) -> bool:
        """Return whether a tensor is known to be Boolean."""
        return tensor.is_mask

    def is_number(self, tensor: Tensor) -> bool:
        """Return whether a tensor is assumed to have one element: a host tensor that is assigned to part of another."""
        return tensor.block.device is None


_FACTS = _Facts()
_HOST_TENSOR = Tensor(Block(NO_ALLOCATION, None, is_pinned=False, died=lambda _: None))
"""The tensor that torch creates from a number, or from a list of numbers."""


class Operators:
    """Runs operators on a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.has_grad = True

    # -- creating tensors

    def device_in(self, value: Value | None) -> DeviceIndex:
        """Return the index of a device argument; None for the CPU, UNKNOWN if unknown."""
        machine = self._machine
        if isinstance(value, Device):
            return value.index
        if isinstance(value, Constant):
            if isinstance(value.value, int) and not isinstance(value.value, bool):
                return value.value if 0 <= value.value < N_DEVICES else UNKNOWN
            if isinstance(value.value, str):
                return _named_device(value.value, machine)
        return UNKNOWN

    def is_gpu(self, node: ast.expr | None) -> bool:
        """Return whether a device is passed to CUDA functions elsewhere in the file, judging by its name."""
        return self._machine.sites.is_gpu_name(last_name(node))

    def may_be_gpu(self, node: ast.expr | None) -> bool:
        """Return whether a device has a name that is common for GPUs, in a file that may use one."""
        return last_name(node) in _DEVICES and self._machine.sites.may_use_gpu

    def used_as(self, node: ast.AST) -> str:
        """Return the variable whose uses show that an operator's result is on a GPU; "" if none does.

        An asynchronous collective uses it, or a stream block computes with it.
        """
        machine, sites, imported = self._machine, self._machine.sites, self._machine.imported
        target = target_of(node, machine.current_node, machine.function)
        if imported.running is not None:
            return target if target in imported.exchanged else ""
        if target and sites.has_asynchronous_collectives and target in exchanged_variables(sites.tree):
            return target
        return block_inputs(sites.tree).get(node, "") if sites.enters_streams else ""

    def make(self, operator: str, call: Call, device: DeviceIndex, *, is_pinned: bool = False) -> Value:
        """Run an operator that creates a tensor from scratch."""
        machine, text = self._machine, ""
        if isinstance(device, Value) and self.is_gpu(device_of(call.node)):
            device = machine.device
        if isinstance(device, Value):
            text = self._premise(call.node)
            if not text:
                is_elsewhere = words_of(machine.function) & _OTHER_BACKENDS
                return MOVED if self.may_be_gpu(device_of(call.node)) and not is_elsewhere else UNKNOWN
            device = machine.device
        block = machine.allocate(device, call.node, is_pinned=is_pinned)
        made = Tensor(block, stream=UNKNOWN_STREAM if device is None else machine.current(device), is_single=True)
        machine.parts.note_made(block.ident, call.args)
        if text:
            machine.sites.premises.assume_on_gpu(made, text)
        if device is not None and operator.rpartition(":")[2] not in ALLOCATING:
            machine.launch(made.stream, operator, [(made, True)], call.node)
        if call.flag("requires_grad"):
            made.is_leaf = True
            made.leaves = (made,)
        return made

    def _premise(self, node: ast.AST) -> str:
        """Return, in words, that a new tensor is on a GPU, if its uses show it or that is assumed; otherwise ""."""
        if name := self.used_as(node):
            return f"`{name}` is on a GPU"
        return _premise_on_device(node) if self._machine.sites.premises.has(Premise.DEVICE) else ""

    def factory(self, name: str, call: Call) -> Value:
        """Run torch.zeros and similar functions."""
        if "out" in call.kwargs:
            return self.run(f"aten::{name}", [], call)
        wanted = call.get("device")
        is_given = wanted is not None and not (isinstance(wanted, Constant) and wanted.value is None)
        device: DeviceIndex = self.device_in(wanted) if is_given else None
        sources = [tensor for tensor in tensors_in(Sequence(call.values())) if tensor.block.device is not None]
        if name == "as_tensor" or (sources and name == "tensor"):
            if sources and is_given and device is None:
                self._wait(sources[0], call.node)  # for the copy to the host
            return UNKNOWN
        if device is None and wanted is None and name == "normal" and sources:
            device = sources[0].block.device
        made = self.make(f"aten::{name}", call, device, is_pinned=bool(pinned := call.flag("pin_memory")))
        if pinned is None and isinstance(made, Tensor):
            made.block.escaped = True
        if name == "tensor" and not self._machine.is_capturing():
            self._wait(made, call.node)  # for the copy of its data: torch/csrc/utils/tensor_new.cpp
        return made

    def like(self, name: str, source: Tensor | None, call: Call) -> Value:
        """Run torch.zeros_like, Tensor.new_zeros and similar functions; `source` is None for an unknown tensor."""
        wanted, is_pinned = call.get("device"), bool(call.flag("pin_memory"))
        if wanted is not None:
            device = self.device_in(wanted)
        elif source is not None:
            device = source.block.device
        else:
            device = None if is_pinned else UNKNOWN  # only host memory can be pinned
        return self.make(f"aten::{name}", call, device, is_pinned=is_pinned)

    # -- operators in general

    def binary(self, operator: str, left: Value, right: Value, node: ast.AST) -> Value:
        """Run an operator on a tensor and another value. With an unknown one, a host tensor may be on a GPU by now."""
        result = self.run(operator, tensors_in(Sequence([left, right])), Call(node, []))
        is_on_host = isinstance(result, Tensor) and result.block.device is None
        return UNKNOWN if is_on_host and (is_unknown(left) or is_unknown(right)) else result

    def run(self, operator: str, inputs: list[Tensor], call: Call) -> Value:
        """Run an operator that reads tensors and creates a new one or writes to `out`."""
        out = tensors_in(call.kwargs.get("out"))
        inputs = [tensor for tensor in inputs if all(tensor is not target for target in out)]
        if any(target.block.device is None for target in out):  # torch would raise an error if the others were on a GPU
            inputs = [tensor for tensor in inputs if tensor.block.device is None]
        devices = [t.block.device for t in (*inputs, *out) if t.block.device is not None]
        touched = [*((tensor, False) for tensor in inputs), *((tensor, True) for tensor in out)]
        if not devices:
            self._machine.touch_host(operator, touched, call.node, escape=operator.removeprefix("aten::") in CASTS)
            return call.kwargs.get("out") or self._result(operator, inputs, None, call)
        if len(set(devices)) > 1 and not operator.startswith(_ON_SEVERAL):
            for tensor in (*inputs, *out):
                tensor.block.escaped = True  # torch would raise an error, so some must be somewhere else
            return call.kwargs.get("out") or UNKNOWN
        if not out:
            return self._result(operator, inputs, devices[0], call)
        self._machine.launch(self._machine.current(devices[0]), operator, touched, call.node)
        return call.kwargs["out"]

    def _result(self, operator: str, inputs: list[Tensor], device: int | None, call: Call) -> Tensor:
        machine = self._machine
        block = machine.allocate(device, call.node)
        result = Tensor(block, stream=UNKNOWN_STREAM if device is None else machine.current(device))
        base = operator.rpartition(":")[2]
        result.is_mask = base in COMPARING or (base in COMBINING and all(tensor.is_mask for tensor in inputs))
        leaves = {id(leaf): leaf for tensor in inputs for leaf in tensor.leaves} if self.has_grad else {}
        if leaves:
            result.leaves, result.keeps = tuple(leaves.values()), tuple(inputs)
        if device is not None:
            reads = [(tensor, False) for tensor in inputs]
            machine.launch(result.stream, operator, [*reads, (result, True)], call.node)
        return result

    def in_place(self, name: str, target: Tensor, inputs: list[Tensor], call: Call) -> Value:
        """Run an operator that modifies a tensor."""
        if target.block.device is None and any(tensor.block.device is not None for tensor in inputs):
            target.block.escaped = True  # torch would raise an error, so it must be somewhere else
            return target
        touched: list[TensorAccess] = [(tensor, False) for tensor in inputs]
        if name not in OVERWRITING:
            touched.append((target, False))
        touched.append((target, True))
        if target.block.device is None:
            self._machine.touch_host(f"aten::{name}", touched, call.node)
        else:
            self._machine.launch(self._machine.current(target.block.device), f"aten::{name}", touched, call.node)
        leaves = {id(leaf): leaf for tensor in (target, *inputs) for leaf in tensor.leaves} if self.has_grad else {}
        if leaves and not target.is_leaf:
            target.leaves, target.keeps = tuple(leaves.values()), (*target.keeps, *inputs)
        return target

    def method(self, tensor: Tensor, name: str, call: Call) -> Value:
        """Run a tensor method other than a device copy, or a torch function whose first argument is a tensor."""
        wait = self._host_wait(operator_of(name), [tensor, *call.args], call)
        name = name.rpartition(".")[2]
        known = self._without_kernel(tensor, name, call)
        if known is not None:
            return known
        inputs = tensors_in(Sequence(call.values()))
        if wait is HostWait.BEFORE:
            self._wait(tensor, call.node)
        rows = self._machine.parts.rows(index_of(name, call), tensor.part)
        part = tensor if rows == tensor.part else self.alias(tensor, rows)
        if name.endswith("_") and not name.endswith("__"):
            result: Value = tensor
            self.in_place(name, part, inputs, call)
            tensor.leaves, tensor.keeps = part.leaves, part.keeps
        else:
            result = self.run(f"aten::{name}", [part, *inputs], call)
        if wait is HostWait.AFTER:
            self._wait(tensor, call.node)
        return result

    def _without_kernel(self, tensor: Tensor, name: str, call: Call) -> Value | None:
        """Run a method that launches no kernel, or that only creates a new tensor; return None for any other method."""
        if name in MEMBERS_WITHOUT_MEMORY or name in _OF_CONTAINERS:
            return UNKNOWN
        if name == "contiguous" and (tensor.is_strided or tensor.is_argument) and tensor.block.device is not None:
            return None  # it is, or may be, copied
        if name in ALIASES or name in PARTS:
            alias = self.alias(tensor, self._part_of_method(tensor, name, call), is_strided=name in REORDERING)
            if name.startswith("detach"):
                alias.leaves, alias.keeps = (), ()
            return alias
        if name in NEW:
            return self.like(name, tensor, call)
        if name in RETURNING_VALUES:
            self.read_by_host(tensor, call.node, name)
            return UNKNOWN
        return None

    def _part_of_method(self, tensor: Tensor, name: str, call: Call) -> Part:
        if name in ALIASES:
            return tensor.part
        if tensor.part != WHOLE:
            return None
        return self._machine.parts.strided(call) if name == "as_strided" else of_method(name, call)

    def _host_wait(self, operator: str, args: list[Value], call: Call) -> HostWait:
        kwargs = {name: _plain(value) for name, value in call.kwargs.items()}
        given = [_plain(value) for value in args]
        if operator in MASKED and len(given) > 1:
            given[1] = tensors_in(Sequence(list(args[1:2])))  # the indices; others are not known to wait
        return host_wait(operator, given, kwargs, _FACTS)

    def alias(self, tensor: Tensor, part: Part, *, is_strided: bool = False) -> Tensor:
        """Return a tensor over the same memory; `is_strided`: it is no longer contiguous."""
        alias = Tensor(tensor.block, part, tensor.leaves, tensor.keeps, tensor.stream, is_mask=tensor.is_mask)
        alias.is_strided = tensor.is_strided or is_strided
        alias.is_argument, alias.array = tensor.is_argument, tensor.array
        return alias if tensor.block.replays is None else taken_from(tensor, alias, self._machine.site())

    def item(self, tensor: Tensor, index: Value) -> Tensor:
        """Return the part of a tensor that an index without tensors selects."""
        return self.alias(tensor, self.part_of(tensor, index), is_strided=is_strided(index))

    def tested_by_host(self, tensor: Tensor, node: ast.AST) -> None:
        """Let the host test whether a tensor is true."""
        self.read_by_host(tensor, node, call=f"bool({ast.unparse(node)})")

    def read_all_by_host(self, values: Iterable[Value], node: ast.AST) -> None:
        """Let the host read the values of the tensors among some values."""
        for value in values:
            if isinstance(value, Tensor):
                self.read_by_host(value, node)

    def read_by_host(self, tensor: Tensor, node: ast.AST, what: str = "item", call: str = "") -> None:
        """Let the host read a tensor's values from any device; `call`: the call that does so, if it is not the node."""
        if tensor.block.device is None:
            self._machine.touch_host(f"aten::{what}", [(tensor, False)], node)
            return
        stream = self._machine.current(tensor.block.device)
        self._machine.launch(stream, f"aten::{what}", [(tensor, False)], node)
        self._machine.sync_stream(stream, node, explicit=False, call=call)

    # -- parts

    def index(self, tensor: Tensor, index: Value, node: ast.AST) -> Value:
        """Run `tensor[index]`, with an index of tensors or lists of numbers. It reads an unknown part."""
        picks = tensors_in(index)
        if host_wait("index", [tensor, picks or [_HOST_TENSOR]], {}, _FACTS) is not HostWait.NEVER:
            self._wait(tensor, node)
        part = self.alias(tensor, self._machine.parts.at(index, tensor.part))
        return self.run("aten::index", [part, *picks], Call(node, []))

    def index_put(self, tensor: Tensor, index: Value, values: list[Tensor], node: ast.AST) -> None:
        """Run `tensor[index] = value`, with an index of tensors or lists of numbers. It writes an unknown part."""
        picks = tensors_in(index)
        args = [tensor, picks or [_HOST_TENSOR], values[0] if values else _HOST_TENSOR]
        if host_wait("index_put_", args, {}, _FACTS) is not HostWait.NEVER:
            self._wait(tensor, node)
        part = self.alias(tensor, self._machine.parts.at(index, tensor.part))
        self.in_place("copy_", part, [*picks, *values], Call(node, []))

    def _wait(self, value: Value, node: ast.AST) -> None:
        """Let the host wait for the current stream of a value's device, that of the thread if it was only moved."""
        moved_to = self._machine.thread.device if value is MOVED else None
        device = value.block.device if isinstance(value, Tensor) else moved_to
        if device is not None:
            self._machine.sync_stream(self._machine.current(device), node, explicit=False)

    def part_of(self, tensor: Tensor, index: Value) -> Part:
        """Return the rows that an index selects; None for an unknown part."""
        known = self._machine.parts.at(index, tensor.part)
        return known or (selected(index) if tensor.part == WHOLE else None)


def device_of(node: ast.AST) -> ast.expr | None:
    """Return the device argument of a call."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return next((keyword.value for keyword in keywords if keyword.arg == "device"), None)


def _premise_on_device(node: ast.AST) -> str:
    """Return, in words, that the device argument of a call is a GPU; "" for a call without one."""
    named = device_of(node)
    return f"{description_of(named)} is a GPU" if named is not None else ""


def _plain(value: Value) -> Any:
    """Convert a value for `host_wait`: a constant to its Python value. Any other value is kept."""
    return value.value if isinstance(value, Constant) else value


def is_list(node: ast.AST) -> bool:
    """Return whether an index contains a list of numbers."""
    if not isinstance(node, ast.Subscript):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(isinstance(part, ast.List) for part in parts)


def _named_device(text: str, machine: Machine) -> DeviceIndex:
    kind, colon, index = text.partition(":")
    if kind == "cpu":
        return None
    if kind not in {"cuda", "xpu", "npu", "musa", "hpu"}:
        return UNKNOWN
    if not colon:
        return machine.device
    return int(index) if index.isdecimal() and int(index) < N_DEVICES else UNKNOWN
