"""Drawings as SVG text. Colours are classes, so that the page decides on light, dark and print."""

import math
from collections.abc import Iterable, Sequence
from html import escape

Size = tuple[int, int]
Pair = tuple[float, float]
Points = Iterable[Pair]
Ticks = Sequence[tuple[float, str]] | None
UNITS = ((1e9, "bn"), (1e6, "m"), (1e3, "k"))


class Plot:
    """A drawing with two axes, whose ranges are x and y.

    `label` says what it shows to those who cannot see it. `size` is width and height, `left` and
    `bottom` are room for the labels of the axes.
    """

    def __init__(
        self, x: Pair, y: Pair, label: str, size: Size, left: int = 46, bottom: int = 40
    ) -> None:
        self.x, self.y = _wide(x), _wide(y)
        self._label, self._size = label, size
        self.left, self.right = left, size[0] - 10
        self.top, self.bottom = 10, size[1] - bottom
        self._parts: list[str] = []

    def px(self, x: float) -> float:
        """Where x lies, from the left."""
        low, high = self.x
        return self.left + (x - low) / (high - low) * (self.right - self.left)

    def py(self, y: float) -> float:
        """Where y lies, from the top."""
        low, high = self.y
        return self.bottom - (y - low) / (high - low) * (self.bottom - self.top)

    @property
    def sides(self) -> str:
        """Where the axes lie, as attributes for the page's script."""
        places = {"left": self.left, "right": self.right, "top": self.top, "bottom": self.bottom}
        return " ".join(f'data-{side}="{place}"' for side, place in places.items())

    def add(self, markup: str) -> None:
        """Draw SVG as it is."""
        self._parts.append(markup)

    def axes(self, xlabel: str, ylabel: str, xticks: Ticks = None, yticks: Ticks = None) -> None:
        """Ticks, their labels and thin lines across."""
        for value, name in ticks(*self.x) if xticks is None else xticks:
            x = self.px(value)
            anchor, shift = "middle", 0
            if len(name) > 3 and x > self.right - 12:
                anchor, shift = "end", 6
            elif len(name) > 5 and x < self.left + 12:
                anchor, shift = "start", -6
            self.text(x + shift, self.bottom + 15, name, anchor=anchor)
        for value, name in ticks(*self.y) if yticks is None else yticks:
            y = self.py(value)
            self.add(f'<path class="grid" d="M{self.left} {_f(y)}H{self.right}"/>')
            self.text(self.left - 6, y + 4, name, anchor="end")
        self.add(f'<path class="axis" d="M{self.left} {self.bottom}H{self.right}"/>')
        self.text((self.left + self.right) / 2, self._size[1] - 6, xlabel)
        self.text(11, (self.top + self.bottom) / 2, ylabel, turn=-90)

    def text(
        self, x: float, y: float, text: str, style: str = "", anchor: str = "middle", turn: int = 0
    ) -> None:
        """Write text at a place in pixels, turned by so many degrees."""
        place = f'x="{_f(x)}" y="{_f(y)}" text-anchor="{anchor}"'
        if turn:
            place += f' transform="rotate({turn} {_f(x)} {_f(y)})"'
        if text:
            self.add(f'<text class="{style}" {place}>{escape(text)}</text>')

    def line(self, points: Points, style: str) -> None:
        """A line through points."""
        if places := self._path(points):
            self.add(f'<path class="line {style}" d="M{places}"/>')

    def area(self, upper: Points, lower: Points, style: str) -> None:
        """The area between two lines."""
        places = self._path([*upper, *reversed(list(lower))])
        self.add(f'<path class="{style}" d="M{places}Z"/>')

    def _path(self, points: Points) -> str:
        return "L".join(f"{_f(self.px(x))} {_f(self.py(y))}" for x, y in points)

    def dot(self, x: float, y: float, style: str, radius: float = 3.5, title: str = "") -> None:
        """A dot, with words for the pointer that rests on it."""
        inside = f"<title>{escape(title)}</title>" if title else ""
        place = f'cx="{_f(self.px(x))}" cy="{_f(self.py(y))}"'
        self.add(f'<circle class="{style}" {place} r="{radius}">{inside}</circle>')

    def box(self, x: Pair, y: Pair, style: str, title: str = "") -> None:
        """A filled rectangle between values of the axes, with words for the pointer."""
        # Rounded before the size is taken, so that neighbours leave no gap.
        left, right = (round(self.px(end), 1) for end in x)
        bottom, top = (round(self.py(end), 1) for end in y)
        inside = f"<title>{escape(title)}</title>" if title else ""
        self.add(
            f'<rect class="{style}" x="{_f(left)}" y="{_f(top)}" width="{_f(right - left)}" '
            f'height="{_f(bottom - top)}">{inside}</rect>'
        )

    def __html__(self) -> str:
        width, height = self._size
        return (
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(self._label)}" '
            f'style="max-width:{round(1.35 * width)}px">{"".join(self._parts)}</svg>'
        )


def ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Round numbers between two numbers, with their names."""
    span = high - low
    unit = 10.0 ** math.floor(math.log10(span / most))
    step = next(unit * k for k in (1, 2, 5, 10) if span / (unit * k) <= most)
    first = math.ceil(low / step - 1e-9)
    values = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
    largest = max(abs(low), abs(high))
    if largest >= 1e4:
        power, suffix = next(p for p in UNITS if largest >= 10 * p[0])
        return [(v, _minus(f"{v / power:g}{suffix if v else ''}")) for v in values]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [(v, _minus(f"{v:.{digits}f}" if digits < 6 else f"{v:.3g}")) for v in values]


def shares(high: float = 1.0, step: float = 0.2) -> list[tuple[float, str]]:
    """Ticks for shares up to one of them, in per cent."""
    values = [k * step for k in range(math.floor(high / step + 1e-9) + 1)]
    return [(v, f"{100 * v:.0f} %") for v in values]


def shortened(text: str, most: int) -> str:
    """At most this many characters of a text."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _wide(range_: Pair) -> Pair:
    """The range, a little wider if it is a point."""
    low, high = range_
    room = (abs(low) / 2 or 1.0) if high == low else 0.0
    return low - room, high + room


def _f(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
