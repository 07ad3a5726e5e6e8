"""Binding and deletion of names, attributes and items."""

import ast
from itertools import islice

from syncheck.hb.ids import NamedKind
from syncheck.lint.interp.contents import graphs_in, handles_in, is_key, tensors_in
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.identities import is_unknown, named
from syncheck.lint.interp.named_tuples import items_of_tuple
from syncheck.lint.interp.naming import held
from syncheck.lint.interp.operators import is_list
from syncheck.lint.interp.picks import forget_items, put
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.side_work import keep_alive
from syncheck.lint.interp.unknown import derived, is_moved
from syncheck.lint.interp.values import (
    MOVED,
    Call,
    Class,
    Constant,
    Function,
    Generator,
    Instance,
    Mapping,
    Module,
    Sequence,
    Tensor,
    Value,
)

_MOST_NAMED = 16
"""Items of a container that are named, at most."""


class Binding:
    """Binds targets to values."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._machine = evaluator.machine
        self._operators = evaluator.operators

    def assign(self, target: ast.expr, value: Value, scope: Scope, *, is_same: bool = False) -> None:
        """Bind a target to a value; `is_same`: the target already holds the value, which was modified in place."""
        match target:
            case ast.Name(id=name):
                self._name_contents(target, scope.names.get(name))
                scope.set(name, named(value))
                if name in scope.shared and scope.module.is_imported:  # other files may use it
                    self._evaluator.escape(value)
                self._evaluator.forget_decisions(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                self._assign_parts(parts, self._unpack(value, parts), scope)
            case ast.Starred(value=inner):
                self.assign(inner, value, scope)
            case ast.Attribute(value=owner, attr=name):
                self._set_attribute(self._evaluator.evaluate(owner, scope), name, value)
                self._evaluator.forget_decisions(name)
            case ast.Subscript(value=owner):
                if not is_same:
                    self._set_item(self._container(owner, target.slice, value, scope), target, value, scope)
            case _:
                pass

    def _assign_parts(self, parts: list[ast.expr], values: list[Value], scope: Scope) -> None:
        """Bind several variables. Each one's previous value is freed at the position of the variable."""
        statement = self._machine.current_node
        for part, value in zip(parts, values, strict=True):
            self._machine.current_node = statement
            if isinstance(part, ast.Name):
                self._name_old(part, scope.find(part.id))
            self.assign(part, value, scope)
        self._machine.current_node = statement

    def _name_old(self, variable: ast.Name, old: Value | None) -> None:
        """Record the variable whose rebinding frees a tensor, and make it the current node."""
        if isinstance(old, Tensor):
            machine = self._machine
            machine.current_node = variable
            path = machine.sites.path
            machine.session.name_at(NamedKind.ALLOCATION, old.block.ident, variable.id, path, variable.lineno)

    def _name_contents(self, variable: ast.Name, old: Value | None) -> None:
        """Record how the tensors in a container are written whose variable is about to be bound to something else."""
        if not isinstance(old, Sequence | Mapping | Instance):
            return
        machine, line = self._machine, getattr(self._machine.current_node, "lineno", variable.lineno)
        for text, item in islice(held(variable.id, old), _MOST_NAMED):
            if isinstance(item, Tensor):
                machine.session.name_at(NamedKind.ALLOCATION, item.block.ident, text, machine.sites.path, line)

    def _unpack(self, value: Value, parts: list[ast.expr]) -> list[Value]:
        """Return one value for each target of a tuple assignment."""
        value = items_of_tuple(value)
        place = next((place for place, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
        if place is not None:
            return self._unpack_around(place, value, len(parts))
        if isinstance(value, Generator):
            value = Sequence([item for item, _ in zip(value.values, parts, strict=False)])
        if isinstance(value, Sequence) and len(value.items) == len(parts):
            return list(value.items)
        if isinstance(value, Tensor):
            return [self._operators.alias(value, value.part) for _ in parts]
        return [derived(value)] * len(parts)

    def _unpack_around(self, place: int, value: Value, count: int) -> list[Value]:
        """Return the values of several targets; `place`: the position of the one with a star."""
        n_after = count - place - 1
        if not isinstance(value, Sequence) or value.is_open or len(value.items) < count - 1:
            self._keep(value)
            return [derived(value)] * count
        middle = value.items[place : len(value.items) - n_after]
        return [*value.items[:place], Sequence(middle), *value.items[len(value.items) - n_after :]]

    def _set_attribute(self, owner: Value, name: str, value: Value) -> None:
        """Bind an attribute."""
        if self._machine.ordering_only:
            return
        if not (isinstance(owner, Instance) and name.startswith("_")):
            self._store(value)
        if isinstance(owner, Instance):
            owner.attributes[name] = named(value)
        elif isinstance(owner, Class):
            owner.members[name] = named(value)
        elif isinstance(owner, Module) and name == "forward":
            owner.weight = None  # other code runs from now on, which may wait
        elif isinstance(owner, Tensor) and name == "grad":
            owner.grad = value if isinstance(value, Tensor) else None
        elif isinstance(owner, Tensor) and name == "data" and isinstance(value, Tensor):
            owner.block, owner.part = value.block, value.part
        else:
            self._keep(value)

    def _keep(self, value: Value) -> None:
        """Let other code hold a value from now on. Code that reads an array may wait for it first."""
        self._machine.sites.premises.keep(tensors_in(value))
        keep_alive(value)
        if isinstance(value, Tensor) and value.array is not None:
            value.block.escaped = True
        else:
            self._evaluator.escape(value)

    def _store(self, value: Value) -> None:
        """Note that a value is stored where other code may access it."""
        for work in handles_in(value) if self._evaluator.collectives.held else ():
            self._evaluator.collectives.store(work)

    def _container(self, node: ast.expr, index: ast.expr, value: Value, scope: Scope) -> Value:
        """Return the container of an item. An unknown one becomes a dictionary if it gets a side stream's tensor."""
        owner = self._evaluator.evaluate(node, scope)
        if is_unknown(owner) and is_moved(value) and isinstance(node, ast.Name | ast.Attribute):
            self.assign(node, MOVED, scope)
            return MOVED
        if not is_unknown(owner) or not isinstance(value, Tensor) or not isinstance(index, ast.Name | ast.Constant):
            return owner
        device, machine = value.block.device, self._machine
        if device is None or value.stream == machine.default_stream(device) or machine.ordering_only:
            return owner
        made = Mapping({}, is_open=True)
        if isinstance(node, ast.Name | ast.Attribute):
            self.assign(node, made, scope)
        return made

    def _set_item(self, owner: Value, node: ast.Subscript, value: Value, scope: Scope) -> None:
        """Bind an item of a container, or write a part of a tensor."""
        index = self._evaluator.evaluate(node.slice, scope)
        self._store(value)
        setter = owner.kind.find("__setitem__") if isinstance(owner, Instance) else None
        if isinstance(owner, Tensor):
            self._write_part(owner, index, value, node)
        elif isinstance(setter, Function):
            self._evaluator.call_function(setter, Call(node, [owner, index, value]))
        elif not self._machine.ordering_only:
            taken = self._machine.graph_results.taken(value, self._machine.site)
            self._put(owner, index, taken, node)
            self._machine.graph_results.added(owner, taken, self._machine.site)

    def _put(self, owner: Value, index: Value, value: Value, node: ast.Subscript) -> None:
        """Bind an item of a list or a dictionary."""
        if not isinstance(node.slice, ast.Constant):
            for graph in graphs_in(value):
                graph.replays.is_picked = True
        if isinstance(owner, Mapping) and isinstance(index, Constant) and is_key(index.value):
            owner.items[index.value] = value
        elif isinstance(owner, Sequence) and isinstance(index, Constant) and isinstance(index.value, int):
            if -len(owner.items) <= index.value < len(owner.items):
                owner.items[index.value] = value
        elif isinstance(owner, Mapping) and (key := self._evaluator.picks.key(index, node.slice)) is not None:
            put(owner, key, value, self._keep)
        else:
            self._read_if_copied(value, node)
            self._keep(value)
            if isinstance(owner, Sequence | Mapping):
                forget_items(owner, self._keep)

    def _read_if_copied(self, value: Value, node: ast.Subscript) -> None:
        """Let the host read a tensor in host memory that is bound to a slice: an array or a list copies the values."""
        if isinstance(value, Tensor) and value.block.device is None and isinstance(node.slice, ast.Slice):
            self._operators.read_by_host(value, node, "copy_")

    def _write_part(self, owner: Tensor, index: Value, value: Value, node: ast.AST) -> None:
        """Run `owner[index] = value`."""
        values = tensors_in(value)
        if tensors_in(index) or is_list(node):
            self._operators.index_put(owner, index, values, node)
            return
        part = self._operators.item(owner, index)
        if values and values[-1].block.device != part.block.device:
            self._evaluator.transfers.method(part, "copy_", Call(node, [values[-1]]))
        else:
            self._operators.in_place("copy_", part, values, Call(node, []))

    def delete(self, target: ast.expr, scope: Scope) -> None:
        """Run `del`."""
        if self._machine.ordering_only:
            return
        match target:
            case ast.Name(id=name):
                scope.delete(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.delete(part, scope)
            case ast.Attribute(value=owner, attr=name):
                found = self._evaluator.evaluate(owner, scope)
                if isinstance(found, Instance):
                    found.attributes.pop(name, None)
            case ast.Subscript(value=owner, slice=index):
                self._delete_item(self._evaluator.evaluate(owner, scope), self._evaluator.evaluate(index, scope), index)
            case _:
                pass

    def _delete_item(self, owner: Value, index: Value, node: ast.expr) -> None:
        if not isinstance(owner, Sequence | Mapping):
            return
        place = self._evaluator.picks.existing_key(owner, index, node) if isinstance(owner, Mapping) else None
        if isinstance(owner, Mapping) and place is not None:
            owner.items.pop(place, None)
        elif not isinstance(index, Constant) or isinstance(index.value, slice):
            forget_items(owner, self._evaluator.escape)
        elif (
            isinstance(owner, Sequence)
            and isinstance(index.value, int)
            and -len(owner.items) <= index.value < len(owner.items)
        ):
            del owner.items[index.value]
