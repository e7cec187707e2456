/* Constants of a nest of loops in registers that it leaves free: an instruction that repeats an element of memory reads
 * it each time, and a processor has fewer reads of memory in a cycle than operations. Comes in: instructions on virtual
 * registers. Goes out: the same, with broadcasts in front of the outermost loops. */
#include <stdlib.h>
#include <string.h>

#include "backends/x86/mir.h"

enum { MARGIN = 1 };            /* of registers: what a spilled operand costs is more than a constant in memory */

/* An element of the pool, how often it is read, and the register that takes it. */
typedef struct {
    int64_t disp;
    int bytes, width;
    double weight;
    Reg reg;
} Element;

typedef struct {
    Mcode *m;
    Loop nest;
    Element *element;
    uint32_t count;
} Hoist;

/* The bytes of the element that the instruction repeats in all lanes; 0: it reads none. */
static int repeats(const Ins *i)
{
    if (i->op >= M_ROWS || i->at.kind != AT_POOL) return 0;
    const MirRow *r = &mir_row[i->op];
    bool copies = i->op == M_BCASTSS || i->op == M_BCASTSD;
    bool last = (r->form == FORM_VVV || r->form == FORM_MASK) && !i->b;
    bool either = r->form == FORM_FMA && (!i->b || !i->c);
    return copies || (i->broadcast && (last || either) && r->bytes >= 4) ? r->bytes : 0;
}

static Element *find(Hoist *h, const Ins *i, int bytes)
{
    for (uint32_t k = 0; k < h->count; k++)
        if (h->element[k].disp == i->at.disp && h->element[k].bytes == bytes) return &h->element[k];
    return NULL;
}

static void collect(Hoist *h)
{
    const Mcode *m = h->m;
    double weight = 1;
    h->count = 0;
    for (uint32_t k = h->nest.begin; k <= h->nest.end; k++) {
        for (uint32_t j = 0; j < m->nloop; j++) weight *= m->loop[j].begin == k ? 8 : 1;
        int bytes = repeats(&m->ins[k]);
        Element *e = bytes ? find(h, &m->ins[k], bytes) : NULL;
        /* of 8 bytes there is no broadcast to 16 */
        if (bytes && !e)
            *(e = &h->element[h->count++]) = (Element){ m->ins[k].at.disp, bytes, bytes == 8 ? 32 : 16, 0, 0 };
        if (e) e->weight += weight, e->width = e->width > m->ins[k].width ? e->width : m->ins[k].width;
        for (uint32_t j = 0; j < m->nloop; j++) weight /= m->loop[j].end == k ? 8 : 1;
    }
}

/* The most vectors that live at one instruction of the nest. */
static int pressure(const Hoist *h)
{
    const Mcode *m = h->m;
    int32_t *change = NEW_N(m->arena, int32_t, m->count + 2), live = 0, most = 0;
    for (Reg r = 1; r < m->nreg; r++) {
        const RegInfo *i = &m->reg[r];
        if (i->cls != CLASS_VECTOR || i->first > i->last) continue;
        change[i->first / 2]++, change[i->last / 2 + 1]--;
    }
    for (uint32_t k = 0; k <= h->nest.end; k++) {
        live += change[k];
        if (k >= h->nest.begin && live > most) most = live;
    }
    return most;
}

static int by_weight(const void *a, const void *b)
{
    const Element *x = a, *y = b;
    return x->weight != y->weight ? (x->weight > y->weight ? -1 : 1) : x->disp < y->disp ? -1 : x->disp > y->disp;
}

void mcode_use(Mcode *m, Ins *i, Reg r)
{
    bool copies = i->op == M_BCASTSS || i->op == M_BCASTSD, fma = i->op < M_ROWS && mir_row[i->op].form == FORM_FMA;
    if (copies) i->op = M_VMOVE, i->b = r;
    else if (fma && !i->c) i->c = r, m->reg[i->dst].hint = i->a;
    else i->b = r;
    i->at = (Place){ 0 }, i->broadcast = false;
}

/* The nest with its most used constants in registers; returns how many instructions came in front of it. */
static uint32_t rewrite(Hoist *h, uint32_t n)
{
    Mcode *m = h->m;
    Ins *ins = NEW_N(m->arena, Ins, m->count + n);
    memcpy(ins, m->ins, h->nest.begin * sizeof *ins);
    memcpy(ins + h->nest.begin + n, m->ins + h->nest.begin, (m->count - h->nest.begin) * sizeof *ins);
    for (uint32_t k = 0; k < n; k++) {
        Element *e = &h->element[k];
        ins[h->nest.begin + k] =
            (Ins){ .op = e->bytes == 4 ? M_BCASTSS : M_BCASTSD,
                   .width = (uint8_t)e->width,
                   .dst = e->reg = mcode_reg(m, CLASS_VECTOR, e->width),
                   .at = { .kind = AT_POOL, .disp = e->disp } };
    }
    h->count = n;
    for (uint32_t k = h->nest.begin + n; k <= h->nest.end + n; k++) {
        int bytes = repeats(&ins[k]);
        Element *e = bytes ? find(h, &ins[k], bytes) : NULL;
        if (e) mcode_use(m, &ins[k], e->reg);
    }
    for (uint32_t j = 0; j < m->nloop; j++) {
        if (m->loop[j].begin >= h->nest.begin) m->loop[j].begin += n;
        if (m->loop[j].end >= h->nest.begin) m->loop[j].end += n;
    }
    m->ins = ins, m->count += n, m->cap = m->count;
    return n;
}

void mcode_hoist(Mcode *m)
{
    Hoist h = { .m = m, .element = NEW_N(m->arena, Element, m->count + 1) };
    for (uint32_t after = 0;;) {
        bool found = false;
        for (uint32_t j = 0; j < m->nloop; j++) {               /* the next one that no other encloses */
            const Loop *l = &m->loop[j];
            if (l->begin < after || (found && (l->begin > h.nest.begin))) continue;
            h.nest = *l, found = true;
        }
        if (!found) return;
        mcode_intervals(m);
        collect(&h);
        int room = mcode_vectors(m) - SPARE_VECTORS - pressure(&h) - MARGIN;
        uint32_t n = room <= 0 ? 0 : (uint32_t)room < h.count ? (uint32_t)room : h.count;
        qsort(h.element, h.count, sizeof *h.element, by_weight);
        after = h.nest.end + 1 + (n ? rewrite(&h, n) : 0);
    }
}
