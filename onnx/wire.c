/* Bytes that nobody has checked -> protobuf-c messages.
 *
 * In: a file's bytes and the type of message that they claim to be. Out: the message, in an arena. The walk is
 * iterative and driven by the descriptors that protobuf-c generates from the schema, so it knows every field without
 * naming one. It writes a copy in which lengths are right, repeated numbers are packed, unused fields are gone, and a
 * field of type `bytes` is 16 bytes: offset and length in the file. Weights are therefore never copied here, and
 * protobuf-c sees nothing that it could stumble over. To stop reading a field, add its name to `unused`.
 */
#include "onnx/wire.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "graph/base/text.h"

enum { MAX_DEPTH = 64, WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LEN = 2, WIRE_32 = 5 };
#define BUDGET_MIN ((size_t)64 << 20)
#define BUDGET_FACTOR 24

/* Of a message that lies deeper than that: words are read of the model (1) and its graph (2). */
static const struct {
    const char *name;
    uint32_t depth;
} unused[] = { { "doc_string", 2 },    { "metadata_props", 1 },        { "quantization_annotation", 0 },
               { "training_info", 0 } };

typedef const ProtobufCFieldDescriptor Field;
typedef struct {
    const ProtobufCMessageDescriptor *type;
    const uint8_t *end;
    size_t length_at;       /* where its length stands in the copy, written when it is known */
    uint64_t seen;          /* bit of each singular message and each oneof that came already */
} Level;

typedef struct {
    const Wire *w;
    const uint8_t *p;
    Level stack[MAX_DEPTH];
    uint32_t depth;
    Text copy;
    size_t need, budget;    /* bytes that protobuf-c will take, about; and may take */
} Scan;

static TgStatus broken(const Scan *s, Field *f, const char *what)
{
    char name[80];
    const Level *l = &s->stack[s->depth - 1];
    snprintf(name, sizeof name, "%s%s%s", l->type->short_name, f ? "." : "", f ? f->name : "");
    return fail_at(s->w->code, NULL, NULL, name, "%s (at byte %zu)", what, (size_t)(s->p - s->w->file.data));
}

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70 && *p < end; shift += 7) {
        uint8_t byte = *(*p)++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return *out = v, true;
    }
    return false;
}

static void put_varint(Text *t, uint64_t v)
{
    char buf[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) buf[n++] = (char)(v | 0x80);
    buf[n++] = (char)v;
    text_bytes(t, buf, n);
}

/* A length that is not known yet takes five bytes: needless continuation bits are legal. */
static size_t open_length(Text *t)
{
    text_bytes(t, "\0\0\0\0", 5);
    return t->len - 5;
}

static void close_length(Text *t, size_t at)
{
    size_t size = t->len - at - 5;
    for (int k = 0; k < 5; k++) t->s[at + (size_t)k] = (char)((size >> (7 * k) & 0x7f) | (k < 4 ? 0x80 : 0));
}

static void put_key(Scan *s, Field *f, int wire) { put_varint(&s->copy, (uint64_t)f->id << 3 | (uint64_t)wire); }

static bool utf8(const uint8_t *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        unsigned more = s[i] < 0x80       ? 0
            : s[i] >= 0xc2 && s[i] < 0xe0 ? 1
            : s[i] >= 0xe0 && s[i] < 0xf0 ? 2
            : s[i] >= 0xf0 && s[i] < 0xf5 ? 3
                                          : 9;
        if (more > n - i - 1) return false;
        for (unsigned k = 1; k <= more; k++)
            if ((s[i + k] & 0xc0) != 0x80) return false;
        if ((s[i] == 0xe0 && s[i + 1] < 0xa0) || (s[i] == 0xed && s[i + 1] > 0x9f) ||
            (s[i] == 0xf0 && s[i + 1] < 0x90) || (s[i] == 0xf4 && s[i + 1] > 0x8f))
            return false;
        i += more + 1;
    }
    return true;
}

static int wire_of(Field *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT: case PROTOBUF_C_TYPE_FIXED32: case PROTOBUF_C_TYPE_SFIXED32: return WIRE_32;
    case PROTOBUF_C_TYPE_DOUBLE: case PROTOBUF_C_TYPE_FIXED64: case PROTOBUF_C_TYPE_SFIXED64: return WIRE_64;
    case PROTOBUF_C_TYPE_STRING: case PROTOBUF_C_TYPE_BYTES: case PROTOBUF_C_TYPE_MESSAGE: return WIRE_LEN;
    default: return WIRE_VARINT;
    }
}

