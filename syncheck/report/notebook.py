"""The text report as HTML, for notebooks."""

import io

from rich.console import Console
from rich.text import Text

_WIDTH = 1000
"""Width of a line in cells; large, because the report is already wrapped."""
_FORM = '<pre style="line-height: 1.2; overflow-x: auto">{code}</pre>'


def as_html(text: str) -> str:
    """Convert a report with ANSI colors to HTML with inline styles."""
    console = Console(
        file=io.StringIO(), record=True, width=_WIDTH, force_terminal=True, color_system="standard",
        force_jupyter=False,  # it would show the report itself
    )  # fmt: skip
    console.print(Text.from_ansi(text), soft_wrap=True)
    return console.export_html(inline_styles=True, code_format=_FORM)
