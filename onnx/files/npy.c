/* npy bytes <-> tensors, and the tensor files of tgrun.h.
 *
 * In: bytes from anybody. Out: a row-major little-endian tensor in malloc'ed memory, or where it lies in a mapped file.
 * The header is a Python literal by its own account; here it is a grammar of one dictionary with three known keys, and
 * nothing is evaluated. Every size is checked against the bytes that are there before memory is requested. To add an
 * element type: a row in `kinds`.
 */
#define _GNU_SOURCE
#include "onnx/files/npy.h"

#include <fcntl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/spare.h"
#include "onnx/files/npy_text.h"
#include "onnx/files/save.h"
#include "onnx/tensor.h"

enum { MAX_HEADER = 65536, MAX_TEXT = 1 << 24 };         /* MAX_TEXT: characters of a string */
#define BAD(...) fail(TG_BAD_INPUT, __VA_ARGS__)

static const struct { char kind; int32_t bytes; TgType type; } kinds[] = {
    { 'b', 1, TG_BOOL }, { 'i', 1, TG_I8 }, { 'i', 2, TG_I16 }, { 'i', 4, TG_I32 }, { 'i', 8, TG_I64 }, { 'u', 1, TG_U8 }, { 'u', 2, TG_U16 }, { 'u', 4, TG_U32 }, { 'u', 8, TG_U64 },
    { 'f', 2, TG_F16 }, { 'f', 4, TG_F32 }, { 'f', 8, TG_F64 }, { 'c', 8, TG_COMPLEX64 }, { 'c', 16, TG_COMPLEX128 },
    { 'u', 2, TG_BF16 }, { 'u', 1, TG_F8E4M3FN }, { 'u', 1, TG_F8E4M3FNUZ }, { 'u', 1, TG_F8E5M2 }, { 'u', 1, TG_F8E5M2FNUZ }, { 'u', 1, TG_F8E8M0 },      /* stand-ins: */
    { 'u', 1, TG_U4 }, { 'i', 1, TG_I4 }, { 'u', 1, TG_F4E2M1 }, { 'u', 1, TG_U2 }, { 'i', 1, TG_I2 }, { 'u', 1, TG_F6E2M3 }, { 'u', 1, TG_F6E3M2 },                                                   /* see npy.h */
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- the header's grammar */

typedef struct { const char *p, *end; } Cursor;
typedef struct {
    char order, kind;
    int32_t bytes;
    bool fortran;
    int32_t rank;
    int64_t shape[TG_MAX_RANK], numel;
} Header;

static void skip(Cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t')) c->p++;
}

static bool eat(Cursor *c, char want)
{
    skip(c);
    if (c->p == c->end || *c->p != want) return false;
    c->p++;
    return true;
}

static bool word(Cursor *c, const char *want)
{
    size_t n = strlen(want);
    skip(c);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, want, n)) return false;
    c->p += n;
    return true;
}

static bool quoted(Cursor *c, char *out, size_t cap)
{
    size_t n = 0;
    char quote = eat(c, '\'') ? '\'' : eat(c, '"') ? '"' : 0;
    while (quote && c->p < c->end && *c->p != quote && *c->p != '\\' && n + 1 < cap) out[n++] = *c->p++;
    out[n] = 0;
    return quote && c->p < c->end && *c->p++ == quote;
}

static bool whole_number(Cursor *c, int64_t *out)
{
    *out = 0;
    skip(c);
    const char *start = c->p;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *c->p - '0', out)) return false;
    if (c->p == start) return false;
    if (c->p < c->end && *c->p == 'L') c->p++;      /* Python 2 wrote 3L */
    return true;
}

static TgStatus read_shape(Cursor *c, Header *h)
{
    bool comma = true;
    if (!eat(c, '(')) return BAD("npy header: shape is no tuple");
    while (!eat(c, ')')) {
        if (!comma) return BAD("npy header: shape is malformed");
        if (h->rank == TG_MAX_RANK) return BAD("npy header: more than %d dimensions", TG_MAX_RANK);
        if (!whole_number(c, &h->shape[h->rank]))
            return BAD("npy header: dimension %d is no number that fits", h->rank);
        h->rank++;
        comma = eat(c, ',');
    }
    return h->rank == 1 && !comma ? BAD("npy header: shape is no tuple") : TG_OK;
}