static Field *field_find(const ProtobufCMessageDescriptor *type, uint64_t id)
{
    for (unsigned k = 0; k < type->n_fields; k++)
        if (type->fields[k].id == id) return &type->fields[k];
    return NULL;
}

static bool is_unused(Field *f, uint32_t depth)
{
    for (size_t k = 0; k < sizeof unused / sizeof *unused; k++)
        if (depth > unused[k].depth && !strcmp(f->name, unused[k].name)) return true;
    return false;
}

/* Moves *p over one number and, if it is a varint, into the copy in its shortest form. */
static bool number(Scan *s, const uint8_t **p, const uint8_t *end, int wire)
{
    uint64_t v;
    size_t width = wire == WIRE_32 ? 4 : 8;
    if (wire == WIRE_VARINT) {
        if (!varint(p, end, &v)) return false;
        put_varint(&s->copy, v);
        return true;
    }
    if ((size_t)(end - *p) < width) return false;
    text_bytes(&s->copy, (const char *)*p, width);
    *p += width;
    return true;
}

static TgStatus spend(Scan *s, Field *f, size_t bytes)
{
    s->need += bytes;
    if (s->need <= s->budget) return TG_OK;
    char what[100];
    snprintf(what, sizeof what, "would take more than %zu MiB of memory, the limit for a file of %zu bytes",
             s->budget >> 20, s->w->file.size);
    return broken(s, f, what);
}

/* Packed numbers, as a file may give them whatever the schema says. */
static TgStatus packed(Scan *s, Field *f, size_t size)
{
    const uint8_t *end = s->p + size;
    int wire = wire_of(f);
    put_key(s, f, WIRE_LEN);
    size_t at = open_length(&s->copy);
    if (wire != WIRE_VARINT) {
        if (size % (wire == WIRE_32 ? 4 : 8)) return broken(s, f, "packed numbers end inside one");
        TRY(spend(s, f, size * 2));
        text_bytes(&s->copy, (const char *)s->p, size);
        s->p = end;
    }
    while (s->p < end) {
        if (!number(s, &s->p, end, wire)) return broken(s, f, "a number does not end");
        TRY(spend(s, f, 16));
    }
    close_length(&s->copy, at);
    return TG_OK;
}

/* Repeated numbers that stand one by one, each behind its key, become one packed field: protobuf-c needs 48 bytes more
 * for each field. */
static TgStatus run_of_numbers(Scan *s, Field *f, const uint8_t *end)
{
    uint64_t key;
    put_key(s, f, WIRE_LEN);
    size_t at = open_length(&s->copy);
    for (;;) {
        if (!number(s, &s->p, end, wire_of(f))) return broken(s, f, "a number does not end");
        TRY(spend(s, f, 16));
        const uint8_t *next = s->p;
        if (!varint(&next, end, &key) || key != ((uint64_t)f->id << 3 | (uint64_t)wire_of(f))) break;
        s->p = next;
    }
    close_length(&s->copy, at);
    return TG_OK;
}

/* A message or a oneof that came before would be merged by protobuf-c, in time that grows with the square. No writer
 * does that. */
static bool first_time(Level *l, Field *f)
{
    unsigned group = (unsigned)(f - l->type->fields);
    bool oneof = (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    if (f->label == PROTOBUF_C_LABEL_REPEATED || (!oneof && f->type != PROTOBUF_C_TYPE_MESSAGE)) return true;
    for (unsigned k = 0; oneof && k < group; k++)
        if (l->type->fields[k].flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
            l->type->fields[k].quantifier_offset == f->quantifier_offset)
            group = k;
    uint64_t bit = UINT64_C(1) << (group & 63);
    bool first = !(l->seen & bit);
    l->seen |= bit;
    return first;
}

/* A known field with a length: s->p is behind the length. */
static TgStatus sized_field(Scan *s, Field *f, size_t size)
{
    uint64_t place[2] = { (uint64_t)(s->p - s->w->file.data), size };
    TRY(spend(s, f, 80));
    if (wire_of(f) != WIRE_LEN) return packed(s, f, size);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessageDescriptor *type = f->descriptor;
        if (s->depth == MAX_DEPTH) return broken(s, f, "more than 64 messages inside one another");
        TRY(spend(s, f, type->sizeof_message));
        put_key(s, f, WIRE_LEN);
        s->stack[s->depth++] = (Level){ .type = type, .end = s->p + size, .length_at = open_length(&s->copy) };
        return TG_OK;
    }
    put_key(s, f, WIRE_LEN);
    if (f->type == PROTOBUF_C_TYPE_BYTES) {
        put_varint(&s->copy, sizeof place);
        text_bytes(&s->copy, (const char *)place, sizeof place);
    } else {
        if (memchr(s->p, 0, size)) return broken(s, f, "holds a zero byte");
        if (!utf8(s->p, size)) return broken(s, f, "is not UTF-8");
        TRY(spend(s, f, size));
        put_varint(&s->copy, size);
        text_bytes(&s->copy, (const char *)s->p, size);
    }
    s->p += size;
    return TG_OK;
}

