"""A generator of messy tables: one informative column, and every trouble that real files have."""

import csv
import datetime as dt
import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

INFORMATIVE = "size"


def day(x: float) -> dt.date:
    return dt.date(2020, 7, 1) + dt.timedelta(days=round(100 * x))


def duration(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return f"{hours}h {rest}m" if hours and rest else f"{hours}h" if hours else f"{rest}m"


def moment(x: float) -> dt.datetime:
    return dt.datetime(2021, 3, 1, 12) + dt.timedelta(seconds=round(2e6 * x))


def rank(x: float) -> str:
    n = max(1, round(60 + 20 * x))
    return (
        f"{n}{'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"
    )


def power(x: float) -> str:
    digits, exponent = f"{np.exp(5 + 2 * x):.2e}".split("e")
    return f"{digits} ×10^{int(exponent)}/L"


def frequency(x: float) -> str:
    mega = 1000 * np.exp(x / 2)
    return f"{mega:.0f} MHz" if mega < 1000 else f"{mega / 1000:.2f} GHz"


FORMATS: dict[str, Callable[[float], str]] = {
    "plain": lambda x: f"{100 * x:.2f}",
    "money": lambda x: f"${1e4 * x:,.2f}".replace("$-", "-$"),
    "percent": lambda x: f"{100 * x:.1f} %",
    "thousands": lambda x: f"{1e6 * x:,.0f}",
    "spaces": lambda x: f"  {100 * x:.2f} ",
    "accounting": lambda x: f"({-1e3 * x:,.1f})" if x < 0 else f"{1e3 * x:,.1f}",
    "minus behind": lambda x: f"{abs(1e3 * x):,.1f}" + "-" * bool(x < 0),
    "unit": lambda x: f"{70 + 12 * x:.1f} kg",
    "minus sign": lambda x: f"{100 * x:.2f}".replace("-", "−"),
    "decimal comma": lambda x: f"{x:.3f}".replace(".", ","),
    "French money": lambda x: f"{3e3 + 1e3 * x:,.2f}\xa0€".replace(",", "\u202f").replace(".", ","),
    "debit and credit": lambda x: f"${abs(1e3 * x):,.2f} {'DR' if x < 0 else 'CR'}",
    "laboratory": lambda x: f"{5 + x:.2f} mg/L" + " (H)" * bool(x > 0.7),
    "yearly": lambda x: f"${5e4 + 1e4 * x:,.0f}/yr",
    "duration": lambda x: duration(max(1, round(200 + 60 * x))),
    "tenure": lambda x: "{} yrs {} mos".format(*divmod(round(100 + 20 * x), 12)),
    "k and M": lambda x: f"{1 + 0.2 * x:.2f}M" if x > 0 else f"{1e3 + 200 * x:.0f}K",
    "week": lambda x: "{}-W{:02d}".format(*day(4 * x).isocalendar()[:2]),
    "form": lambda x: f"{day(x):%Y/%m/%d} 9:15:00 AM MEZ",
    "dotted date": lambda x: f"{day(x):%d.%m.%Y}",
    "named date": lambda x: f"{day(x):%b %d, %Y}",
    "rank": rank,
    "power of ten": power,
    "frequency": frequency,
    "currency in front": lambda x: f"Rs. {5e4 + 1e4 * x:,.2f}",
    "without cents": lambda x: f"CHF {5e4 + 1e4 * x:,.0f}.-".replace(",", "'"),
    "accounts in dollars": lambda x: f"$ ({-1e3 * x:,.2f})" if x < 0 else f"$ {1e3 * x:,.2f}",
    "text of a spreadsheet": lambda x: f'="{100 * x:.2f}"',
    "dash": lambda x: f"{100 * x:.2f}".replace("-", "–"),
    "signs nobody sees": lambda x: f"\u200e{5e4 + 1e4 * x:,.0f}\u200b".replace(",", "\u2007"),
    "share behind": lambda x: f"{200 + 50 * x:.0f} ({100 + 25 * x:.1f} %)",
    "latitude": lambda x: f"{abs(30 * x):.3f}° {'N' if x > 0 else 'S'}",
    "minutes and seconds": lambda x: "{:.0f}:{:04.1f}".format(*divmod(round(600 + 100 * x, 1), 60)),
    "hours with h": lambda x: "{}h{:02d}".format(*divmod(round(600 + 100 * x), 60)),
    "time of a web server": lambda x: f"{moment(x):%d/%b/%Y:%H:%M:%S} +0100",
    "time of C": lambda x: f"{moment(x):%a %b %d %H:%M:%S %Y}",
    "time of JavaScript": lambda x: f"{moment(x):%a %b %d %Y %H:%M:%S} GMT+0100 (CET)",
    "time of Oracle": lambda x: f"{moment(x):%d-%b-%y %I.%M.%S.000000 %p}".upper(),
    "time of SAS": lambda x: f"{moment(x):%d%b%Y:%H:%M:%S}".upper(),
    "compact time": lambda x: f"{moment(x):%Y%m%dT%H%M%SZ}",
    "time of a log": lambda x: f"{moment(x):%Y-%m-%d %H:%M:%S},123",
    "German week": lambda x: "KW {1}/{0}".format(*day(4 * x).isocalendar()[:2]),
    "short year": lambda x: f"{dt.date(1968, 1, 1) + dt.timedelta(days=round(3e3 * x)):%m/%d/%y}",
    "date with a zone": lambda x: f"{day(x):%Y-%m-%d}T12:00:00Z",
}
HOLES: dict[str, tuple[float, list[str]]] = {
    "question marks": (0.05, ["?"]),
    "signs for missing": (0.1, ["", "-", "--", "NA", "N/A", "null", "None", "n.a."]),
    "stray words": (0.02, ["unknown", "see note"]),
    "-999": (0.05, ["-999"]),
    "9999": (0.03, ["9999"]),
    "1e30": (0.002, ["1e30"]),
    "1e160": (0.002, ["1e160"]),
}
CHOICES = ["letter", "telephone", "visit", "page", "shop"]
EXTRAS: dict[str, Callable[[int], str]] = {
    "identifier": lambda i: f"customer-{i:06d}",
    "free text": lambda i: f"Called at {i % 24}:{i % 60:02d} about order {7 * i}, no answer",
    "codes": lambda i: f"{i * 7919 % 40:05d}",
    "line breaks": lambda i: ["one\nline", 'a "quoted"\nword', "plain"][i % 3],
    "empty column": lambda i: "",
    "one value": lambda i: "same",
    "truth": lambda i: ["True", "FALSE"][i * 7919 % 2],
    "truth in many words": lambda i: ["True", "no", "1", "N", "0", "yes"][i * 7919 % 6],
    "choices": lambda i: "; ".join(w for k, w in enumerate(CHOICES) if i * 7919 >> k & 1) or "none",
    "measurements": lambda i: f"{i * 7919 % 60} of 60",
    "two numbers": lambda i: f"{110 + i * 7 % 40}/{60 + i * 11 % 30}",
}
FILES: dict[str, Callable[[str], bytes]] = {
    "gzip": lambda text: gzip.compress(text.encode()),
    "UTF-16": lambda text: text.encode("utf-16"),
    "Latin-1": lambda text: text.encode("latin-1"),
}


@dataclass(frozen=True)
class Messy:
    """A table with some troubles, each by its name above."""

    format: str = "plain"
    holes: str | None = None
    extra: str | None = None
    file: str | None = None
    column: str = field(default=INFORMATIVE)

    def __str__(self) -> str:
        named = (self.format, self.holes, self.extra, self.file)
        return ", ".join(name for name in named if name not in (None, "plain")) or "clean"

    def rows(self, n: int, seed: int, holes: bool) -> list[list[str]]:
        """The header and n rows as they stand in the file; with holes or without."""
        random = np.random.default_rng(seed)
        x, noise = random.normal(size=(2, n))
        y = np.where(x + 0.4 * random.normal(size=n) > 0, "yes", "no")
        sizes = [FORMATS[self.format](value) for value in x]
        if self.holes is not None and holes:
            share, signs = HOLES[self.holes]
            for i in np.flatnonzero(random.random(n) < share).tolist() or [7]:
                sizes[i] = signs[i % len(signs)]
        place = random.choice(["café", "bar", "library"], n)
        columns = [sizes, [f"{v:.4f}" for v in noise], place.tolist(), y.tolist()]
        header = [self.column, "noise", "place", "bought"]
        if self.extra is not None:
            header.insert(0, self.extra)
            columns.insert(0, [EXTRAS[self.extra](i) for i in range(n)])
        return [header, *map(list, zip(*columns, strict=True))]

    def write(self, folder: Path, name: str, n: int, seed: int, holes: bool) -> Path:
        """The rows as a file of CSV."""
        text = io.StringIO()
        delimiter = ";" if self.format in ("decimal comma", "French money") else ","
        csv.writer(text, delimiter=delimiter).writerows(self.rows(n, seed, holes))
        path = folder / (f"{name}.csv.gz" if self.file == "gzip" else f"{name}.csv")
        encode = FILES.get(self.file or "", lambda text: text.encode())
        path.write_bytes(encode(text.getvalue()))
        return path

    def frame(self, n: int, seed: int, holes: bool) -> pd.DataFrame:
        """The rows as a table of text."""
        header, *rows = self.rows(n, seed, holes)
        return pd.DataFrame(rows, columns=header)


SINGLE = [Messy(format=name) for name in FORMATS if name != "plain"]
SINGLE += [Messy(holes=name) for name in HOLES] + [Messy(extra=name) for name in EXTRAS]
SINGLE += [Messy(file=name) for name in FILES] + [Messy(column="size, in cm")]
PAIRS = [
    Messy("money", "question marks"),
    Messy("percent", "stray words"),
    Messy("thousands", "signs for missing"),
    Messy("decimal comma", "question marks"),
    Messy("dotted date", "signs for missing"),
    Messy("named date", "stray words"),
    Messy("accounting", extra="identifier"),
    Messy("minus sign", file="UTF-16"),
    Messy(holes="1e160", extra="codes"),
    Messy(holes="-999", extra="free text"),
    Messy(holes="stray words", file="gzip"),
    Messy("money", extra="line breaks", file="gzip"),
    Messy("unit", "stray words", extra="two numbers"),
    Messy("minus behind", "signs for missing", file="Latin-1"),
    Messy("currency in front", "signs for missing", extra="choices"),
    Messy("time of a web server", "signs for missing", file="gzip"),
    Messy("rank", "stray words", extra="measurements"),
]
TABLES = SINGLE + PAIRS
