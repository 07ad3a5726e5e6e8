"""Parameters whose tensors the callers drop."""

import ast
import textwrap

import pytest

from syncheck.lint.dropped_arguments import dropped_arguments, packed_argument
from syncheck.lint.nodes import walk


def dropped(source, name="send", find=dropped_arguments):
    tree = ast.parse(textwrap.dedent(source))
    function = next(node for node in walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    return find(function, tree)


def packed(source):
    return dropped(source, "pack", packed_argument)


CALLER = """
class Sender:
    def send(self, x, y=None):
        pass

def run(sender, model, h, kept):
    z = {made}
    {call}
    {after}
"""


def called(made="torch.matmul(h, h)", call="sender.send(z)", after="pass"):
    return dropped(CALLER.format(made=made, call=call, after=after))


def test_a_result_that_a_caller_only_passes_on_is_dropped():
    assert called() == {"x"}
    assert called(call="sender.send(h, y=z)") == {"y"}
    assert called(call="sender.send(h, z.view(-1))") == {"y"}


@pytest.mark.parametrize("after", ["return z", "kept.append(z)", "model.z = z", "h = z + 1", "f = lambda: z"])
def test_a_result_that_lives_on_is_not_dropped(after):
    assert called(after=after) == set()


@pytest.mark.parametrize(
    "after", ["sender.wait()", "s.wait_stream(t)", "n = h.sum().item()", "torch.cuda.synchronize()"]
)
def test_a_caller_that_waits_may_keep_it_until_then(after):
    assert called(after=after) == set()


@pytest.mark.parametrize("made", ["h", "load(h)", "model.weight"])
def test_only_new_memory_is_dropped(made):
    assert called(made=made) == set()


def test_a_name_of_several_functions_is_unknown():
    source = CALLER.format(made="torch.matmul(h, h)", call="sender.send(z)", after="pass")
    assert dropped(source + "class B:\n    def send(self, x): pass\n") == set()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("with torch.autograd.graph.saved_tensors_hooks(pack, unpack): pass", {"t"}),
        ("with saved_tensors_hooks(pack, unpack): pass", {"t"}),
        ("with saved_tensors_hooks(unpack, pack): pass", set()),
        ("with other(pack, unpack): pass", set()),
        ("saved_tensors_hooks()", set()),
    ],
)
def test_autograd_drops_what_it_packs(source, expected):
    assert packed(f"def pack(t): pass\n{source}\n") == expected


def test_a_class_may_be_the_hooks():
    source = """
    class Offload({base}):
        def __init__(self):
            super().__init__(self.pack, self.unpack)

        def pack(self, t):
            return 1
    """
    assert packed(source.format(base="torch.autograd.graph.saved_tensors_hooks")) == {"t"}
    assert packed(source.format(base="Base")) == set()
