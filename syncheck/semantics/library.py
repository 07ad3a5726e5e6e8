"""Descriptions of what a library's functions and operators do to streams and memory.

syncheck follows Python code and sees torch's operators. It cannot see into other compiled code, such as a function of
an extension that launches kernels, or an operator that uses a stream of its own. `describe` states what such a function
reads and writes, on which stream, and what waits for what. The linter and checked runs share these descriptions.
"""

import ast
import re
from dataclasses import dataclass

from syncheck.errors import ConfigError
from syncheck.source.text import parse_expression

CURRENT = "current"
"""Names the current stream of the current device in a description."""
HOST = "host"
"""Names the host in `then_waits`."""
NEW = "new"
"""Stands for a new tensor in `returns`."""

_HINT = (
    'write it as in "acme.cache.prefetch(table, out, *, stream=None)", or "acme::gather(table, index)" for an operator'
)


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a call.

    A stream or event is named by a parameter ("stream"), an attribute of one ("self.side"), the qualified name of a
    variable ("acme.streams.copy"), or "current".

    Attributes:
        name: the qualified name of the function ("acme.cache.prefetch"), method, or operator ("acme::gather").
        parameters: the names of its parameters, in order.
        reads: the parameters whose tensors it reads.
        writes: the parameters whose tensors it writes.
        stream: the stream that its work runs on.
        waits_for: streams and events that its work waits for.
        then_waits: the streams, or "host", that wait for its work before the call returns.
        returns: a parameter, "new" for a new tensor on the GPU that the work fills, or "" for anything else.
    """

    name: str
    parameters: tuple[str, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    stream: str = CURRENT
    waits_for: tuple[str, ...] = ()
    then_waits: tuple[str, ...] = ()
    returns: str = ""

    @property
    def is_operator(self) -> bool:
        """Return whether this describes an operator of torch's dispatcher."""
        return "::" in self.name

    @property
    def owner(self) -> str:
        """The qualified name of a method's class; "" for a function."""
        return self.name.rpartition(".")[0] if self.parameters[:1] == ("self",) else ""


_described: dict[str, Effect] = {}


def describe(
    signature: str,
    *,
    reads: str | tuple[str, ...] = (),
    writes: str | tuple[str, ...] = (),
    stream: str = CURRENT,
    waits_for: str | tuple[str, ...] = (),
    then_waits: str | tuple[str, ...] = (),
    returns: str = "",
) -> Effect:
    """Describe a function, method or operator; see `Effect` for the arguments.

    Args:
        signature: qualified name and parameters; the first parameter of a method is `self`.
        reads: one parameter, or several.
        writes: one parameter, or several.
        stream: a stream.
        waits_for: one stream or event, or several.
        then_waits: one stream or "host", or several.
        returns: a parameter or "new".

    Raises:
        ConfigError: the signature is malformed, or an argument names a parameter that it does not have.
    """
    name, parameters = _parsed(signature)
    effect = Effect(
        name, parameters, _several(reads), _several(writes), stream, _several(waits_for), _several(then_waits), returns
    )
    for parameter in (*effect.reads, *effect.writes, *((returns,) if returns not in {"", NEW} else ())):
        if parameter.partition(".")[0] not in parameters:
            raise ConfigError(f"{name} has no parameter {parameter!r}", f"its parameters are {', '.join(parameters)}")
    waiting = (stream for stream in effect.then_waits if stream != HOST)
    for reference in (effect.stream, *effect.waits_for, *waiting):
        if "." not in reference and reference not in {*parameters, CURRENT}:
            hint = 'name a parameter, "self.<attribute>", the full name of a variable, or "current"'
            raise ConfigError(f"{name}: {reference!r} names no stream", hint)
    _described[name] = effect
    return effect


def described() -> tuple[Effect, ...]:
    """Return all descriptions."""
    return tuple(_described.values())


def operator(name: str) -> Effect | None:
    """Return the description of an operator, by its name without overload, such as "acme::gather"."""
    return _described.get(name)


def _several(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _parsed(signature: str) -> tuple[str, tuple[str, ...]]:
    """Return the name and the parameters of a signature."""
    match = re.fullmatch(r"([A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)+)\s*(\(.*\))\s*", signature, re.DOTALL)
    try:
        parsed = parse_expression(f"(lambda {match[2][1:-1]}: 0)") if match else None
    except SyntaxError:
        parsed = None
    if match is None or not isinstance(parsed, ast.Lambda):
        raise ConfigError(f"{signature!r} is not the signature of a function with its full name", _HINT)
    arguments = parsed.args
    if arguments.vararg is not None or arguments.kwarg is not None:
        raise ConfigError(f"{signature!r} has * or ** parameters", "name the parameters that matter, in order")
    return match[1], tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
