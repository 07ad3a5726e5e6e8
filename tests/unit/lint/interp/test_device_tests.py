"""Tests for the device that a program runs on."""

import ast

import pytest

from syncheck.lint.interp.device_tests import on_gpu, with_gpu
from syncheck.lint.interp.values import UNKNOWN, Constant


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("device == 'cuda'", True),
        ("args.device != 'cuda'", False),
        ("self._device.type == 'cuda'", True),
        ("str(device) == 'cuda'", True),
        ("'cuda' in self.device", True),
        ("'cuda' not in str(args.device)", False),
        ("'cuda' in name", None),
        ("x.device.type == 'cuda'", None),  # of a tensor, which may be anywhere
        ("offload_device == 'cuda'", None),
        ("device == 'cpu'", None),  # the target of a move
        ("device", None),
        ("f(device) == 'cuda'", None),
        ("device > 'cuda'", None),
        ("device == 'cuda:1'", None),
        ("device.type == 'mps'", None),
        ("dev == 'cuda'", True),
        ("device_type != 'cuda'", False),
        ("device == torch.device('cuda')", True),
        ("device.type in ('cuda', 'xpu')", True),
        ("device.type in ['cpu', 'mps']", None),
        ("device.type in kinds", None),
        ("str(device).startswith('cuda')", True),
        ("name.startswith('cuda')", None),
        ("not device.startswith('cuda')", False),
        ("not step", None),
        ("use_cuda and device.type == 'cuda'", True),
        ("use_cuda and step", None),
        ("args.no_cuda or step", None),
        ("use_gpu or step", True),
        ("self.has_cuda", True),
        ("args.no_cuda", False),
        ("x.is_cuda", None),
        ("use_cuda_graph", None),
        ("use_cpu", None),
    ],
)
def test_a_device_check_means_that_the_program_uses_a_gpu(test, expected):
    assert on_gpu(ast.parse(test, mode="eval").body) is expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("device == 'cpu'", False), ("device.type in ['cpu', 'mps']", False), ("device.type not in ('cpu',)", True),
        ("x.device.type == 'cuda'", True), ("offload_device == 'cpu'", False), ("x.is_cuda", True), ("use_cpu", False),
        ("cpu_only", False), ("not args.cpu", True), ("x.type == 'cpu'", None), ("cpu_and_gpu", None),
    ],
)  # fmt: skip
def test_other_checks_say_only_whether_there_is_a_gpu_on_a_path(test, expected):
    assert on_gpu(ast.parse(test, mode="eval").body, strictly=False) is expected


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("pin_memory=x.is_cuda", UNKNOWN, True),
        ("non_blocking=torch.cuda.is_available()", UNKNOWN, True),
        ("non_blocking=device.type == 'cuda'", UNKNOWN, True),
        ("pin_memory=flag", UNKNOWN, None),
        ("pin_memory=use_cuda", Constant(False), False),
        ("dim=use_cuda", UNKNOWN, None),
    ],
)
def test_an_option_for_gpus_is_set_if_it_tests_for_one(option, value, expected):
    (keyword,) = ast.parse(f"f({option})", mode="eval").body.keywords
    found = with_gpu(keyword, value)
    assert (found.value if isinstance(found, Constant) else None) is expected
