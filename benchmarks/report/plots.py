"""Two kinds of plots, as SVG text without a library: lines over a scale, and bars beside a mark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 800, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 310, 40, 48
COLOURS = (
    *("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b"),
    *("#e377c2", "#7f7f7f", "#bcbd22", "#393b79"),
)
BAR = 18

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    title: str
    x: str
    y: str


class _Scale:
    """A logarithmic scale from the least to the greatest of some values, both above 0."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        if high - low < 0.3:  # else a flat line would fill the plot with its noise
            low, high = low - 0.15, high + 0.15
        self._low, self._span = low, high - low
        self._start, self._end = start, end
        self.low, self.high = 10**low, 10**high

    def place(self, value: float) -> float:
        share = (math.log10(value) - self._low) / self._span
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        powers = range(math.floor(self._low), math.ceil(self._low + self._span) + 1)
        steps = (1, 2, 5) if self._span < 2.5 else (1,)
        found = [step * 10.0**power for power in powers for step in steps]
        return [value for value in found if self.low * 0.999 <= value <= self.high * 1.001]


def lines(labels: Labels, series: Mapping[str, Points], mark: float = 1.0) -> str:
    """A line for each series, both scales logarithmic, and a dashed one at `mark`."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [mark, *(y for points in series.values() for _, y in points)]
    across = _Scale(xs, LEFT, WIDTH - RIGHT)
    up = _Scale(ys, HEIGHT - BOTTOM, TOP)
    parts = [_text(LEFT, 20, labels.title, bold=True)]
    parts += [
        _text(across.place(value), HEIGHT - 28, _number(value), anchor="middle")
        for value in sorted(set(xs))
    ]
    for value in up.ticks():
        y = up.place(value)
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y, "#ddd"))
        parts.append(_text(LEFT - 6, y + 4, _number(value), anchor="end"))
    parts.append(_line(LEFT, up.place(mark), WIDTH - RIGHT, up.place(mark), "#333", dashed=True))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, labels.x, anchor="middle"))
    parts.append(_text(LEFT, 34, labels.y, small=True))
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [(across.place(x), up.place(y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        y = TOP + 8 + number * 18
        parts.append(_line(WIDTH - RIGHT + 12, y, WIDTH - RIGHT + 30, y, colour, thick=True))
        parts.append(_text(WIDTH - RIGHT + 36, y + 4, name, small=True))
    return _svg(parts, max(HEIGHT, TOP + 18 * len(series) + 20))


def bars(title: str, values: Mapping[str, float], mark: float = 1.0) -> str:
    """A bar for each value on a logarithmic scale, red where it is over `mark`."""
    left, end = 400, WIDTH - 60
    bottom = TOP + BAR * len(values)
    across = _Scale([mark / 2, mark * 2, *values.values()], left, end)
    parts = [_text(12, 20, title, bold=True)]
    for number, (name, value) in enumerate(values.items()):
        y = TOP + number * BAR
        colour = COLOURS[1] if value > mark else COLOURS[2]
        length = max(across.place(value) - left, 1.0)
        parts.append(
            f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{BAR - 6}" '
            f'fill="{colour}"/>'
        )
        parts.append(_text(left - 6, y + 13, name, anchor="end", small=True))
        parts.append(_text(left + length + 4, y + 13, _number(value), small=True))
    parts.append(_line(across.place(mark), TOP, across.place(mark), bottom, "#333", dashed=True))
    return _svg(parts, bottom + 16)


def _svg(parts: Sequence[str], height: float) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        'font-family="sans-serif" font-size="12">'
    )
    paper = f'<rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>'
    return "\n".join([head, paper, *parts, "</svg>", ""])


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False, small: bool = False
) -> str:
    style = (' font-weight="bold"' if bold else "") + (' font-size="11"' if small else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False,
    thick: bool = False,
) -> str:  # fmt: skip
    style = (' stroke-dasharray="5 4"' if dashed else "") + (' stroke-width="2"' if thick else "")
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{style}/>'
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
