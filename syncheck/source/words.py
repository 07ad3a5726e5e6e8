"""Words in names."""

import re
from functools import lru_cache

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@lru_cache(maxsize=4096)
def words_of(name: str) -> frozenset[str]:
    """Return the words of a name in lower case, such as those of "device_supports_nonBlocking"."""
    return frozenset(word.lower() for word in _WORDS.findall(name))
