"""Whether a program may also run without a GPU, judging by its source."""

import ast
import re
from functools import lru_cache

from syncheck.source.expressions import last_name
from syncheck.source.scopes import Scopes

_GPU = re.compile(r"cuda|gpu|xpu|npu|accelerator", re.IGNORECASE)


def may_lack_gpu(scopes: Scopes | None) -> bool:
    """Return whether a file asks for a GPU and continues without one: `"cuda" if torch.cuda.is_available() else "cpu"`.

    It may also compare its device with one of these names, choose between them by an option (`args.gpu < 0`), or move
    things to a device without naming any. A file that stops without a GPU (`assert torch.cuda.is_available()`) does not
    count, nor does an unreadable one.
    """
    return scopes is not None and _continues_without(scopes.tree)


@lru_cache(maxsize=16)
def _continues_without(tree: ast.Module) -> bool:
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    marks = {part for node in parents for mark in getattr(node, "decorator_list", ()) for part in ast.walk(mark)}
    if any(map(_moves_to_device, parents)) and not any(map(_mentions_gpu, parents)):
        return True
    asked = [node for node in parents if _asks_for_gpu(node) and node not in marks]
    return any(not _stops(_statement(call, parents)) for call in asked)


def _moves_to_device(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name() | ast.Attribute() as device, *_]):
            return _is_device(device)
        case _:
            return False


def _mentions_gpu(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=word) | ast.Name(id=word) | ast.Constant(value=str(word)) | ast.alias(name=word):
            return _GPU.search(word) is not None
        case _:
            return False


def _asks_for_gpu(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="is_available")):
            return last_name(owner) in {"cuda", "xpu", "accelerator"}
        case ast.IfExp(body=first, orelse=second):
            return {_named(first), _named(second)} == {"cpu", "cuda"}
        case ast.Compare(left=asked, ops=[ast.Eq() | ast.NotEq()], comparators=[kind]):
            return _is_device(asked) and _named(kind) in {"cpu", "cuda"}
        case ast.Call(func=ast.Attribute(attr="add_argument"), args=[ast.Constant(value="--device"), *_]) as option:
            return any(word.arg == "default" and _named(word.value) == "cpu" for word in option.keywords)
        case _:
            return False


def _is_device(node: ast.expr) -> bool:
    """Return whether an expression is a device or the name of one: `device.type`, `args.device`."""
    named = node.value if isinstance(node, ast.Attribute) and node.attr == "type" else node
    return last_name(named).endswith("device")


def _named(node: ast.expr) -> str:
    """Return the type of the device that an expression names: "cuda" for `torch.device(f"cuda:{rank}")`."""
    match node:
        case ast.Call(func=function, args=[kind, *_]) if last_name(function) == "device":
            return _named(kind)
        case ast.JoinedStr(values=[first, *_]) | ast.BinOp(left=first):
            return _named(first)
        case ast.Constant(value=str(name)):
            return name.partition(":")[0]
        case _:
            return ""


def _statement(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, ast.stmt | ast.Module):
        node = parents[node]
    return node


def _stops(statement: ast.AST) -> bool:
    """Return whether a statement ends the program, the function or a test unless its condition holds."""
    match statement:
        case ast.Assert():
            return True
        case ast.If(test=ast.UnaryOp(op=ast.Not()), body=[*_, ast.Raise() | ast.Return(value=None)]):
            return True
        case ast.If(test=ast.UnaryOp(op=ast.Not()), body=[*_, ast.Expr(value=ast.Call(func=called))]):
            return last_name(called) in {"exit", "_exit", "skip"}
        case ast.If(orelse=[*_, ast.Raise()]):
            return True
        case _:
            return False
