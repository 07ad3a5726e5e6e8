import ast

import pytest

from syncheck.lint import nodes
from syncheck.lint.nodes import (
    bound_names,
    branches,
    children,
    classes_of_methods,
    function_around,
    is_quoted,
    methods_of,
    names,
    once,
    parameters,
    statements,
    text,
    viewed,
    walk,
    without_none,
)

SOURCE = """
import torch
@decorated
def f(a, *, b: int = 1):
    try:
        x[a], y = [b + c for b in d if b], lambda e=g: -h
    except Error as error:
        with open(p) as q:
            return f"{r}"
    match s:
        case [t, *_] if u:
            import inner
    return (v := 2)
"""
LEFT_OUT = ast.expr_context | ast.operator | ast.unaryop | ast.cmpop | ast.boolop


def test_walk_finds_the_nodes_of_ast_walk_without_contexts_and_operators():
    tree = ast.parse(SOURCE)
    assert set(walk(tree)) == {node for node in ast.walk(tree) if not isinstance(node, LEFT_OUT)}


def test_walk_yields_each_node_once_and_outer_nodes_first():
    found = walk(ast.parse(SOURCE))
    assert len(found) == len(set(found))
    location = {node: number for number, node in enumerate(found)}
    assert all(location[node] < location[child] for node in found for child in children(node))


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("a", []),
        ("3", []),
        ("a + b", ["Name", "Name"]),
        ("f(a, *b, k=c)", ["Name", "Name", "Starred", "keyword"]),
        ("lambda a: 1", ["arguments", "Constant"]),
    ],
)
def test_the_children_of_a_node(source, kinds):
    assert [type(child).__name__ for child in children(ast.parse(source, mode="eval").body)] == kinds


def test_statements_are_found_in_all_kinds_of_blocks():
    tree = ast.parse(SOURCE)
    assert {node for node in statements(tree) if isinstance(node, ast.stmt)} == {
        node for node in ast.walk(tree) if isinstance(node, ast.stmt)
    }


def test_once_caches_the_answer_per_node():
    asked = []

    @once
    def is_name(node):
        asked.append(node)
        return isinstance(node, ast.Name)

    @once
    def is_call(node):
        return isinstance(node, ast.Call)

    name, call = ast.parse("a; f()").body
    assert [is_name(name.value), is_name(name.value), is_name(call.value), is_call(call.value)] == [
        True, True, False, True,
    ]  # fmt: skip
    assert asked == [name.value, call.value]


def test_function_around_returns_the_innermost_function():
    tree = ast.parse("x = 1\ndef f():\n    y = 2\n    async def g():\n        z = 3\n    return g")
    around = [getattr(function_around(tree, line), "name", "") for line in (1, 3, 5, 6)]
    assert around == ["", "f", "g", "f"]


def test_the_methods_of_a_class_are_those_in_its_body():
    (kind,) = ast.parse("class A:\n    x = 1\n    def f(self):\n        def g(): ...\n    async def h(self): ...").body
    assert list(methods_of(kind)) == ["f", "h"]


def test_each_method_has_the_class_whose_body_it_is_in():
    tree = ast.parse("class A:\n    def f(self): pass\n    class B:\n        def g(self): pass\ndef h(): pass\n")
    assert {method.name: kind.name for method, kind in classes_of_methods(tree).items()} == {"f": "A", "g": "B"}


def test_an_assignment_binds_whole_values_to_variables():
    (node,) = ast.parse("a = self.b = c, d = e[0] = f()").body
    assert bound_names(node) == {"a"}


@pytest.mark.parametrize("view", ["x", "x[0]", "x.view(-1)[2:]", "x[:, 0].view(2, 2)"])
def test_a_view_is_of_what_remains_without_indices_and_methods(view):
    assert text(viewed(ast.parse(view, mode="eval").body, {"view"})) == "x"
    assert text(viewed(ast.parse(f"({view} + 1)[0]", mode="eval").body, {"view"})) == f"{view} + 1"


def test_names_are_those_of_variables():
    assert names(ast.parse("a.b[c](d=e, f='g')")) == {"a", "c", "e"}


def test_the_text_of_a_node_does_not_depend_on_spacing():
    assert text(ast.parse("f( a,b )").body[0]) == text(ast.parse("f(a, b)  # here").body[0]) == "f(a, b)"


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("if a:\n    b = 1\nelse:\n    pass", ["Assign", "Pass"]),
        ("try:\n    f()\nexcept E:\n    pass\nelse:\n    del b\n", ["Expr", "Delete", "ExceptHandler"]),
        ("match a:\n    case 1:\n        pass", ["match_case"]),
        ("a = 1", []),
    ],
)  # fmt: skip
def test_branches_are_the_statements_directly_inside_one(source, kinds):
    (statement,) = ast.parse(source).body
    assert [type(inner).__name__ for inner in branches(statement)] == kinds


