/* Values that leave a loop get a register of their own behind it: a tile's sums are in machine registers in their loop,
 * and may lie in the frame while an epilogue works on one after another. Comes in: instructions on virtual registers.
 * Goes out: the same, with a move behind the loop for each vector that it changes or reads, that is computed in front
 * of it and read behind it. Where both get the same place the move is none. */
#include <string.h>

#include "backends/x86/mir.h"

/* Of a register: where it stands first and last, and whether it stands in the loop and is first written. */
typedef struct {
    uint32_t first, last;
    bool inside, defined;
} Mentions;

/* A forward jump over the loop's end: to a label behind it. */
typedef struct {
    uint32_t jump, label;
} Over;

typedef struct {
    Mcode *m;
    Mentions *of;
    Over *over;
    uint32_t overs;
} Split;

static void mention(Split *s, const Loop *l, Reg r, uint32_t at, bool written)
{
    Mentions *o = &s->of[r];
    if (!r) return;
    if (o->first == UINT32_MAX) o->first = at, o->defined = written;
    o->last = at;
    o->inside |= at >= l->begin && at <= l->end;
}

static void look(Split *s, const Loop *l)
{
    const Mcode *m = s->m;
    uint32_t *label = NEW_N(m->arena, uint32_t, m->labels + 1);
    s->of = NEW_N(m->arena, Mentions, m->nreg), s->over = NEW_N(m->arena, Over, m->count), s->overs = 0;
    for (Reg r = 0; r < m->nreg; r++) s->of[r].first = UINT32_MAX;
    for (uint32_t k = 0; k < m->count; k++) {
        const Ins *i = &m->ins[k];
        mention(s, l, i->a, k, false), mention(s, l, i->b, k, false), mention(s, l, i->c, k, false);
        mention(s, l, i->dst, k, true);
        if (i->op == M_LABEL) label[i->label] = k;
    }
    for (uint32_t k = 0; k < l->begin; k++)
        if ((m->ins[k].op == M_JUMP_IF || m->ins[k].op == M_JUMP_ZERO) && label[m->ins[k].label] > l->end + 1)
            s->over[s->overs++] = (Over){ k, label[m->ins[k].label] };
}

static const Loop *around(const Mcode *m, const Loop *l)
{
    const Loop *least = NULL;
    for (uint32_t j = 0; j < m->nloop; j++) {
        const Loop *o = &m->loop[j];
        if (o->begin < l->begin && o->end > l->end && (!least || o->begin > least->begin)) least = o;
    }
    return least;
}

static bool leaves(const Split *s, const Loop *l, const Loop *outer, Reg r)
{
    const Mentions *o = &s->of[r];
    if (s->m->reg[r].cls != CLASS_VECTOR || !o->inside || !o->defined || o->first >= l->begin || o->last <= l->end + 1)
        return false;
    if (outer && (o->first < outer->begin || o->last > outer->end)) return false;
    for (uint32_t k = 0; k < s->overs; k++) /* the move might be jumped over */
        if (o->first < s->over[k].jump && o->last > s->over[k].label) return false;
    return true;
}

static void rename(Ins *i, Reg from, Reg to)
{
    i->a = i->a == from ? to : i->a, i->b = i->b == from ? to : i->b;
    i->c = i->c == from ? to : i->c, i->dst = i->dst == from ? to : i->dst;
}

static void split(Split *s, uint32_t loop)
{
    Mcode *m = s->m;
    const Loop l = m->loop[loop], *outer = around(m, &l);
    uint32_t at = l.end + 2, n = 0, old = m->nreg; /* behind the loop's end and its label */
    if (at >= m->count || m->ins[l.end + 1].op != M_LABEL) return;
    look(s, &l);
    Reg *of = NEW_N(m->arena, Reg, old);
    for (Reg r = 1; r < old; r++)
        if (leaves(s, &l, outer, r)) of[n++] = r;
    if (!n) return;
    Ins *ins = NEW_N(m->arena, Ins, m->count + n);
    memcpy(ins, m->ins, at * sizeof *ins);
    memcpy(ins + at + n, m->ins + at, (m->count - at) * sizeof *ins);
    m->ins = ins, m->count += n, m->cap = m->count;
    for (uint32_t k = 0; k < n; k++) {
        int width = m->reg[of[k]].width;
        Reg behind = mcode_reg(m, CLASS_VECTOR, width);
        ins[at + k] = (Ins){ .op = M_VMOVE, .width = (uint8_t)width, .dst = behind, .b = of[k] };
        m->reg[behind].hint = of[k];
        for (uint32_t i = at + n; i <= s->of[of[k]].last + n; i++) rename(&ins[i], of[k], behind);
    }
    for (uint32_t j = 0; j < m->nloop; j++) {
        if (m->loop[j].begin >= at) m->loop[j].begin += n;
        if (m->loop[j].end >= at) m->loop[j].end += n;
    }
}

void mcode_split(Mcode *m)
{
    Split s = { .m = m };
    for (uint32_t j = 0; j < m->nloop; j++) split(&s, j);
}
