"""Methods of the program's objects that their classes do not define, and of values without a model of their own."""

import ast
import re

from syncheck.hb.ids import UNKNOWN_SITE
from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.functions import HOOKS
from syncheck.lint.interp.identities import is_unknown
from syncheck.lint.interp.registry import models, models_methods
from syncheck.lint.interp.unknown import is_moved, is_network, may_be_tensor
from syncheck.lint.interp.values import (
    DERIVED,
    MOVED,
    NONE,
    UNKNOWN,
    Attribute,
    Call,
    Class,
    Constant,
    Event,
    Function,
    Instance,
    Module,
    NativeObject,
    Partial,
    Sequence,
    Stream,
    Symbol,
    Tensor,
    Value,
)
from syncheck.lint.models.hooks import AROUND_FORWARD, call_hook, is_called_later, may_wait_in
from syncheck.lint.models.layers import call_module_method, reduces_on_host, train_unknown
from syncheck.lint.nodes import function_around, stored_names, walk
from syncheck.semantics.python_api import MEMBERS_WITHOUT_MEMORY, NEW, RETURNING_VALUES, SIZED_BY_VALUES

_FILLING = re.compile(r"readinto1?$|\w+_into$")
"""Methods of files, sockets and decoders that write to a given buffer."""


@models_methods(Value)
def _unknown(evaluator: Evaluator, owner: Value, name: str, call: Call) -> Value | None:
    """Call a method of an unknown value. Some names show what the method returns."""
    is_tensor = may_be_tensor(owner)
    if name == "record":  # any event
        evaluator.machine.unsure.add(UNKNOWN_SITE)
        evaluator.machine.imported.note_record(evaluator.machine.site(call.node))
    moved = evaluator.transfers.move(call, name, is_tensor=is_tensor) or evaluator.transfers.upload(call, name)
    moved = moved or (evaluator.operators.like(name, None, call) if name in NEW else None)
    if moved is not None or name == "record_stream":  # which orders nothing
        return moved or NONE
    if name == "numpy":  # fails for a tensor on a GPU: torch/csrc/utils/tensor_numpy.cpp, `tensor_to_numpy`
        return UNKNOWN
    if name in RETURNING_VALUES or (_is_of_array(name, call) and _is_result(evaluator, call.node)):
        evaluator.machine.read_unknown()
        return UNKNOWN
    if name in SIZED_BY_VALUES:
        evaluator.machine.recent.flush()
        evaluator.machine.read_unknown()
        return UNKNOWN
    if _FILLING.match(name):
        return _fill(evaluator, name, call)
    found = _call_unknown(evaluator, owner, name, call)
    if name == "backward" and reduces_on_host(evaluator.machine.sites.text):
        evaluator.machine.read_unknown()
    return found


def _is_of_array(name: str, call: Call) -> bool:
    """Return whether only arrays of the host have a method, so that the host has waited for what is in them.

    Source:
        numpy.ndarray.transpose takes a tuple, or all axes. torch.Tensor.transpose takes two dimensions.
    """
    is_tuple = len(call.args) == 1 and isinstance(call.args[0], Sequence)
    return name == "astype" or (name == "transpose" and (is_tuple or len(call.args) > 2))


def _is_result(evaluator: Evaluator, node: ast.AST) -> bool:
    """Return whether the object of a method is what a network returned, or a part of it, judging by its name."""
    value = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    while isinstance(value, ast.Subscript):
        value = value.value
    if not isinstance(value, ast.Name):
        return value is not None and is_network(value)
    function = function_around(evaluator.machine.sites.tree, getattr(node, "lineno", 0))
    assigned = (step for step in walk(function) if isinstance(step, ast.Assign) and is_network(step.value))
    return any(value.id in stored_names(walk(target)) for step in assigned for target in step.targets)


def _fill(evaluator: Evaluator, name: str, call: Call) -> Value:
    for array in tensors_in(Sequence(call.values())):
        evaluator.machine.touch_host(name, [(array, True)], call.node)
    return UNKNOWN