static TgStatus skip_number(Scan *s, Field *f, int wire, const uint8_t *end)
{
    size_t before = s->copy.len;
    if (!number(s, &s->p, end, wire)) return broken(s, f, "a number does not end");
    s->copy.len = before;
    return TG_OK;
}

static TgStatus field(Scan *s, Level *l)
{
    uint64_t key, size;
    if (!varint(&s->p, l->end, &key) || !(key >> 3) || key >> 32) return broken(s, NULL, "no field starts here");
    int wire = key & 7;
    Field *f = field_find(l->type, key >> 3);
    bool use = f && !is_unused(f, s->depth), number_field = f && wire_of(f) != WIRE_LEN;
    if (wire != WIRE_VARINT && wire != WIRE_64 && wire != WIRE_LEN && wire != WIRE_32)
        return broken(s, f, "groups and wire types 6 and 7 are not allowed");
    if (use && wire != wire_of(f) && !(wire == WIRE_LEN && number_field && f->label == PROTOBUF_C_LABEL_REPEATED))
        return broken(s, f, "has another wire type than its field");
    if (use && !first_time(l, f)) return broken(s, f, "is given twice");
    if (wire == WIRE_LEN) {
        if (!varint(&s->p, l->end, &size) || size > (size_t)(l->end - s->p))
            return broken(s, f, "its length leads past the end");
        if (use) return sized_field(s, f, size);
        s->p += size;
        return TG_OK;
    }
    if (!use) return skip_number(s, f, wire, l->end);
    TRY(spend(s, f, 64));
    if (f->label == PROTOBUF_C_LABEL_REPEATED) return run_of_numbers(s, f, l->end);
    put_key(s, f, wire);
    return number(s, &s->p, l->end, wire) ? TG_OK : broken(s, f, "a number does not end");
}

static TgStatus scan(Scan *s)
{
    while (s->depth) {
        Level *l = &s->stack[s->depth - 1];
        if (s->p < l->end) {
            TRY(field(s, l));
            continue;
        }
        if (--s->depth) close_length(&s->copy, l->length_at);
    }
    return TG_OK;
}

/* A second wall behind the scan's estimate. Nothing is freed one by one. */
typedef struct { Arena *arena; size_t left; } Purse;

static void *purse_alloc(void *data, size_t size)
{
    Purse *purse = data;
    if (size > purse->left) return NULL;
    purse->left -= size;
    return arena_alloc(purse->arena, size);
}

static void purse_free(void *data, void *p) { (void)data, (void)p; }

TgStatus wire_unpack(ProtobufCMessage **out, const Wire *w, const ProtobufCMessageDescriptor *type)
{
    Scan s = { .w = w, .p = w->file.data, .depth = 1, .budget = BUDGET_MIN + BUDGET_FACTOR * w->file.size };
    s.stack[0] = (Level){ .type = type, .end = w->file.data + w->file.size };
    TgStatus status = scan(&s);
    if (status == TG_OK) {
        Purse purse = { w->arena, 2 * s.budget };
        ProtobufCAllocator allocator = { purse_alloc, purse_free, &purse };
        *out = protobuf_c_message_unpack(type, &allocator, s.copy.len,
                                         s.copy.s ? (const uint8_t *)s.copy.s : w->file.data);
        if (!*out) status = fail(w->code, "is not a readable %s", type->short_name);
    }
    text_free(&s.copy);
    return status;
}

Bytes wire_bytes(const Wire *w, const ProtobufCBinaryData *field)
{
    uint64_t place[2];
    if (field->len != sizeof place) return (Bytes){ w->file.data, 0 };
    memcpy(place, field->data, sizeof place);
    return (Bytes){ w->file.data + place[0], place[1] };
}
