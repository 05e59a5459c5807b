"""What an earlier report left where the next one writes. Nobody else's files are touched: a report goes to the current
folder unless it is told otherwise, and somebody may keep pictures in `report/figures`.

<out>/report/.written     the files under report/tables and report/figures that are a report's own, a line each
"""

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from f2stnet.errors import InputError
from f2stnet.experiments.reproduce.sheet import HEADS
from f2stnet.experiments.reproduce.svg import WIDTH
from f2stnet.files import write_text

FOLDERS = ("tables", "figures")
LIST = ".written"
MARKS = {"RESULTS.md": "Written by `f2stnet report`", "report/index.html": "<title>Results</title>"}  # near the top
BEGINNING = 2000  # characters of a file that tell whose it is


def refuse_strangers(out: Path) -> None:
    """Before anything is written: what stands under a name of ours has to be ours."""
    for name, mark in MARKS.items():
        if (out / name).exists() and mark not in _beginning(out / name):
            raise InputError(
                f"{out / name}: not written by `f2stnet report`, so it is not overwritten; "
                "move it away, or name another folder with --out"
            )


def replace_earlier(folder: Path, of_today: Collection[Path]) -> None:
    """Remove what earlier reports wrote and today's does not, and note what is ours from now on."""
    for old in _earlier(folder):
        if old not in of_today and old.is_file():
            old.unlink()
    names = sorted(path.relative_to(folder).as_posix() for path in of_today)
    write_text(folder / LIST, "".join(f"{name}\n" for name in names))  # before them: half a report is ours, too


def _earlier(folder: Path) -> Iterable[Path]:
    if (folder / LIST).is_file():
        lines = (folder / LIST).read_text(encoding="utf-8", errors="replace").splitlines()
        places = [folder / kind for kind in FOLDERS]
        return [folder / line for line in lines if (folder / line).parent in places]  # whatever else it may say
    there = [path for kind in FOLDERS for path in (folder / kind).glob("*.*") if path.is_file()]
    return [path for path in there if _looks_like_ours(path)]


def _looks_like_ours(path: Path) -> bool:
    """For folders from before there was a list: by what stands in a file, and that it is called as it says."""
    match path.suffix:
        case ".csv":
            return _beginning(path).startswith(f"{','.join(HEADS)}\n{path.stem},")
        case ".tex":
            return f"\\label{{tab:{path.stem}}}" in path.read_text(encoding="utf-8", errors="replace")
        case ".svg":
            head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
            named = re.fullmatch(r".+-\d+-.+", path.stem)  # as accuracy-1-pems04-size: a copy has another name
            return named is not None and _beginning(path).startswith(head)
        case ".png":
            drawn_of = path.with_suffix(".svg")
            return drawn_of.is_file() and _looks_like_ours(drawn_of)
    return False


def _beginning(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(BEGINNING)
