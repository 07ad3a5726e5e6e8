"""Methods that no class of the program defines."""

import pytest

from syncheck.hb.ids import UNKNOWN_SITE
from tests.unit.lint.program import calls_of, constant, follow

X = "x = torch.ones(4, device='cuda')\n"


def test_the_name_of_a_method_may_indicate_a_tensor():
    assert calls_of("y = f().cuda()")[0] == "allocate 1 on cuda:0"
    assert calls_of("y = f().to('cuda', non_blocking=True)")[0] == "allocate 1 on cuda:0"
    assert calls_of("y = f().to('cuda')") == []


def test_methods_of_constants_are_unknown_and_harmless():
    assert constant("'a'.join(b)") == "unknown"
    assert calls_of("'a'.flush()") == []
    assert calls_of("'a'.format(x)", X) == ["all complete"]


def test_a_thread_subclass_runs_its_run_method():
    before = X + "import threading\nclass T(threading.Thread):\n    def run(self): x.sin_()\n"
    assert calls_of("t = T()\nt.start()", before) == ["launch cuda:0 sin_ w1"]
    assert calls_of("t.join()", before + "t = T()\n") == []


def test_an_unknown_method_of_an_object_is_unknown_code():
    assert calls_of("A().wait_for_all()", "class A(Base): pass\n") == ["all complete"]
    assert calls_of("A().step(x)", X + "class A(Base): pass\n") == ["all complete", "launch cuda:0 unknown code"]


def test_resizing_the_storage_of_a_tensor_frees_its_memory():
    assert calls_of("x.untyped_storage().resize_(0)\nx.sin_()", X) == ["free 1", "launch cuda:0 sin_"]


def test_an_unknown_array_is_in_host_memory():
    before = X + "labels = f()\n"
    assert calls_of("rows = labels.numpy()", before) == []
    assert calls_of("rows = labels.tolist()", before) != []


def test_an_unknown_record_may_be_of_any_event():
    assert UNKNOWN_SITE in follow("f().record()").machine.unsure
    assert UNKNOWN_SITE not in follow("e = torch.cuda.Event()\ne.record()\nf().run()").machine.unsure


def test_a_copy_of_a_tensor_has_memory_of_its_own():
    before = X + "import copy\n"
    assert calls_of("y = copy.deepcopy(x)\ny.sin_()", before)[-2:] == [
        "launch cuda:0 clone r1 w2",
        "launch cuda:0 sin_ w2",
    ]


@pytest.mark.parametrize("network", ["torch.nn.Linear(2, 2).cuda()", "Net().cuda()"])
def test_a_copy_of_a_network_is_a_network(network):
    before = f"""
import copy
class Net(torch.nn.Module):
    def __init__(self):
        self.inner = torch.nn.Linear(2, 2, device="cuda")
    def forward(self, x):
        return self.inner(x)
net = {network}
x = torch.ones(2, device="cuda")
"""
    calls = calls_of("other = copy.deepcopy(net)\nother(x)", before)
    launches = [call for call in calls if call.startswith(("launch", "all complete"))]
    assert launches == ["launch cuda:0 clone r1 w3", "launch cuda:0 addmm r2 r3 w4"]
