"""The state space for CUDA: one pass over the inputs, the state in registers.

A program walks over rows (one node of one window) with a tile of state entries [S1, D, S2], S = S1·S2. S1 is 2, so
that of a warp's 32 threads 16 lie along the channels and 2 along the state: sums over s then cost one exchange
between threads and sums over d four, on a quarter and a sixteenth of the numbers. Each of the T steps costs one
exponential an entry; the roof is the rate of exponentials, one for every eight other instructions, so instructions
are counted here.

Nothing is summed by atomics: each program keeps its sums over rows in registers and writes them once, and the caller
adds the programs up in a fixed order. The same inputs give the same bits.
"""

from typing import no_type_check

import triton
import triton.language as tl

from f2stnet.layers.state_space.triton_pieces import (
    PER_LN2,
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

COUNTS = ("rows", "T", "N", "K", "blocks")  # one compiled kernel for all of them


@triton.jit(do_not_specialize=COUNTS)
@no_type_check
def forward(
    u, delta, a, b, c, skip, out,
    rows, T, N, D, S,
    u_batch, u_time, u_node, delta_batch, delta_time, delta_node,
    b_batch, b_time, b_node, c_batch, c_time, c_node, out_batch, out_time, out_node,
    BLOCK_D: tl.constexpr, S1: tl.constexpr, S2: tl.constexpr,
    PER_CHANNEL: tl.constexpr, SOFTPLUS: tl.constexpr, EVERY: tl.constexpr,
):  # fmt: skip
    """y_T, or y_1 … y_T with EVERY. The state is kept as g = A h: g_t = g_{t−1} + (ā − 1)(g_{t−1} + B u)."""
    d, s, has_d, has_s, writes, decay = tile_of(a, D, S, BLOCK_D, S1, S2)
    inverse = 1.0 / decay
    through = tl.load(skip + d, mask=has_d, other=0.0)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        u_row = u + row_start(row, N, u_batch, u_node) + d
        delta_row = delta + row_start(row, N, delta_batch, delta_node) + d
        b_row = b + row_start(row, N, b_batch, b_node)
        c_at = c + row_start(row, N, c_batch, c_node)
        out_at = out + row_start(row, N, out_batch, out_node) + d
        state = tl.zeros([S1, BLOCK_D, S2], tl.float32)
        step, now = load_step(delta_row, has_d, SOFTPLUS), tl.load(u_row, mask=has_d, other=0.0).to(tl.float32)
        enter = load_entries(b_row, d, s, has_d, has_s, PER_CHANNEL)
        read = load_entries(c_at, d, s, has_d, has_s, PER_CHANNEL)
        for t in range(T):
            # The next step's numbers are asked for before this step's are used: memory is far away.
            this_step, this_u, this_b = step, now, enter
            ahead = tl.minimum(t + 1, T - 1).to(tl.int64)
            step = load_step(delta_row + ahead * delta_time, has_d, SOFTPLUS)
            now = tl.load(u_row + ahead * u_time, mask=has_d, other=0.0).to(tl.float32)
            enter = load_entries(b_row + ahead * b_time, d, s, has_d, has_s, PER_CHANNEL)
            state += grown_by(decay, this_step) * (this_b * this_u + state)
            if EVERY:
                tl.store(out_at, over_s(state * inverse * read) + through * this_u, mask=writes)
                out_at += out_time
                c_at += tl.where(t + 1 < T, c_time, 0)
                read = load_entries(c_at, d, s, has_d, has_s, PER_CHANNEL)
        if not EVERY:
            tl.store(out_at, over_s(state * inverse * read) + through * now, mask=writes)


@triton.jit(do_not_specialize=COUNTS)
@no_type_check
def last_backward(
    u, delta, a, b, c, skip, dy, du, ddelta, db, dc, da, dskip, scratch,
    rows, T, N, D, S, K, blocks, db_part, dc_part,
    u_batch, u_time, u_node, delta_batch, delta_time, delta_node,
    b_batch, b_time, b_node, c_batch, c_node, dy_batch, dy_node,
    du_batch, du_time, du_node, db_batch, db_time, db_node, dc_batch, dc_node,
    BLOCK_D: tl.constexpr, S1: tl.constexpr, S2: tl.constexpr, PER_CHANNEL: tl.constexpr, SOFTPLUS: tl.constexpr,
):  # fmt: skip
    """Gradients of y_T. With R_t = Σ_{τ>t} Δ_τ the adjoint of the state is C λ_t, λ_t = ∂L/∂y exp(A R_t), known
    without any state, so steps go backwards and

        ∂u_t = Σ_s C B λ m        ∂B_t = C Σ_d u λ m        ∂C = Σ_t B_t Σ_d u λ m
        ∂A = Σ_t C B u (R_{t−1} λ m − λ ρ)
        ∂Δ_t = u_t Σ_s C B λ_{t−1} + Σ_{τ<t} u_τ Σ_s C B (λ_{τ−1} − λ_τ).

    The last sum runs forwards (as a difference from its total it would cancel where the state forgets), so its two
    parts wait in `scratch` for a second sweep over (t, d) alone. Blocks of K steps, first block first, bound that
    scratch; each block starts from its own R, so no product of decays is longer than K.
    """
    d, s, has_d, has_s, writes, decay = tile_of(a, D, S, BLOCK_D, S1, S2)
    inverse = 1.0 / decay
    through = tl.load(skip + d, mask=has_d, other=0.0)
    ddecay = tl.zeros([S1, BLOCK_D, S2], tl.float32)
    dthrough = tl.zeros([S1, BLOCK_D, 1], tl.float32)
    program = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    part = tl.program_id(1).to(tl.int64)
    mine = scratch + program.to(tl.int64) * ((2 * K + blocks) * BLOCK_D) + (d - tl.program_id(1) * BLOCK_D)
    ends = mine + 2 * K * BLOCK_D
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        u_row = u + row_start(row, N, u_batch, u_node) + d
        delta_row = delta + row_start(row, N, delta_batch, delta_node) + d
        b_row = b + row_start(row, N, b_batch, b_node)
        du_row = du + row_start(row, N, du_batch, du_node) + d
        ddelta_row = ddelta + row_start(row, N, du_batch, du_node) + d
        db_row = db + part * db_part + row_start(row, N, db_batch, db_node)
        read = load_entries(c + row_start(row, N, c_batch, c_node), d, s, has_d, has_s, PER_CHANNEL)
        upstream = tl.load(dy + row_start(row, N, dy_batch, dy_node) + d, mask=has_d, other=0.0).to(tl.float32)
        if blocks > 1:
            later = tl.zeros([S1, BLOCK_D, 1], tl.float32)
            for block in range(blocks - 1, -1, -1):
                tl.store(ends + block * BLOCK_D, later, mask=writes)
                at = delta_row + (block * K).to(tl.int64) * delta_time
                for _ in range(block * K, tl.minimum(block * K + K, T)):
                    later += load_step(at, has_d, SOFTPLUS)
                    at += delta_time
            tl.debug_barrier()
        dread = read * 0.0
        dthrough += upstream * tl.load(u_row + (T - 1).to(tl.int64) * u_time, mask=has_d, other=0.0).to(tl.float32)
        before = tl.zeros([S1, BLOCK_D, 1], tl.float32)
        for block in range(blocks):
            first = block * K
            steps = tl.minimum(K, T - first)
            final = (first + steps - 1).to(tl.int64)
            later = tl.zeros([S1, BLOCK_D, 1], tl.float32)
            if blocks > 1:
                later = tl.load(ends + block * BLOCK_D, mask=has_d, other=0.0)
            adjoint = upstream * tl.exp2(decay * (later * PER_LN2))
            u_start, delta_start, b_start = (
                u_row + first.to(tl.int64) * u_time,
                delta_row + first.to(tl.int64) * delta_time,
                b_row + first.to(tl.int64) * b_time,
            )
            du_at, db_at = du_row + final * du_time, db_row + final * db_time
            step = load_step(delta_row + final * delta_time, has_d, SOFTPLUS)
            now = tl.load(u_row + final * u_time, mask=has_d, other=0.0).to(tl.float32)
            enter = load_entries(b_row + final * b_time, d, s, has_d, has_s, PER_CHANNEL)
            for i in range(steps - 1, -1, -1):
                this_step, this_u, this_b = step, now, enter
                ahead = tl.maximum(i - 1, 0).to(tl.int64)
                step = load_step(delta_start + ahead * delta_time, has_d, SOFTPLUS)
                now = tl.load(u_start + ahead * u_time, mask=has_d, other=0.0).to(tl.float32)
                enter = load_entries(b_start + ahead * b_time, d, s, has_d, has_s, PER_CHANNEL)

                pair = read * this_b
                stay = tl.sum(pair * adjoint, axis=2, keep_dims=True)
                grown, held, tilt = pieces_of(decay, inverse, this_step)
                flow = adjoint * held
                ddecay += (pair * this_u) * (later * flow + adjoint * tilt)
                later += this_step
                taken = this_u * flow if PER_CHANNEL else tl.sum(this_u * flow, axis=1, keep_dims=True)
                straight = tl.where(first + i == T - 1, through * upstream, 0.0)
                tl.store(du_at, over_s(pair * flow) + straight, mask=writes)
                adjoint *= grown
                leave = tl.sum(pair * adjoint, axis=2, keep_dims=True)
                tl.store(mine + 2 * i * BLOCK_D, this_u * tl.sum(leave, axis=0, keep_dims=True), mask=writes)
                change = tl.sum(leave - stay, axis=0, keep_dims=True)
                tl.store(mine + (2 * i + 1) * BLOCK_D, this_u * change, mask=writes)
                store_entries(db_at, read * taken, d, s, has_d, has_s, PER_CHANNEL)
                dread += this_b * taken
                du_at -= du_time
                db_at -= db_time
            tl.debug_barrier()
            delta_at = delta_start
            ddelta_at = ddelta_row + first.to(tl.int64) * du_time
            for i in range(steps):
                own = tl.load(mine + 2 * i * BLOCK_D, mask=has_d, other=0.0)
                slope = raw_slope(delta_at, has_d, SOFTPLUS)
                tl.store(ddelta_at, (own + before) * slope, mask=writes)
                before += tl.load(mine + (2 * i + 1) * BLOCK_D, mask=has_d, other=0.0)
                delta_at += delta_time
                ddelta_at += du_time
            tl.debug_barrier()
        store_entries(
            dc + part * dc_part + row_start(row, N, dc_batch, dc_node), dread, d, s, has_d, has_s, PER_CHANNEL
        )
    tl.store(da + (tl.program_id(0) * D + d) * S + s, ddecay, mask=has_d & has_s)
    tl.store(dskip + tl.program_id(0) * D + d, dthrough, mask=writes)
