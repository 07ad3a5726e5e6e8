"""Findings about waits that a function, a class or a file lacks on every path."""

import ast
from collections.abc import Iterable, Sequence

from syncheck.findings import Finding
from syncheck.lint import (
    branch_forks,
    early_slots,
    host_reads,
    host_writes,
    ignored_events,
    inline_streams,
    kept_handles,
    late_handle_waits,
    late_host_waits,
    late_records,
    late_synchronizations,
    misdirected_records,
    misplaced_records,
    misplaced_waits,
    one_sided,
    outdated_events,
    own_records,
    pending_writes,
    private_events,
    queued_batches,
    record_methods,
    records_before_copies,
    records_before_use,
    shared_events,
    side_streams,
    steps_before_waits,
    unawaited_events,
    unpacked_events,
    unready_events,
    unused_events,
    useless_waits,
    waits_before_steps,
    waits_of_threads,
    wrong_device_waits,
)
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.source_file import SourceFile

_CHECKS = (
    branch_forks,
    early_slots,
    queued_batches,
    late_records,
    late_synchronizations,
    own_records,
    misdirected_records,
    host_reads,
    outdated_events,
    private_events,
    unawaited_events,
    unpacked_events,
    unready_events,
    useless_waits,
    host_writes,
    ignored_events,
    record_methods,
    shared_events,
    kept_handles,
    misplaced_records,
    late_handle_waits,
    late_host_waits,
    misplaced_waits,
    records_before_copies,
    records_before_use,
    steps_before_waits,
    waits_before_steps,
    waits_of_threads,
    wrong_device_waits,
)


def findings(
    source: SourceFile,
    functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef],
    classes: Iterable[ast.ClassDef],
    known: list[Finding],
) -> list[Finding]:
    """Return the findings in a file.

    Args:
        source: the file.
        functions: its functions that are not nested in another function.
        classes: its top-level classes that contain an anchor.
        known: the findings on paths through the file. They are more specific than others at the same location.
    """
    text, tree, found = source.text, source.tree, list[Finding]()
    if unused_events.can_matter(text):
        found += unused_events.findings(functions, SourceSites(source), known)
    if pending_writes.can_matter(text):
        found += pending_writes.findings(functions, SourceSites(source), known)
    for check in _CHECKS:
        if check.can_matter(text):
            found += check.findings(tree, SourceSites(source), [*known, *found])
    if side_streams.WORD in text:
        if inline_streams.WORDS.search(text):
            found += inline_streams.findings(tree, SourceSites(source), known)
        found += side_streams.findings(tree, classes, SourceSites(source), [*known, *found])
    if one_sided.can_matter(text):
        found += one_sided.findings(functions, SourceSites(source), [*known, *found])
    return found
