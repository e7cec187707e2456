/* Comes in and out: kept.h. What was read is checked only as far as its own lengths and numbers go: the cache and
 * compiled models tell bytes that this build wrote from others. */
#define _GNU_SOURCE
#include "frontend/session/kept.h"

#include <link.h>
#include <string.h>

#include "backends/seal.h"
#include "sched/plan_serial.h"

/* ---- which build this is ---- */

typedef struct { uint8_t byte[64]; size_t size; } BuildId;

/* A GNU build identity among notes: sizes of name and content, type, "GNU", content. */
static void find_identity(BuildId *out, const char *note, size_t size)
{
    uint32_t head[3];
    for (size_t at = 0; at + sizeof head + 4 <= size;) {
        memcpy(head, note + at, sizeof head);
        size_t name = (head[0] + 3u) & ~3u, content = at + sizeof head + name;
        if (content + head[1] > size) return;
        if (head[2] == NT_GNU_BUILD_ID && head[0] == 4 && head[1] <= sizeof out->byte)
            memcpy(out->byte, note + content, out->size = head[1]);
        at = content + ((head[1] + 3u) & ~3u);
    }
}

static int look_at_object(struct dl_phdr_info *object, size_t size, void *out)
{
    uintptr_t here = (uintptr_t)look_at_object;
    bool mine = false;
    (void)size;
    for (int k = 0; k < object->dlpi_phnum; k++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[k];
        uintptr_t from = object->dlpi_addr + part->p_vaddr;
        mine |= part->p_type == PT_LOAD && here >= from && here - from < part->p_memsz;
    }
    for (int k = 0; mine && k < object->dlpi_phnum; k++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[k];
        if (part->p_type != PT_NOTE) continue;
        find_identity(out, (const char *)(uintptr_t)(object->dlpi_addr + part->p_vaddr), part->p_memsz);
    }
    return mine;
}

/* size 0: the linker gave none. */
static BuildId build_id(void)
{
    BuildId id = { { 0 }, 0 };
    dl_iterate_phdr(look_at_object, &id);
    return id;
}

/* ---- where constants lie ---- */

/* The model's file, its external files, and its initializers: of those that do not lie at even addresses the model has
 * copies. */
typedef struct { Piece *piece; uint32_t n; } Files;

static Files files_of(Arena *arena, const Model *m)
{
    ModelFile f;
    uint32_t n = 1;
    while (model_external(m, n - 1, &f)) n++;
    Files all = { NEW_N(arena, Piece, n + m->graph.ninit), n + m->graph.ninit };
    all.piece[0] = (Piece){ m->file_data, m->file_bytes };
    for (uint32_t k = 1; k < n && model_external(m, k - 1, &f); k++) all.piece[k] = (Piece){ f.data, f.size_bytes };
    for (uint32_t k = 0; k < m->graph.ninit; k++)
        if (m->graph.init[k].type != TG_STRING)
            all.piece[n + k] = (Piece){ m->graph.init[k].data, m->graph.init[k].size_bytes };
    return all;
}

static bool place(const void *owner, const void *data, size_t size, PlanPlace *out)
{
    const Files *f = owner;
    uintptr_t at = (uintptr_t)data;
    for (uint32_t k = 0; k < f->n; k++) {
        uintptr_t from = (uintptr_t)f->piece[k].data;
        *out = (PlanPlace){ k, at - from };
        if (from && at >= from && at - from <= f->piece[k].size && size <= f->piece[k].size - (at - from)) return true;
    }
    return false;
}

static const void *find(const void *owner, const PlanPlace *at, size_t size)
{
    const Files *f = owner;
    if (at->file >= f->n || at->offset > f->piece[at->file].size) return NULL;
    return size <= f->piece[at->file].size - at->offset ? (const char *)f->piece[at->file].data + at->offset : NULL;
}

/* ---- ports, and what the import said of them ---- */

static void write_ports(Text *out, const Program *p)
{
    put_int(out, p->nport);
    for (uint32_t i = 0; i < p->nport; i++) {
        const TgTensor *t = &p->input[i];
        put_int(out, t->type);
        put_int(out, t->rank);
        for (int32_t k = 0; k < t->rank; k++) put_int(out, t->shape[k]);
        put_int(out, p->imported.baked[i]);
        put_int(out, p->imported.input_narrow[i]);
        put_int(out, (int64_t)t->size_bytes);
        put_bytes(out, t->data, t->data ? t->size_bytes : 0);
    }
    put_int(out, p->nresult);
    for (uint32_t i = 0; i < p->nresult; i++) put_int(out, p->imported.output_narrow[i]);
}

