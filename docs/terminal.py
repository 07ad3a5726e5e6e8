"""Render commands and their output with the colours of a terminal."""

import re
from html import escape

_BLOCK = re.compile(r"^```text\n(?P<text>\$ .*?)^```$", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"^(error|warning|advice)\[(SYN\d+)\](.*)$")
_GUTTER = re.compile(r"^( *(?:\d+)? \|)(.*)$")
_MARKS = re.compile(r"^( *)(\^+|-+)(.*)$")


def coloured(markdown, to_root):
    """Return a page with its recorded commands as coloured blocks; `to_root` is the path to the site's root."""
    return _BLOCK.sub(lambda match: _terminal(match["text"], to_root), markdown)


def _terminal(text, to_root):
    writer = _Writer(to_root)
    lines = "\n".join(map(writer.line, text.rstrip("\n").split("\n")))
    return f'<div class="terminal"><pre tabindex="0"><code>{lines}</code></pre></div>'


class _Writer:
    """Stateful line writer: the meaning of a line depends on the lines before it."""

    def __init__(self, to_root):
        self.to_root = to_root
        self.level = ""  # of the current finding
        self.is_head = False  # inside its first sentence, which may span several lines

    def line(self, text):
        """Return one line as HTML."""
        if text.startswith("$ "):
            return f'<span class="t-prompt">$</span> <span class="t-strong">{escape(text[2:])}</span>'
        if head := _HEAD.match(text):
            return self._head(*head.groups())
        if self.is_head and text.startswith("   ") and "-->" not in text:
            return _span("t-strong", text)
        self.is_head = False
        if gutter := _GUTTER.match(text):
            return _span("t-gutter", gutter[1]) + self._source(gutter[2])
        return self._other(text)

    def _head(self, level, code, rest):
        self.level, self.is_head = level, True
        link = f'<a class="t-{level}" href="{self.to_root}rules/{code}/">{level}[{code}]</a>'
        return link + _span("t-strong", rest)

    def _source(self, text):
        marks = _MARKS.match(text)
        if marks is None:
            return escape(text)
        kind = f"t-{self.level}" if "^" in marks[2] else "t-related"
        return marks[1] + _span(kind, marks[2] + marks[3])

    def _other(self, text):
        for pattern, kind in (
            (r" *(-->|:::) ", "t-gutter"),
            (r" *= help:", "t-help"),
            (r"syncheck: .*error", "t-error"),
            (r"syncheck: .*warning", "t-warning"),
            (r"syncheck: ", "t-help"),
        ):
            if found := re.match(pattern, text):
                end = len("syncheck:") if text.startswith("syncheck:") else found.end()
                return _span(kind, text[:end]) + escape(text[end:])
        return _span("t-faint", text) if re.match(r" *= explain:|checked: ", text) else escape(text)


def _span(kind, text):
    return f'<span class="{kind}">{escape(text)}</span>' if text else ""
