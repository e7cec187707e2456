/* See child.h. */
#define _GNU_SOURCE
#include "backends/child.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* In the file's folder, in the library's own below it, or where programs are installed beside it: lib/,
 * lib/ARCHITECTURE/. */
static bool beside(char *out, size_t cap, const char *file)
{
    static const char *const place[] = { "", "/tgrun", "/../bin", "/../../bin" };
    const char *slash = strrchr(file, '/');
    for (size_t i = 0; slash && i < sizeof place / sizeof *place; i++) {
        int n = snprintf(out, cap, "%.*s%s/tgrun-worker", (int)(slash - file), file, place[i]);
        if (n > 0 && (size_t)n < cap && !access(out, X_OK)) return true;
    }
    return false;
}

bool child_find(char *out, size_t cap)
{
    Dl_info info;
    char self[4096];
    const char *own = getenv("TGRUN_WORKER");
    if (own && *own) return snprintf(out, cap, "%s", own) < (int)cap && !access(out, X_OK);
    if (dladdr((void *)(uintptr_t)child_find, &info) && beside(out, cap, info.dli_fname)) return true;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    return beside(out, cap, self);
}

static bool spawn(Child *c, const char *path, const char *const *argv, bool group, const int in[2], const int out[2])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawnattr_init(&attr);
    if (group) posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    int failed = posix_spawn(&c->pid, path, &actions, &attr, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return !failed;
}

bool child_start(Child *c, const char *path, const char *const *argv, bool group)
{
    int in[2], out[2];
    /* not a pipe, so that writing to one that has died is no signal */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in)) return false;
    if (pipe2(out, O_CLOEXEC)) return close(in[0]), close(in[1]), false;
    bool ok = spawn(c, path, argv, group, in, out);
    close(in[0]);
    close(out[1]);
    c->to = in[1];
    c->from = out[0];
    if (!ok) close(c->to), close(c->from);
    return ok;
}

void child_stop(Child *c, bool at_once)
{
    close(c->to);
    close(c->from);
    if (at_once) kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) { }
}

bool pipe_write(int fd, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == ENOTSOCK) k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

bool pipe_read(int fd, void *data, size_t n)
{
    for (char *p = data; n;) {
        ssize_t k = read(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}
