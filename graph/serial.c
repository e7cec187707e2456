/* Comes in and out: serial.h. A node is a number: 0 for NULL, k for the k-th that was written, -1 for one that follows.
 */
#include "graph/serial.h"

#include <string.h>

enum { SOURCES_MOST = 1024 };           /* of a node, and sizes of a shape */

static bool is_kept(Op op)
{
    return op_is(op, FLAG_ALU) || op == UOP_CONST || op == UOP_DEFINE_VAR || op == UOP_CAST ||
        op == UOP_CUSTOMFUNCTION;
}

static void write_node(UOpWriter *w, const UOp *u)
{
    w->bad |= !is_kept((Op)u->op);
    put_int(w->out, u->op);
    put_int(w->out, u->dtype);
    put_int(w->out, u->tag);
    put_int(w->out, u->arg.i);
    put_int(w->out, u->arg.blob != NULL);
    if (u->arg.blob) put_bytes(w->out, u->arg.blob->data, u->arg.blob->size);
    put_int(w->out, u->nsrc);
    for (uint32_t k = 0; k < u->nsrc && !w->bad; k++) uop_write(w, u->src[k]);
}

void uop_write(UOpWriter *w, const UOp *u)
{
    uintptr_t number = u ? (uintptr_t)map_get(&w->of, &u, sizeof u) : 0;
    if (u && !number) {
        put_int(w->out, -1);
        write_node(w, u);
        map_put(&w->of, &u, sizeof u, (void *)(uintptr_t)++w->count);
    } else put_int(w->out, (int64_t)number);
}

static const UOp *bad(UOpReader *r)
{
    r->in->bad = true;
    return NULL;
}

static const UOp *read_node(UOpReader *r)
{
    int64_t op = get_int(r->in), dtype = get_int(r->in), tag = get_int(r->in);
    Arg arg = ARG_I(get_int(r->in));
    size_t size = 0;
    if (get_int(r->in)) {
        const void *data = get_bytes(r->in, &size);
        arg.blob = graph_blob(r->g, data ? data : "", size);
    }
    uint32_t n = get_count(r->in);
    if (r->in->bad || op < 0 || op >= UOP_COUNT || !is_kept((Op)op) || dtype < 0 || dtype >= DT_COUNT) return bad(r);
    if (n > SOURCES_MOST || n < op_info[op].min_src || (n > op_info[op].min_src && !op_info[op].var_src)) return bad(r);
    const UOp *src[n + 1];
    for (uint32_t k = 0; k < n; k++)
        if (!(src[k] = uop_read(r))) return bad(r);
    const UOp *u = uop_new(r->g, (Op)op, (DType)dtype, arg, src, n);
    return tag ? uop_tagged(r->g, u, (uint16_t)tag) : u;
}

const UOp *uop_read(UOpReader *r)
{
    int64_t number = get_int(r->in);
    if (!number) return NULL;
    if (number > 0) return number <= r->count ? r->node[number - 1] : bad(r);
    const UOp *u = read_node(r);
    if (!u) return NULL;
    if (r->count == r->room) {
        const UOp **more = NEW_N(graph_arena(r->g), const UOp *, r->room = 2 * r->room + 64);
        if (r->count) memcpy(more, r->node, sizeof *more * r->count);
        r->node = more;
    }
    return r->node[r->count++] = u;
}

void shape_write(UOpWriter *w, const Shape *s)
{
    put_int(w->out, s->rank);
    for (uint32_t k = 0; k < s->rank; k++) uop_write(w, s->dim[k]);
}

const Shape *shape_read(UOpReader *r)
{
    uint32_t rank = get_count(r->in), n = 0;
    const UOp *dim[SOURCES_MOST];
    r->in->bad |= rank > SOURCES_MOST;
    while (!r->in->bad && n < rank && (dim[n] = uop_read(r))) n++;
    r->in->bad |= n < rank;
    return graph_shape(r->g, dim, n);
}
