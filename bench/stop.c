/* A handler may do next to nothing, so it passes the signal's number through a pipe to a thread that has waited for it.
 * That thread cleans up while the others go on, and ends the process. */
#define _GNU_SOURCE
#include "bench/stop.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/peer.h"

static struct {
    int pipe[2];
    const char *program;
    double limit_s;
} stop = { { -1, -1 }, "tgrun", 0 };

static volatile sig_atomic_t stopping;

static void on_signal(int sig)
{
    stopping = 1;
    char number = (char)sig;
    if (write(stop.pipe[1], &number, 1) != 1) _exit(128 + sig);
}

void stop_hold(void)
{
    while (stopping) pause();
}

void stop_prefix(char out[32]) { snprintf(out, 32, "tgrun-%d.", (int)getpid()); }

/* Children of every thread; a compiler leads a group of its own. How many there were. */
static int signal_children(int sig)
{
    char path[320];
    int n = 0, pid;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "/proc/self/task/%.200s/children", e->d_name);
        FILE *f = fopen(path, "r");
        for (; f && fscanf(f, "%d", &pid) == 1; n++)
            if (kill(-pid, sig)) kill(pid, sig);
        if (f) fclose(f);
    }
    if (d) closedir(d);
    return n;
}

/* Engines of ours have children and folders of their own: they get half a second for them. */
static void end_children(void)
{
    int left = signal_children(SIGTERM);
    for (int i = 0; i < 50 && left; i++) {
        usleep(10000);
        while (waitpid(-1, NULL, WNOHANG) > 0) { }
        left = signal_children(0);
    }
    if (left) signal_children(SIGKILL);
}

/* Ours, and the library's for compilers (backends/cpu/jobs.c). */
static void remove_folders(void)
{
    char own[32], compiler[48], path[400];
    const char *tmp = getenv("TMPDIR"), *place[] = { tmp && *tmp ? tmp : "/tmp", "/tmp" };
    stop_prefix(own);
    snprintf(compiler, sizeof compiler, "tgrun-cc-%d-", (int)getpid());
    for (int i = 0; i < 2; i++) {
        DIR *d = opendir(place[i]);
        for (struct dirent *e; d && (e = readdir(d));) {
            if (strncmp(e->d_name, own, strlen(own)) && strncmp(e->d_name, compiler, strlen(compiler))) continue;
            snprintf(path, sizeof path, "%.100s/%.200s", place[i], e->d_name);
            folder_clear(path);
        }
        if (d) closedir(d);
    }
}

static void *wait_for_signal(void *unused)
{
    char sig;
    (void)unused;
    while (read(stop.pipe[0], &sig, 1) != 1) { }
    end_children();
    remove_folders();
    if (sig == SIGALRM) fprintf(stderr, "%s: the time limit of %g s is over\n", stop.program, stop.limit_s);
    _exit(sig == SIGALRM ? TG_TIMEOUT : 128 + sig);
}

void stop_setup(const char *program)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGALRM };
    pthread_t thread;
    stop.program = program;
    if (pipe2(stop.pipe, O_CLOEXEC) || pthread_create(&thread, NULL, wait_for_signal, NULL)) return;
    pthread_detach(thread);
    atexit(stop_hold);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction old, act = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND | SA_RESTART };
        if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN) sigaction(signals[i], &act, NULL);
    }
}

void stop_after(double seconds)
{
    if (seconds <= 0) return;
    stop.limit_s = seconds;
    struct itimerval t = { .it_value = { (time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6) } };
    setitimer(ITIMER_REAL, &t, NULL);
}
