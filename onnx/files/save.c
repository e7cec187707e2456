/* Writing: a temporary file with a random name in the same folder, flushed to the disk, then renamed. In: bytes. Out:
 * path holds the old or the new contents, never a mix. What is no regular file (a terminal, /dev/null) is written
 * straight. */
#define _GNU_SOURCE
#include "onnx/files/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_temp(Save *s)
{
    uint64_t number = 0;
    for (int tries = 0; tries < 16; tries++) {
        if (getrandom(&number, sizeof number, 0) < 0) break;
        if (asprintf(&s->temp, "%s.%016llx.tmp", s->path, (unsigned long long)number) < 0)
            return s->temp = NULL, errno = ENOMEM, -1;
        int fd = open(s->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
        free(s->temp);
        s->temp = NULL;
    }
    return -1;
}

TgStatus save_begin(Save *s, const char *path)
{
    struct stat st;
    *s = (Save){ .path = path };
    bool straight = !stat(path, &st) && !S_ISREG(st.st_mode);
    s->fd = straight ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY) : open_temp(s);
    if (s->fd >= 0) return TG_OK;
    TgStatus status = fail(TG_CACHE, "cannot be written: %s", strerror(errno));
    free(s->temp);
    return status;
}

void save_write(Save *s, const void *data, size_t size)
{
    const char *p = data;
    while (size && !s->error) {
        ssize_t n = write(s->fd, p, size);
        if (n < 0 && errno != EINTR) s->error = errno;
        if (n <= 0) continue;
        p += n;
        size -= (size_t)n;
    }
}

TgStatus save_end(Save *s)
{
    if (s->temp && !s->error && fsync(s->fd)) s->error = errno;
    if (close(s->fd) && !s->error) s->error = errno;
    if (s->temp && !s->error && rename(s->temp, s->path)) s->error = errno;
    if (s->temp && s->error) unlink(s->temp);
    free(s->temp);
    return s->error ? fail(TG_CACHE, "cannot be written: %s", strerror(s->error)) : TG_OK;
}