def _call_unknown(evaluator: Evaluator, owner: Value, name: str, call: Call) -> Value | None:
    is_tensor = may_be_tensor(owner)
    if is_called_later(evaluator.machine, name, call):
        return UNKNOWN
    if name in AROUND_FORWARD and may_wait_in(evaluator.machine, call.get("hook", 0)):
        evaluator.machine.hooks_may_wait = True
    call_hook(evaluator, name, call)
    first = call.get("fn", 0) if name == "submit" else None
    if isinstance(first, Symbol) and first.path == "torch.save":
        return evaluator.call_in_new_thread(first, Call(call.node, call.args[1:], call.kwargs))
    if not is_tensor:
        train_unknown(evaluator, name, call)
        return _of_moved(evaluator, name, call) if is_moved(owner) else None
    if name in MEMBERS_WITHOUT_MEMORY:
        return UNKNOWN
    if name == "backward":
        evaluator.machine.guess(call.node)
    found = evaluator.call_unknown(name, call)
    return DERIVED if is_unknown(found) else found


def _of_moved(evaluator: Evaluator, name: str, call: Call) -> Value:
    """Call a method of something that was moved to a device: what it returns is on that device, too."""
    if name in MEMBERS_WITHOUT_MEMORY:
        return UNKNOWN
    if name == "forward":  # of a network
        return evaluator.call(MOVED, call)
    found = evaluator.call_unknown(name, call)
    return MOVED if is_unknown(found) else found


@models_methods(Attribute)
def _attribute(evaluator: Evaluator, owner: Attribute, name: str, call: Call) -> Value | None:
    if owner.name == "data" and isinstance(owner.owner, Tensor):
        return evaluator.call_method(owner.owner, name, call)
    return _unknown(evaluator, owner, name, call)


@models_methods(NativeObject)
def _native_object(evaluator: Evaluator, owner: NativeObject, name: str, call: Call) -> Value | None:
    method = owner.methods.get(name)
    return _unknown(evaluator, owner, name, call) if method is None else method(call)


@models_methods(Constant, Partial, Function, Class)
def _constant(evaluator: Evaluator, owner: Value, name: str, call: Call) -> Value | None:
    """Call a method of a value without contents. A variable that was None is something unknown by now."""
    del evaluator, name
    is_set_elsewhere = isinstance(owner, Constant) and owner.value is None
    has_objects = any(isinstance(value, Stream | Event | Tensor) for value in call.values())
    return None if is_set_elsewhere or has_objects else UNKNOWN


@models_methods(Instance)
def _instance(evaluator: Evaluator, owner: Instance, name: str, call: Call) -> Value | None:
    """Call a method that the object's class does not define: it belongs to an unknown base class."""
    if owner.kind.is_net:
        if name in AROUND_FORWARD:
            owner.attributes[HOOKS] = UNKNOWN
        found = call_module_method(evaluator, owner, name, call)
        if found is not None:
            return found
    run = owner.kind.find("run")
    is_thread = any(isinstance(base, Symbol) and base.path == "threading.Thread" for base in owner.kind.bases)
    if is_thread and name == "start" and run is not None:
        return evaluator.call_in_new_thread(run, Call(call.node, [owner]))
    return UNKNOWN if is_thread else None


@models("copy.deepcopy")
def _deepcopy(evaluator: Evaluator, call: Call) -> Value | None:
    """Copy a tensor or a network, on the current stream of its device. Source: torch/_tensor.py, `__deepcopy__`."""
    copied = call.get("x", 0) or UNKNOWN
    is_known = isinstance(copied, Tensor | Module) or (isinstance(copied, Instance) and copied.kind.is_net)
    return _copy_of(evaluator, copied, call) if is_known else None


def _copy_of(evaluator: Evaluator, value: Value, call: Call) -> Value:
    match value:
        case Tensor():
            return evaluator.operators.run("aten::clone", [value], Call(call.node, []))
        case Module(weight=Tensor() as weight):
            copied = _copy_of(evaluator, weight, call)
            return Module(copied if isinstance(copied, Tensor) else None, is_single=value.is_single)
        case Instance() if value.kind.is_net:
            inside = {name: _copy_of(evaluator, held, call) for name, held in value.attributes.items()}
            return Instance(value.kind, inside)
        case _:
            return value
