/* Merge: scalar accesses side by side become one vector access (form 4, for devices whose widest load is an instruction
 * but whose arithmetic is scalar). Comes in: LOAD(INDEX(memory, e + c)) for c = a multiple of n, and its n - 1
 * successors, where n divides every value of e. Goes out: one LOAD(SHRINK(memory, e + c, n)), and its lanes in their
 * places. Stores are left: a vector store would have to wait for the last of its values. Must hold: nothing is read
 * that was not read before; gates and alternatives of one group are the same.
 */
#include "sched/sched.h"

enum { WIDE_BYTES = 16 };
typedef struct { const UOp *load, *base; int64_t offset; } Scalar;

/* Large ones are cut to a power of two, so that products do not overflow. */
enum { ENOUGH = 1 << 20 };
static int64_t cut(int64_t n) { return n > ENOUGH ? common_divisor(n, ENOUGH) : n; }

int64_t index_divisor(const UOp *u)
{
    if (u->op == UOP_CONST) return u->arg.i < 0 ? -u->arg.i : u->arg.i;
    if (u->op == UOP_ADD || u->op == UOP_MOD) return common_divisor(index_divisor(u->src[0]), index_divisor(u->src[1]));
    if (u->op == UOP_WHERE) return common_divisor(index_divisor(u->src[1]), index_divisor(u->src[2]));
    if (u->op == UOP_SHL && uop_is_const(u->src[1]))
        return cut(cut(index_divisor(u->src[0])) << (u->src[1]->arg.i & 15));
    if (u->op == UOP_MUL) return cut(index_divisor(u->src[0])) * cut(index_divisor(u->src[1]));
    return u->op == UOP_CAST ? index_divisor(u->src[0]) : 1;
}

/* e + c with c constant; NULL for the base of a constant position. */
static const UOp *base_of(const UOp *index, int64_t *offset)
{
    *offset = 0;
    for (;;) {
        if (uop_is_const(index)) return *offset += index->arg.i, NULL;
        if (index->op != UOP_ADD) return index;
        uint32_t c = uop_is_const(index->src[0]) ? 0 : uop_is_const(index->src[1]) ? 1 : 2;
        if (c == 2) return index;
        *offset += index->src[c]->arg.i;
        index = index->src[1 - c];
    }
}

static bool is_scalar_load(const UOp *u)
{
    return u->op == UOP_LOAD && u->src[0]->op == UOP_INDEX && u->src[0]->nsrc == 2 && !u->shape->rank &&
        !u->src[0]->src[1]->shape->rank && (u->nsrc < 3 || (uop_is_const(u->src[1]) && !u->src[2]->shape->rank));
}

static bool alike(const Scalar *a, const Scalar *b)
{
    if (a->base != b->base || a->load->src[0]->src[0] != b->load->src[0]->src[0] || a->load->nsrc != b->load->nsrc)
        return false;
    return a->load->nsrc < 3 || (a->load->src[1] == b->load->src[1] && a->load->src[2] == b->load->src[2]);
}

static const UOp *vector_load(Graph *g, const Scalar *first, uint32_t n)
{
    const UOp *load = first->load, *at = load->src[0]->src[1], *size = uop_index(g, n);
    const UOp *from =
        UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, load->src[0]->src[0], uop_sizes(g, &at, 1), uop_sizes(g, &size, 1));
    return load->nsrc > 2 ? UOP(g, UOP_LOAD, DT_VOID, NO_ARG, from, load->src[1], load->src[2])
                          : UOP(g, UOP_LOAD, DT_VOID, NO_ARG, from);
}

/* Finds the n consecutive loads that start at s[i]; their indices to at. */
static bool run_of(const Scalar *s, uint32_t count, uint32_t i, uint32_t n, uint32_t *at)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t j = 0;
        while (j < count && !(s[j].load && s[j].offset == s[i].offset + k && alike(&s[j], &s[i]))) j++;
        if (j == count) return false;
        at[k] = j;
    }
    return true;
}

static void merge_group(Graph *g, Scalar *s, uint32_t count, const UOp **map)
{
    for (uint32_t n = (uint32_t)(WIDE_BYTES / dtype_size((DType)s[0].load->dtype)); n > 1; n /= 2)
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at[WIDE_BYTES];
            if (!s[i].load || s[i].offset % n || (s[i].base && index_divisor(s[i].base) % n) ||
                !run_of(s, count, i, n, at))
                continue;
            const UOp *v = vector_load(g, &s[i], n);
            for (uint32_t k = 0; k < n; k++) {
                map[s[at[k]].load->id] = UOP(g, UOP_INDEX, DT_VOID, NO_ARG, v, uop_index(g, k));
                s[at[k]].load = NULL;
            }
        }
}

/* Loads of one memory and base are brought together; groups are small. */
static void merge_all(Graph *g, Scalar *s, uint32_t n, const UOp **map, Arena *a)
{
    Scalar *group = NEW_N(a, Scalar, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!s[i].load) continue;
        uint32_t count = 0;
        Scalar first = s[i];
        for (uint32_t j = i; j < n; j++)
            if (s[j].load && alike(&s[j], &first)) group[count++] = s[j], s[j].load = NULL;
        if (count > 1) merge_group(g, group, count, map);
    }
}

const UOp *merge_loads(Graph *g, const UOp *root)
{
    Arena *a = arena_new();
    uint32_t n, count = 0, changed = 0;
    const UOp **order = uop_toposort(g, &root, 1, a, &n), **map = NEW_N(a, const UOp *, root->id + 1),
              **from = NEW_N(a, const UOp *, n), **to = NEW_N(a, const UOp *, n);
    Scalar *s = NEW_N(a, Scalar, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!is_scalar_load(order[i])) continue;
        s[count].load = order[i];
        s[count].base = base_of(order[i]->src[0]->src[1], &s[count].offset);
        count++;
    }
    merge_all(g, s, count, map, a);
    for (uint32_t i = 0; i < n; i++)
        if (map[order[i]->id]) from[changed] = order[i], to[changed++] = map[order[i]->id];
    if (changed) root = uop_substitute(g, root, from, to, changed);
    arena_free(a);
    return root;
}