static void read_input(ByteReader *in, TgTensor *t)
{
    t->type = (TgType)get_int(in);
    t->rank = (int32_t)get_int(in);
    in->bad |= t->type <= 0 || t->type >= TG_SEQUENCE || t->rank < 0 || t->rank > TG_MAX_RANK;
    for (int32_t k = 0; !in->bad && k < t->rank; k++) t->shape[k] = get_int(in);
}

static void read_ports(Program *p, ByteReader *in)
{
    uint32_t n = get_count(in);
    bool *baked = NEW_N(p->arena, bool, n + 1), *no_text = NEW_N(p->arena, bool, n + 1);
    int32_t *narrow = NEW_N(p->arena, int32_t, n + 1);
    TgTensor *input = NEW_N(p->arena, TgTensor, n + 1);
    void **data_of = NEW_N(p->arena, void *, n + 1);
    size_t size;
    for (uint32_t i = 0; i < n && !in->bad; i++) {
        read_input(in, &input[i]);
        baked[i] = get_int(in);
        narrow[i] = (int32_t)get_int(in);
        input[i].size_bytes = (size_t)get_int(in);
        const void *data = get_bytes(in, &size);
        in->bad |= data && size != input[i].size_bytes;
        data_of[i] = data ? arena_copy(p->arena, data, size) : NULL;
    }
    if (in->bad) return;
    p->imported.baked = baked;
    p->imported.input_narrow = narrow;
    p->imported.input_text = no_text;
    p->imported.ninput = n;
    program_inputs(p, input, n);
    for (uint32_t i = 0; i < n; i++) p->input[i].data = data_of[i];
    p->nresult = p->imported.noutput = get_count(in);
    int32_t *out = NEW_N(p->arena, int32_t, p->nresult + 1);
    for (uint32_t i = 0; i < p->nresult; i++) out[i] = (int32_t)get_int(in);
    p->imported.output = NEW_N(p->arena, TgTensor, p->nresult + 1);
    p->imported.output_narrow = out;
    p->imported.output_text = NEW_N(p->arena, bool, p->nresult + 1);
}

/* ---- sizes that are variables ---- */

static void write_dims(Text *out, const Dims *d)
{
    put_int(out, d ? d->nvar : 0);
    if (!d) return;
    for (uint32_t k = 0; k < d->nvar; k++) {
        const DimVar *v = &d->var[k];
        put_text(out, v->name);
        put_int(out, v->least);
        put_int(out, v->largest);
        put_int(out, v->step);
        put_int(out, v->at_hand);
        put_int(out, v->seen);
        put_int(out, v->requested | v->value << 1 | v->fixed << 2);
        put_text(out, v->why);
        put_int(out, v->of != NULL);
        for (uint32_t i = 0; v->of && i < d->nvar; i++) put_int(out, v->of[i]);
        put_int(out, v->plus);
    }
    put_int(out, d->ninput);
    put_bytes(out, d->of, sizeof *d->of * d->ninput);
}

static void read_dims(Program *p, ByteReader *in)
{
    uint32_t n = get_count(in);
    size_t size;
    if (!n) return;
    Dims *d = p->dims = NEW(p->arena, Dims);
    d->arena = p->arena;
    d->nvar = n;
    d->var = NEW_N(p->arena, DimVar, n + 1);
    for (uint32_t k = 0; k < n && !in->bad; k++) {
        DimVar *v = &d->var[k];
        v->name = get_text(in, p->arena);
        v->least = get_int(in);
        v->largest = get_int(in);
        v->step = get_int(in);
        v->at_hand = get_int(in);
        v->seen = get_int(in);
        int64_t is = get_int(in);
        v->requested = is & 1;
        v->value = is & 2;
        v->fixed = is & 4;
        v->why = get_text(in, p->arena);
        if (get_int(in)) v->of = NEW_N(p->arena, int64_t, n);
        for (uint32_t i = 0; v->of && i < n; i++) v->of[i] = get_int(in);
        v->plus = get_int(in);
        in->bad |= !v->name || v->step < 1;
    }
    d->ninput = (uint32_t)get_int(in);
    const void *of = get_bytes(in, &size);
    in->bad |= d->ninput != p->ninput || size != sizeof *d->of * d->ninput;
    if (!in->bad) d->of = arena_copy(p->arena, of, size);
}

/* ---- a program ---- */

