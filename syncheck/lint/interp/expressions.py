"""Evaluation of expressions: their values, and the GPU work that they cause."""

import ast
from collections.abc import Callable, Iterator
from typing import Any

from syncheck.lint.interp.arithmetic import compared, computed, constant, is_same, of_clocks, operator_name, subscript
from syncheck.lint.interp.capacities import by_size
from syncheck.lint.interp.choices import (
    attribute_of_tensor,
    attribute_of_unknown,
    creates_fallback,
    has_element,
    is_made,
    n_made,
)
from syncheck.lint.interp.contents import handles_in, parameters_of, tensors_in
from syncheck.lint.interp.device_tests import with_gpu
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.formatting import is_template, read_formatted
from syncheck.lint.interp.functions import defaults_of
from syncheck.lint.interp.guards import waits
from syncheck.lint.interp.identities import is_unknown
from syncheck.lint.interp.named_tuples import items_of_tuple
from syncheck.lint.interp.operators import is_list
from syncheck.lint.interp.rings import of_containers
from syncheck.lint.interp.rows import BEGINNING
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.side_work import combine
from syncheck.lint.interp.unknown import derived, is_moved, may_be_read
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    Attribute,
    Call,
    Class,
    ClockReading,
    Constant,
    Device,
    Function,
    Generator,
    Instance,
    Key,
    Mapping,
    Module,
    Native,
    Optimizer,
    Partial,
    Sequence,
    Stream,
    Symbol,
    Tensor,
    Value,
    truth,
)
from syncheck.lint.nodes import children

_LIKE: dict[type[ast.expr], type[ast.expr]] = {ast.List: ast.Tuple, ast.Set: ast.Tuple, ast.SetComp: ast.ListComp}
"""Expressions that are evaluated like another kind."""
_OF_MEMBERSHIP = frozenset({ast.In, ast.NotIn})


