/* The folder: templates filled with what c_plan says, kernels, weights. It is made beside its place under a name of its
 * own and renamed at the end.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/c/c.h"
#include "graph/base/memory.h"

/* backends/c/templates/ */
extern const char c_main[], c_makefile[], c_model_c[], c_model_h[];

/* What has been begun: files of the folder, one after another. */
typedef struct {
    const char *folder;
    Arena *arena;
    const char **path;
    uint32_t n;
    const CStyle *style;
} Files;

static TgStatus write_text(FILE *f, const char *path, const char *s, size_t n)
{
    bool good = f && fwrite(s, 1, n, f) == n;
    if (f && fclose(f)) good = false;
    return good ? TG_OK : fail(TG_CACHE, "%s: %s", path, strerror(errno));
}

static FILE *begin(Files *x, const char *name)
{
    const char *path = arena_printf(x->arena, "%s/%s", x->folder, name);
    x->path[x->n++] = path;
    return fopen(path, "wbx");
}

static TgStatus put(Files *x, const char *name, const char *s, size_t n)
{
    FILE *f = begin(x, name);
    return write_text(f, x->path[x->n - 1], s, n);
}

/* ---- templates ---- */

static const char *field(const CFields *f, const char *key, size_t n)
{
    for (uint32_t k = 0; k < f->n; k++)
        if (strlen(f->item[k].key) == n && !memcmp(f->item[k].key, key, n)) return f->item[k].text;
    return NULL;
}

static TgStatus put_template(Files *x, const char *name, const char *template, const CFields *f)
{
    Text t = { 0 };
    for (const char *s = template, *text; *s;) {
        size_t n = 0;
        while (*s == '@' && (isalpha((unsigned char)s[n + 1]) || s[n + 1] == '_')) n++;
        if (n && s[n + 1] == '@' && (text = field(f, s + 1, n))) {
            text_bytes(&t, text, strlen(text));
            s += n + 2;
        } else text_bytes(&t, s++, 1);
    }
    TgStatus status = put(x, name, t.s, t.len);
    text_free(&t);
    return status;
}

/* ---- the ports, for people ---- */

/* Names as a comment takes them. */
static void add_name(Text *out, const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s >= 32 && strncmp(s, "*/", 2)) text_bytes(out, s, 1);
}

static const char *size_name(const void *from, const UOp *var)
{
    const Listing *l = from;
    for (uint32_t k = 0; k < l->nsize; k++)
        if (!strcmp(l->size[k].variable, var_name(var))) return l->size[k].name;
    return var_name(var);
}

static void port_line(Text *out, Arena *a, const char *what, uint32_t number, const Listing *l, const ListingPort *p)
{
    uint32_t helper = 0;
    text_add(out, " * %s %u: ", what, number);
    add_name(out, p->name);
    text_add(out, "  %s[", tg_type_name(p->type));
    for (uint32_t k = 0; k < p->rank; k++) {
        const char *s = "?";
        if (cstyle_size(&s, a, &c11_style, p->dim[k], size_name, l, &helper) != TG_OK) status_clear();
        text_add(out, k ? "," : "");
        add_name(out, s);
    }
    text_add(out, "]\n");
}

static const char *ports(Arena *a, const Listing *l)
{
    Text t = { 0 };
    text_add(&t, " *\n");
    for (uint32_t k = 0; k < l->ninput; k++) port_line(&t, a, "input", k, l, &l->input[k]);
    for (uint32_t k = 0; k < l->noutput; k++) port_line(&t, a, "output", k, l, &l->output[k]);
    for (uint32_t k = 0; k < l->nsize; k++) {
        text_add(&t, " * size %u: ", k);
        add_name(&t, l->size[k].name);
        text_add(&t, " %lld..%lld", (long long)l->size[k].least, (long long)l->size[k].largest);
        if (l->size[k].step > 1)
            text_add(&t, ", which %lld divides; in shapes it stands for that part", (long long)l->size[k].step);
        text_add(&t, "\n");
    }
    const char *s = arena_strndup(a, t.s, t.len - 1);
    text_free(&t);
    return s;
}

/* ---- weights ---- */

/* One place for constants that are one. */
static CWeights place_weights(Arena *a, const Plan *p)
{
    CWeights w = { .at = NEW_N(a, int64_t, p->nbuffer + 1) };
    for (uint32_t i = 0; i < p->nbuffer; i++) {
        const PlanBuffer *b = &p->buffer[i];
        w.at[i] = -1;
        if (b->kind != MEM_CONST) continue;
        for (uint32_t k = 0; k < i && w.at[i] < 0; k++)
            if (w.at[k] >= 0 && p->buffer[k].data == b->data && p->buffer[k].size_bytes == b->size_bytes)
                w.at[i] = w.at[k];
        if (w.at[i] >= 0) continue;
        w.at[i] = w.bytes;
        w.bytes += (b->size_bytes + C_ALIGN - 1) / C_ALIGN * C_ALIGN;
    }
    return w;
}

