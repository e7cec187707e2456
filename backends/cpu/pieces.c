/* Pieces of a loop that threads take from each other.
 *
 * Each thread begins with an equal, contiguous piece, as those before and behind it do, so that values stay in the
 * caches of those who made them. It takes a part of what is left of it at a time; a thread that has nothing left takes
 * half of what the one with most has, from its end. So a core that is slower, or that another program uses meanwhile,
 * holds nobody up for longer than one part takes. A piece is one word, first and end, which only a compare and exchange
 * changes: no place is taken twice, and none is left.
 */
#include "backends/cpu/cpu.h"

/* Of what is left a thread takes a SHARE-th at a time. */
enum { SHARE = 4 };

static uint64_t packed(int64_t first, int64_t end) { return (uint64_t)first << 32 | (uint64_t)end; }
static int64_t first_of(uint64_t piece) { return (int64_t)(piece >> 32); }
static int64_t end_of(uint64_t piece) { return (int64_t)(piece & UINT32_MAX); }
static int64_t left_of(uint64_t piece) { return end_of(piece) - first_of(piece); }
static int64_t ceil_grain(int64_t n, int64_t grain) { return (n + grain - 1) / grain * grain; }

bool pieces_deal(LoopPiece *p, int threads, int64_t n)
{
    if (n > UINT32_MAX) return false;
    for (int i = 0; i < threads; i++) atomic_store(&p[i].left, packed(n * i / threads, n * (i + 1) / threads));
    return true;
}

/* Takes n of a piece that was seen as it is: its first, or its last. */
static bool take(LoopPiece *p, uint64_t seen, int64_t n, bool last, int64_t *first, int64_t *end)
{
    if (n > left_of(seen)) n = left_of(seen);
    *first = last ? end_of(seen) - n : first_of(seen);
    *end = *first + n;
    uint64_t rest = last ? packed(first_of(seen), *first) : packed(*end, end_of(seen));
    return atomic_compare_exchange_strong(&p->left, &seen, rest);
}

/* Half of what the thread with most has becomes the piece of this one. False: there is nothing more. */
static bool steal(LoopPiece *p, int thread, int threads, int64_t grain)
{
    for (;;) {
        int from = -1;
        uint64_t most = 0;
        for (int i = 0; i < threads; i++) {
            uint64_t piece = atomic_load(&p[i].left);
            if (i != thread && left_of(piece) > left_of(most)) from = i, most = piece;
        }
        if (from < 0) return false;
        int64_t first, end;
        if (!take(&p[from], most, ceil_grain((left_of(most) + 1) / 2, grain), true, &first, &end)) continue;
        atomic_store(&p[thread].left, packed(first, end));
        return true;
    }
}

bool pieces_take(LoopPiece *p, int thread, int threads, int64_t grain, int64_t *first, int64_t *end)
{
    for (;;) {
        uint64_t own = atomic_load(&p[thread].left);
        if (!left_of(own)) {
            if (!steal(p, thread, threads, grain)) return false;
            continue;
        }
        int64_t n = ceil_grain((left_of(own) + SHARE - 1) / SHARE, grain);
        if (take(&p[thread], own, n, false, first, end)) return true;
    }
}