class Expressions:
    """Evaluates expressions."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._operators = evaluator.operators

    def evaluate(self, node: ast.expr | None, scope: Scope) -> Value:
        """See `Evaluator`."""
        if node.__class__ is ast.Name:  # fast path: nearly half of all expressions, most of them local variables
            found = (scope.names.get(node.id) if not scope.shared else None) or scope.find(node.id)
            value: Value = Symbol(f"builtins.{node.id}") if found is None else found
        else:
            value = _METHODS[node.__class__](self, node, scope) if node is not None else NONE
        if isinstance(value, Tensor) and node is not None:
            self._evaluator.machine.sites.mentions[value.block.ident, node.lineno] = node
        return value

    def _of_other(self, node: ast.expr, scope: Scope) -> Value:
        """Evaluate the parts of an expression whose value is unknown."""
        for child in children(node):
            if isinstance(child, ast.expr):
                self.evaluate(child, scope)
        return UNKNOWN

    def _of_Constant(self, node: ast.Constant, scope: Scope) -> Value:
        del scope
        return constant(node)

    def _of_JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> Value:
        parts, is_known = list[str](), True
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                inner = self.evaluate(value.value, scope)
                read_formatted(self._evaluator.machine, self._operators, inner, value.value)
                is_known &= isinstance(inner, Constant)
                parts.append(str(inner.value) if isinstance(inner, Constant) else "")
            elif isinstance(value, ast.Constant):
                parts.append(str(value.value))
        return Constant("".join(parts)) if is_known else UNKNOWN

    def _of_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> Value:
        value = self.evaluate(node.value, scope)
        scope.set(node.target.id, value)
        self._evaluator.forget_decisions(node.target.id)
        return value

    def _of_Attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        owner = self.evaluate(node.value, scope)
        if owner.__class__ is Value:
            self._evaluator.note_object(node.value)
        return self.attribute(owner, node.attr, node)

    def _of_Call(self, node: ast.Call, scope: Scope) -> Value:
        function = self.evaluate(node.func, scope)
        args, kwargs, is_complete = list[Value](), dict[str, Value](), True
        for argument in node.args:
            value = self.evaluate(argument, scope)
            if isinstance(argument, ast.Starred):
                is_complete &= isinstance(value, Sequence) and not value.is_open
            args += value.items if isinstance(argument, ast.Starred) and isinstance(value, Sequence) else [value]
        for keyword in node.keywords:
            value = with_gpu(keyword, self.evaluate(keyword.value, scope))
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, Mapping):
                kwargs |= {key: item for key, item in value.items.items() if isinstance(key, str)}
                is_complete &= not value.is_open
            else:
                is_complete = False
            if keyword.arg is None and is_moved(value):
                kwargs["**"] = value
        return self._evaluator.call(function, Call(node, args, kwargs, is_complete), scope)

    def _of_Await(self, node: ast.Await, scope: Scope) -> Value:
        return self.evaluate(node.value, scope)

    def _of_Lambda(self, node: ast.Lambda, scope: Scope) -> Value:
        return Function(node, scope, defaults_of(node, lambda default: self.evaluate(default, scope)))

    def _of_Starred(self, node: ast.Starred, scope: Scope) -> Value:
        value = items_of_tuple(self.evaluate(node.value, scope))
        return self._evaluator.listed(value) if isinstance(value, Generator) else value

    # -- containers

    def _of_Tuple(self, node: ast.Tuple | ast.List | ast.Set, scope: Scope) -> Value:
        items: list[Value] = []
        is_open = False
        for part in node.elts:
            value = self.evaluate(part, scope)
            if isinstance(part, ast.Starred):
                is_open |= not isinstance(value, Sequence) or value.is_open
                items += value.items if isinstance(value, Sequence) else []
            else:
                items.append(value)
        return Sequence(items, is_open)

    def _of_Dict(self, node: ast.Dict, scope: Scope) -> Value:
        made = Mapping({})
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.evaluate(value_node, scope)
            key = self.evaluate(key_node, scope) if key_node is not None else value
            if key_node is None and isinstance(value, Mapping):
                made.items |= value.items
            elif isinstance(key, Constant) and key_node is not None:
                made.items[key.value] = value
            else:
                self._put(made, key, key_node, value)
        return made

    def _of_ListComp(self, node: ast.ListComp | ast.SetComp, scope: Scope) -> Value:
        return Sequence(list(self._made_by(node.elt, node.generators, scope)))

    def _of_GeneratorExp(self, node: ast.GeneratorExp, scope: Scope) -> Value:
        begun = self.evaluate(node.generators[0].iter, scope)
        return Generator(self._made_by(node.elt, node.generators, scope, begun))

    def _of_DictComp(self, node: ast.DictComp, scope: Scope) -> Value:
        made = Mapping({})
        pair = ast.Tuple(elts=[node.key, node.value], ctx=ast.Load())
        for item in self._made_by(ast.copy_location(pair, node), node.generators, scope):
            key, value = item.items if isinstance(item, Sequence) else (UNKNOWN, UNKNOWN)
            if isinstance(key, Constant):
                made.items[key.value] = value
            else:
                self._put(made, key, None, value)
        return made

    def _put(self, made: Mapping, key: Value, node: ast.expr | None, value: Value) -> None:
        """Put an item into a new dictionary under an unknown key."""
        made.is_open = True
        made.items[place := self._evaluator.picks.key(key, node) or Key("", ())] = value
        made.alike += [] if place.text else [place]

    def _made_by(
        self, element: ast.expr, generators: list[ast.comprehension], scope: Scope, begun: Value | None = None
    ) -> Iterator[Value]:
        """Yield the elements of a comprehension; `begun`: what its first loop is over, if that is known already."""
        if not generators:
            yield self.evaluate(element, scope)
            return
        inside = Scope(scope)
        first, *others = generators
        source = self.evaluate(first.iter, scope) if begun is None else begun
        for item in self._evaluator.iterations(source, n_made(source)):
            self._evaluator.assign(first.target, item, inside)
            if all(self._evaluator.condition(test, inside) is not False for test in first.ifs):
                yield from self._made_by(element, others, inside)
        if self._evaluator.collectives.have_started and waits([element]):  # for all items, also those left out above
            for work in handles_in(source):
                self._evaluator.collectives.escape(work)

    # -- operators

    def _of_BinOp(self, node: ast.BinOp, scope: Scope) -> Value:
        left, right = self.evaluate(node.left, scope), self.evaluate(node.right, scope)
        return self.binary(node.op, left, right, node)

    def binary(self, kind: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        """Return the result of a binary operator."""
        if is_template(kind, left, node) and not isinstance(right, Constant):
            read_formatted(self._evaluator.machine, self._operators, right, node)
            return UNKNOWN
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return self._operators.binary(f"aten::{operator_name(kind)}", left, right, node)
        if isinstance(left, ClockReading) or isinstance(right, ClockReading):
            return of_clocks(kind, left, right, self._evaluator.machine.subtract_clock)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return computed(kind, left.value, right.value)
        made = of_containers(self._evaluator.machine.sites.tree, kind, left, right, node)
        return combine(self._evaluator.machine, kind, (left, right), node) if made is None else made

    def augmented(self, node: ast.AugAssign, before: Value, after: Value) -> Value:
        """Return the result of an augmented assignment."""
        if isinstance(before, Tensor):
            name = f"{operator_name(node.op)}_"
            call = Call(node, [after])
            return self._operators.in_place(name, before, tensors_in(after), call)
        if isinstance(before, Sequence) and isinstance(node.op, ast.Add):
            before.items += after.items if isinstance(after, Sequence) else []
            before.is_open |= not isinstance(after, Sequence)
            return before
        return self.binary(node.op, before, after, node)

    def _of_UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Value:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.Not):
            if isinstance(value, Tensor):
                self._operators.tested_by_host(value, node.operand)
            self._evaluator.observe_truth_test(value)
            known = truth(value)
            return UNKNOWN if known is None else Constant(not known)
        if isinstance(value, Tensor):
            return self._operators.run(f"aten::{operator_name(node.op)}", [value], Call(node, []))
        if isinstance(value, Constant) and isinstance(node.op, ast.USub) and isinstance(value.value, int | float):
            return Constant(-value.value)
        return derived(value)

    def _of_Compare(self, node: ast.Compare, scope: Scope) -> Value:
        values = [self.evaluate(part, scope) for part in (node.left, *node.comparators)]
        if len(values) != 2:
            return UNKNOWN
        left, right = values
        kind = node.ops[0].__class__
        if kind is ast.Is or kind is ast.IsNot:
            known = is_same(left, right)
            if known is None and truth(right) is False and self._evaluator.is_object(node.left):
                known = False
            return UNKNOWN if known is None else Constant(known == (kind is ast.Is))
        inputs = [value for value in values if isinstance(value, Tensor)]
        if inputs and kind not in _OF_MEMBERSHIP:
            return self._operators.run(f"aten::{operator_name(node.ops[0])}", inputs, Call(node, []))
        if isinstance(left, Constant) and isinstance(right, Constant):
            return compared(node.ops[0], left.value, right.value)
        if kind in _OF_MEMBERSHIP:
            self._operators.read_all_by_host([right], node)
            is_key = isinstance(right, Mapping) and self._evaluator.picks.has(right, left, node.left)
            return Constant(kind is ast.In) if is_key else UNKNOWN
        return by_size(node, left, right, self._evaluator.machine.loops, self._evaluator.decide) or derived(left, right)

    def _of_BoolOp(self, node: ast.BoolOp, scope: Scope) -> Value:
        is_or, is_sure = isinstance(node.op, ast.Or), True
        given: Value | None = None  # an object that a caller may leave out: `options or Options()`
        value: Value = UNKNOWN
        for part in node.values:
            value = self.evaluate(part, scope)
            if isinstance(value, Tensor) and part is not node.values[-1]:
                self._operators.tested_by_host(value, part)
            self._evaluator.observe_truth_test(value)
            known = truth(value)
            if known is is_or and not isinstance(value, Instance):
                break
            if is_or and known and given is None:
                given = value
            is_sure &= known is not None or part is node.values[-1]
        if is_or and is_made(value) and not (is_sure and (given is None or given is value)):
            return UNKNOWN if self._evaluator.decide(node.values[0], by_default=False) else value
        is_value = is_sure or (isinstance(value, Constant) and value.value is is_or)
        return given or (value if is_value else UNKNOWN)

    def _of_IfExp(self, node: ast.IfExp, scope: Scope) -> Value:
        known = self._evaluator.condition(node.test, scope)
        if known is None:
            known = self._evaluator.decide(node.test, by_default=not creates_fallback(node))
            self._evaluator.machine.recent.take(node.test, [], value=known)
        return self.evaluate(node.body if known else node.orelse, scope)

    # -- parts

    def _of_Slice(self, node: ast.Slice, scope: Scope) -> Value:
        parts = [self.evaluate(part, scope) for part in (node.lower, node.upper, node.step)]
        if all(isinstance(part, Constant) for part in parts):
            return Constant(slice(*(part.value for part in parts if isinstance(part, Constant))))
        for bound, value in zip((node.lower, node.upper, node.step), parts, strict=True):
            if isinstance(value, Tensor):
                self._operators.tested_by_host(value, bound or node)
            elif may_be_read(value) or (is_unknown(value) and has_element(bound)):
                self._evaluator.machine.read_unknown()
        return UNKNOWN if node.lower or node.step else Constant(BEGINNING)

    def _of_Subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        owner, index = self.evaluate(node.value, scope), self.evaluate(node.slice, scope)
        getter = owner.kind.find("__getitem__") if isinstance(owner, Instance) else None
        if isinstance(getter, Function):
            return self._evaluator.call_function(getter, Call(node, [owner, index]))
        return self.item(items_of_tuple(owner), index, node)

    def item(self, owner: Value, index: Value, node: ast.AST) -> Value:
        """Return an item of a container, or a part of a tensor."""
        if isinstance(owner, Tensor):
            if tensors_in(index) or is_list(node):
                return self._operators.index(owner, index, node)
            return self._operators.item(owner, index)
        if isinstance(owner, Sequence) and isinstance(index, Constant):
            return subscript(owner, index.value)
        if isinstance(owner, Mapping | Sequence):
            self._operators.read_all_by_host([index], node)
            return self._evaluator.picks.item(owner, index, getattr(node, "slice", None)) or UNKNOWN
        if isinstance(owner, Module):
            return owner
        return derived(owner)

    # -- attributes

    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        """See `Evaluator`."""
        if owner.__class__ is Value or isinstance(owner, Attribute):
            return attribute_of_unknown(owner, name)
        match owner:
            case Symbol(path=path):
                found: Value = Symbol(f"{path}.{name}")
            case Instance():
                found = self._attribute_of_object(owner, name, node)
            case Class():
                member = owner.find(name)
                is_bound = isinstance(member, Function) and member.is_of_class
                found = Partial(member, [owner]) if is_bound and member is not None else member or UNKNOWN
            case Tensor():
                found = attribute_of_tensor(owner, name, self._operators.alias)
            case Module() | Optimizer() if (held := parameters_of(owner, name)) is not None:
                found = held
            case Stream() if name == "device":
                found = Device(owner.device)
            case _:
                found = attribute_of_unknown(owner, name)
        return found

    def _attribute_of_object(self, owner: Instance, name: str, node: ast.AST) -> Value:
        """Return an attribute of an object of the program."""
        if name in owner.attributes:
            return owner.attributes[name]
        member = owner.kind.find(name)
        match member:
            case Function(is_property=True):
                found = self._evaluator.call_function(member, Call(node, [owner]))
                if member.is_cached:
                    owner.attributes[name] = found
            case Function(is_static=True):
                found = member
            case Function() | Native():
                found = Partial(member, [owner])
            case Partial():
                found = Partial(member.function, [*member.args, owner], member.kwargs)
            case _:
                found = member or Attribute(owner, name)
        return found


def _name_of_method(kind: type[ast.expr]) -> str:
    name = f"_of_{_LIKE.get(kind, kind).__name__}"
    return name if hasattr(Expressions, name) else "_of_other"


_METHODS: dict[type[ast.expr], Callable[[Expressions, Any, Scope], Value]] = {
    kind: getattr(Expressions, _name_of_method(kind)) for kind in ast.expr.__subclasses__()
}
"""Kind of expression -> the method that evaluates it."""
