"""`match` statements as the equivalent `if` statements."""

import ast

from syncheck.lint.nodes import once

_UNDECIDED = "whether the pattern matches"
"""A name that no program can bind, so its value is unknown."""


@once
def as_branches(node: ast.Match) -> list[ast.stmt]:
    """Return statements that decide between the cases of a `match` statement, in order.

    Whether a subject is equal to a value, or is None, can be known; other patterns are undecided. A pattern that is a
    name binds the subject, and names inside a pattern are bound to unknown values.
    """
    chain: list[ast.stmt] = []
    for case in reversed(node.cases):
        bound = [_assignment(name, node.subject, case) for name in _names_in(case.pattern)]
        body = [*bound, *case.body]
        test = _test(case.pattern, node.subject)
        if case.guard is not None:
            test = case.guard if test is None else ast.BoolOp(ast.And(), [test, case.guard])
        if test is None:
            chain = body
        else:
            branch = ast.If(test, body, chain)
            for inner in (test, branch):
                ast.copy_location(inner, case.pattern)
            chain = [ast.fix_missing_locations(branch)]
    return chain


def _test(pattern: ast.pattern, subject: ast.expr) -> ast.expr | None:
    """Return the condition under which a pattern matches; None if it always does."""
    match pattern:
        case ast.MatchAs(pattern=None):
            return None
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return _test(inner, subject)
        case ast.MatchValue(value=value):
            return ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchSingleton(value=value):
            return ast.Compare(subject, [ast.Is()], [ast.Constant(value)])
        case ast.MatchOr(patterns=patterns):
            tests = [_test(one, subject) for one in patterns]
            known = [test for test in tests if test is not None]
            return ast.BoolOp(ast.Or(), known) if len(known) == len(tests) else None
        case _:
            return ast.Name(_UNDECIDED, ast.Load())


def _names_in(pattern: ast.pattern) -> list[tuple[str, bool]]:
    """Return the names that a pattern binds, each with whether it is bound to the whole subject."""
    own = pattern.name if isinstance(pattern, ast.MatchAs) else None
    whole = [(own, True)] if own is not None else []
    inner = pattern.pattern if isinstance(pattern, ast.MatchAs) else pattern
    parts = [
        (name, False)
        for node in (ast.walk(inner) if inner is not None else ())
        for name in (getattr(node, "name", None), getattr(node, "rest", None))
        if isinstance(name, str)
    ]
    return [*whole, *parts]


def _assignment(bound: tuple[str, bool], subject: ast.expr, case: ast.match_case) -> ast.stmt:
    name, is_whole = bound
    value = subject if is_whole else ast.Name(_UNDECIDED, ast.Load())
    made = ast.Assign([ast.Name(name, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(made, case.pattern))
