/* sandbox.h: what a thread in one and the programs that it starts can write, and that the process's other threads are
 * not in it. */
#include "backends/sandbox.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[] = "/tmp/tgrun-sandbox-XXXXXX", inside[64], outside[64];

static bool writes(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0) close(fd), unlink(name);
    return fd >= 0;
}

static bool shell_writes(const char *name)
{
    char command[160];
    snprintf(command, sizeof command, "exec 2>/dev/null; : >%s", name);
    bool done = !system(command);
    return done && !unlink(name);
}

/* Is it refused, and not by the other side? */
static bool connects(void)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(1), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool refused = connect(fd, (const struct sockaddr *)&to, sizeof to) && errno == EACCES;
    close(fd);
    return !refused;
}

static void in_sandbox(void *user)
{
    int *seen = user;
    seen[0] = writes(inside), seen[1] = writes(outside);
    seen[2] = shell_writes(inside), seen[3] = shell_writes(outside);
    seen[4] = connects(), seen[5] = access("/etc/passwd", R_OK) == 0;
}

static void writes_in_its_folder(void **state)
{
    (void)state;
    long version = syscall(444, NULL, 0, 1);
    int seen[6] = { 0 };
    assert_non_null(mkdtemp(folder));
    snprintf(inside, sizeof inside, "%s/file", folder);
    snprintf(outside, sizeof outside, "%s-file", folder);
    sandbox_run(folder, in_sandbox, seen);
    assert_true(seen[0] && seen[2] && seen[5]);
    if (version < 1) puts("skipped: the kernel has no Landlock");
    else assert_false(seen[1] || seen[3]);
    if (version >= 4) assert_false(seen[4]);
    assert_true(writes(outside));
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(writes_in_its_folder) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
