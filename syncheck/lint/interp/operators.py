"""Operators: what torch's functions and methods read, write and return."""

import ast

from syncheck.lint.interp.machine import Machine, TensorAccess
from syncheck.lint.interp.values import (
    UNKNOWN,
    UNKNOWN_STREAM,
    WHOLE,
    Call,
    Constant,
    Device,
    DeviceIndex,
    Part,
    Sequence,
    Tensor,
    Value,
    tensors_in,
)

# Methods that hand out an alias of the whole tensor, or of a part that is not known.
_ALIASES = frozenset(
    """view reshape t transpose permute squeeze unsqueeze expand expand_as flatten ravel detach view_as movedim swapaxes
    swapdims unflatten as_strided requires_grad_ contiguous mT mH T H real data adjoint atleast_1d detach_ squeeze_
    unsqueeze_ t_ transpose_ swapaxes_ rename refine_names values indices""".split()
)
_PARTS = frozenset(
    "narrow select chunk split unbind tensor_split diagonal unfold split_with_sizes hsplit vsplit".split()
)
# Methods that look at sizes, types and addresses.
_METADATA = frozenset(
    """size dim ndimension numel nelement stride element_size is_contiguous is_pinned data_ptr type get_device storage
    storage_offset untyped_storage retain_grad is_floating_point is_complex is_shared share_memory_ has_names
    is_coalesced dim_order shape dtype device layout is_cuda is_cpu requires_grad grad_fn is_leaf ndim nbytes names
    itemsize is_sparse is_quantized is_meta""".split()
)
# Methods that make the host wait for the current stream, and give Python values, or a tensor of unknown size.
_READING = frozenset("item tolist __bool__ __int__ __float__ __index__ allclose equal".split())
_SIZED = frozenset("nonzero unique unique_consecutive masked_select bincount repeat_interleave histc argwhere".split())
# Methods that do so for the number that they fill in, if it is a tensor there; and the number's position.
_FILLING = {"masked_fill": 1, "masked_fill_": 1, "index_fill": 2, "index_fill_": 2}
# Operators that give truth values, by the names of Python's comparisons too; and those that do so for truth values.
_COMPARING = frozenset(
    """gt ge lt le eq ne gte lte noteq greater greater_equal less less_equal not_equal isnan isinf isfinite isclose isin
    isposinf isneginf signbit isreal any all logical_and logical_or logical_xor logical_not""".split()
)
_COMBINING = frozenset("bitand bitor bitxor invert bitwise_and bitwise_or bitwise_xor bitwise_not clone".split())
# In-place methods that write without reading what was there.
_OVERWRITING = frozenset(
    """zero_ fill_ copy_ normal_ uniform_ random_ exponential_ bernoulli_ geometric_ cauchy_ log_normal_ set_
    resize_""".split()
)
FACTORIES = frozenset(
    """empty zeros ones rand randn randint randperm full arange linspace logspace eye tensor as_tensor empty_strided
    hann_window hamming_window normal tril_indices triu_indices""".split()
)
LIKE = frozenset("empty_like zeros_like ones_like rand_like randn_like randint_like full_like".split())
_NEW = frozenset("new_empty new_zeros new_ones new_full new_tensor".split())
_UNTOUCHED = frozenset("empty empty_like empty_strided new_empty".split())