static bool is_text(char kind) { return kind == 'U' || kind == 'S'; }

static TgStatus read_descr(Cursor *c, Header *h)
{
    char text[24];
    Cursor t = { text + 2, text };
    int64_t bytes;
    if (!quoted(c, text, sizeof text)) return BAD("npy header: element type is not a simple one");
    t.end = text + strlen(text);
    if (strlen(text) < 3 || !strchr("<>|=", text[0]) || !whole_number(&t, &bytes) || t.p != t.end ||
        bytes > (is_text(text[1]) ? MAX_TEXT : 16))
        return BAD("npy header: element type '%s' is not supported", text);
    h->order = text[0];
    h->kind = text[1];
    h->bytes = (int32_t)(text[1] == 'U' ? 4 * bytes : bytes);
    return TG_OK;
}

static TgStatus read_header(Cursor *c, Header *h)
{
    char key[16];
    unsigned seen = 0;
    bool comma = true;
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    if (!eat(c, '{')) return BAD("npy header is no dictionary");
    while (!eat(c, '}')) {
        unsigned k = 0;
        if (!comma || !quoted(c, key, sizeof key) || !eat(c, ':')) return BAD("npy header is malformed");
        while (k < 3 && strcmp(key, keys[k])) k++;
        if (k == 3) return BAD("npy header has an unknown key '%s'", key);
        if (seen & 1u << k) return BAD("npy header gives %s twice", key);
        seen |= 1u << k;
        if (k == 0) TRY(read_descr(c, h));
        if (k == 2) TRY(read_shape(c, h));
        if (k == 1 && !(h->fortran = word(c, "True")) && !word(c, "False"))
            return BAD("npy header: fortran_order is neither True nor False");
        comma = eat(c, ',');
    }
    skip(c);
    if (seen != 7) return BAD("npy header lacks descr, fortran_order or shape");
    return c->p == c->end ? TG_OK : BAD("npy header has something behind its dictionary");
}

/* ---- elements */

/* The wanted type if the file's elements can stand for it, else the file's own; 0: neither. V: numpy's word for types
 * that it does not know. */
static TgType element_type(const Header *h, TgType want)
{
    for (int k = 14; k < KINDS; k++)
        if (want && kinds[k].type == want && kinds[k].bytes == h->bytes && (kinds[k].kind == h->kind || h->kind == 'V'))
            return want;
    for (int k = 0; k < 14; k++)
        if (kinds[k].kind == h->kind && kinds[k].bytes == h->bytes) return kinds[k].type;
    return is_text(h->kind) ? TG_STRING : (TgType)0;
}

static void swap_bytes(uint8_t *p, size_t size, size_t unit)
{
    for (size_t at = 0; at + unit <= size; at += unit)
        for (size_t k = 0; k < unit / 2; k++) {
            uint8_t b = p[at + k];
            p[at + k] = p[at + unit - 1 - k];
            p[at + unit - 1 - k] = b;
        }
}

/* First index fastest -> last index fastest. */
static void from_fortran(uint8_t *to, const uint8_t *from, const Header *h, int64_t numel)
{
    int64_t index[TG_MAX_RANK] = { 0 }, stride[TG_MAX_RANK], at = 0;
    size_t unit = (size_t)h->bytes;
    for (int32_t k = 0, step = 1; k < h->rank; k++) stride[k] = k ? stride[k - 1] * h->shape[k - 1] : step;
    for (int64_t n = 0; n < numel; n++) {
        memcpy(to + (size_t)n * unit, from + (size_t)at * unit, unit);
        for (int32_t k = h->rank - 1; k >= 0; k--) {
            at += stride[k];
            if (++index[k] < h->shape[k]) break;
            at -= stride[k] * h->shape[k];
            index[k] = 0;
        }
    }
}

/* A byte an element -> packed, the first in the lowest bits. */
static TgStatus pack(TgTensor *t, const uint8_t *bytes, int64_t numel, bool is_signed)
{
    unsigned bits = (unsigned)tg_type_bits(t->type);
    int least = is_signed ? -(1 << (bits - 1)) : 0, largest = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    for (int64_t k = 0; k < numel; k++) {
        int v = is_signed ? (int8_t)bytes[k] : bytes[k];
        if (v < least || v > largest)
            return BAD("value %d at %lld is outside %s", v, (long long)k, tg_type_name(t->type));
    }
    bits_pack(t->data, bytes, numel, bits);
    return TG_OK;
}

