"""Searches a file for the mistakes that its syntax shows, without following its paths."""

from collections.abc import Sequence

from syncheck.lint.patterns import (
    averages,
    batch_callbacks,
    branch_forks,
    copies_after_records,
    deleted_inputs,
    devices_in_turn,
    early_slots,
    early_starts,
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
from syncheck.lint.patterns.context import Context, Pattern

PATTERNS: tuple[Pattern, ...] = (
    unused_events,
    pending_writes,
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
    host_reads,
    kept_graph_results,
    inline_streams,
    side_streams,
    one_sided,
)
"""In this order: what one reports, the later ones do not report again in the same line."""
_FAILED = "the check for {name} failed, please report it: {kind}: {error}"


def search(context: Context, patterns: Sequence[Pattern] = PATTERNS) -> str:
    """Search a file for patterns, and add the findings to `context.known`.

    Returns:
        Why a pattern failed; "" if none did. The others are searched for all the same.
    """
    problem = ""
    for pattern in patterns:
        if not pattern.can_matter(context.source.text):
            continue
        try:
            context.known.extend(list(pattern.findings(context)))
        except RecursionError:
            raise  # the code is nested too deeply, which is no failure of ours
        except Exception as error:  # noqa: BLE001  a failure of ours must not hide the findings of the others
            name = pattern.__name__.rpartition(".")[2].replace("_", " ")
            problem = problem or _FAILED.format(name=name, kind=type(error).__name__, error=error)
    return problem
