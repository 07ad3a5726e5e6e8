"""Draw the pictures of the site: streams as lanes, work as boxes, waits as arrows."""

from dataclasses import dataclass
from html import escape

LANE, BOX, LEFT, STEP = 56, 32, 150, 92
RED, GREEN, BLUE, GREY = "#d13438", "#2e8b57", "#4063d8", "#888888"


@dataclass
class Work:
    """A piece of work: lane, first column, label, colour and width in columns."""

    lane: int
    column: float
    text: str
    color: str = BLUE
    width: float = 1.0


@dataclass
class Arrow:
    """An existing or missing order between two places (lane, column)."""

    start: tuple
    end: tuple
    text: str = ""
    is_missing: bool = False


def draw(lanes, works, arrows, caption):
    """Return an SVG with the names of the lanes on the left."""
    columns = max(work.column + work.width for work in works)
    width = max(int(LEFT + STEP * columns + 30), 7 * len(caption) + 20)
    height = LANE * len(lanes) + 40
    parts = [
        f'<svg class="lanes" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'width="{width}" font-family="sans-serif" font-size="13"><title>{escape(caption)}</title>',
        '<rect class="ground" width="100%" height="100%" fill="white"/>',
        f'<defs><marker id="tip" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">'
        f'<path d="M0,0 L9,4 L0,8 z" fill="{GREEN}"/></marker></defs>',
    ]
    for lane, name in enumerate(lanes):
        y = _y(lane)
        parts.append(f'<line x1="{LEFT - 10}" y1="{y}" x2="{width - 15}" y2="{y}" stroke="{GREY}"/>')
        parts.append(f'<text class="ink" x="10" y="{y + 4}">{escape(name)}</text>')
    for work in works:
        x, y = LEFT + STEP * work.column, _y(work.lane) - BOX / 2
        length = STEP * work.width - 8
        parts.append(f'<rect x="{x}" y="{y}" width="{length}" height="{BOX}" rx="4" fill="{work.color}"/>')
        parts.append(
            f'<text x="{x + length / 2}" y="{y + 20}" fill="white" text-anchor="middle">{escape(work.text)}</text>'
        )
    parts += map(_arrow, arrows)
    parts.append(f'<text x="10" y="{height - 10}" fill="{GREY}">{escape(caption)}</text></svg>')
    return "\n".join(parts)


def _y(lane):
    return LANE * lane + LANE / 2 + 4


def _arrow(arrow):
    (lane, column), (other, to) = arrow.start, arrow.end
    down = 1 if other > lane else -1
    x1, y1 = LEFT + STEP * column - 8, _y(lane) + down * BOX / 2
    x2, y2 = LEFT + STEP * to + 4, _y(other) - down * BOX / 2
    style = f'stroke="{RED}" stroke-dasharray="5 4"' if arrow.is_missing else f'stroke="{GREEN}" marker-end="url(#tip)"'
    label = (
        f'<text x="{(x1 + x2) / 2 + 8}" y="{(y1 + y2) / 2 + 4}" class="ink" font-size="12">{escape(arrow.text)}</text>'
    )
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke-width="2" {style}/>{label}'


def race():
    """Draw two streams with nothing between them."""
    return draw(
        ["default stream", "stream side"],
        [Work(0, 0, "x = ones()"), Work(1, 0.7, "y = x * 2", RED, 1.1), Work(0, 2, "z = y + 1", RED, 1.1)],
        [Arrow((0, 1), (1, 0.7), "", True), Arrow((1, 1.8), (0, 2.0), "", True)],
        "Both hand-overs lack a wait: the boxes may run in any order.",
    )


def ordered():
    """Draw the same streams with both waits."""
    return draw(
        ["default stream", "stream side"],
        [Work(0, 0, "x = ones()"), Work(1, 2, "y = x * 2"), Work(0, 4, "z = y + 1")],
        [Arrow((0, 1), (1, 2), "side.wait_stream(default)"), Arrow((1, 3), (0, 4), "default.wait_stream(side)")],
        "A wait orders work submitted before it to one stream before later work of the other.",
    )


def lifetime():
    """Draw memory that is reused too early."""
    return draw(
        ["default stream", "stream side", "host"],
        [
            Work(1, 0, "batch = copy", BLUE, 1.2), Work(0, 1.6, "model(batch)", RED, 2.2),
            Work(2, 2.2, "del batch", GREY), Work(1, 3.2, "next = copy", RED, 1.2),
        ],
        [Arrow((1, 1.2), (0, 1.6), "wait"), Arrow((0, 3.8), (1, 3.2), "", True)],
        "The block returns to the pool of `side` while the default stream is still reading it.",
    )  # fmt: skip


def host():
    """Draw a copy to the host and the wait for it."""
    return draw(
        ["default stream", "host"],
        [
            Work(0, 0, "copy to pinned", BLUE, 1.6), Work(1, 0.9, "record", GREY, 0.8),
            Work(1, 2.2, "synchronize", GREEN, 1.2), Work(1, 3.6, "read", GREEN, 0.8),
        ],
        [Arrow((0, 1.6), (1, 2.2), "the host waits here")],
        "The host reads after it has waited. event.wait() would make a stream wait, not the host.",
    )  # fmt: skip


PICTURES = {"race": race, "ordered": ordered, "lifetime": lifetime, "host": host}
