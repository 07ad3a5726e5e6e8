"""Findings about waits that a function, a class or a file lacks on every path."""

import ast
from collections.abc import Iterable, Iterator, Sequence

from syncheck.findings import Finding
from syncheck.lint import (
    averages,
    batch_callbacks,
    branch_forks,
    copies_after_records,
    deleted_inputs,
    devices_in_turn,
    early_slots,
    early_starts,
    graph_runners,
    host_reads,
    host_writes,
    ignored_events,
    inline_streams,
    kept_graph_results,
    kept_handles,
    late_handle_waits,
    late_host_waits,
    late_joins,
    late_records,
    late_synchronizations,
    misdirected_records,
    misplaced_records,
    misplaced_waits,
    one_sided,
    outdated_events,
    own_records,
    own_stream_waits,
    pending_reads,
    pending_writes,
    private_events,
    queued_batches,
    raw_launches,
    record_methods,
    records_before_copies,
    records_before_use,
    refilled_buffers,
    replaced_graph_inputs,
    shared_events,
    side_streams,
    slots_of_others,
    steps_before_waits,
    streams_of_starters,
    unawaited_events,
    unawaited_slots,
    unforked_streams,
    unjoined_reads,
    unpacked_events,
    unready_events,
    unused_events,
    useless_waits,
    waits_before_steps,
    waits_of_threads,
    wrong_device_waits,
)
from syncheck.lint.copy_records import imported_records
from syncheck.lint.graph_runners import GraphRunners
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.nodes import FindClass
from syncheck.lint.source_file import SourceFile

_CHECKS = (
    averages,
    batch_callbacks,
    branch_forks,
    copies_after_records,
    early_slots,
    early_starts,
    late_joins,
    queued_batches,
    raw_launches,
    late_records,
    late_synchronizations,
    own_records,
    own_stream_waits,
    misdirected_records,
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
    deleted_inputs,
    devices_in_turn,
    refilled_buffers,
    pending_reads,
    replaced_graph_inputs,
    slots_of_others,
    streams_of_starters,
    unawaited_slots,
    unforked_streams,
    unjoined_reads,
)


def findings(
    source: SourceFile,
    functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef],
    classes: Iterable[ast.ClassDef],
    known: list[Finding],
    imported: FindClass,
) -> list[Finding]:
    """Return the findings in a file.

    Args:
        source: the file.
        functions: its functions that are not nested in another function.
        classes: its top-level classes that contain an anchor.
        known: the findings on paths through the file. They are more specific than others at the same location.
        imported: finds classes of other files by their full names.
    """
    text, tree, found = source.text, source.tree, list[Finding]()
    for of_functions in (unused_events, pending_writes):
        if of_functions.can_matter(text):
            found += of_functions.findings(functions, SourceSites(source), known)
    for check in _CHECKS:
        if check.can_matter(text):
            found += check.findings(tree, SourceSites(source), [*known, *found])
    found += _of_host_reads(source, [*known, *found], imported)
    if graph_runners.can_matter(text):
        runners = GraphRunners(tree, graph_runners.imported_runners(source.imports, imported))
        found += kept_graph_results.findings(tree, SourceSites(source), [*known, *found], runners)
    if side_streams.WORD in text:
        found += _on_side_streams(source, classes, [*known, *found])
    if one_sided.can_matter(text):
        found += one_sided.findings(functions, SourceSites(source), [*known, *found])
    return found


def _of_host_reads(source: SourceFile, known: list[Finding], imported: FindClass) -> list[Finding]:
    """Return the findings about reads on the host after a wait of a stream."""
    kinds: list[ast.ClassDef] = []
    if host_reads.can_matter_with_imports(source.text):
        kinds = imported_records(source.imports, imported)
    if not kinds and not host_reads.can_matter(source.text):
        return []
    return list(host_reads.findings(source.tree, SourceSites(source), known, kinds))


def _on_side_streams(source: SourceFile, classes: Iterable[ast.ClassDef], known: list[Finding]) -> Iterator[Finding]:
    """Yield the findings about blocks on side streams."""
    if inline_streams.WORDS.search(source.text):
        yield from inline_streams.findings(source.tree, SourceSites(source), known)
    yield from side_streams.findings(source.tree, classes, SourceSites(source), known)