static TgStatus read_elements(TgTensor *t, const Header *h, const uint8_t *from)
{
    int64_t numel = h->numel;
    size_t size = (size_t)numel * (size_t)h->bytes;
    bool is_complex = t->type == TG_COMPLEX64 || t->type == TG_COMPLEX128, narrow = tg_type_bits(t->type) < 8;
    type_bytes((int32_t)t->type, numel, &t->size_bytes);
    uint8_t *to = malloc(size ? size : 1);
    t->data = narrow ? calloc(1, t->size_bytes ? t->size_bytes : 1) : to;
    if (!to || !t->data) return free(to), fail(TG_LIMIT, "%zu bytes of memory are not there", size);
    if (h->fortran && h->rank > 1) from_fortran(to, from, h, numel);
    else if (size) memcpy(to, from, size);
    if (h->order == '>')
        swap_bytes(to, size, h->kind == 'U' ? 4 : h->kind == 'S' ? 1 : (size_t)h->bytes / (is_complex ? 2 : 1));
    for (size_t k = 0; t->type == TG_BOOL && k < size; k++) to[k] = to[k] != 0;
    if (t->type == TG_STRING) t->data = NULL;
    TgStatus status = t->type == TG_STRING ? npy_text_read(t, to, h->bytes, numel, h->kind == 'U')
        : narrow                           ? pack(t, to, numel, h->kind == 'i')
                                           : TG_OK;
    if (narrow || t->type == TG_STRING) free(to);
    return status;
}

/* Type and shape of the tensor; where its elements lie, as the file has them. */
static TgStatus read_head(TgTensor *t, Header *h, const uint8_t **elements, const uint8_t *p, size_t size, TgType want)
{
    int64_t bytes;
    if (!size) return BAD("is empty");
    if (size < 10 || memcmp(p, "\x93NUMPY", 6)) return BAD("is not an npy file");
    if (p[6] < 1 || p[6] > 3) return BAD("npy version %d is unknown", p[6]);
    size_t start = p[6] == 1 ? 10 : 12, length = p[8] | (size_t)p[9] << 8;
    if (size < start) return BAD("npy header does not end");
    if (p[6] > 1) length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (length > MAX_HEADER || length > size - start)
        return BAD("npy header of %zu bytes; the file has %zu, the limit is %d", length, size, MAX_HEADER);
    Cursor c = { (const char *)p + start, (const char *)p + start + length };
    TRY(read_header(&c, h));
    *t = (TgTensor){ .type = element_type(h, want), .rank = h->rank };
    memcpy(t->shape, h->shape, sizeof t->shape);
    if (!t->type)
        return BAD("npy element type %c%d is not supported%s", h->kind, h->bytes,
                   h->kind == 'O' ? " (Python objects: strings must be of one width)" : "");
    if (!shape_numel(h->shape, (size_t)h->rank, &h->numel) ||
        __builtin_mul_overflow(h->numel, (int64_t)h->bytes, &bytes))
        return BAD("npy shape is too large");
    if ((size_t)bytes != size - start - length)
        return BAD("npy data have %zu bytes; type and shape need %lld", size - start - length, (long long)bytes);
    *elements = p + start + length;
    return TG_OK;
}

TgStatus npy_read_bytes(TgTensor *out, const void *data, size_t size, TgType want)
{
    const uint8_t *elements;
    Header h = { 0 };
    TgTensor t;
    TRY(read_head(&t, &h, &elements, data, size, want));
    TgStatus status = read_elements(&t, &h, elements);
    if (status != TG_OK) return tg_tensor_free(&t), status;
    *out = t;
    return TG_OK;
}

/* The elements where they are, if that is how memory wants them. */
static bool view(TgTensor *out, const uint8_t *p, size_t size, TgType want)
{
    const uint8_t *elements;
    Header h = { 0 };
    if (read_head(out, &h, &elements, p, size, want) != TG_OK || (want && out->type != want) || !h.numel) return false;
    if (h.order == '>' || (h.fortran && h.rank > 1) || out->type == TG_BOOL || is_text(h.kind) ||
        tg_type_bits(out->type) != 8 * h.bytes || (elements - p) % 16)
        return false;
    out->data = (void *)(uintptr_t)elements;
    out->size_bytes = (size_t)h.numel * (size_t)h.bytes;
    return true;
}