static TgStatus put_weights(Files *x, const char *name, const Plan *p, const CWeights *w)
{
    static const char zeros[C_ALIGN];
    FILE *f = begin(x, name);
    const char *path = x->path[x->n - 1];
    int64_t end = 0;
    for (uint32_t i = 0; f && i < p->nbuffer; i++) {
        const PlanBuffer *b = &p->buffer[i];
        if (w->at[i] < end || (w->at[i] == end && !b->size_bytes)) continue;
        size_t n = (size_t)b->size_bytes, pad = -n % C_ALIGN;
        if (fwrite(b->data, 1, n, f) != n || fwrite(zeros, 1, pad, f) != pad)
            return fclose(f), fail(TG_CACHE, "%s: %s", path, strerror(errno));
        if (p->forget) p->forget(p->forget_owner, b->data, n);
        end += (int64_t)(n + pad);
    }
    return write_text(f, path, "", 0);
}

/* ---- kernels ---- */

static TgStatus put_kernels(Files *x, const Listing *l, uint32_t from, uint32_t end)
{
    Text t = { 0 };
    TgStatus status = TG_OK;
    if (x->style == &c11_style) c11_head(&t);
    for (uint32_t i = from; i < end && status == TG_OK; i++) {
        const Kernel *k = l->plan->kernel[i];
        text_add(&t, i > from ? "\n/* %s: " : "/* %s: ", k->name);
        opt_print(&t, &k->opts);
        text_add(&t, " */\n");
        status = cstyle_render(&t, x->style, k, arena_printf(x->arena, "%s_k%u", l->name, i));
    }
    if (status == TG_OK)
        status = put(x, arena_printf(x->arena, "%s_kernels_%u.c", l->name, from / C_FILE_KERNELS), t.s, t.len);
    text_free(&t);
    return status;
}

static const char *objects(Arena *a, const Listing *l)
{
    const char *s = "";
    for (uint32_t i = 0; i < l->plan->nkernel; i += C_FILE_KERNELS)
        s = arena_printf(a, "%s %s_kernels_%u.o", s, l->name, i / C_FILE_KERNELS);
    return s;
}

/* ---- all ---- */

static const char *capitals(Arena *a, const char *name)
{
    char *s = arena_strdup(a, name);
    for (char *c = s; *c; c++) *c = (char)toupper((unsigned char)*c);
    return s;
}

static TgStatus fill(Files *x, const Listing *l, const Target *t)
{
    Arena *a = x->arena;
    CFields f = { 0 };
    CWeights w = place_weights(a, l->plan);
    c_field(&f, "name", l->name);
    c_field(&f, "NAME", capitals(a, l->name));
    c_field(&f, "model", l->model);
    c_field(&f, "ports", ports(a, l));
    c_field(&f, "objects", objects(a, l));
    c_field(&f, "standard", x->style == &c11_style ? "c11" : "gnu11");
    c_field(&f, "weights", arena_printf(a, "%lld", (long long)w.bytes));
    TRY(c_plan(&f, a, l, t, &w));
    for (uint32_t i = 0; i < l->plan->nkernel; i += C_FILE_KERNELS)
        TRY(put_kernels(x, l, i, i + C_FILE_KERNELS < l->plan->nkernel ? i + C_FILE_KERNELS : l->plan->nkernel));
    TRY(put_template(x, arena_printf(a, "%s.h", l->name), c_model_h, &f));
    TRY(put_template(x, arena_printf(a, "%s.c", l->name), c_model_c, &f));
    TRY(put_template(x, "main.c", c_main, &f));
    TRY(put_template(x, "Makefile", c_makefile, &f));
    return put_weights(x, arena_printf(a, "%s.weights", l->name), l->plan, &w);
}

static void remove_all(void *files)
{
    const Files *x = files;
    for (uint32_t i = 0; i < x->n; i++) unlink(x->path[i]);
    rmdir(x->folder);
}

TgStatus c_folder(const Listing *l, const Target *t, const CStyle *style, const char *folder)
{
    struct stat st;
    Arena *a = arena_new();
    char *made = arena_printf(a, "%s.XXXXXX", folder);
    Files x = { .folder = made, .arena = a, .path = NEW_N(a, const char *, l->plan->nkernel + 8), .style = style };
    TgStatus status = TG_OK;
    if (!lstat(folder, &st)) status = fail(TG_CACHE, "%s: is there already", folder);
    else if (!mkdtemp(made)) status = fail(TG_CACHE, "%s: %s", folder, strerror(errno));
    if (status == TG_OK) {
        Undo undo;
        undo_push(&undo, remove_all, &x);
        status = fill(&x, l, t);
        undo_pop(&undo);
        if (status == TG_OK && (chmod(made, 0755) || rename(made, folder)))
            status = fail(TG_CACHE, "%s: %s", folder, strerror(errno));
        if (status != TG_OK) remove_all(&x);
    }
    arena_free(a);
    return status;
}
