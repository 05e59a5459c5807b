"""The fused backward kernel of all outputs."""

from typing import no_type_check

import triton
import triton.language as tl

from f2stnet.layers.state_space.triton_kernels import COUNTS
from f2stnet.layers.state_space.triton_pieces import (
    grown_by,
    load_entries,
    load_step,
    over_s,
    pieces_of,
    raw_slope,
    row_start,
    store_entries,
    tile_of,
)


@triton.jit
@no_type_check
def _walk(
    state, decay, u_row, delta_row, b_row, u_time, delta_time, b_time,
    first, steps, kept, KEEP: tl.constexpr, d, s, has_d, has_s,
    CELLS: tl.constexpr, PER_CHANNEL: tl.constexpr, SOFTPLUS: tl.constexpr,
):  # fmt: skip
    """The state after `steps` further steps; with KEEP, the state before each of them goes to `kept`."""
    start = first.to(tl.int64)
    u_at, delta_at, b_at = u_row + start * u_time, delta_row + start * delta_time, b_row + start * b_time
    for i in range(steps):
        if KEEP:
            tl.store(kept + i * CELLS, state)
        now = tl.load(u_at, mask=has_d, other=0.0).to(tl.float32)
        enter = load_entries(b_at, d, s, has_d, has_s, PER_CHANNEL)
        state += grown_by(decay, load_step(delta_at, has_d, SOFTPLUS)) * (enter * now + state)
        u_at += u_time
        delta_at += delta_time
        b_at += b_time
    return state


@triton.jit(do_not_specialize=COUNTS)
@no_type_check
def every_backward(
    u, delta, a, b, c, skip, dy, du, ddelta, db, dc, da, dskip, scratch,
    rows, T, N, D, S, K, blocks, db_part, dc_part,
    u_batch, u_time, u_node, delta_batch, delta_time, delta_node,
    b_batch, b_time, b_node, c_batch, c_time, c_node, dy_batch, dy_time, dy_node,
    du_batch, du_time, du_node, db_batch, db_time, db_node, dc_batch, dc_time, dc_node,
    BLOCK_D: tl.constexpr, S1: tl.constexpr, S2: tl.constexpr, PER_CHANNEL: tl.constexpr, SOFTPLUS: tl.constexpr,
):  # fmt: skip
    """Gradients of y_1 … y_T. With λ_t = C_t ∂L/∂y_t + ā_{t+1} λ_{t+1}, the adjoint of h_t, and g = A h as above,

        ∂u_t = Σ_s B λ m + D ∂y_t        ∂B_t = Σ_d u λ m        ∂C_t = Σ_d h_t ∂y_t
        ∂Δ_t = Σ_s λ ā (g_{t−1} + B u)        ∂A = Σ_t λ (Δ ā h_{t−1} + (Δ m − ρ) B u).

    λ needs the steps backwards and h forwards: a first walk leaves the state at the start of every block of K steps
    in `scratch`, then, last block first, the block's own states are computed again beside them.
    """
    d, s, has_d, has_s, writes, decay = tile_of(a, D, S, BLOCK_D, S1, S2)
    inverse = 1.0 / decay
    through = tl.load(skip + d, mask=has_d, other=0.0)
    ddecay = tl.zeros([S1, BLOCK_D, S2], tl.float32)
    dthrough = tl.zeros([S1, BLOCK_D, 1], tl.float32)
    CELLS: tl.constexpr = S1 * BLOCK_D * S2
    program = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)).to(tl.int64)
    part = tl.program_id(1).to(tl.int64)
    cell = s * BLOCK_D + (d - tl.program_id(1) * BLOCK_D)
    inner = scratch + program * (K + blocks) * CELLS + cell
    starts = inner + K.to(tl.int64) * CELLS
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        u_row = u + row_start(row, N, u_batch, u_node) + d
        delta_row = delta + row_start(row, N, delta_batch, delta_node) + d
        b_row = b + row_start(row, N, b_batch, b_node)
        state = tl.zeros([S1, BLOCK_D, S2], tl.float32)
        for block in range(blocks):
            tl.store(starts + block * CELLS, state)
            if block + 1 < blocks:
                state = _walk(state, decay, u_row, delta_row, b_row, u_time, delta_time, b_time,
                              block * K, K, inner, False, d, s, has_d, has_s,
                              CELLS, PER_CHANNEL, SOFTPLUS)  # fmt: skip
        tl.debug_barrier()
        adjoint = tl.zeros([S1, BLOCK_D, S2], tl.float32)
        for block in range(blocks - 1, -1, -1):
            first = block * K
            steps = tl.minimum(K, T - first)
            state = tl.load(starts + block * CELLS)
            state = _walk(state, decay, u_row, delta_row, b_row, u_time, delta_time, b_time,
                          first, steps, inner, True, d, s, has_d, has_s,
                          CELLS, PER_CHANNEL, SOFTPLUS)  # fmt: skip
            tl.debug_barrier()
            final = (first + steps - 1).to(tl.int64)
            u_at, delta_at, b_at = u_row + final * u_time, delta_row + final * delta_time, b_row + final * b_time
            c_at = c + row_start(row, N, c_batch, c_node) + final * c_time
            dy_at = dy + row_start(row, N, dy_batch, dy_node) + final * dy_time + d
            du_at = du + row_start(row, N, du_batch, du_node) + final * du_time + d
            ddelta_at = ddelta + row_start(row, N, du_batch, du_node) + final * du_time + d
            db_at = db + part * db_part + row_start(row, N, db_batch, db_node) + final * db_time
            dc_at = dc + part * dc_part + row_start(row, N, dc_batch, dc_node) + final * dc_time
            for i in range(steps - 1, -1, -1):
                step, now = load_step(delta_at, has_d, SOFTPLUS), tl.load(u_at, mask=has_d, other=0.0).to(tl.float32)
                enter = load_entries(b_at, d, s, has_d, has_s, PER_CHANNEL)
                read = load_entries(c_at, d, s, has_d, has_s, PER_CHANNEL)
                upstream = tl.load(dy_at, mask=has_d, other=0.0).to(tl.float32)
                before = tl.load(inner + i * CELLS)

                adjoint += read * upstream
                grown, held, tilt = pieces_of(decay, inverse, step)
                flow = adjoint * held
                lift = adjoint * grown
                push = enter * now
                ddecay += step * lift * (before * inverse) + adjoint * tilt * push
                dthrough += upstream * now
                tl.store(du_at, over_s(enter * flow) + through * upstream, mask=writes)
                slope = raw_slope(delta_at, has_d, SOFTPLUS)
                tl.store(ddelta_at, over_s(lift * (before + push)) * slope, mask=writes)
                taken, shown = now * flow, upstream * (state * inverse)
                if not PER_CHANNEL:
                    taken, shown = tl.sum(taken, axis=1, keep_dims=True), tl.sum(shown, axis=1, keep_dims=True)
                store_entries(db_at, taken, d, s, has_d, has_s, PER_CHANNEL)
                store_entries(dc_at, shown, d, s, has_d, has_s, PER_CHANNEL)
                adjoint, state = lift, before
                u_at -= u_time
                delta_at -= delta_time
                b_at -= b_time
                c_at -= c_time
                dy_at -= dy_time
                du_at -= du_time
                ddelta_at -= du_time
                db_at -= db_time
                dc_at -= dc_time
            tl.debug_barrier()
    tl.store(da + (tl.program_id(0) * D + d) * S + s, ddecay, mask=has_d & has_s)
    tl.store(dskip + tl.program_id(0) * D + d, dthrough, mask=writes)