size_t npy_header(char *header, const TgTensor *t)
{
    char shape[TG_MAX_RANK * 24] = "", text[NPY_HEADER - 10];
    size_t n = 0, bytes;
    int k = 0;
    while (k < KINDS && kinds[k].type != t->type) k++;
    if (k == KINDS && t->type != TG_STRING) return 0;
    char kind = k < KINDS ? kinds[k].kind : 'U';
    bytes = k < KINDS ? (size_t)kinds[k].bytes : npy_text_width(t);
    for (int32_t d = 0; d < t->rank; d++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%lld%s", d ? ", " : "", (long long)t->shape[d],
                              t->rank == 1 ? "," : "");
    int len = snprintf(text, sizeof text, "{'descr': '%c%c%zu', 'fortran_order': False, 'shape': (%s), }",
                       bytes > 1 || kind == 'U' ? '<' : '|', kind, bytes, shape);
    size_t total = ((size_t)len + 1 + 10 + 63) & ~(size_t)63;      /* data start at a multiple of 64 */
    memcpy(header, "\x93NUMPY\1\0", 8);
    header[8] = (char)((total - 10) & 255);
    header[9] = (char)((total - 10) >> 8);
    memset(header + 10, ' ', total - 10);
    memcpy(header + 10, text, (size_t)len);
    header[total - 1] = '\n';
    return total;
}

const void *npy_elements(const TgTensor *t, void **owned, size_t *size)
{
    unsigned bits = (unsigned)tg_type_bits(t->type);
    int64_t numel;
    *owned = NULL;
    *size = t->size_bytes;
    if (t->type == TG_STRING) return *owned = npy_text_elements(t, size);
    if (bits >= 8) return t->data;
    if (!shape_numel(t->shape, (size_t)t->rank, &numel)) return NULL;
    uint8_t *out = *owned = malloc((size_t)numel + 1);
    *size = (size_t)numel;
    if (out) bits_unpack(out, t->data, numel, bits, t->type == TG_I4 || t->type == TG_I2);
    return out;
}

TgStatus npy_write_file(const TgTensor *t, const char *path)
{
    char header[NPY_HEADER];
    Save s;
    void *owned;
    size_t size, head = npy_header(header, t);
    if (!head) return fail(TG_UNSUPPORTED, "npy cannot hold %s: use .pb", tg_type_name(t->type));
    const void *data = npy_elements(t, &owned, &size);
    if (!data && size) return fail(TG_LIMIT, "%zu bytes of memory are not there", size);
    TgStatus status = save_begin(&s, path);
    if (status == TG_OK) {
        save_write(&s, header, head);
        save_write(&s, data, size);
        status = save_end(&s);
    }
    free(owned);
    return status;
}

/* ---- tgrun.h */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

/* A pipe would end when its writer does, so only standard input may be one. */
static TgStatus read_stdin(TgTensor *out, TgType want)
{
    size_t size = 0, cap = 1 << 16, n;
    char *data = malloc(cap), *more;
    while (data && (n = fread(data + size, 1, cap - size, stdin)) > 0) {
        if ((size += n) < cap) continue;
        if (!(more = realloc(data, cap *= 2))) free(data);
        data = more;
    }
    TgStatus status =
        data ? npy_read_bytes(out, data, size, want) : fail(TG_LIMIT, "%zu bytes of memory are not there", cap);
    free(data);
    return status;
}

static TgStatus open_regular(int *fd, size_t *size, const char *path)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0) return BAD("cannot be opened: %s", strerror(errno));
    if (!fstat(*fd, &st) && S_ISREG(st.st_mode)) return *size = (size_t)st.st_size, TG_OK;
    close(*fd);
    return BAD("is not a regular file");
}

/* Takes fd. */
static TgStatus map_fd(void **out, int fd, size_t size)
{
    *out = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : (void *)"";
    int error = errno;
    close(fd);
    return *out == MAP_FAILED ? BAD("cannot be mapped: %s", strerror(error)) : TG_OK;
}

static TgStatus read_mapped(TgTensor *out, int fd, size_t size, bool pb, TgType want)
{
    void *p;
    TRY(map_fd(&p, fd, size));
    TgStatus status = pb ? pb_read_bytes(out, p, size, want) : npy_read_bytes(out, p, size, want);
    if (size) munmap(p, size);
    return status;
}

