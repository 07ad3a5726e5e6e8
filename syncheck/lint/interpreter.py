"""Follows statements of a program in the order in which they would run."""

import ast
from collections.abc import Iterator

from syncheck.lint.expressions import Expressions
from syncheck.lint.functions import defaults_of
from syncheck.lint.scope import Scope
from syncheck.lint.values import (
    NONE,
    UNKNOWN,
    Class,
    Constant,
    Context,
    Event,
    Function,
    Instance,
    Items,
    Name,
    Running,
    Stream,
    Table,
    Tensor,
    Value,
    Work,
    truth,
)

MOST_TURNS = 3
"""Turns of a loop that are followed: what is wrong from one turn to the next shows in the second, or of two buffers in
the third."""


_MOST_KNOWN_TURNS = 12
"""Turns of a loop whose end is known."""


class Stop(Exception):
    """Too much was followed."""


class Returned(Exception):
    """A function returns."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


class LeftLoop(Exception):
    """`break`."""


class NextTurn(Exception):
    """`continue`."""


class Raised(Exception):
    """`raise`: the path ends here."""


class Interpreter(Expressions):
    """Runs statements. They are generators, so that a generator function of the program can be one."""

    def run(self, body: list[ast.stmt], scope: Scope) -> None:
        """Run statements that yield nothing."""
        for _ in self.block(body, scope):
            pass

    def block(self, body: list[ast.stmt], scope: Scope) -> Iterator[Value]:
        """Run statements one after the other."""
        for statement in body:
            self.steps -= 1
            if self.steps < 0:
                raise Stop
            self.machine.current_node = statement
            method = getattr(self, f"_run_{type(statement).__name__}", None)
            if method is not None:
                yield from method(statement, scope)
            self.name_findings(scope, statement)

    # -- simple statements

    def _run_Expr(self, node: ast.Expr, scope: Scope) -> Iterator[Value]:
        value = node.value
        if isinstance(value, ast.Yield):
            yield self.evaluate(value.value, scope) if value.value is not None else NONE
        elif isinstance(value, ast.YieldFrom):
            for item in self.iterate(self.evaluate(value.value, scope)):
                yield item
        else:
            made = self.evaluate(value, scope)
            if isinstance(made, Work):
                self.collectives.dropped(made)

    def _run_Assign(self, node: ast.Assign, scope: Scope) -> Iterator[Value]:
        if isinstance(node.value, ast.Yield):
            yield self.evaluate(node.value.value, scope) if node.value.value is not None else NONE
            value = UNKNOWN
        else:
            value = self.evaluate(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)
        if isinstance(value, Work) and isinstance(node.targets[0], ast.Name) and not self.is_used(node.targets[0].id):
            self.collectives.dropped(value)

    def _run_AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> Iterator[Value]:
        yield from ()
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, scope), scope)

    def _run_AugAssign(self, node: ast.AugAssign, scope: Scope) -> Iterator[Value]:
        yield from ()
        before = self.evaluate(node.target, scope)
        after = self.evaluate(node.value, scope)
        self.assign(node.target, self.augmented(node, before, after), scope, is_same=isinstance(before, Tensor))

    def _run_Return(self, node: ast.Return, scope: Scope) -> Iterator[Value]:
        yield from ()
        raise Returned(self.evaluate(node.value, scope) if node.value is not None else NONE)

    def _run_Raise(self, node: ast.Raise, scope: Scope) -> Iterator[Value]:
        yield from ()
        raise Raised

    def _run_Break(self, node: ast.Break, scope: Scope) -> Iterator[Value]:
        yield from ()
        raise LeftLoop

    def _run_Continue(self, node: ast.Continue, scope: Scope) -> Iterator[Value]:
        yield from ()
        raise NextTurn

    def _run_Assert(self, node: ast.Assert, scope: Scope) -> Iterator[Value]:
        yield from ()
        self.condition(node.test, scope)

    def _run_Delete(self, node: ast.Delete, scope: Scope) -> Iterator[Value]:
        yield from ()
        for target in node.targets:
            self.delete(target, scope)

    def _run_Global(self, node: ast.Global, scope: Scope) -> Iterator[Value]:
        yield from ()
        for name in node.names:
            scope.share(name, is_global=True)

    def _run_Nonlocal(self, node: ast.Nonlocal, scope: Scope) -> Iterator[Value]:
        yield from ()
        for name in node.names:
            scope.share(name, is_global=False)

    def _run_Import(self, node: ast.Import, scope: Scope) -> Iterator[Value]:
        yield from ()
        for alias in node.names:
            if alias.asname:
                scope.set(alias.asname, Name(alias.name))
            else:
                first = alias.name.partition(".")[0]
                scope.set(first, Name(first))

    def _run_ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> Iterator[Value]:
        yield from ()
        for alias in node.names:
            module = node.module if node.module and not node.level else f".{node.module or ''}"
            scope.set(alias.asname or alias.name, Name(f"{module}.{alias.name}"))

    # -- definitions

    def _run_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Iterator[Value]:
        yield from ()
        function: Value = Function(node, scope, defaults_of(node, lambda default: self.evaluate(default, scope)))
        for decorator in reversed(node.decorator_list):
            function = self.decorate(function, decorator, scope)
        scope.set(node.name, function)

    _run_AsyncFunctionDef = _run_FunctionDef

    def _run_ClassDef(self, node: ast.ClassDef, scope: Scope) -> Iterator[Value]:
        yield from ()
        made = Class(node, scope, [self.evaluate(base, scope) for base in node.bases])
        inside = Scope(scope)
        self.run(node.body, inside)
        made.members = inside.names
        for member in made.members.values():
            if isinstance(member, Function):
                member.scope = scope  # methods do not see the names of the class
        scope.set(node.name, made)

    # -- branches

    def _run_If(self, node: ast.If, scope: Scope) -> Iterator[Value]:
        known = self.condition(node.test, scope)
        is_taken = self.decide(node.test) if known is None else known
        taken, skipped = (node.body, node.orelse) if is_taken else (node.orelse, node.body)
        if known is None:
            self.look_through(skipped, scope)
        yield from self.block(taken, scope)

    def look_through(self, body: list[ast.stmt], scope: Scope) -> None:
        """Take in what a branch that is not followed would order: it may have run."""
        if not body:
            return
        machine = self.machine
        inside = Scope(scope.parent)
        inside.names, inside.shared = dict(scope.names), {}
        thread = machine.thread
        before = (dict(thread.streams), list(thread.contexts), thread.device)
        machine.muted += 1
        try:
            self.run(body, inside)
        except (Returned, LeftLoop, NextTurn, Raised):
            pass
        finally:
            machine.muted -= 1
            thread.streams, thread.contexts, thread.device = before

    def _run_Match(self, node: ast.Match, scope: Scope) -> Iterator[Value]:
        yield from ()
        self.evaluate(node.subject, scope)
        for case in node.cases:
            self.look_through(case.body, scope)

    def _run_Try(self, node: ast.Try, scope: Scope) -> Iterator[Value]:
        try:
            yield from self.block(node.body, scope)
            yield from self.block(node.orelse, scope)
        except Raised:
            if not node.handlers:
                raise
            yield from self.block(node.handlers[0].body, scope)
        else:
            for handler in node.handlers:
                self.look_through(handler.body, scope)
        finally:
            self.run(node.finalbody, scope)

    _run_TryStar = _run_Try

    # -- loops

    def _run_For(self, node: ast.For | ast.AsyncFor, scope: Scope) -> Iterator[Value]:
        source = self.evaluate(node.iter, scope)
        try:
            for item in self.turns(source):
                self.assign(node.target, item, scope)
                del item
                try:
                    yield from self.block(node.body, scope)
                except NextTurn:
                    continue
            yield from self.block(node.orelse, scope)
        except LeftLoop:
            pass

    _run_AsyncFor = _run_For

    def _run_While(self, node: ast.While, scope: Scope) -> Iterator[Value]:
        turns = 0
        known: bool | None = None
        try:
            while turns < _MOST_KNOWN_TURNS:
                known = self.condition(node.test, scope)
                if known is False or (turns >= MOST_TURNS and (known is None or isinstance(node.test, ast.Constant))):
                    break
                turns += 1
                try:
                    yield from self.block(node.body, scope)
                except NextTurn:
                    continue
            if known is not False:
                self.machine.havoc()  # it ends for a reason that is not known
            yield from self.block(node.orelse, scope)
        except LeftLoop:
            pass

    # -- contexts

    def _run_With(self, node: ast.With | ast.AsyncWith, scope: Scope) -> Iterator[Value]:
        entered: list[Context] = []
        try:
            for item in node.items:
                self.machine.current_node = item.context_expr
                context = self.context_of(self.evaluate(item.context_expr, scope), item.context_expr)
                value = context.enter()
                entered.append(context)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, value, scope)
            yield from self.block(node.body, scope)
        finally:
            self.machine.current_node = node
            for context in reversed(entered):
                context.leave()

    _run_AsyncWith = _run_With

    # -- binding

    def assign(self, target: ast.expr, value: Value, scope: Scope, *, is_same: bool = False) -> None:
        """Bind a target to a value; `is_same`: the value was changed in place and is there already."""
        match target:
            case ast.Name(id=name):
                scope.set(name, value)
                self.forget_decisions(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, item in zip(parts, self.unpack(value, parts), strict=True):
                    self.assign(part, item, scope)
            case ast.Starred(value=inner):
                self.assign(inner, value, scope)
            case ast.Attribute(value=owner, attr=name):
                self.set_attribute(self.evaluate(owner, scope), name, value)
                self.forget_decisions(name)
            case ast.Subscript(value=owner, slice=index):
                if not is_same:
                    self.set_item(self.evaluate(owner, scope), self.evaluate(index, scope), value, target)

    def unpack(self, value: Value, parts: list[ast.expr]) -> list[Value]:
        """Return one value for each part of a tuple that is assigned to."""
        if any(isinstance(part, ast.Starred) for part in parts):
            return [UNKNOWN] * len(parts)
        if isinstance(value, Running):
            value = Items([item for item, _ in zip(value.values, parts, strict=False)])
        if isinstance(value, Items) and len(value.items) == len(parts):
            return list(value.items)
        if isinstance(value, Tensor):
            return [self.operators.alias(value, value.part) for _ in parts]
        return [UNKNOWN] * len(parts)

    def set_attribute(self, owner: Value, name: str, value: Value) -> None:
        """Bind an attribute."""
        if self.machine.muted:
            return
        if isinstance(owner, Instance):
            owner.attributes[name] = value
        elif isinstance(owner, Tensor) and name == "grad":
            owner.grad = value if isinstance(value, Tensor) else None
        elif isinstance(owner, Tensor) and name == "data" and isinstance(value, Tensor):
            owner.block, owner.part = value.block, value.part
        else:
            self.escape(value)

    def set_item(self, owner: Value, index: Value, value: Value, node: ast.AST) -> None:
        """Bind an item of a container, or write a part of a tensor."""
        if isinstance(owner, Tensor):
            self.write_part(owner, index, value, node)
        elif self.machine.muted:
            return
        elif isinstance(owner, Table) and isinstance(index, Constant) and _is_key(index.value):
            owner.items[index.value] = value
        elif isinstance(owner, Items) and isinstance(index, Constant) and isinstance(index.value, int):
            if -len(owner.items) <= index.value < len(owner.items):
                owner.items[index.value] = value
        else:
            self.escape(value)
            if isinstance(owner, Items | Table):
                self.blur(owner)

    def blur(self, owner: Items | Table) -> None:
        """Forget a container's items: one of them was replaced, and nobody knows which."""
        for item in owner.items.values() if isinstance(owner, Table) else owner.items:
            self.escape(item)
        owner.is_open = True
        if isinstance(owner, Table):
            owner.items.clear()
        else:
            owner.items[:] = [item if isinstance(item, Stream | Event) else UNKNOWN for item in owner.items]

    def delete(self, target: ast.expr, scope: Scope) -> None:
        """Run `del`."""
        if self.machine.muted:
            return
        match target:
            case ast.Name(id=name):
                scope.delete(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.delete(part, scope)
            case ast.Attribute(value=owner, attr=name):
                found = self.evaluate(owner, scope)
                if isinstance(found, Instance):
                    found.attributes.pop(name, None)
            case ast.Subscript(value=owner, slice=index):
                self._delete_item(self.evaluate(owner, scope), self.evaluate(index, scope))

    def _delete_item(self, owner: Value, index: Value) -> None:
        if not isinstance(owner, Items | Table):
            return
        if not isinstance(index, Constant) or isinstance(index.value, slice):
            self.blur(owner)
        elif isinstance(owner, Table):
            owner.items.pop(index.value, None)
        elif isinstance(index.value, int) and -len(owner.items) <= index.value < len(owner.items):
            del owner.items[index.value]

    # -- conditions

    def condition(self, test: ast.expr, scope: Scope) -> bool | None:
        """Evaluate a condition; a tensor in it makes the host wait."""
        value = self.evaluate(test, scope)
        if isinstance(value, Tensor):
            self.operators.read_by_host(value, test)
        self.asked(value)
        return truth(value)


def _is_key(value: object) -> bool:
    return isinstance(value, int | str | float | bool | tuple | None)
