"""The rules that the sanitizer can report."""

from syncheck.sanitizer import advice, classify, events, graphs, misuse, pending_collectives, timing

IN_RUNS_ONLY = advice.RULES
RULES = (
    *misuse.RULES,
    *classify.RULES,
    *events.RULES,
    *timing.RULES,
    *graphs.RULES,
    *pending_collectives.RULES,
    *IN_RUNS_ONLY,
)
"""All rules that the sanitizer can report."""
