/* Any bytes as a file: an archive that is unpacked, or a compiled model's pieces. The first byte chooses. Archives go
 * to a folder that is emptied each time: what would lie outside of it is looked for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/bundle.h"
#include "bench/archive.h"
#include "graph/base/text.h"
#include "tests/fuzz/fuzz.h"

static volatile uint64_t sink;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind;
    return at->level > 0 ? remove(path) : 0;
}

static void unpack(const char *path)
{
    static const volatile sig_atomic_t stop = 0;
    char outer[] = "/tmp/tgrun-fuzz-XXXXXX", inner[40];
    if (!mkdtemp(outer)) abort();
    snprintf(inner, sizeof inner, "%s/in", outer);
    if (mkdir(inner, 0700)) abort();
    archive_unpack(path, inner, &stop);
    nftw(inner, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (rmdir(inner) || rmdir(outer)) abort();      /* something lies beside it */
}

static void pieces(const char *path)
{
    Bundle *b;
    if (!bundle_is(path)) return;
    if (bundle_open(&b, path) != TG_OK) {
        if (!*tg_error()) abort();
        return;
    }
    const char *name;
    for (size_t k = 0; (name = bundle_name(b, "", k)); k++) {
        Piece p;
        size_t size;
        if (bundle_get(b, &p, name) == TG_OK)
            for (size_t i = 0; i < p.size; i++) sink += ((const uint8_t *)p.data)[i];
        void *own = bundle_map(b, name, &size);
        if (own) munmap(own, size);
    }
    bundle_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    if (!size) return 0;
    int fd = memfd_create("fuzz", 0), quiet = dup(STDERR_FILENO), nothing = open("/dev/null", O_WRONLY);
    if (fd < 0 || write(fd, data + 1, size - 1) < 0) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    dup2(nothing, STDERR_FILENO);                   /* failures of archives are said */
    if (data[0] & 1) unpack(path);
    else pieces(path);
    dup2(quiet, STDERR_FILENO);
    close(fd), close(quiet), close(nothing);
    return 0;
}

/* A tar of one file, of that type and name. */
static void tar(Text *t, const char *name, char type, const char *link, const char *body)
{
    char head[512] = { 0 };
    unsigned sum = 0;
    snprintf(head, 100, "%s", name);
    memcpy(head + 100, "0000644\0000000000\0000000000", 23);
    snprintf(head + 124, 12, "%011o", (unsigned)strlen(body));
    memcpy(head + 136, "00000000000", 11);
    memset(head + 148, ' ', 8);
    head[156] = type;
    snprintf(head + 157, 100, "%s", link);
    memcpy(head + 257, "ustar\00000", 8);
    for (int k = 0; k < 512; k++) sum += (uint8_t)head[k];
    snprintf(head + 148, 8, "%06o", sum);
    text_bytes(t, head, 512);
    if (!*body) return;
    char block[512] = { 0 };
    snprintf(block, sizeof block, "%s", body);
    text_bytes(t, block, 512);
}

/* A file of two pieces. */
static void bundle(Text *t)
{
    char path[] = "/tmp/tgrun-fuzz-XXXXXX", bytes[4096];
    int fd = mkstemp(path);
    BundleWriter *w;
    if (fd < 0 || bundle_begin(&w, path) != TG_OK) abort();
    TgStatus status = bundle_put(w, "model", "12345", 5);
    if (status == TG_OK) status = bundle_put(w, "code/0", "abcdefgh", 8);
    if (bundle_end(w, status) != TG_OK) abort();
    close(fd);
    FILE *f = fopen(path, "rb");
    for (size_t n; f && (n = fread(bytes, 1, sizeof bytes, f));) text_bytes(t, bytes, n);
    if (f) fclose(f);
    unlink(path);
}

char *fuzz_seed(size_t k, size_t *size)
{
    Text t = { 0 };
    if (k > 4) return NULL;
    text_bytes(&t, k ? "\1" : "\0", 1);
    if (!k) bundle(&t);
    if (k == 1) tar(&t, "model/model.onnx", '0', "", "8 bytes!"), tar(&t, "model/b", '5', "", "");
    if (k == 2) tar(&t, "../up", '0', "", "x"), tar(&t, "/absolute", '0', "", "x");
    if (k == 3) tar(&t, "link", '2', "../..", ""), tar(&t, "link/under", '0', "", "x"), tar(&t, "hard", '1', "/x", "");
    if (k == 4) text_bytes(&t, "\37\213\10\0\0\0\0\0\0\3\3\0\0\0\0\0\0\0\0\0", 20);
    if (k) for (int i = 0; i < 1024 && k < 4; i++) text_bytes(&t, "\0", 1);
    *size = t.len;
    return t.s;
}
