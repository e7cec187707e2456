/* Objects are loaded from memory, so that what was checked is what runs. The descriptor stays open while the library is
 * loaded: the loader knows libraries by name, and a descriptor that came again would be an old library's name. */
#define _GNU_SOURCE
#include "backends/cpu/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/folders.h"
#include "graph/base/memory.h"

typedef struct { void *handle; int fd; } Library;

static bool write_all(int fd, const char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, bytes + at, size - at);
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

static void *open_memory(int *fd, const void *bytes, size_t size)
{
    char name[40];
    *fd = memfd_create("tgrun-kernels", MFD_CLOEXEC);
    snprintf(name, sizeof name, "/proc/self/fd/%d", *fd);
    return *fd >= 0 && write_all(*fd, bytes, size) ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* For systems that let no memory file be executed. */
static void *open_file(const void *bytes, size_t size)
{
    char name[80];
    snprintf(name, sizeof name, "%s/tgrun-lib-XXXXXX", temporary_folder());
    int fd = mkstemp(name);
    void *handle = fd >= 0 && write_all(fd, bytes, size) ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (fd >= 0) close(fd), unlink(name);
    return handle;
}

void *library_open(const Code *of, const void *bytes, size_t size)
{
    Library *l = mem_beside(of, sizeof *l);
    l->handle = open_memory(&l->fd, bytes, size);
    if (!l->handle && l->fd >= 0) close(l->fd), l->fd = -1;
    if (!l->handle) l->handle = open_file(bytes, size);
    if (l->handle) return l;
    mem_free(l);
    return NULL;
}

void library_close(void *library)
{
    Library *l = library;
    dlclose(l->handle);
    if (l->fd >= 0) close(l->fd);
    mem_free(l);
}

CpuKernel library_find(void *library, const char *symbol)
{
    CpuKernel fn;
    void *p = dlsym(((Library *)library)->handle, symbol);
    memcpy(&fn, &p, sizeof fn);
    return fn;
}
