"""Items whose memory is taken into use again without a wait for the event that they hold (SYN105).

`while queue and queue[0].done.query(): free.extend(queue.popleft().blocks)` waits; the method that takes blocks early,
`item = queue.popleft(); free.extend(item.blocks)`, has to let its stream wait for `item.done`.
"""

import ast
import re
from collections.abc import Iterable, Iterator

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.unknown import host_waits_in, waits_in
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    Method,
    callers_among,
    children,
    classes_in,
    methods_of,
    own_attribute,
    own_container,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream

_POPS = frozenset({"pop", "popleft"})
_WAITS = frozenset({"query", "synchronize", "wait"})
_FLAW = "`{item}` is taken out of `self.{container}` and used without a wait for `{item}.{event}`"
_HELP = "let the stream that uses it wait: `torch.cuda.current_stream().wait_event({item}.{event})`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "Event" in source and ".pop" in source and (".query()" in source or ".synchronize()" in source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the calls that take out the items."""
    lines = main_lines_of(context.known)
    for kind in classes_in(context.tree):
        methods = methods_of(kind)
        for container, event in sorted(_events_of_items(methods.values(), context.sites.text)):
            for name, method in methods.items():
                callers = callers_among(methods.values(), name)
                if _mentions(method, event) or waits_in(method) or any(map(host_waits_in, callers)):
                    continue
                for taken, item, call in _taken(own_nodes(method)):
                    if taken == container and call.lineno not in lines and _is_used_in_parts(item, method):
                        flaw = _FLAW.format(item=item, container=container, event=event)
                        advice = _HELP.format(item=item, event=event)
                        yield context.sites.warning(unordered_side_stream.RULE, call, name, advice, flaw=flaw)


def _events_of_items(methods: Iterable[Method], source: str) -> set[tuple[str, str]]:
    """Return the containers of a class whose items have an event that a method tests or waits for, with its name."""
    found = set[tuple[str, str]]()
    for method in methods:
        nodes = list(own_nodes(method))
        containers = {item: container for container, item, _ in _taken(nodes)}
        for node in nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Attribute(value=item, attr=event), attr=name)) if (
                    name in _WAITS
                ):
                    container = own_container(item) if isinstance(item, ast.Subscript) else ""
                    container = container or containers.get(getattr(item, "id", ""), "")
                    if container and re.search(rf"\b{event}\b *[:=].*\b(?:Event|record_event)\b", source):
                        found.add((container, event))
                case _:
                    pass
    return found


def _taken(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str, ast.Call]]:
    """Yield the containers of `self` from which items are taken, with the variable for each and the call."""
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=item)], value=ast.Call(func=ast.Attribute(value=owner, attr=name)) as call
            ) if name in _POPS and own_attribute(owner):
                yield own_attribute(owner), item, call
            case _:
                pass


def _mentions(method: Method, event: str) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == event for node in walk(method))


def _is_used_in_parts(item: str, method: Method) -> bool:
    """Return whether a method only uses members of an item, at least one of them as an argument or a result."""
    nodes = list(own_nodes(method))
    parents = {child: node for node in nodes for child in children(node)}
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == item and isinstance(node.ctx, ast.Load)]
    members = [parents.get(use) for use in uses]
    are_members = all(isinstance(member, ast.Attribute) for member in members)
    return are_members and any(isinstance(parents.get(member), ast.Call | ast.Return) for member in members if member)
