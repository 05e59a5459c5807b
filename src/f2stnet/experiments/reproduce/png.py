"""The SVG figures as PNG, for documents that want pixels: `pip install f2stnet[png]`, and a font on the machine."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from f2stnet.files import write_bytes

WORD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20" font-family="system-ui, sans-serif">'
    '<text x="2" y="15" font-size="14">{}</text></svg>'
)
# Fonts that a machine may have, one of them: resvg takes 'sans-serif' for Arial. Where that is missing it draws no
# words, or on some machines takes a font with serifs.
FAMILIES = (
    "Arial", "Liberation Sans", "DejaVu Sans", "Noto Sans", "Helvetica", "Segoe UI", "Ubuntu", "Roboto", "Open Sans",
    "FreeSans", "Cantarell", "Adwaita Sans", "Verdana",
)  # fmt: skip
ZOOM = 2  # pixels a unit: sharp in print at the width of a column
MOST = 8  # processes
WORTH = 8  # figures that are worth starting one


def rasteriser() -> tuple[Callable[[str], bytes] | None, str]:
    """What makes PNG bytes of an SVG text; without it, why there is none."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        return None, "PNG is left out: pip install 'f2stnet[png]' brings what draws it"
    empty = svg_to_bytes(svg_string=WORD.format(""))
    word = partial(svg_to_bytes, svg_string=WORD.format("Ag"))
    astray = word(sans_serif_family="no family of this name")
    family = next((one for one in FAMILIES if word(sans_serif_family=one) not in (empty, astray)), None)
    if family is None and astray == empty:
        known = ", ".join(FAMILIES)
        return None, f"PNG is left out: none of {known} is on this machine, so figures would have no words"
    draw = partial(svg_to_bytes, background="white", zoom=ZOOM, sans_serif_family=family)
    return lambda svg: bytes(draw(svg_string=svg)), ""


def begin_drawing(figures: Sequence[Path]) -> Callable[[], None]:
    """Make a PNG beside each SVG file that has none, or one that is older; call what is returned to wait for them.

    Pixels take more time than all the rest of a report, and resvg lets nobody else work: processes of their own draw,
    one a core, while the report goes on.
    """
    wanted = [path for path in figures if _is_stale(path)]
    count = min(os.cpu_count() or 1, MOST, len(wanted) // WORTH)
    working: list[subprocess.Popen[str]] = []
    for place in range(count):
        with suppress(OSError):  # one that does not start or ends at once: `finish` draws what was its own
            working.append(_helper(wanted[place::count]))

    def finish() -> None:
        for one in working:
            one.wait()
        _draw([path for path in wanted if _is_stale(path)])

    return finish


def _is_stale(figure: Path) -> bool:
    drawn = figure.with_suffix(".png")
    return not drawn.exists() or drawn.stat().st_mtime_ns < figure.stat().st_mtime_ns


def _helper(figures: Sequence[Path]) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-m", "f2stnet.experiments.reproduce.png"],
        stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert started.stdin is not None
    with started.stdin as told:
        told.write("\n".join(map(str, figures)))
    return started


def _draw(figures: Sequence[Path]) -> None:
    rasterise, why_not = rasteriser()
    for path in figures:
        assert rasterise is not None, why_not
        write_bytes(path.with_suffix(".png"), rasterise(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    _draw([Path(line) for line in sys.stdin.read().splitlines()])
