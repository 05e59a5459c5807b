"""The SVG figures as PNG, for documents that want pixels: `pip install f2stnet[png]`, and a font on the machine."""

from collections.abc import Callable

WORD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20"><text x="2" y="15" font-size="14">{}</text></svg>'
ZOOM = 2  # pixels a unit: sharp in print at the width of a column


def rasteriser() -> tuple[Callable[[str], bytes] | None, str]:
    """What makes PNG bytes of an SVG text; without it, why there is none."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        return None, "PNG is left out: pip install 'f2stnet[png]' brings what draws it"
    if svg_to_bytes(svg_string=WORD.format("Ag")) == svg_to_bytes(svg_string=WORD.format("")):
        return None, "PNG is left out: there is no font on this machine, so figures would have no words"
    return lambda svg: bytes(svg_to_bytes(svg_string=svg, background="white", zoom=ZOOM)), ""
