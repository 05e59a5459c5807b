"""Rows and columns of a CSV or Parquet file, with the row numbers that an editor shows.

European files are understood: a semicolon or tab between cells, a comma in numbers. Nothing is guessed about
cells: a text where a number belongs is refused with its place.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int

from f2stnet.data.hints import number_hint
from f2stnet.errors import InputError
from f2stnet.files import existing
from f2stnet.registry import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
SAMPLE = 20  # rows that tell the separator
LOOKED_AT = 1 << 18  # characters that tell whether marks could separate thousands
MISSING = ["", "NaN", "nan", "NAN", "NA", "N/A", "n/a", "#N/A", "null", "NULL", "None"]


@dataclass(frozen=True)
class Tabular:
    """One open table; its cells are read column by column when asked for."""

    path: Path
    columns: tuple[str, ...]
    row: Callable[[int], int]  # the row in the file of a record
    read: Callable[[list[int], bool], "pd.DataFrame"]  # columns by place, as texts or as what they are
    decimal: str = "."
    doubt: str = ""  # what its numbers could mean instead
    marks: tuple[str, ...] | None = None  # texts that mean 'no number'; None where nobody can name any

    def distinct(self, column: str) -> tuple[Int[np.ndarray, "R"], list[str]]:
        """A column of texts as places in the list of its distinct texts; '' where a cell is empty."""
        import pandas as pd

        cells = self.read([self.place(column)], True).iloc[:, 0]
        codes, found = pd.factorize(cells, use_na_sentinel=False)
        texts = ["" if pd.isna(cell) else str(cell).strip() for cell in found]
        index = {text: i for i, text in enumerate(dict.fromkeys(texts))}  # 'a' and 'a ' are one
        return np.array([index[text] for text in texts], dtype=np.int64)[codes], list(index)

    def numbers(self, columns: Sequence[str]) -> Float64[np.ndarray, "R K"]:
        """NaN where a cell is empty."""
        import pandas as pd

        places = [self.place(column) for column in columns]
        cells = self.read(places, False)
        kinds = list(cells.dtypes)
        odd = [
            i
            for i, kind in enumerate(kinds)
            if pd.api.types.is_bool_dtype(kind) or not pd.api.types.is_numeric_dtype(kind)
        ]
        if not odd:
            return cells.to_numpy(dtype=np.float64, na_value=np.nan)
        parsed = self._parse([columns[i] for i in odd], self.read([places[i] for i in odd], True))
        numbers = np.empty(cells.shape)
        for i in range(len(columns)):
            column = parsed[odd.index(i)] if i in odd else cells.iloc[:, i]
            numbers[:, i] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers

    def _parse(self, columns: list[str], texts: "pd.DataFrame") -> list["pd.Series[Any]"]:
        """Columns that did not read as numbers: numbers after all, or the first cell that is none."""
        import pandas as pd

        results, wrong = [], []
        for i, column in enumerate(columns):
            cells = texts.iloc[:, i].astype(str).str.strip()
            empty = texts.iloc[:, i].isna() | cells.isin([*MISSING, *(self.marks or ())])
            if self.decimal == ",":  # a point would be one of thousands
                cells = cells.where(~cells.str.contains(".", regex=False), "no number").str.replace(",", ".")
            parsed = pd.to_numeric(cells.where(~empty), errors="coerce").astype(np.float64)
            results.append(parsed)
            bad = np.flatnonzero((parsed.isna() & ~empty).to_numpy())
            if len(bad):
                kinds = cells.iloc[bad].nunique() if len(bad) == int((~empty).sum()) else 0
                wrong.append((int(bad[0]), column, str(texts.iloc[bad[0], i]), kinds, len(bad) == 1 and bad[0] == 0))
        if wrong:
            record, column, text, kinds, below_header = min(wrong, key=lambda found: found[0])
            hint = number_hint(text, self.decimal, self.marks is not None, kinds, below_header)
            raise InputError(f"{self.path}, row {self.row(record)}, column {column!r}: {text!r} is no number{hint}")
        return results

    def without(self, columns: Collection[str]) -> "Tabular":
        """The same table with these columns taken out, those that it has."""
        kept = [place for place, column in enumerate(self.columns) if column not in columns]
        if len(kept) == len(self.columns):
            return self
        return replace(
            self,
            columns=tuple(self.columns[place] for place in kept),
            read=lambda places, as_text: self.read([kept[place] for place in places], as_text),
        )

    def place(self, column: str) -> int:
        if column not in self.columns:
            raise InputError(f"{self.path}: has no column {column!r}{did_you_mean(column, self.columns)}")
        return self.columns.index(column)

    def find(self, names: Sequence[str]) -> list[str]:
        """The columns that have one of these names, in whatever case, in the order of the names."""
        return [column for name in names for column in self.columns if column.lower() == name]


def is_table(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def open_table(path: Path, marks: tuple[str, ...] | None = None) -> Tabular:
    table = _open_parquet(path) if path.name.lower().endswith(".parquet") else _open_csv(path)
    return replace(table, marks=marks)


def _open_csv(path: Path) -> Tabular:
    text = read_text(path).rstrip("\n")
    body = text.lstrip("\n")
    if not body:
        raise InputError(f"{path}: is empty, expected a header and rows")
    first = text.count("\n", 0, len(text) - len(body)) + 1
    header, _, body = body.partition("\n")
    separator = find_separator([header, *body.split("\n", SAMPLE)[:SAMPLE]])
    columns = [name.strip() for name in next(csv.reader([header], delimiter=separator))]
    if not body.strip():
        raise InputError(f"{path}: has a header and no rows")
    width = len(columns)
    lines = _lines(path, body, separator, width, first + 1)
    # A comma inside a whole cell of digits, where commas do not separate cells, is a decimal comma.
    comma = rf'(?:^|{separator})\s*"?[-+]?\d+,\d+"?\s*(?:{separator}|$)'
    decimal = "," if separator != "," and re.search(comma, body, re.MULTILINE) else "."

    def read(places: list[int], as_text: bool) -> "pd.DataFrame":
        import pandas as pd

        try:
            return pd.read_csv(
                io.StringIO(body),
                sep=separator,
                decimal=decimal,
                header=None,
                names=list(range(width)),
                usecols=places,
                index_col=False,
                dtype=object if as_text else None,
                na_values=None if as_text else MISSING,
                keep_default_na=False,
                skip_blank_lines=False,
                skipinitialspace=True,
                low_memory=False,
            )[places]
        except (pd.errors.ParserError, pd.errors.EmptyDataError) as wrong:
            raise InputError(f"{path}: not a readable table ({str(wrong).strip()})") from None

    last = len(columns) - 1
    if last > 0 and not columns[last] and not read([last], True)[last].astype(str).str.strip().any():
        columns = columns[:last]  # every line ends in a separator
    return Tabular(path, _checked(path, columns), lines, read, decimal, _thousands(body, separator))


def _thousands(body: str, separator: str) -> str:
    """A doubt, where numbers look like 857 and 1.493: a mark with three digits after it in some of them, no mark and
    less than a thousand in all others. Decimals would not be missing from every number below a thousand."""
    looked_at = body if len(body) <= LOOKED_AT else body[:LOOKED_AT].rpartition("\n")[0]
    cells = [cell.strip(' "') for line in looked_at.split("\n") for cell in line.split(separator)]
    marked = [cell for cell in cells if re.fullmatch(r"[-+]?\d+[.,]\d+", cell)]
    whole = [cell for cell in cells if re.fullmatch(r"[-+]?\d+", cell)]
    grouped = all(re.fullmatch(r"[-+]?[1-9]\d{0,2}[.,]\d{3}", cell) for cell in marked)
    below = all(abs(int(cell)) < 1000 for cell in whole)
    if separator == "," or not marked or not grouped or not below or not any(len(cell) > 2 for cell in whole):
        return ""
    return (
        f"{marked[0]!r} stands beside numbers as {whole[-1]!r} and is read as {float(marked[0].replace(',', '.')):g}; "
        "if its mark separates thousands, take these marks out of the file"
    )


def find_separator(lines: Sequence[str]) -> str:
    """What gives the first rows as many cells as the header, two at least; quoted cells are whole.

    A comma comes last: where another fits, commas are decimal ones or parts of names.
    """
    agreeing = {}
    for separator in "\t;,":
        try:
            widths = [len(cells) for cells in csv.reader(lines, delimiter=separator) if cells]
        except csv.Error:  # an open quote; the reader of the whole file says where
            continue
        if widths and widths[0] > 1:
            agreeing[separator] = widths[1:].count(widths[0])
    best = max(agreeing, key=agreeing.__getitem__, default=",")
    return best if agreeing.get(best) else max(",;\t", key=lines[0].count)


def _lines(path: Path, body: str, separator: str, width: int, first: int) -> Callable[[int], int]:
    """The row of each record, once every record is known to have as many cells as the header."""
    if '"' not in body:
        for record, line in enumerate(body.split("\n")):
            if line.count(separator) != width - 1 and line.strip():
                _refuse_width(path, first + record, line.count(separator) + 1, width)
        return lambda record: first + record
    rows = [first]
    reader = csv.reader(io.StringIO(body), delimiter=separator)
    try:
        for cells in reader:
            if len(cells) != width and cells:
                _refuse_width(path, rows[-1], len(cells), width)
            rows.append(first + reader.line_num)
    except csv.Error as wrong:  # a quote that is never closed takes the rest of the file into one cell
        raise InputError(f"{path}, row {rows[-1]}: not a readable table ({wrong})") from None
    return rows.__getitem__


def _refuse_width(path: Path, row: int, found: int, expected: int) -> None:
    raise InputError(f"{path}, row {row}: has {found} cells, the header has {expected}")


def _checked(path: Path, columns: list[str]) -> tuple[str, ...]:
    for place, column in enumerate(columns):
        if column in columns[:place]:
            raise InputError(f"{path}: columns {columns.index(column) + 1} and {place + 1} are both named {column!r}")
        if not column and place:
            raise InputError(f"{path}: column {place + 1} has no name; the first line has to be the header")
    return tuple(columns)


def _open_parquet(path: Path) -> Tabular:
    import pandas as pd

    try:
        frame = pd.read_parquet(existing(path))
    except ImportError:
        raise InputError(f"{path}: reading Parquet needs the package pyarrow") from None
    except (OSError, ValueError) as wrong:  # pyarrow's own errors are among these
        raise InputError(f"{path}: not a readable Parquet file ({wrong})") from None
    return table_of(frame, path)


def table_of(frame: "pd.DataFrame", path: Path) -> Tabular:
    """A pandas table, by the name `path` in messages; an index that says something is a column before the others."""
    import pandas as pd

    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(names=[str(name or "") for name in frame.index.names])
    columns = _checked(path, [str(column) for column in frame.columns])
    if not len(frame):
        raise InputError(f"{path}: has columns and no rows")
    return Tabular(path, columns, lambda record: record + 1, lambda places, _: frame.iloc[:, places])


def read_text(path: Path) -> str:
    """A text file as UTF-8, with or without a byte order mark, gzipped or not; lines end in newlines."""
    raw = existing(path).read_bytes()
    if path.suffix == ".gz":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as wrong:
            raise InputError(f"{path}: not a readable gzip file ({wrong})") from None
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path}: is UTF-16 text, expected UTF-8")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        row = raw.count(b"\n", 0, wrong.start) + 1
        byte = f"byte 0x{raw[wrong.start]:02x}"
        raise InputError(f"{path}, row {row}: {byte} is not UTF-8 text; save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
