/* The secret is made aside, in the entry's folder, and linked into its place, so that of several processes one wins and
 * none reads half of it; what a process that is killed leaves there goes as all such files do (cache.c). What was read
 * last is kept, for as long as the file is the same. */
#define _GNU_SOURCE
#include "backends/seal.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct { unsigned char byte[32]; } Secret;
typedef struct { dev_t device; ino_t number; struct timespec changed; } Identity;

_Static_assert(sizeof(Seal) == crypto_auth_hmacsha256_BYTES, "a seal is what the library makes");

static bool secret_path(char *out, const char *dir)
{
    return dir && snprintf(out, PATH_MAX, "%s/secret", dir) < PATH_MAX - 8;
}

static bool is_private(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 077) && st->st_size == sizeof(Secret);
}

static bool same_file(const Identity *a, const struct stat *st)
{
    return a->device == st->st_dev && a->number == st->st_ino && a->changed.tv_sec == st->st_ctim.tv_sec &&
        a->changed.tv_nsec == st->st_ctim.tv_nsec;
}

static bool read_secret(Secret *out, Identity *of, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    bool good = !fstat(fd, &st) && is_private(&st) && read(fd, out, sizeof *out) == sizeof *out;
    close(fd);
    if (good) *of = (Identity){ st.st_dev, st.st_ino, st.st_ctim };
    return good;
}

static bool find_secret(Secret *out, const char *dir)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static Identity last;
    static Secret kept;
    static bool known;
    char path[PATH_MAX];
    struct stat st;
    if (!secret_path(path, dir)) return false;
    pthread_mutex_lock(&lock);
    bool good = known && !lstat(path, &st) && is_private(&st) && same_file(&last, &st);
    if (!good) good = known = read_secret(&kept, &last, path);
    if (good) *out = kept;
    pthread_mutex_unlock(&lock);
    return good;
}

/* false where there is a file already, too. The folder of the kind is there. */
static bool write_secret(const char *dir, const char *kind)
{
    char path[PATH_MAX], aside[PATH_MAX + 80];
    Secret s;
    if (!secret_path(path, dir) || getrandom(&s, sizeof s, 0) != sizeof s) return false;
    snprintf(aside, sizeof aside, "%s/%.64s/secret.XXXXXX", dir, kind);
    int fd = mkostemp(aside, O_CLOEXEC);
    if (fd < 0) return false;
    bool good = write(fd, &s, sizeof s) == sizeof s;
    good &= !close(fd);
    good = good && !link(aside, path);
    unlink(aside);
    return good;
}

static void add_text(crypto_auth_hmacsha256_state *state, const char *text)
{
    crypto_auth_hmacsha256_update(state, (const unsigned char *)text, strlen(text) + 1);
}

static void seal(Seal *out, const Secret *s, const char *kind, const char *key, const void *data, size_t size_bytes)
{
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, s->byte, sizeof s->byte);
    add_text(&state, kind);
    add_text(&state, key);
    crypto_auth_hmacsha256_update(&state, data, size_bytes);
    crypto_auth_hmacsha256_final(&state, out->byte);
}

bool seal_make(Seal *out, const char *dir, const char *kind, const char *key, const void *data, size_t size_bytes)
{
    Secret s;
    if (!find_secret(&s, dir) && (write_secret(dir, kind), !find_secret(&s, dir))) return false;
    seal(out, &s, kind, key, data, size_bytes);
    return true;
}

bool seal_fits(const Seal *s, const char *dir, const char *kind, const char *key, const void *data, size_t size_bytes)
{
    Secret secret;
    Seal right;
    if (!find_secret(&secret, dir)) return false;
    seal(&right, &secret, kind, key, data, size_bytes);
    return !sodium_memcmp(right.byte, s->byte, sizeof right.byte);
}

void seal_name(char out[33], uint64_t maker, const void *data, size_t size_bytes)
{
    crypto_hash_sha256_state state;
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, (const unsigned char *)&maker, sizeof maker);
    crypto_hash_sha256_update(&state, data, size_bytes);
    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(out, 33, digest, 16);
}
