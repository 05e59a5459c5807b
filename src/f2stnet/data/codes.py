"""Numbers that look like a code for 'not observed': -999, 9999 and the like.

Such a code is one and the same number, there several times, at an end of its channel and far from everything else, or
-1 or a number in nines as the only one below zero.
Nothing is dropped: who knows the sensors is told, and decides.
"""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float32

OFTEN = 3  # times that a number has to be there
FAR = 3.0  # how far it has to be from all others, in widths of what the channel usually shows …
FAR_NINES = 0.5  # … and where it is written in nines, as hardly any reading is
SAMPLE = 100_000  # values that tell what is usual
MOST = 4  # codes looked for in a channel


def code_note(
    values: Float32[np.ndarray, "T N C"],
    mask: Bool[np.ndarray, "T N C"],
    channels: Sequence[str],
    missing: tuple[float, ...] = (),
) -> tuple[str, ...]:
    """A note that names such numbers, how often they are there and the key that says what they are."""
    found: list[str] = []
    codes = [_text(code) for code in missing]
    for place, channel in enumerate(channels):
        for code, count in find_codes(values[:, :, place][mask[:, :, place]]):
            found.append(f"{code} ({count:,} times in {channel!r})")
            codes += [code] if code not in codes else []
    if not found:
        return ()
    several = len(found) > 1
    return (
        f"unlike all other readings: {', '.join(found)}; if {'they mean' if several else 'it means'} 'not observed', "
        f"set data.missing=[{', '.join(codes)}]",
    )


def find_codes(seen: Float32[np.ndarray, "V"]) -> list[tuple[str, int]]:
    """Each suspect as people write it, and its count; `seen` is what one channel showed."""
    found: list[tuple[str, int]] = []
    if not len(seen):
        return found
    # Over distinct numbers, so that a code counts once however often it is there.
    low, high = np.quantile(np.unique(seen[:: 1 + len(seen) // SAMPLE]), [0.1, 0.9])
    width = float(high - low)
    while len(found) < MOST:
        suspects = [end for end in (float(seen.min()), float(seen.max())) if _is_code(seen, end, width)]
        if not suspects:
            break
        for end in suspects:
            found.append((_text(end), int((seen == end).sum())))
            seen = seen[seen != end]
    return found


def _is_code(seen: Float32[np.ndarray, "V"], end: float, width: float) -> bool:
    others = seen[seen != end]
    if end == 0 or width <= 0 or len(seen) - len(others) < OFTEN or len(others) < OFTEN:
        return False  # 0 is what something shows that is switched off
    nearest = others.min() if end < others.min() else others.max()
    nines = re.fullmatch(r"-?9+(\.9+)?", _text(end)) is not None
    only_negative = (nines or end == -1) and end < 0 <= nearest
    return only_negative or abs(float(nearest) - end) > (FAR_NINES if nines else FAR) * width


def _text(number: float) -> str:
    """-999.9, where float32 has it as -999.9000244."""
    return str(np.float32(number)).removesuffix(".0")
