"""A kernel that does nothing but 2^x, for the rate at which a GPU can. Imported only where Triton is there."""

from typing import no_type_check

import triton
import triton.language as tl

BLOCK, UNROLLED = 1024, 16


@triton.jit
@no_type_check
def chain(out, rounds, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = place.to(tl.float32) * 1e-7
    for _ in range(rounds):
        for _ in tl.static_range(16):
            x = tl.exp2(-x)
    tl.store(out + place, x)