class Operators:
    """Runs operators on a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.has_grad = True

    # -- making tensors

    def device_in(self, value: Value | None) -> DeviceIndex:
        """Return the index that a device argument names, None for the CPU, UNKNOWN where nobody knows."""
        machine = self._machine
        if isinstance(value, Device):
            return value.index
        if isinstance(value, Constant):
            if isinstance(value.value, int) and not isinstance(value.value, bool):
                return value.value
            if isinstance(value.value, str):
                return _named_device(value.value, machine)
        return UNKNOWN

    def make(self, operator: str, call: Call, device: DeviceIndex, *, is_pinned: bool = False) -> Value:
        """Run an operator that makes a tensor from nothing."""
        if isinstance(device, Value):
            return UNKNOWN
        machine = self._machine
        block = machine.allocate(device, call.node, is_pinned=is_pinned)
        made = Tensor(block, stream=UNKNOWN_STREAM if device is None else machine.current(device))
        if device is not None and operator.rpartition(":")[2] not in _UNTOUCHED:
            machine.launch(made.stream, operator, [(made, True)], call.node)
        if call.flag("requires_grad"):
            made.is_leaf = True
            made.leaves = (made,)
        return made

    def factory(self, name: str, call: Call) -> Value:
        """Run torch.zeros and the like."""
        if "out" in call.kwargs:
            return self.run(f"aten::{name}", [], call)
        wanted = call.get("device")
        device: DeviceIndex = None if wanted is None else self.device_in(wanted)
        if isinstance(wanted, Constant) and wanted.value is None:
            device = None
        sources = [tensor for tensor in tensors_in(Sequence(call.values())) if tensor.block.device is not None]
        if name == "as_tensor" or (sources and name == "tensor"):
            return UNKNOWN
        if device is None and wanted is None and name == "normal" and sources:
            device = sources[0].block.device
        pinned = call.flag("pin_memory")
        if pinned is None:
            return UNKNOWN
        return self.make(f"aten::{name}", call, device, is_pinned=bool(pinned))

    def like(self, name: str, source: Tensor, call: Call) -> Value:
        """Run torch.zeros_like, Tensor.new_zeros and the like."""
        wanted = call.get("device")
        device = source.block.device if wanted is None else self.device_in(wanted)
        return self.make(f"aten::{name}", call, device, is_pinned=bool(call.flag("pin_memory")))

    # -- operators in general

    def run(self, operator: str, inputs: list[Tensor], call: Call) -> Value:
        """Run an operator that reads tensors and makes a new one, or fills `out`."""
        out = tensors_in(call.kwargs.get("out"))
        inputs = [tensor for tensor in inputs if all(tensor is not target for target in out)]
        devices = [t.block.device for t in (*inputs, *out) if t.block.device is not None]
        reads = [(tensor, False) for tensor in inputs]
        if not devices:
            self._machine.touch_host(operator, [*reads, *((t, True) for t in out)], call.node)
            return call.kwargs.get("out") or self._result(operator, inputs, None, call)
        device = devices[0]
        stream = self._machine.current(device)
        if out:
            self._machine.launch(stream, operator, [*reads, *((t, True) for t in out)], call.node)
            return call.kwargs["out"]
        return self._result(operator, inputs, device, call)

    def _result(self, operator: str, inputs: list[Tensor], device: int | None, call: Call) -> Tensor:
        machine = self._machine
        block = machine.allocate(device, call.node)
        result = Tensor(block, stream=UNKNOWN_STREAM if device is None else machine.current(device))
        base = operator.rpartition(":")[2]
        result.is_mask = base in _COMPARING or (base in _COMBINING and all(tensor.is_mask for tensor in inputs))
        leaves = {id(leaf): leaf for tensor in inputs for leaf in tensor.leaves} if self.has_grad else {}
        if leaves:
            result.leaves, result.keeps = tuple(leaves.values()), tuple(inputs)
        if device is not None:
            reads = [(tensor, False) for tensor in inputs]
            machine.launch(result.stream, operator, [*reads, (result, True)], call.node)
        return result

    def in_place(self, name: str, target: Tensor, inputs: list[Tensor], call: Call) -> Value:
        """Run an operator that changes a tensor."""
        if target.block.device is None and any(tensor.block.device is not None for tensor in inputs):
            target.block.escaped = True  # torch would refuse it: it lies somewhere else
            return target
        touched: list[TensorAccess] = [(tensor, False) for tensor in inputs]
        if name not in _OVERWRITING:
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
        """Run a method of a tensor that is no copy between devices."""
        inputs = tensors_in(Sequence(call.values()))
        if name in _METADATA:
            return UNKNOWN
        if name in _ALIASES or name in _PARTS:
            alias = self.alias(tensor, tensor.part if name in _ALIASES else None)
            if name.startswith("detach"):
                alias.leaves, alias.keeps = (), ()
            return alias
        if name in _NEW:
            return self.like(name, tensor, call)
        if name in _READING:
            self.read_by_host(tensor, call.node, name)
            return UNKNOWN
        if _waits(name, call):
            self._wait(tensor, call.node)
        if name.endswith("_") and not name.endswith("__"):
            return self.in_place(name, tensor, inputs, call)
        return self.run(f"aten::{name}", [tensor, *inputs], call)

    def alias(self, tensor: Tensor, part: Part) -> Tensor:
        """Return a tensor over the same memory."""
        return Tensor(tensor.block, part, tensor.leaves, tensor.keeps, tensor.stream, is_mask=tensor.is_mask)

    def asked_by_host(self, tensor: Tensor, node: ast.AST) -> None:
        """Let the host ask whether a tensor is true."""
        self.read_by_host(tensor, node, call=f"bool({ast.unparse(node)})")

    def read_by_host(self, tensor: Tensor, node: ast.AST, what: str = "item", call: str = "") -> None:
        """Let the host read a tensor's values, wherever it lies; `call`: what does it, if that is not the node."""
        if tensor.block.device is None:
            self._machine.touch_host(f"aten::{what}", [(tensor, False)], node)
            return
        stream = self._machine.current(tensor.block.device)
        self._machine.launch(stream, f"aten::{what}", [(tensor, False)], node)
        self._machine.sync_stream(stream, node, explicit=False, call=call)

    # -- parts

    def index(self, tensor: Tensor, picks: list[Tensor], node: ast.AST) -> Value:
        """Run `tensor[picks]`, without any for a list of numbers: indices that the host has are copied first."""
        if not picks or any(map(_is_waited_for, picks)):
            self._wait(tensor, node)
        return self.run("aten::index", [tensor, *picks], Call(node, []))

    def index_put(self, tensor: Tensor, picks: list[Tensor], values: list[Tensor], node: ast.AST) -> None:
        """Run `tensor[picks] = value`: with one mask alone, a number that the host has is filled in at once."""
        is_fill = len(picks) == 1 and picks[0].is_mask and all(value.block.device is None for value in values)
        if not is_fill and (not picks or any(map(_is_waited_for, picks))):
            self._wait(tensor, node)
        self.in_place("copy_", self.alias(tensor, None), [*picks, *values], Call(node, []))

    def _wait(self, tensor: Tensor, node: ast.AST) -> None:
        """Let the host wait for the stream that is current on a tensor's device."""
        if tensor.block.device is not None:
            self._machine.sync_stream(self._machine.current(tensor.block.device), node, explicit=False)

    def part_of(self, tensor: Tensor, index: Value) -> Part:
        """Return the rows that an index selects; None for a part that is not known."""
        first = index.items[0] if isinstance(index, Sequence) and index.items else index
        if tensor.part != WHOLE or not isinstance(first, Constant):
            return None
        value = first.value
        if isinstance(value, slice) and value.step in {None, 1}:
            start = value.start or 0
            if not isinstance(start, int) or start < 0 or (value.stop is not None and not _is_row(value.stop)):
                return None
            if value.stop is None and start == 0:
                return WHOLE if not isinstance(index, Sequence) or len(index.items) == 1 else None
            return (start, value.stop if value.stop is not None else WHOLE[1]) if index is first else None
        if value is Ellipsis or value is None:
            return WHOLE if index is first else None
        return (value, value + 1) if _is_row(value) and index is first else None