static bool is_kept(const Program *p)
{
    const Imported *im = &p->imported;
    bool kept = !p->known.n && !p->known.iterations && !im->makes_text && !im->question && p->ninput == p->nport &&
        im->noutput == p->nresult && (!p->schedule || !p->schedule->refused);
    for (uint32_t i = 0; i < p->nport && kept; i++) kept = !holds_tensors(&p->input[i]) && !im->input_text[i];
    for (uint32_t i = 0; i < p->nresult && kept; i++) kept = !holds_tensors(&im->output[i]) && !im->output_text[i];
    return kept;
}

bool program_write(Text *out, const Program *p, const Model *m)
{
    BuildId id = build_id();
    if (!id.size || !is_kept(p)) return false;
    Arena *arena = arena_new();
    Files files = files_of(arena, m);
    UOpWriter w = { .out = out };
    map_init(&w.of, arena);
    put_bytes(out, id.byte, id.size);
    write_ports(out, p);
    write_dims(out, p->dims);
    for (const Doubt *x = graph_needs(p->imported.g); x; x = x->next) put_int(out, 1), uop_write(&w, x->size[0]);
    put_int(out, 0);
    bool good = plan_write(&w, p->plan, &(PlanFiles){ &files, place, find });
    arena_free(arena);
    return good && !w.bad;
}

bool program_read(Program *p, ByteReader *in, const Model *m)
{
    BuildId id = build_id();
    size_t size;
    const void *by = get_bytes(in, &size);
    if (!size || size != id.size || memcmp(by, id.byte, size)) return false;
    p->imported.g = graph_new();
    Files files = files_of(graph_arena(p->imported.g), m);
    UOpReader r = { .in = in, .g = p->imported.g };
    read_ports(p, in);
    if (!in->bad) read_dims(p, in);
    while (!in->bad && get_int(in)) {
        const UOp *size_of = uop_read(&r);
        if (size_of) graph_need(p->imported.g, size_of);
    }
    if (!in->bad) p->plan = plan_read(&r, &(PlanFiles){ &files, place, find });
    return p->plan != NULL;
}

/* ---- the cache's key ---- */

/* As dims_new sees an axis. */
static void add_axis(Text *t, const FreeDims *f, uint32_t i, int32_t k, int64_t size)
{
    const FreeDim *d = f ? &f->axis[i][k] : NULL;
    if (d && d->least) text_add(t, " %lld..%lld", (long long)d->least, (long long)d->largest);
    else if (d && d->varies && size > 1) text_add(t, " *");
    else text_add(t, " %lld", (long long)size);
}

static void add_input(Text *t, const FreeDims *f, uint32_t i, const TgTensor *x)
{
    text_add(t, "\n%d:", (int)x->type);
    for (int32_t k = 0; k < x->rank; k++) add_axis(t, f, i, k, x->shape[k]);
    for (int32_t k = TG_MAX_RANK; f && f->valued[i] && k < DIMS_AXES; k++)
        if (f->axis[i][k].varies) text_add(t, " v%d", k - TG_MAX_RANK);
}

bool kept_key(KeptKey out, const ProgramMaker *k, const TgTensor *input, uint32_t nport, const FreeDims *f)
{
    const Model *m = k->model;
    Target target = *k->choice->target;
    int64_t stamp[2];
    Text t = { 0 };
    if (!k->cache_dir || !k->backend->recall || k->compiled || k->batch || k->shard || k->outside || m->devices)
        return false;
    if (k->choice->named || !tunedb_stamp(k->choice->db, stamp)) return false;
    for (uint32_t i = 0; i < nport; i++)
        if (holds_tensors(&input[i]) || input[i].type == TG_STRING) return false;
    BuildId id = build_id();
    target.kind = NULL;
    text_bytes(&t, (const char *)id.byte, id.size);
    text_bytes(&t, (const char *)&target, sizeof target);
    text_add(&t, "%s\n%s\n%llx %llx %llx %lld", m->hash, k->choice->device, (unsigned long long)m->seed,
             (unsigned long long)stamp[0], (unsigned long long)stamp[1], (long long)k->pieces);
    for (uint32_t i = 0; i < m->graph.ninput; i++) text_add(&t, "\n<%s", m->graph.input[i].name);
    for (uint32_t i = 0; i < m->graph.noutput; i++) text_add(&t, "\n>%s", m->graph.output[i].name);
    for (uint32_t i = 0; i < nport; i++) add_input(&t, f, i, &input[i]);
    seal_name(out, 0, t.s, t.len);
    text_free(&t);
    return id.size > 0;
}
