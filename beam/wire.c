/* A kernel as text and back: a line for the name, the key, each variable and each parameter, then its graph as print.c
 * writes it. Reading ends with a comparison of the keys, so that a kernel which text cannot carry is refused and never
 * tuned as another. */
#include "beam/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/print.h"

static const UOp *find_param(const UOp *const *order, uint32_t n, uint32_t slot)
{
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_PARAM && order[i]->arg.i == slot) return order[i];
    return NULL;
}

/* Elements of what stands behind a parameter: the buffer may be longer than what the kernel sees of it. */
static int64_t elements(const UOp *param, const UOp *buffer)
{
    int64_t n = param ? uop_numel(param) : 0, m = buffer ? uop_numel(buffer) : 0;
    return n > m ? n : m;
}

void kernel_write(Text *out, const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    text_add(out, "kernel %s %s\n", k->name, k->key);
    for (uint32_t i = 0; i < k->nvar; i++) text_add(out, "var %s\n", var_name(k->var[i]));
    for (uint32_t i = 0; i < k->nparam; i++) {
        const KernelParam *p = &k->param[i];
        const UOp *u = find_param(order, n, i), *typed = u ? u : p->buffer;
        text_add(out, "param %d %d %d %d %lld\n", p->written | p->guard << 1 | p->far << 2, p->read, p->constant,
                 typed ? typed->dtype : DT_F32, (long long)elements(u, p->buffer));
    }
    graph_print(out, k->g, k->root);
    arena_free(a);
}

static TgStatus read_param(Kernel *k, const char *line)
{
    int written, read, constant, dtype;
    long long numel;
    if (k->nparam == KERNEL_PARAMS ||
        sscanf(line, "param %d %d %d %d %lld", &written, &read, &constant, &dtype, &numel) != 5 || dtype < 0 ||
        dtype >= DT_COUNT || numel < 0)
        return fail(TG_INTERNAL, "tuning: a parameter's line is wrong");
    const UOp *size = uop_index(k->g, numel);
    k->param[k->nparam] = (KernelParam){ .buffer = uop_buffer(k->g, (DType)dtype, &size, 1, k->nparam, SPACE_GLOBAL),
                                         .written = written & 1,
                                         .guard = written & 2,
                                         .far = written & 4,
                                         .read = read,
                                         .constant = constant };
    k->nparam++;
    return TG_OK;
}

static TgStatus find_var(Kernel *k, const char *name, size_t len)
{
    for (uint32_t i = 0; i < graph_count(k->g); i++) {
        const UOp *u = graph_node(k->g, i);
        if (u->op != UOP_DEFINE_VAR || strlen(var_name(u)) != len || memcmp(var_name(u), name, len)) continue;
        if (kernel_add_var(k, u)) return TG_OK;
        break;
    }
    return fail(TG_INTERNAL, "tuning: a variable of the kernel is missing");
}

static const char *next_line(const char *s)
{
    const char *end = strchr(s, '\n');
    return end ? end + 1 : s + strlen(s);
}

/* Variables name nodes of the graph, so the graph, which comes last, is read first. */
static TgStatus read_all_lines(Kernel *k, const char *text)
{
    char key[33];
    const char *body = text;
    if (sscanf(text, "kernel %63s %32s", k->name, key) != 2)
        return fail(TG_INTERNAL, "tuning: the kernel's first line is wrong");
    while (*body && *body != '%') body = next_line(body);
    if (!(k->root = graph_parse(k->g, body))) return TG_INTERNAL;
    for (const char *s = next_line(text); s < body; s = next_line(s))
        if (!strncmp(s, "var ", 4)) TRY(find_var(k, s + 4, strcspn(s + 4, "\n")));
        else TRY(read_param(k, s));
    kernel_count(k);
    kernel_key(k);
    return strcmp(k->key, key) ? fail(TG_INTERNAL, "tuning: kernel %s does not survive as text", k->name) : TG_OK;
}

TgStatus kernel_read(Kernel **out, const char *text)
{
    Kernel *k = mem_zeros(1, sizeof *k);
    k->g = graph_new();
    TgStatus status = read_all_lines(k, text);
    if (status == TG_OK) *out = k;
    else kernel_free(k);
    return status;
}
