"""This process's place in a job of several ranks, according to the environment variables of its launcher."""

import os


def rank() -> int:
    """Return this process's rank in its job; 0 if it is alone."""
    return max(0, rank_and_size()[0]) if is_distributed() else 0


def is_distributed() -> bool:
    """Return whether this process is one of several ranks of a job."""
    return rank_and_size()[1] > 1


def rank_and_size() -> tuple[int, int]:
    """Return this process's rank, and the number of ranks; (-1, 0) stands for what the launcher did not set.

    Source:
        torch/distributed/elastic/agent/server/local_elastic_agent.py, `_start_workers`, sets them all;
        lightning/fabric/strategies/launchers/subprocess_script.py, `_call_children_scripts`, only the local rank.
    """
    own, local, size = (os.environ.get(name, "") for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    known = next((text for text in (own, local) if text.isdecimal()), "-1")
    return int(known), int(size) if size.isdecimal() else 0
