/* Linear scan (Poletto and Sarkar): intervals in the order of their begins, each takes a free register of the machine;
 * where there is none, the one with the least use for its length lies in the frame from begin to end. An interval that
 * enters a loop reaches to the loop's end. AVX2 has few vectors: those that encode.c keeps for operands that lie in the
 * frame are taken as well, and all is done again without them where one does. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "backends/x86/mir.h"

enum { NEVER = UINT32_MAX };

static void mention(Mcode *m, Reg r, uint32_t at, double weight)
{
    RegInfo *i = &m->reg[r];
    if (!r) return;
    if (i->first == NEVER || at < i->first) i->first = at;
    if (at > i->last) i->last = at;
    i->weight += weight;
}

/* What writes its result before it has read every operand: nothing else may be there. */
static bool early(const Ins *i)
{
    return i->op == M_GATHER || i->op == M_PICK || i->op == M_VLOADM || i->op == M_CHOOSE || i->op == M_DIVIDE_SIGNED ||
        i->op == M_REMAINDER_SIGNED || (i->op < M_ROWS && mir_row[i->op].form == FORM_ACC);
}

static Reg wish(const Ins *i)
{
    if (i->op < M_ROWS) return mir_row[i->op].form == FORM_FMA || mir_row[i->op].form == FORM_ACC ? i->c : 0;
    if (i->op == M_VMOVE) return i->b;
    return i->op == M_MOVE || i->op == M_ADD || i->op == M_MUL || i->op == M_AND || i->op == M_MAXNAN ? i->a : 0;
}

static int by_start(const void *a, const void *b)
{
    uint32_t x = ((const Loop *)a)->begin, y = ((const Loop *)b)->begin;
    return x < y ? -1 : x > y;
}

static void find_intervals(Mcode *m)
{
    double weight = 1;
    uint32_t loop = 0, open[64], depth = 0;
    qsort(m->loop, m->nloop, sizeof *m->loop, by_start);
    for (Reg r = 1; r < m->nreg; r++) m->reg[r].first = NEVER, m->reg[r].last = 0, m->reg[r].weight = 0;
    for (uint32_t k = 0; k < m->count; k++) {
        const Ins *i = &m->ins[k];
        if (loop < m->nloop && m->loop[loop].begin == k && depth < 64) open[depth++] = loop++, weight *= 8;
        mention(m, i->a, 2 * k, weight), mention(m, i->b, 2 * k, weight), mention(m, i->c, 2 * k, weight);
        mention(m, i->at.base, 2 * k, weight), mention(m, i->at.index, 2 * k, weight);
        mention(m, i->dst, early(i) ? 2 * k : 2 * k + 1, weight);
        for (Reg r = i->op == M_ENTRY ? i->dst + 1 : 0; r && r < i->dst + 5; r++) mention(m, r, 2 * k + 1, weight);
        if (i->dst && !m->reg[i->dst].hint) m->reg[i->dst].hint = wish(i);
        if (depth && m->loop[open[depth - 1]].end == k) depth--, weight /= 8;
    }
}

static int by_end(const void *a, const void *b)
{
    uint32_t x = ((const Loop *)a)->end, y = ((const Loop *)b)->end;
    return x < y ? -1 : x > y;
}

/* Inner loops first. */
static void reach_ends(Mcode *m)
{
    qsort(m->loop, m->nloop, sizeof *m->loop, by_end);
    for (uint32_t k = 0; k < m->nloop; k++) {
        uint32_t begin = 2 * m->loop[k].begin, end = 2 * m->loop[k].end + 1;
        for (Reg r = 1; r < m->nreg; r++) {
            RegInfo *i = &m->reg[r];
            if (i->first != NEVER && i->first < begin && i->last >= begin && i->last < end) i->last = end;
        }
    }
}

void mcode_intervals(Mcode *m)
{
    find_intervals(m);
    reach_ends(m);
}

typedef struct {
    Reg in[GENERAL_COUNT + VECTOR_COUNT]; /* general, then vectors; 0: free */
    int vectors; /* that may be taken */
} Machine;

