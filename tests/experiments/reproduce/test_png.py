"""PNG of the SVG figures."""

import builtins
from functools import partial
from typing import Any

import pytest

from f2stnet.experiments.reproduce import png
from f2stnet.experiments.reproduce.figures import Figure, Series
from f2stnet.experiments.reproduce.png import rasteriser
from f2stnet.experiments.reproduce.svg import svg


def test_a_figure_becomes_a_png_of_twice_its_size() -> None:
    rasterise, why_not = rasteriser()
    if rasterise is None:
        pytest.skip(why_not)
    figure = Figure("k", "Errors", "", "bars", "", "RMSE", [Series("RMSE", ["a", "b"], [1.0, 2.0], [None, None])])
    drawn = rasterise(svg(figure))
    assert drawn.startswith(b"\x89PNG")
    assert int.from_bytes(drawn[16:20], "big") == 2 * 680


def test_words_are_drawn_by_the_first_font_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if rasteriser()[0] is None:
        pytest.skip(rasteriser()[1])
    usual, _ = rasteriser()
    monkeypatch.setattr(png, "FAMILIES", ("No Such Sans", *png.FAMILIES))
    rasterise, _ = rasteriser()
    assert rasterise is not None
    assert usual is not None
    assert rasterise(png.WORD.format("Ag")) != rasterise(png.WORD.format(""))
    assert rasterise(png.WORD.format("Ag")) == usual(png.WORD.format("Ag"))  # and not by whatever resvg takes for it


def test_where_only_other_fonts_are_there_words_are_drawn_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    resvg = pytest.importorskip("resvg_py")
    draw = resvg.svg_to_bytes
    monkeypatch.setattr(resvg, "svg_to_bytes", lambda sans_serif_family=None, **keys: draw(**keys))
    if draw(svg_string=png.WORD.format("Ag")) == draw(svg_string=png.WORD.format("")):
        pytest.skip("this machine has no font that resvg takes by itself")
    rasterise, why_not = rasteriser()
    assert rasterise is not None
    assert why_not == ""


def test_without_any_of_the_fonts_it_says_which_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own fonts are hidden: with some of them resvg draws words of any family."""
    resvg = pytest.importorskip("resvg_py")
    monkeypatch.setattr(resvg, "svg_to_bytes", partial(resvg.svg_to_bytes, skip_system_fonts=True))
    monkeypatch.setattr(png, "FAMILIES", ("No Such Sans", "Nor This"))
    assert rasteriser() == (
        None, "PNG is left out: none of No Such Sans, Nor This is on this machine, so figures would have no words"
    )  # fmt: skip


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "resvg_py":
            raise ImportError(name)
        return found(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    rasterise, why_not = rasteriser()
    assert rasterise is None
    assert "f2stnet[png]" in why_not
