"""Whether findings fail a test, and whether it is expected to fail."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest
from _pytest.skipping import evaluate_xfail_marks  # there is no public name

if TYPE_CHECKING:
    from syncheck.config.options import Options
    from syncheck.findings import Finding


def are_failing(findings: "Iterable[Finding]", options: "Options") -> bool:
    """Return whether some findings fail a test."""
    return any(finding.level.rank <= options.fail_on.rank for finding in findings)


def may_fail(item: pytest.Item) -> bool:
    """Return whether a test is expected to fail (`xfail`), whatever the error is."""
    marked = evaluate_xfail_marks(item)
    return marked is not None and marked.raises is None