static bool usable(const Machine *h, int cls, int n)
{
    if (cls == CLASS_VECTOR) return n < h->vectors;
    return n != RAX && n != RCX && n != RDX && n != RSP;
}

static Reg *held(Machine *h, int cls, int n) { return &h->in[(cls == CLASS_VECTOR ? GENERAL_COUNT : 0) + n]; }

static void expire(Machine *h, const Mcode *m, uint32_t at)
{
    for (int k = 0; k < GENERAL_COUNT + VECTOR_COUNT; k++)
        if (h->in[k] && m->reg[h->in[k]].last < at) h->in[k] = 0;
}

static double worth(const RegInfo *i) { return i->weight / (double)(i->last - i->first + 4); }

static void place(Mcode *m, Machine *h, Reg r)
{
    RegInfo *i = &m->reg[r], *hint = &m->reg[i->hint];
    int cls = i->cls, count = cls == CLASS_VECTOR ? VECTOR_COUNT : GENERAL_COUNT, best = -1;
    expire(h, m, i->first);
    if (i->hint && hint->cls == cls && hint->machine >= 0 && !*held(h, cls, hint->machine)) best = hint->machine;
    for (int n = 0; n < count && best < 0; n++)
        if (usable(h, cls, n) && !*held(h, cls, n)) best = n;
    if (best < 0) {
        int least = -1;
        for (int n = 0; n < count; n++)
            if (usable(h, cls, n) &&
                (least < 0 || worth(&m->reg[*held(h, cls, n)]) < worth(&m->reg[*held(h, cls, least)])))
                least = n;
        if (worth(&m->reg[*held(h, cls, least)]) >= worth(i)) return;
        m->reg[*held(h, cls, least)].machine = -1;
        best = least;
    }
    i->machine = (int8_t)best;
    *held(h, cls, best) = r;
}

static int by_begin(const void *a, const void *b, void *mcode)
{
    const RegInfo *reg = ((const Mcode *)mcode)->reg;
    uint32_t x = reg[*(const Reg *)a].first, y = reg[*(const Reg *)b].first;
    return x < y ? -1 : x > y ? 1 : *(const Reg *)a < *(const Reg *)b ? -1 : 1;
}

/* False: a vector lies in the frame. */
static bool place_all(Mcode *m, const Reg *order, uint32_t n, int vectors)
{
    Machine h = { .vectors = vectors };
    bool all = true;
    for (uint32_t k = 0; k < n; k++) m->reg[order[k]].machine = -1;
    for (uint32_t k = 0; k < n; k++) place(m, &h, order[k]);
    for (uint32_t k = 0; k < n && all; k++) all = m->reg[order[k]].cls != CLASS_VECTOR || m->reg[order[k]].machine >= 0;
    return all;
}

void mcode_registers(Mcode *m)
{
    Reg *order = NEW_N(m->arena, Reg, m->nreg);
    uint32_t n = 0, calls = 0, *call = NEW_N(m->arena, uint32_t, m->count + 1);
    mcode_intervals(m);
    for (uint32_t k = 0; k < m->count; k++)
        if (m->ins[k].op == M_CALL) call[calls++] = k;
    for (Reg r = 1; r < m->nreg; r++)
        if (m->reg[r].first != NEVER) order[n++] = r;
    qsort_r(order, n, sizeof *order, by_begin, m);
    bool all = m->avx2 && place_all(m, order, n, mcode_vectors(m));
    if (!all) place_all(m, order, n, mcode_vectors(m) - SPARE_VECTORS);
    for (Reg r = 1; r < m->nreg; r++) {
        RegInfo *i = &m->reg[r];
        bool framed = i->machine < 0;
        for (uint32_t k = 0; k < calls && !framed; k++) framed = mcode_survives(i, call[k]);
        if (!framed) continue;
        m->frame_bytes = (m->frame_bytes + i->width - 1) & -i->width;
        i->slot = m->frame_bytes;
        m->frame_bytes += i->width;
    }
}
