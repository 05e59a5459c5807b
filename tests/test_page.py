"""Pages stand alone and never take text for markup."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2stnet import page
from f2stnet.page import Page

NASTY = """<img src=x onerror="alert('1')">&amp;</script><script>alert(2)</script>"""


class Elements(HTMLParser):
    """Which elements a page has, their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def without_plotly(html: str) -> str:
    return html.replace(page._plotly(), "")


def sample() -> Page:
    made = Page("Title", "Lead")
    trace = {"type": "scatter", "x": np.array([1.0, 2.0]), "y": np.array([1.0, np.nan]), "line": {"color": page.INK}}
    made.add("Plot", page.figure([trace], {"xaxis": {"title": page.axis_title("step")}}, "A caption."))
    made.add("Table", page.table(["name", "MAE"], [["a", "1.0"], ["b", "2.0"]], strong={(0, 1)}, quiet=[1]))
    return made


def figure_json(html: str) -> list[dict]:
    return [json.loads(found) for found in re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)]


def test_a_page_fetches_nothing() -> None:
    html = sample().html()
    assert html.count(page._plotly()) == 1
    for tag, attributes in Elements(without_plotly(html)).tags:
        assert tag not in ("link", "img", "iframe"), tag
        assert "src" not in attributes, tag
    assert "default-src 'none'" in html
    assert "@import" not in html.replace(page._plotly(), "")


def test_a_page_without_figures_carries_no_plotly() -> None:
    made = Page("Title")
    made.add("Words", page.paragraph("Only words."))
    assert len(made.html()) < 20_000


@pytest.mark.parametrize(
    "block",
    [
        page.paragraph(NASTY),
        page.bullets([NASTY]),
        page.facts({NASTY: NASTY}),
        page.table([NASTY], [[NASTY]], NASTY),
        page.fold(NASTY, page.verbatim(NASTY)),
        page.figure([{"name": NASTY, "text": [NASTY]}], {"title": NASTY}, NASTY, title=NASTY),
    ],
)
def test_text_is_never_markup(block: page.Html) -> None:
    made = Page(NASTY, NASTY)
    made.add(NASTY, block)
    found = Elements(without_plotly(made.html()))
    assert not [tag for tag, attributes in found.tags if tag == "img" or "onerror" in attributes]
    own = [attributes for tag, attributes in found.tags if tag == "script"]
    assert len(own) in (0, 3)  # none of its own, or plotly, the figure's data and the drawing
    assert NASTY in "".join(found.text)


@given(st.text())
def test_json_in_a_script_element_comes_back_as_it_was(text: str) -> None:
    written = page.to_json({"text": text})
    assert "<" not in written
    assert json.loads(written) == {"text": text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")}


def test_json_has_no_nan_and_stamps_are_iso() -> None:
    stamps = np.array(["2024-03-04T05:06:07"], dtype="datetime64[s]")
    value = {"y": np.array([1.5, np.nan, np.inf]), "x": stamps, "n": np.int64(3), "place": -118.3182912}
    assert json.loads(page.to_json(value)) == {
        "y": [1.5, None, None], "x": ["2024-03-04T05:06:07"], "n": 3, "place": -118.3183
    }  # fmt: skip


def test_figures_are_what_plotly_takes() -> None:
    (shown,) = figure_json(sample().html())
    plain = json.loads(re.sub(r'"(var|faint)\(--\w+\)"', '"#123456"', json.dumps(shown)))
    go.Figure(plain)  # refuses unknown keys and values
    assert plain["data"][0]["y"] == [1.0, None]
    assert plain["layout"]["xaxis"]["automargin"] is True


def test_every_colour_name_is_in_the_style_sheet_for_light_and_dark() -> None:
    html = sample().html()
    used = {page.INK, page.MUTED, page.GRID, page.SURFACE, *page.PALETTE}
    for colour in used:
        name = re.fullmatch(r"var\((--\w+)\)", colour)
        assert name
        assert len(re.findall(rf"{name[1]}: #", html)) == 2, colour


def test_strong_cells_and_quiet_rows_are_marked() -> None:
    html = page.table(["name", "MAE"], [["a", "1.0"], ["b", "2.0"]], strong={(0, 1)}, quiet=[1])
    assert '<td class="strong">1.0</td>' in html
    assert html.count("strong") == 1
    assert html.count("<tr class=quiet>") == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0"),
        (0.12345, "0.123"),
        (12.346, "12.35"),
        (1234.5, "1,234.50"),
        (54321.0, "54,321"),
    ],
)
def test_numbers_have_sensible_digits(value: float | None, text: str) -> None:
    assert page.number(value) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0.00 %"), (1e-6, "under 0.01 %"), (0.0123, "1.23 %"), (1.0, "100.0 %")]
)
def test_a_share_above_zero_never_reads_as_none(share: float, text: str) -> None:
    assert page.percent(share) == text


def test_writing_leaves_one_file(tmp_path: Path) -> None:
    sample().write(tmp_path / "new" / "page.html")
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["page.html"]
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_beside_a_colour_scale_the_title_of_the_axis_has_room_below_the_labels() -> None:
    """What plotly leaves there by itself is too little, and the title lies among the labels."""
    scale = {"colorbar": page.colour_bar("share")}
    titled = {"xaxis": {"title": page.axis_title("round")}}
    for trace in ({"type": "heatmap", **scale}, {"type": "scatter", "marker": scale}):
        (shown,) = figure_json(page.figure([trace], titled, ""))
        assert shown["layout"]["margin"]["b"] == page.BELOW
    for data, layout in (([{"type": "scatter"}], titled), ([{"type": "heatmap", **scale}], {})):
        (shown,) = figure_json(page.figure(data, layout, ""))
        assert shown["layout"]["margin"]["b"] < page.BELOW
