"""Clues in the names of unknown code."""

import ast

import pytest

from syncheck.lint.interp.unknown import (
    called_name,
    computes,
    is_network,
    is_on_host,
    makes_batch,
    makes_network,
    makes_object,
    may_be_tensor,
    may_evaluate,
    may_order,
    may_wait,
    runs_network,
    takes_code,
    takes_flag,
)
from syncheck.lint.interp.values import DERIVED, UNKNOWN, Attribute, Constant, Native
from syncheck.source.words import words_of


def call(text):
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("device_supports_nonBlocking", {"device", "supports", "non", "blocking"}),
        ("wait_all", {"wait", "all"}),
        ("", set()),
    ],
)
def test_a_name_is_split_into_words(name, words):
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pkg.wait_for", True), ("pkg.synchronizeAll", True), ("sync.load", False), ("os.path.join", False),
        ("attn_block.flush", False), ("jax.block_until_ready", True), ("model.no_sync", False), ("f", False),
    ],
)  # fmt: skip
def test_a_name_may_suggest_waiting(path, expected):
    assert may_wait(path) is expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("f(x)", "f"), ("a.b.g(x)", "g"), ("kernel[grid](x)", "kernel"), ("f()(x)", ""), ("x", ""),
        ("optimizer.step()", "step"), ("lr_scheduler.step()", ""),
    ],
)  # fmt: skip
def test_called_name_is_the_last_name_of_the_callee(text, name):
    assert called_name(call(text)) == name


@pytest.mark.parametrize(
    ("text", "computing", "on_host"),
    [("model(x)", True, False), ("fn(x)", True, False), ("print(x)", False, True), ("load(x)", False, False),
     ("net.cpu()", False, True), ("run_attn(x)", True, False)],
)  # fmt: skip
def test_a_name_suggests_where_code_runs(text, computing, on_host):
    assert (computes(call(text)), is_on_host(call(text))) == (computing, on_host)


def test_a_passed_function_is_called_unless_it_is_registered_for_later():
    code = Native(lambda given: None)
    assert takes_code([Constant(1), code], call("do_bench(f)"))
    assert not takes_code([code], call("register_hook(f)"))
    assert not takes_code([Constant(1)], call("do_bench(1)"))


def test_a_value_derived_from_a_tensor_may_be_one():
    assert may_be_tensor(DERIVED)
    assert not may_be_tensor(UNKNOWN)
    assert not may_be_tensor(None)
    assert may_be_tensor(Attribute(DERIVED, "T"))


@pytest.mark.parametrize(
    ("source", "flag", "made"),
    [
        ("f(x, barrier)", True, False),
        ("kernel[grid](x, self.ready_flags)", True, False),
        ("f(x, done=signal_buffer)", True, False),
        ("f(x, flagged)", False, False),
        ("Batch(output=x)", False, True),
        ("module.Batch(x)", False, True),
        ("f(x)(y)", False, False),
        ("x", False, False),
    ],
)
def test_names_suggest_flag_arguments_and_object_construction(source, flag, made):
    node = ast.parse(source, mode="eval").body
    assert (takes_flag(node), makes_object(node)) == (flag, made)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s.synchronize()", True),
        ("if x:\n    join()", True),
        ("x.add_(1)", False),
        ("with no_sync():\n    pass", False),
    ],
)
def test_statements_may_order_according_to_their_names(body, expected):
    assert may_order(ast.parse(body).body) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("evaluate", True), ("do_eval", True), ("compute_accuracy", True), ("train", False), ("retrieval", False)],
)
def test_functions_may_evaluate_according_to_their_names(name, expected):
    assert may_evaluate(name) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("self.model(x)", True),
        ("teacher_net(x)", True),
        ("layers[0](x)", False),
        ("pool(x)", False),
        ("f(model)", False),
    ],
)
def test_a_name_may_be_that_of_a_network(text, expected):
    assert is_network(call(text)) is expected


def test_a_class_whose_objects_compute_is_not_one_that_observes():
    assert makes_network(call("TableCollection(n=3)"))
    assert not makes_network(call("LossLogger(path)"))
    assert not makes_network(call("make_table(n=3)"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model(x)", True), ("self.net(**batch)", True), ("model(prompt)", False), ("model('a cat')", False),
        ("model(x, texts=rows)", False), ("pipe(x)", False), ("model(f'{x}')", False),
    ],
)  # fmt: skip
def test_a_network_runs_on_a_gpu_unless_it_is_given_a_text(text, expected):
    assert runs_network(call(text)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("self.collate(rows)", True), ("collate_fn(x)", True), ("tokenizer(x)", True), ("isolate(x)", False)],
)
def test_a_batch_is_made_on_the_host(text, expected):
    assert makes_batch(call(text)) is expected
