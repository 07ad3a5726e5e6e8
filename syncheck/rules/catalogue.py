"""Every rule of syncheck, in the order of the codes. What explains or lists rules is derived from this."""

import difflib

from syncheck.errors import ConfigError
from syncheck.rules import (
    capture_without_warmup,
    collective_buffer_modified,
    collective_mismatch,
    collective_result_before_wait,
    device_wide_sync,
    dropped_work,
    elapsed_time_before_sync,
    empty_cache_in_loop,
    event_wait_is_not_host_sync,
    event_without_timing,
    graph_input_overwritten,
    graph_uses_freed_memory,
    host_read_in_flight,
    host_sync_in_loop,
    host_write_in_flight,
    lost_event_record,
    missing_record_stream,
    no_overlap,
    pageable_non_blocking,
    rank_dependent_collective,
    redundant_wait,
    serialized_peer_copy,
    stale_stream_handle,
    stream_device_mismatch,
    stream_in_loop,
    sync_in_capture,
    thread_loses_device,
    timing_on_wrong_stream,
    unordered_first_use,
    unordered_overwrite,
    unordered_read,
    unordered_write,
    unsynchronized_timing,
    useless_record_stream,
    wait_before_record,
    wrong_device_sync,
)
from syncheck.rules.model import Rule

CATALOGUE: tuple[Rule, ...] = (
    unordered_read.RULE,
    unordered_overwrite.RULE,
    unordered_write.RULE,
    unordered_first_use.RULE,
    missing_record_stream.RULE,
    useless_record_stream.RULE,
    host_read_in_flight.RULE,
    host_write_in_flight.RULE,
    pageable_non_blocking.RULE,
    wait_before_record.RULE,
    event_wait_is_not_host_sync.RULE,
    event_without_timing.RULE,
    elapsed_time_before_sync.RULE,
    lost_event_record.RULE,
    stale_stream_handle.RULE,
    stream_device_mismatch.RULE,
    wrong_device_sync.RULE,
    thread_loses_device.RULE,
    collective_result_before_wait.RULE,
    collective_buffer_modified.RULE,
    dropped_work.RULE,
    collective_mismatch.RULE,
    rank_dependent_collective.RULE,
    unsynchronized_timing.RULE,
    timing_on_wrong_stream.RULE,
    host_sync_in_loop.RULE,
    redundant_wait.RULE,
    no_overlap.RULE,
    serialized_peer_copy.RULE,
    stream_in_loop.RULE,
    device_wide_sync.RULE,
    empty_cache_in_loop.RULE,
    capture_without_warmup.RULE,
    sync_in_capture.RULE,
    graph_input_overwritten.RULE,
    graph_uses_freed_memory.RULE,
)


def find(text: str) -> Rule:
    """Return the rule with this code or name, in upper or lower case.

    Raises:
        ConfigError: no rule has it; the hint names the nearest one.
    """
    wanted = text.strip().casefold()
    for rule in CATALOGUE:
        if wanted in (rule.code.casefold(), rule.name):
            return rule
    raise ConfigError(f"no rule has the code or name {text!r}", _nearest(wanted))


def matching(prefix: str) -> tuple[Rule, ...]:
    """Return the rules that a setting means: by the start of their codes, by one name, or by "ALL".

    Returns:
        At least one rule, in the order of the codes.

    Raises:
        ConfigError: no rule matches; the hint names the nearest one.
    """
    wanted = prefix.strip().casefold()
    if wanted == "all":
        return CATALOGUE
    rules = tuple(r for r in CATALOGUE if r.code.casefold().startswith(wanted) or r.name == wanted)
    # An empty text starts every code, and must not select everything.
    if not wanted or not rules:
        raise ConfigError(f"no rule matches {prefix!r}", _nearest(wanted))
    return rules


def _nearest(wanted: str) -> str:
    known = {spelling.casefold(): spelling for rule in CATALOGUE for spelling in (rule.code, rule.name)}
    close = difflib.get_close_matches(wanted, known, n=1)
    return f"did you mean {known[close[0]]}?" if close else "`syncheck rules` lists all codes and names"
