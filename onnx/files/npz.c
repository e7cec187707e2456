/* npz: a zip archive of npy files. In: an opened file and a key. Out: the member of that name. The archive's word for a
 * member's size is believed only as far as deflate can stretch the bytes that are there. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "onnx/files/npy.h"

enum { DEFLATE_MAX = 1032 };      /* bytes out of one byte, at most */

static TgStatus find_member(zip_t *z, const char *key, zip_int64_t *index)
{
    char name[1024];
    zip_int64_t count = zip_get_num_entries(z, 0);
    *index = 0;
    if (!key && count != 1) return fail(TG_BAD_INPUT, "has %lld members: name one (FILE.npz:KEY)", (long long)count);
    if (!key) return TG_OK;
    if (strlen(key) + 5 > sizeof name) return fail(TG_BAD_INPUT, "key of %zu bytes", strlen(key));
    strcpy(name, key);
    strcat(name, ".npy");
    *index = zip_name_locate(z, name, 0);
    return *index >= 0 ? TG_OK : fail(TG_BAD_INPUT, "has no key '%s'", key);
}

static TgStatus read_member(TgTensor *out, zip_t *z, zip_int64_t index, TgType want)
{
    zip_stat_t st;
    if (zip_stat_index(z, (zip_uint64_t)index, 0, &st) || !(st.valid & ZIP_STAT_SIZE) ||
        !(st.valid & ZIP_STAT_COMP_SIZE))
        return fail(TG_BAD_INPUT, "member has no size");
    if (st.size > st.comp_size * DEFLATE_MAX + 4096)
        return fail(TG_BAD_INPUT, "member '%s' claims %llu bytes out of %llu", st.name, (unsigned long long)st.size,
                    (unsigned long long)st.comp_size);
    zip_file_t *f = zip_fopen_index(z, (zip_uint64_t)index, 0);
    if (!f) return fail(TG_BAD_INPUT, "member '%s' cannot be read: %s", st.name, zip_strerror(z));
    char *data = malloc(st.size + 1);
    zip_uint64_t done = 0;
    for (zip_int64_t n = 1; data && n > 0 && done<st.size; done += n> 0 ? (zip_uint64_t)n : 0)
        n = zip_fread(f, data + done, st.size - done);
    TgStatus status = !data ? fail(TG_LIMIT, "%llu bytes of memory are not there", (unsigned long long)st.size)
        : done < st.size    ? fail(TG_BAD_INPUT, "member '%s' is damaged", st.name)
                            : npy_read_bytes(out, data, st.size, want);
    if (zip_fclose(f) && status == TG_OK) {         /* the checksum is known at the end */
        tg_tensor_free(out);
        status = fail(TG_BAD_INPUT, "member '%s' is damaged", st.name);
    }
    free(data);
    return status;
}

TgStatus npz_read_fd(TgTensor *out, int fd, const char *key, TgType want)
{
    zip_int64_t index;
    int error;
    zip_t *z = zip_fdopen(fd, 0, &error);
    if (!z) return close(fd), fail(TG_BAD_INPUT, "is not an npz archive");
    TgStatus status = find_member(z, key, &index);
    if (status == TG_OK) status = read_member(out, z, index, want);
    zip_discard(z);
    return status;
}

static TgStatus cannot_write(zip_t *z, const char *why)
{
    TgStatus status = fail(TG_CACHE, "cannot be written: %s", why);
    if (z) zip_discard(z);
    return status;
}

/* zip_close writes a temporary file and renames it. */
TgStatus npz_write_file(const TgTensor *t, const char *name, const char *path)
{
    char header[NPY_HEADER], member[1024];
    int error;
    void *owned;
    size_t size, head = npy_header(header, t);
    if (!head) return fail(TG_UNSUPPORTED, "npz cannot hold %s: use .pb", tg_type_name(t->type));
    if (!name || !*name) name = "arr_0";
    if (strlen(name) + 5 > sizeof member) return fail(TG_USAGE, "key of %zu bytes", strlen(name));
    strcpy(member, name);
    strcat(member, ".npy");
    const void *data = npy_elements(t, &owned, &size);
    char *file = malloc(head + size);
    if (!file || (!data && size))
        return free(file), free(owned), fail(TG_LIMIT, "%zu bytes of memory are not there", head + size);
    memcpy(file, header, head);
    if (size) memcpy(file + head, data, size);
    free(owned);
    zip_t *z = zip_open(path, ZIP_CREATE, &error);
    zip_source_t *source = z ? zip_source_buffer(z, file, head + size, 1) : NULL;
    if (!source)
        return free(file), cannot_write(z, z ? zip_strerror(z) : "it is there and no archive, or its folder is not");
    zip_int64_t index = zip_file_add(z, member, source, ZIP_FL_OVERWRITE);
    if (index < 0) zip_source_free(source);
    if (index < 0 || zip_set_file_compression(z, (zip_uint64_t)index, ZIP_CM_STORE, 0) || zip_close(z))
        return cannot_write(z, zip_strerror(z));
    return TG_OK;
}