static TgStatus read_path(TgTensor *out, const char *path, TgType want)
{
    int fd;
    size_t size = 0;
    char archive[4096];
    const char *key = strstr(path, ".npz:");
    if (!strcmp(path, "-")) return read_stdin(out, want);
    if (key && (size_t)(key - path) + 5 > sizeof archive) return BAD("has too long a name");
    if (key) snprintf(archive, (size_t)(key - path) + 5, "%s", path);
    if (!key && !ends_with(path, ".npy") && !ends_with(path, ".npz") && !ends_with(path, ".pb"))
        return BAD("is no tensor file by its name: .npy, .npz or .pb");
    TRY(open_regular(&fd, &size, key ? archive : path));
    if (key || ends_with(path, ".npz")) return npz_read_fd(out, fd, key ? key + 5 : NULL, want);
    return read_mapped(out, fd, size, ends_with(path, ".pb"), want);
}

TgStatus tg_tensor_read(TgTensor *out, const char *path, TgType want)
{
    *out = (TgTensor){ 0 };
    TgStatus status = read_path(out, path, want);
    /* an element for its optional, maps for their sequence */
    bool stands = want == TG_OPTIONAL || (want == TG_SEQUENCE && out->type == TG_MAP);
    if (status == TG_OK && want && out->type != want && !stands) {
        status = BAD("holds %s; %s is wanted", tg_type_name(out->type), tg_type_name(want));
        tg_tensor_free(out);
    }
    if (status != TG_OK) status_prefix(strcmp(path, "-") ? path : "standard input");
    return status;
}

static char *page_of(const void *p) { return (char *)((uintptr_t)p & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1)); }

TgStatus tg_tensor_map(TgTensor *out, const char *path, TgType want)
{
    int fd;
    size_t size;
    void *p;
    *out = (TgTensor){ 0 };
    if (!ends_with(path, ".npy")) return fail(TG_UNSUPPORTED, "%s: only an npy file is mapped", path);
    TRY(open_regular(&fd, &size, path));
    TRY(map_fd(&p, fd, size));
    if (!view(out, p, size, want)) {
        if (size) munmap(p, size);
        *out = (TgTensor){ 0 };
        return fail(TG_UNSUPPORTED, "%s: its elements do not lie as memory wants them", path);
    }
    if (page_of(out->data) != p) munmap(p, (size_t)(page_of(out->data) - (char *)p));
    return TG_OK;
}

void tg_tensor_unmap(TgTensor *t)
{
    if (t->data) munmap(page_of(t->data), t->size_bytes + (size_t)((char *)t->data - page_of(t->data)));
    *t = (TgTensor){ 0 };
}

TgStatus tg_tensor_write(const TgTensor *t, const char *name, const char *path)
{
    TgStatus status = ends_with(path, ".pb")    ? pb_write_file(t, name, path)
                      : t->type >= TG_SEQUENCE  ? fail(TG_USAGE, "a %s goes to a .pb file", tg_type_name(t->type))
                      : ends_with(path, ".npy") ? npy_write_file(t, path)
                      : ends_with(path, ".npz") ? npz_write_file(t, name, path)
                                                : fail(TG_USAGE, "is no tensor file by its name: .npy, .npz or .pb");
    if (status != TG_OK) status_prefix(path);
    return status;
}

bool tensor_same(const TgTensor *a, const TgTensor *b)
{
    int64_t n = 1;
    if (a->type != b->type || a->rank != b->rank || memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->rank))
        return false;
    for (int32_t k = 0; k < a->rank; k++) n *= a->shape[k];
    for (int64_t k = 0; k < n && a->type == TG_STRING; k++)
        if (strcmp(((char *const *)a->data)[k], ((char *const *)b->data)[k])) return false;
    return a->type == TG_STRING || !n || (a->size_bytes == b->size_bytes && !memcmp(a->data, b->data, a->size_bytes));
}

void tg_tensor_free(TgTensor *t)
{
    for (int64_t k = 0; t->type >= TG_SEQUENCE && t->data && k < t->shape[0]; k++)
        tg_tensor_free((TgTensor *)t->data + k);
    spare_free(t->data);
    *t = (TgTensor){ 0 };
}
