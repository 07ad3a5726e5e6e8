"""Wording of findings for other device types: `torch.xpu` and "xpu:0" instead of CUDA's names."""

import re
from dataclasses import replace

from syncheck.findings import Finding, Fix, Location

CUDA = "cuda"
WITH_DEFAULT_STREAM = frozenset({"cuda", "npu", "musa"})
"""The device types whose torch module has a `default_stream`.

Source:
    `torch/xpu/__init__.py`, `torch/accelerator/__init__.py`, `torch/mtia/__init__.py` have none.
"""
_NAME = re.compile(r"(?<=\btorch\.)cuda\b|\bcuda(?=:\d)")


def for_device_type(device_type: str, finding: Finding) -> Finding:
    """Convert a finding worded for CUDA to the names of another device type."""
    if device_type == CUDA:
        return finding

    def said(text: str) -> str:
        return _NAME.sub(device_type, text)

    def named(location: Location) -> Location:
        return replace(location, message=said(location.message))

    fix = finding.fix
    if fix is not None:
        fix = Fix(tuple(replace(edit, code=said(edit.code)) for edit in fix.edits), fix.applicability)
    return replace(
        finding,
        message=said(finding.message),
        help=said(finding.help),
        location=named(finding.location),
        related=tuple(map(named, finding.related)),
        fix=fix,
    )
