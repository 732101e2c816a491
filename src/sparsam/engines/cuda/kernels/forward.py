"""A whole sequence forward: steps 1 to 6 of SAM, and the SDNC's links between write and read.

What the backward pass needs goes to the tape: gates, cells, [h, r], interface, rows and weights, the words that were
read. These are a constant number of bytes per step, and the memory itself need not be taken back.

CONTROLLER "none" leaves the controller out: `interface` then holds what is field of the memory, before its
activation. With CONTROLLER "outside" somebody else has run it (`kernels.controllers`), and a step begins with the
interface. The search can be done elsewhere (SPLITS), between two launches of one turn each (SHIFTED):
`sparsam.engines.cuda.steps`.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.following import mixed_read
from sparsam.engines.cuda.kernels.gates import gates_forward
from sparsam.engines.cuda.kernels.links import update_links
from sparsam.engines.cuda.kernels.ordering import key_number, key_row
from sparsam.engines.cuda.kernels.products import softplus, vector_times_matrix
from sparsam.engines.cuda.kernels.ring import least_recent, touch
from sparsam.engines.cuda.kernels.rows import averaged_over_heads, summed_over_same, words_at, write_entries
from sparsam.engines.cuda.kernels.search import code_of, merged, most_similar
from sparsam.engines.cuda.kernels.usage import fill_rows, free_rows, least_used, usage_at


@triton.jit(do_not_specialize=["begin", "end", "B", "M", "queue_size"])
def forward(
    # tape, time first: see `sparsam.engines.cuda.tape`
    gates,
    cells,
    joint,
    interface,
    rows,
    weights,
    scores,
    unused,
    read_words,
    content_rows,
    content_weights,
    content_words,
    to_predecessors,
    to_successors,
    room,
    usage_before,
    journal_columns,
    journal_weights,
    # parameters
    recurrent,  # (J, 4 H)
    recurrent_bias,  # (4 H)
    interface_matrix,  # (H, FS)
    interface_bias,  # (F)
    # state, written in place
    words,
    codes,  # (B, M, WP) where CODED
    last_access,
    counters,  # (B, 8): clock, rows that may not be blank, frontier, head and tail of the queue
    queue_rows,
    queue_stamps,
    usage,
    predecessor_columns,
    predecessor_weights,
    successor_columns,
    successor_weights,
    precedence_columns,
    precedence_weights,
    # scratch
    scratch_rows,
    scratch_weights,
    partial,  # (B, SPLITS, RP, KP) keys of a search that was split
    # the state's tensors before and after, read and written where ENDS
    hidden,
    cell,
    read,
    read_rows,  # int64
    read_weights,
    last_hidden,
    last_cell,
    last_read,
    last_rows,
    last_weights,
    lengths,
    B,
    M,
    queue_size,
    delta,
    begin,
    end,
    CONTROLLER: tl.constexpr,
    SIMILARITY: tl.constexpr,
    PRODUCT: tl.constexpr,
    SEARCH: tl.constexpr,
    SPLITS: tl.constexpr,
    ENDS: tl.constexpr,
    CODED: tl.constexpr,
    SHIFTED: tl.constexpr,  # one turn of the loop below, not all from `begin` to `end`
    size: tl.constexpr,
):
    RK: tl.constexpr = size.RP * size.KP
    FUSED: tl.constexpr = CONTROLLER == "lstm" or CONTROLLER == "gru"
    WORDS: tl.constexpr = size.R * size.W
    b = tl.program_id(0).to(tl.int64)
    length = tl.minimum(tl.load(lengths + b), end)
    counters += b * 8
    clock = tl.load(counters)
    used = tl.load(counters + 1)
    frontier = tl.load(counters + 2)
    first_entry = tl.load(counters + 3)  # of the queue
    last_entry = tl.load(counters + 4)
    words += b * M * size.W
    if CODED:
        codes += b * M * size.WP
    last_access += b * M
    queue_rows += b * queue_size
    queue_stamps += b * queue_size
    if size.FREE:
        usage += b * M
    if size.KL > 0:
        predecessor_columns += b * M * size.KL
        predecessor_weights += b * M * size.KL
        successor_columns += b * M * size.KL
        successor_weights += b * M * size.KL
        precedence_columns += b * size.KL
        precedence_weights += b * size.KL
        scratch = (scratch_rows + b * size.RP * size.CP, scratch_weights + b * size.RP * size.CP)
        predecessors = (predecessor_columns, predecessor_weights)
        successors = (successor_columns, successor_weights)
        precedence = (precedence_columns, precedence_weights)

    unit = tl.arange(0, size.HP)
    head = tl.arange(0, size.RP)
    k = tl.arange(0, size.KP)
    column = tl.arange(0, size.WP)
    every_sum = tl.arange(0, size.SP)
    field = tl.arange(0, size.FP)
    head_k = head[:, None] * size.KP + k[None, :]
    head_word = head[:, None] * size.W + column[None, :]
    is_word = (head < size.R)[:, None] & (column < size.W)[None, :]
    head_k_word = head_k[:, :, None] * size.WP + column[None, None, :]
    real = (head < size.R)[:, None] & (k < size.K)[None, :]
    native_k = b * (size.R * size.K) + head[:, None] * size.K + k[None, :]
    if ENDS:  # noqa: SIM102, the one is known when it is compiled, the other when it runs
        if begin == 0:
            start_row = tl.load(read_rows + native_k, mask=real, other=-1).to(tl.int32)
            tl.store(rows + b * RK + head_k, start_row)
            tl.store(weights + b * RK + head_k, tl.load(read_weights + native_k, mask=real, other=0.0))
            start_word = tl.load(read + b * WORDS + head_word, mask=is_word, other=0.0)
            tl.store(joint + b * size.J + size.H + head_word, start_word, mask=is_word)
            if CONTROLLER != "none":
                tl.store(
                    joint + b * size.J + unit,
                    tl.load(hidden + b * size.H + unit, mask=unit < size.H, other=0.0),
                    mask=unit < size.H,
                )
            if CONTROLLER == "lstm":
                tl.store(
                    cells + b * size.H + unit,
                    tl.load(cell + b * size.H + unit, mask=unit < size.H, other=0.0),
                    mask=unit < size.H,
                )
            tl.debug_barrier()
    # A turn reads for step t - 1 and writes for step t, so that a search that is split comes between two turns.
    turns_before = 0 if SHIFTED else begin
    last = begin if SHIFTED else length
    t = begin
    while t <= last:
        if (t > turns_before) & (t <= length):
            tb = (t - 1) * B + b
            after = tb + B
            request = interface + tb * size.F
            # 5: read
            if SPLITS > 0:
                key = merged(partial + b * (SPLITS * RK), SPLITS, size.K, size.RP, size.KP)
            else:
                query = tl.load(request + head_word, mask=is_word, other=0.0)
                key = most_similar(
                    query, words, 0, tl.minimum(used + size.K, M), size.W, size.K, size.KP, size.WP, SEARCH, SIMILARITY
                )
            row = tl.where(real, tl.minimum(key_row(key), M - 1), -1)
            score = tl.where(real, key_number(key), 0.0)
            beta = tl.load(request + size.STRENGTH_AT + head, mask=head < size.R, other=1.0)
            logit = tl.where(real, beta[:, None] * score, -1e30)
            power = tl.where(real, tl.exp(logit - tl.max(logit, 1)[:, None]), 0.0)
            weight = power / tl.maximum(tl.sum(power, 1), 1e-30)[:, None]
            tl.store(scores + tb * RK + head_k, score)
            if size.KL > 0:
                chosen = words_at(words, row, size.W, size.WP)
                tl.store(content_rows + tb * RK + head_k, row)
                tl.store(content_weights + tb * RK + head_k, weight)
                tl.store(content_words + tb * RK * size.WP + head_k_word, chosen)
                before, held = tl.load(rows + tb * RK + head_k), tl.load(weights + tb * RK + head_k)
                linked = (to_predecessors + tb * RK * size.KP, to_successors + tb * RK * size.KP)
                modes = request + size.MODES_AT
                row, weight = mixed_read(
                    modes, row, weight, before, held, predecessors, successors, scratch, linked, size
                )
            chosen = words_at(words, row, size.W, size.WP)
            tl.store(rows + after * RK + head_k, row)
            tl.store(weights + after * RK + head_k, weight)
            tl.store(read_words + tb * RK * size.WP + head_k_word, chosen)
            tl.store(joint + after * size.J + size.H + head_word, tl.sum(weight[:, :, None] * chosen, 1), mask=is_word)
            tl.debug_barrier()

            # 6: the ring
            if not size.FREE:
                before, held, anew, gate = (
                    rows + tb * RK,
                    weights + tb * RK,
                    unused + tb * size.RP,
                    request + size.ALPHA_AT,
                )
                row, _, _, weight = write_entries(
                    before, held, anew, gate, room, size.ACCESSES, size.R, size.RP, size.KP, False
                )
                index = tl.arange(0, size.ACCESSES) - (RK + size.RP)
                is_read = (index >= 0) & (index < RK)
                row = tl.where(is_read, tl.load(rows + after * RK + index, mask=is_read, other=-1), row)
                weight = tl.where(is_read, tl.load(weights + after * RK + index, mask=is_read, other=0.0), weight)
                clock += 1
                last_entry = touch(row, weight, delta, clock, queue_rows, queue_stamps, last_access, last_entry)
                tl.debug_barrier()

        if t < length:
            tb = t * B + b
            after = tb + B
            request = interface + tb * size.F
            if not size.FREE:
                frontier, first_entry = least_recent(
                    queue_rows,
                    queue_stamps,
                    last_access,
                    unused + tb * size.RP,
                    frontier,
                    first_entry,
                    last_entry,
                    M,
                    size.R,
                    64,
                )

            # 1: controller and interface
            if FUSED:
                at = gates + tb * (4 * size.H)
                told: tl.constexpr = 4 * size.H if CONTROLLER == "lstm" else 3 * size.H  # sums in which x has a part
                value = tl.load(at + every_sum, mask=every_sum < told, other=0.0)
                value += tl.load(recurrent_bias + every_sum, mask=every_sum < 4 * size.H, other=0.0)
                value += vector_times_matrix(
                    joint + tb * size.J, recurrent, 4 * size.H, size.J, 4 * size.H, size.SP, PRODUCT
                )
                tl.store(at + every_sum, value, mask=every_sum < 4 * size.H)
                tl.debug_barrier()
                gates_forward(gates, cells, joint, tb, after, unit, size.H, size.J, CONTROLLER)
                tl.debug_barrier()
            if CONTROLLER != "none":
                value = vector_times_matrix(
                    joint + after * size.J, interface_matrix, size.FS, size.H, size.F, size.FP, PRODUCT
                )
                value += tl.load(interface_bias + field, mask=field < size.F, other=0.0)
            else:
                value = tl.load(request + field, mask=field < size.F, other=0.0)
            # beta = 1 + softplus, alpha and gamma = sigmoid; queries, write words and read modes stay as they are
            gate = field - size.STRENGTH_AT
            activated = tl.where(gate < size.R, 1 + softplus(value), tl.sigmoid(value))
            activates = (gate >= 0) & (gate < 3 * size.R)
            if size.FREE:
                activates |= field >= size.FREE_AT
            tl.store(request + field, tl.where(activates, activated, value), mask=field < size.F)
            tl.debug_barrier()
            if size.FREE:
                flat_k = tl.arange(0, RK)
                row = tl.load(rows + tb * RK + flat_k)
                weight = tl.load(weights + tb * RK + flat_k)
                was = tl.load(usage + row, mask=row >= 0, other=0.0)
                free_rows(usage, row, weight, request + size.FREE_AT, size.R, size.KP)
                tl.debug_barrier()
                fresh_row = least_used(usage, M, size.R, size.RP, 256)
                left = usage_at(usage, fresh_row, head < size.R)
                # what it was before it was freed, where it was read
                freed = (fresh_row[:, None] == row[None, :]) & (row >= 0)[None, :]
                was = tl.max(tl.where(freed, was[None, :], -1.0), 1)
                tl.store(usage_before + tb * size.RP + head, tl.where(was < 0, left, was))
                tl.store(room + tb * size.RP + head, 1 - left)
                tl.store(unused + tb * size.RP + head, fresh_row, mask=head < size.R)
                tl.debug_barrier()

            # 2 to 4: erase u, then write
            before, held, anew, gate = rows + tb * RK, weights + tb * RK, unused + tb * size.RP, request + size.ALPHA_AT
            space = room + tb * size.RP
            row, its_head, fresh, weight = write_entries(
                before, held, anew, gate, space, size.SIZE, size.R, size.RP, size.KP, size.FREE
            )
            there = row >= 0
            in_word = there[:, None] & (column < size.W)[None, :]
            word = tl.load(
                request + size.WORD_AT + its_head[:, None] * size.W + column[None, :], mask=in_word, other=0.0
            )
            added = summed_over_same(row, tl.where(there, weight, 0.0)[:, None] * word)
            same = (row[:, None] == row[None, :]) & there[:, None]
            erased = tl.sum((same & fresh[None, :]).to(tl.int32), 1) > 0
            place = words + row[:, None] * size.W + column[None, :]
            new = added + tl.load(place, mask=in_word & (erased == 0)[:, None], other=0.0)
            tl.debug_barrier()  # another thread may hold the same row
            tl.store(place, new, mask=in_word)
            if CODED:
                tl.store(codes + row[:, None] * size.WP + column[None, :], code_of(new), mask=there[:, None])
            used = tl.maximum(used, tl.max(row, 0) + 1)
            if size.KL > 0:
                averaged, first = averaged_over_heads(row, weight, size.R)
                if size.FREE:
                    fill_rows(usage, row, averaged)
                journal = (journal_columns + tb * size.JOURNAL, journal_weights + tb * size.JOURNAL)
                update_links(row, averaged, first, predecessors, successors, precedence, journal, size)
            tl.debug_barrier()
        t += 1
    tl.store(counters, clock)
    tl.store(counters + 1, used)
    tl.store(counters + 2, frontier)
    tl.store(counters + 3, first_entry)
    tl.store(counters + 4, last_entry)
    if ENDS:  # noqa: SIM102
        if (begin == end) | (not SHIFTED):
            final = length * B + b
            row = tl.load(rows + final * RK + head_k)
            tl.store(last_rows + native_k, row.to(tl.int64), mask=real)
            tl.store(last_weights + native_k, tl.load(weights + final * RK + head_k), mask=real)
            word = tl.load(joint + final * size.J + size.H + head_word, mask=is_word, other=0.0)
            tl.store(last_read + b * WORDS + head_word, word, mask=is_word)
            if CONTROLLER != "none":
                state = tl.load(joint + final * size.J + unit, mask=unit < size.H, other=0.0)
                tl.store(last_hidden + b * size.H + unit, state, mask=unit < size.H)
            if CONTROLLER == "lstm":
                state = tl.load(cells + final * size.H + unit, mask=unit < size.H, other=0.0)
                tl.store(last_cell + b * size.H + unit, state, mask=unit < size.H)
    # padding: products over all steps, and the output layer, must not meet what was never written
    t = tl.maximum(length, begin)
    while (t < end) & ((begin == 0) | (not SHIFTED)):
        place = joint + ((t + 1) * B + b) * size.J + size.H
        tl.store(place + head_word, tl.zeros([size.RP, size.WP], tl.float32), mask=is_word)
        if CONTROLLER != "none":
            tl.store(place - size.H + unit, tl.zeros([size.HP], tl.float32), mask=unit < size.H)
        t += 1
