"""Programs that may also run without a GPU."""

import ast

import pytest

from syncheck.source.gpu_checks import may_lack_gpu
from syncheck.source.scopes import Scopes


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'", True),
        ("use_gpu = torch.cuda.is_available() and not args.cpu", True),
        ("if torch.cuda.is_available():\n    model.cuda()", True),
        ("if not torch.cuda.is_available():\n    device = 'cpu'", True),
        ("def f():\n    if not torch.cuda.is_available():\n        return torch.device('cpu')", True),
        ("def f(device='cuda' if torch.cuda.is_available() else 'cpu'): pass", True),
        ("x = cuda.is_available()\n@skipif(not torch.cuda.is_available())\ndef test(): pass", True),
        ("if not torch.cuda.is_available():\n    print('existing')", True),
        ("x = torch.cuda.is_available()\nif not dist.is_available():\n    raise RuntimeError", True),
        ("device = torch.device('cpu' if args.gpu < 0 else f'cuda:{args.gpu}')", True),
        ("device = torch.device('cuda:0') if use_gpu else torch.device('cpu')", True),
        ("if device.type == 'cuda':\n    torch.cuda.manual_seed(1)", True),
        ("if args.device != 'cpu':\n    model.half()", True),
        ("parser.add_argument('--device', default='cpu')", True),
        ("parser.add_argument('--device', default='cuda')", False),
        ("parser.add_argument('--backend', default='cpu')", False),
        ("model.to(device)", True),
        ("model.to(self.device)\ntorch.cuda.synchronize()", False),
        ("model.to(dtype)", False),
        ("name = 'cuda' if fast else 'slow'", False),
        ("if mode == 'cuda':\n    f()", False),
        ("assert device.type == 'cuda'", False),
        ("if not device.type == 'cuda':\n    raise RuntimeError", False),
        ("if dist.is_available():\n    dist.init()", False),
        ("if torch.cuda.is_available():\n    f()\nelse:\n    raise RuntimeError", False),
        ("model.cuda()", False),
        ("assert torch.cuda.is_available()", False),
        ("if not torch.cuda.is_available():\n    raise RuntimeError", False),
        ("def f():\n    if not torch.cuda.is_available():\n        return", False),
        ("if not torch.cuda.is_available():\n    print('no GPU')\n    sys.exit(1)", False),
        ("@pytest.mark.skipif(not torch.cuda.is_available(), reason='')\ndef test(): pass", False),
    ],
)
def test_a_file_may_run_without_a_gpu(source, expected):
    assert may_lack_gpu(Scopes(ast.parse(source), source)) == expected


def test_nothing_is_known_of_an_unreadable_file():
    assert not may_lack_gpu(None)