def test_parameters_are_those_that_a_call_can_bind_by_position_or_name():
    function = ast.parse("def f(a, /, b, *rest, c, **others): pass").body[0]
    assert [argument.arg for argument in parameters(function)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("a.X", "a.X"), ("'a.X'", "a.X"), ("Optional[X]", "X"), ("typing.Optional['X']", "X"), ("X | None", "X"),
        ("'X | None'", "X"), ("'Optional[a.X]'", "a.X"), ("X | Y", "X | Y"), ("'list[X]'", "list[X]"),
        ("'not a type'", None),
    ],
)  # fmt: skip
def test_the_type_that_an_annotation_allows_besides_none(annotation, expected):
    found = without_none(ast.parse(annotation, mode="eval").body)
    assert (None if found is None else ast.unparse(found)) == expected


def test_no_annotation_allows_no_type():
    assert without_none(None) is None


@pytest.mark.parametrize(
    ("call", "awaited", "recorded"),
    [
        ("e.wait()", "e", None),
        ("self.e[0].wait(s)", "self.e[0]", None),
        ("s.wait_event(e)", "e", None),
        ("e.record(s)", None, "e"),
        ("s.record_event(e)", None, "e"),
        ("s.record_event()", None, None),
        ("s.wait_stream(t)", None, None),
        ("e", None, None),
    ],
)
def test_the_event_of_a_wait_or_a_record_is_found(call, awaited, recorded):
    node = ast.parse(call, mode="eval").body
    found = (nodes.awaited_event(node), nodes.recorded_event(node))
    assert tuple(event and ast.unparse(event) for event in found) == (awaited, recorded)


def test_the_blocks_of_a_function_are_its_lists_of_statements():
    (function,) = ast.parse("def f():\n    a\n    if b:\n        c\n    else:\n        d\n").body
    blocks = nodes.blocks_in(function, list(ast.walk(function))[1:])
    assert [[ast.unparse(step).split("\n")[0] for step in block] for block in blocks if block] == [
        ["a", "if b:"],
        ["c"],
        ["d"],
    ]


def test_the_nodes_and_functions_of_a_file_include_nested_ones():
    tree = ast.parse("class A:\n    def f(self):\n        async def g(): pass\n")
    assert [function.name for function in nodes.functions_in(tree)] == ["f", "g"]
    assert tree not in nodes.nodes_in(tree)
    assert nodes.nodes_in(tree) is nodes.nodes_in(tree)


@pytest.mark.parametrize(
    ("call", "target", "is_free"),
    [
        ("x.add_(y)", "x", False),
        ("x[0].copy_(y, non_blocking=True)", "x[0]", True),
        ("x.to(d, non_blocking=flag)", None, True),
        ("x.to(d, non_blocking=False)", None, False),
        ("x.__enter__()", None, False),
        ("add_(x)", None, False),
    ],
)
def test_what_a_call_changes_in_place_and_whether_it_may_not_block(call, target, is_free):
    node = ast.parse(call, mode="eval").body
    changed = nodes.changed_in_place(node)
    assert (changed and ast.unparse(changed), nodes.is_non_blocking(node)) == (target, is_free)


def test_the_streams_that_a_block_enters_are_found():
    (block,) = ast.parse("with open(p), torch.cuda.stream(a), StreamContext(b.c): pass").body
    assert [ast.unparse(stream) for stream in nodes.entered_streams(block)] == ["a", "b.c"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [("getattr(x, 'done')", True), ('getattr(x, "done")', True), ("x.done", False), ('"it is done"', False)],
)
def test_a_name_may_be_a_string_of_the_file(source, expected):
    assert is_quoted("done", source) is expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("def f(self): ...", True),
        ("def f(self):\n    'Do it.'", True),
        ("def f(self):\n    'Do it.'\n    raise NotImplementedError", True),
        ("def f(self): raise NotImplementedError('f')", True),
        ("@abstractmethod\ndef f(self): pass", True),
        ("@abstractmethod\ndef f(self): return 3", False),
        ("def f(self): pass", False),
        ("def f(self): raise ValueError", False),
        ("def f(self, x):\n    if x: return 3\n    raise NotImplementedError", False),
        ("def f(x): ...", False),
        ("lambda self: ...", False),
    ],
)
def test_a_method_without_code_is_abstract(method, expected):
    (statement,) = ast.parse(method).body
    assert nodes.is_abstract(getattr(statement, "value", statement)) == expected