def _waits(name: str, call: Call) -> bool:
    """Tell whether the host waits in a method of a tensor on a GPU, for a size or a number."""
    if name == "histc":
        return len(call.args) < 2 and not call.kwargs.keys() & {"min", "max"}
    if name == "repeat_interleave":
        repeats = call.get("repeats", 0)
        return "output_size" not in call.kwargs and (repeats is None or isinstance(repeats, Tensor))
    number = call.get("value", _FILLING[name]) if name in _FILLING else None
    return name in _SIZED or (isinstance(number, Tensor) and number.block.device is not None)


def is_list(node: ast.AST) -> bool:
    """Tell whether parts of a tensor are picked by lists of numbers."""
    if not isinstance(node, ast.Subscript):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(isinstance(part, ast.List) for part in parts)


def _is_waited_for(index: Tensor) -> bool:
    """Tell whether the host waits for an index: it counts a mask on the GPU, and copies what it has, but for a mask."""
    return index.is_mask == (index.block.device is not None)


def _is_row(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _named_device(text: str, machine: Machine) -> DeviceIndex:
    kind, colon, index = text.partition(":")
    if kind == "cpu":
        return None
    if kind not in {"cuda", "xpu", "npu", "musa", "hpu"}:
        return UNKNOWN
    if not colon:
        return machine.device
    return int(index) if index.isdecimal() and int(index) < 8 else UNKNOWN
