"""Programs given as text, with their source available through linecache."""

import linecache
import textwrap
from itertools import count

_numbers = count()


def run(source, **names):
    """Run a text as a user module; return its globals."""
    filename = f"<program {next(_numbers)}>"
    text = textwrap.dedent(source)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace = {"__name__": "program", **names}
    exec(compile(text, filename, "exec"), namespace)
    return namespace
