/* See choices.h. */
#include "sched/choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "graph/build.h"
#include "graph/print.h"
#include "sched/sched.h"

static const char *const kind_name[SCHED_KINDS] = { "STORE", "INLINE", "WINOGRAD", "DIRECT", "JOIN", "SINGLE", "LAST" };

/* ---- lists ---- */

static void print_one(Text *out, const ScheduleOp *o)
{
    text_add(out, "%s %08x", kind_name[o->kind], o->value);
    if (o->kind == SCHED_LAST) text_add(out, " %u", o->axis);
}

void schedule_print(Text *out, const ScheduleList *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        if (i) text_add(out, "; ");
        print_one(out, &l->op[i]);
    }
}

/* The next word, without spaces around it. */
static size_t next_word(const char **s, char *out, size_t cap)
{
    *s += strspn(*s, " ");
    size_t n = strcspn(*s, " ;");
    snprintf(out, cap, "%.*s", (int)n, *s);
    *s += n;
    *s += strspn(*s, " ");
    return n;
}

static TgStatus parse_number(const char **s, int base, uint32_t most, uint32_t *out)
{
    char word[16], *end;
    size_t n = next_word(s, word, sizeof word);
    unsigned long v = strtoul(word, &end, base);
    if (!n || n >= sizeof word || *end || *word == '-' || v > most)
        return fail(TG_USAGE, "'%s' is no %s", word, base == 16 ? "value: eight hexadecimal digits" : "axis");
    *out = (uint32_t)v;
    return TG_OK;
}

static TgStatus parse_one(ScheduleOp *o, const char **s)
{
    char word[16];
    *o = (ScheduleOp){ .kind = 0 };
    next_word(s, word, sizeof word);
    while (o->kind < SCHED_KINDS && strcmp(kind_name[o->kind], word) != 0) o->kind++;
    if (o->kind == SCHED_KINDS) return fail(TG_USAGE, "unknown choice '%s'", word);
    TRY(parse_number(s, 16, UINT32_MAX, &o->value));
    if (o->kind == SCHED_LAST) TRY(parse_number(s, 10, RANK_MAX - 1, &o->axis));
    return **s && **s != ';' ? fail(TG_USAGE, "unexpected text '%.20s'", *s) : TG_OK;
}

TgStatus schedule_parse(ScheduleList *out, const char *text)
{
    out->count = 0;
    for (const char *s = text; *(s += strspn(s, " ;"));) {
        if (out->count == SCHEDULE_OPS) return fail(TG_USAGE, "more than %d choices", SCHEDULE_OPS);
        TRY(parse_one(&out->op[out->count], &s));
        out->count++;
    }
    return TG_OK;
}

/* ---- what stages look at ---- */

const ScheduleOp *choices_find(Choices *c, ScheduleKind kind, uint32_t value)
{
    for (uint32_t i = 0; c && i < c->list.count; i++)
        if (c->list.op[i].kind == kind && c->list.op[i].value == value) return c->used |= 1u << i, &c->list.op[i];
    return NULL;
}

void choices_offer(Choices *c, ScheduleOp op, const UOp *of)
{
    for (uint32_t i = 0; c && i < c->noffered; i++)
        if (!memcmp(&c->offered[i], &op, sizeof op)) return;
    if (!c || c->noffered == OFFERED_MOST) return;
    c->of[c->noffered] = of;
    c->offered[c->noffered++] = op;
}

bool choices_between(Choices *c, Either kind, uint32_t value, const UOp *of, bool now)
{
    if (choices_find(c, kind.yes, value)) return true;
    if (choices_find(c, kind.no, value)) return false;
    choices_offer(c, (ScheduleOp){ .kind = now ? kind.no : kind.yes, .value = value }, of);
    return now;
}

void choices_print(Text *out, const Choices *c)
{
    for (uint32_t i = 0; i < c->noffered; i++) {
        const UOp *u = c->of[i];
        print_one(out, &c->offered[i]);
        text_add(out, "   # %s %s[", op_name((Op)u->op), dtype_name((DType)u->dtype));
        for (uint32_t k = 0; k < uop_rank(u); k++) {
            if (k) text_add(out, ",");
            uop_print_expr(out, uop_dim(u, k));
        }
        text_add(out, "]\n");
    }
}

ScheduleList choices_applied(const Choices *c)
{
    ScheduleList l = { .count = 0 };
    for (uint32_t i = 0; c && i < c->list.count; i++)
        if (c->used >> i & 1) l.op[l.count++] = c->list.op[i];
    return l;
}

/* ---- names ---- */

static uint32_t mix(uint32_t h, uint64_t v)
{
    uint64_t x = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32) ^ (uint32_t)x;
}

static uint32_t of_sizes(const UOp *u)
{
    uint32_t h = mix((uint32_t)u->op << 8 | u->dtype, u->shape ? u->shape->rank : 0);
    for (uint32_t k = 0; u->shape && k < u->shape->rank; k++) h = mix(h, u->shape->dim[k]->hash);
    return h;
}

static bool is_memory(const UOp *u)
{
    return u->op == UOP_PARAM || u->op == UOP_BUFFER || u->op == UOP_GETTUPLE || u->op == UOP_CALL;
}

/* What a name does not look behind: what is mostly stored, and what several read (a residual, which would lead back to
 * the first block). */
static bool ends_name(const UOp *u, const uint8_t *readers)
{
    return is_memory(u) || u->op == UOP_REDUCE || u->op == UOP_CAT || u->op == UOP_CONTIGUOUS ||
        (readers[u->id] > 1 && u->op != UOP_CONST);
}

const uint32_t *value_names(const UOp *const *order, uint32_t n, uint32_t nodes, Arena *a)
{
    uint32_t *name = NEW_N(a, uint32_t, nodes + 1);
    uint8_t *readers = NEW_N(a, uint8_t, nodes + 1);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < order[i]->nsrc; k++)
            if (readers[order[i]->src[k]->id] < 2) readers[order[i]->src[k]->id]++;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        uint32_t h = of_sizes(u);
        if (!is_memory(u)) h = mix(mix(h, (uint64_t)u->arg.i), u->arg.blob ? u->arg.blob->hash : 0);
        for (uint32_t k = 0; k < u->nsrc && !is_memory(u); k++)
            h = mix(h, ends_name(u->src[k], readers) ? of_sizes(u->src[k]) : name[u->src[k]->id]);
        name[u->id] = h;
    }
    return name;
}

void schedule_key(char key[33], Graph *g, const UOp *sink)
{
    Arena *a = arena_new();
    Text t = { 0 };
    uint32_t n;
    const UOp **order = uop_toposort(g, &sink, 1, a, &n);
    structure_bytes(&t, order, n, NEW_N(a, uint32_t, sink->id + 1));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t sizes = is_memory(order[i]) ? of_sizes(order[i]) : 0;
        if (sizes) text_bytes(&t, (const char *)&sizes, sizeof sizes);
    }
    XXH128_hash_t d = XXH3_128bits(t.s, t.len);
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)d.high64, (unsigned long long)d.low64);
    text_free(&t);
    arena_free(a);
}
