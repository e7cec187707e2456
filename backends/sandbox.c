/* See sandbox.h. The kernel's interface by its numbers: headers of the systems on which this is built are older than
 * the kernels on which it runs. Versions: 1 files, 2 moving between folders, 3 truncating, 4 TCP, 5 devices' ioctl,
 * 6 signals and abstract sockets. Reading stays free. */
#define _GNU_SOURCE
#include "backends/sandbox.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SYS_CREATE = 444, SYS_ADD = 445, SYS_RESTRICT = 446, ASK_VERSION = 1, BENEATH = 1 };
/* writing, and removing and making of every kind of file */
#define WRITES (UINT64_C(1) << 1 | UINT64_C(0x1ff) << 4)
#define MOVES (UINT64_C(1) << 13)
#define TRUNCATES (UINT64_C(1) << 14)
#define TCP UINT64_C(3)
#define SCOPES UINT64_C(3)

typedef struct { uint64_t files, tcp, scoped; } Rules;
typedef struct __attribute__((packed)) { uint64_t allowed; int32_t folder; } Beneath;

static long version(void) { return syscall(SYS_CREATE, NULL, 0, ASK_VERSION); }

static int new_rules(long v, uint64_t *files)
{
    Rules r = { WRITES | (v >= 2 ? MOVES : 0) | (v >= 3 ? TRUNCATES : 0), TCP, SCOPES };
    size_t size = v >= 6 ? sizeof r : v >= 4 ? offsetof(Rules, scoped) : offsetof(Rules, tcp);
    *files = r.files;
    return (int)syscall(SYS_CREATE, &r, size, 0);
}

static void allow(int rules, uint64_t files, const char *folder)
{
    Beneath b = { files, folder ? open(folder, O_PATH | O_CLOEXEC | O_DIRECTORY) : -1 };
    if (b.folder < 0) return;
    syscall(SYS_ADD, rules, BENEATH, &b, 0);
    close(b.folder);
}

static bool is_off(void)
{
    const char *wish = getenv("TGRUN_SANDBOX");
    return wish && !strcmp(wish, "off");
}

bool sandbox_enter(const char *const *writable, uint32_t n)
{
    long v = is_off() ? 0 : version();
    uint64_t files;
    int rules = v < 1 ? -1 : new_rules(v, &files);
    if (rules < 0) return false;
    for (uint32_t k = 0; k < n; k++) allow(rules, files, writable[k]);
    allow(rules, files, "/dev");
    bool in = !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !syscall(SYS_RESTRICT, rules, 0);
    close(rules);
    return in;
}

/* ---- in a thread ---- */

typedef struct { const char *writable; void (*start)(void *user); void *user; } Start;

static void *enter_and_start(void *user)
{
    const Start *s = user;
    sandbox_enter(&s->writable, 1);
    s->start(s->user);
    return NULL;
}

void sandbox_run(const char *writable, void (*start)(void *user), void *user)
{
    Start s = { writable, start, user };
    pthread_t thread;
    if (pthread_create(&thread, NULL, enter_and_start, &s)) start(user);
    else pthread_join(thread, NULL);
}
