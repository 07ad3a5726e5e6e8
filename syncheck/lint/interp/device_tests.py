"""Tests for the device that a program runs on. A path without a GPU misses no work of one."""

import ast
import re

from syncheck.lint.interp.values import Constant, Value
from syncheck.lint.nodes import text

_DEVICE = re.compile(r"(?:(?:self|cls|args|opts?|cfg|config|options|params)\.)*_?dev(?:ice)?(?:_?type|\.type)?")
"""Names of the device that a program runs on. A tensor's device, or the target of a copy, has other names."""
_ANY_DEVICE = re.compile(r"(?:.*[._])?dev(?:ice)?(?:_?type|\.type)?")
_GPU, _HOST = "cuda", "cpu"
_FLAG = frozenset("use is has have on with want enable torch cuda gpu cpu available only force no not".split())
"""Words of which flags such as `use_cuda` consist."""
_FOR_GPUS = frozenset({"pin_memory", "non_blocking"})
"""Options that make sense only with a GPU."""
_CONVERTING = frozenset({"str", "torch.device", "device"})


def on_gpu(test: ast.expr, *, strictly: bool = True) -> bool | None:
    """Return the result that a test for a GPU has on a machine with one; None for any other condition.

    Args:
        test: the condition.
        strictly: whether only tests of the program's own device for a GPU count, and not those of a tensor's device,
            which may differ, or for the host, which may be the target of a copy.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=asked):
            known = on_gpu(asked, strictly=strictly)
            return None if known is None else not known
        case ast.BoolOp(op=operator, values=parts):
            return _combined([on_gpu(part, strictly=strictly) for part in parts], is_or=isinstance(operator, ast.Or))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _compared(left, operator, right, strictly=strictly)
        case ast.Call(func=ast.Attribute(value=asked, attr="startswith"), args=[named]):
            return _is_gpu(named, strictly=strictly) if _is_device(asked, strictly=strictly) else None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _is_flag_set(name, strictly=strictly)
        case _:
            return True if text(test) == "torch.cuda.is_available()" else None


def with_gpu(option: ast.keyword, value: Value) -> Value:
    """Return the value that an option has on a machine with a GPU: `pin_memory=x.is_cuda` pins memory."""
    is_unknown = option.arg in _FOR_GPUS and not isinstance(value, Constant)
    return Constant(True) if is_unknown and on_gpu(option.value, strictly=False) else value


def _combined(parts: list[bool | None], *, is_or: bool) -> bool | None:
    """Return the result of `and` or `or`; None if it is unknown."""
    if is_or in parts:
        return is_or
    return None if None in parts else not is_or


def _compared(left: ast.expr, operator: ast.cmpop, right: ast.expr, *, strictly: bool) -> bool | None:
    """Return the result of a comparison of a device with kinds of devices; None for any other comparison."""
    is_membership = isinstance(operator, ast.In | ast.NotIn)
    device, kind = (left, right) if not is_membership or _kinds(right) else (right, left)
    if not is_membership and not isinstance(operator, ast.Eq | ast.NotEq):
        return None
    if not _is_device(device, strictly=strictly):
        return None
    known = [_is_gpu(named, strictly=strictly) for named in _kinds(kind) or [kind]]
    if known.count(None) == len(known):
        return None
    return (True in known) == isinstance(operator, ast.Eq | ast.In)


def _kinds(node: ast.expr) -> list[ast.expr]:
    """Return the items of a list of devices; empty for any other expression."""
    return node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []


def _is_gpu(named: ast.expr, *, strictly: bool) -> bool | None:
    """Return whether an expression names a GPU rather than the host; None for any other device."""
    kind = _converted(named)
    if not isinstance(kind, ast.Constant) or kind.value not in ({_GPU} if strictly else {_GPU, _HOST}):
        return None
    return kind.value == _GPU


def _is_device(asked: ast.expr, *, strictly: bool) -> bool:
    """Return whether an expression is a device, judging by its name: `device.type`, `str(device)`."""
    return (_DEVICE if strictly else _ANY_DEVICE).fullmatch(text(_converted(asked))) is not None


def _converted(node: ast.expr) -> ast.expr:
    """Return the argument of `str` or `torch.device`; any other expression unchanged."""
    is_conversion = isinstance(node, ast.Call) and text(node.func) in _CONVERTING and len(node.args) == 1
    return node.args[0] if is_conversion and isinstance(node, ast.Call) else node


def _is_flag_set(name: str, *, strictly: bool) -> bool | None:
    """Return the value of a flag that is named after the GPU, such as `use_cuda` or `no_cuda`."""
    if strictly and name == "is_cuda":
        return None
    words = set(name.lower().strip("_").split("_"))
    kinds = words & ({"cuda", "gpu"} if strictly else {"cuda", "gpu", "cpu"})
    if len(kinds) != 1 or not words <= _FLAG:
        return None
    return (kinds != {"cpu"}) != bool(words & {"no", "not"})
