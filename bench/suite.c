/* In: folders and archives. Out: a line a model, a summary, a JUnit file. A model is a folder with model.onnx (or one .onnx file) and test_data_set_K/; an archive .tar.gz of such folders is
 * unpacked into a temporary folder. Each model runs in a child, so that a crash or a limit is one line too. */
#define _GNU_SOURCE
#include "bench/suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/say.h"

extern char **environ;
enum { ARGV_MAX = 64, DEPTH_MAX = 4 };
typedef struct { char *folder, *model, *why; int code; double seconds; } Case;
typedef struct { const Args *args; Case *list; uint32_t count, cap; const char *program; } Suite;

/* ---- finding ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

static void add_case(Suite *s, const char *folder, const char *model)
{
    if (s->count == s->cap) {
        Case *grown = realloc(s->list, sizeof *grown * (s->cap = s->cap ? 2 * s->cap : 64));
        if (!grown) return (void)say_error(TG_LIMIT, "no memory for the list of models");
        s->list = grown;
    }
    Case *c = &s->list[s->count];
    *c = (Case){ .folder = strdup(folder) };
    if (asprintf(&c->model, "%s/%s", folder, model) >= 0) s->count++;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* A folder that holds a model is one case; else its folders are looked through. */
static void find_models(Suite *s, const char *dir, int depth)
{
    struct dirent **e;
    int n = scandir(dir, &e, NULL, by_name);
    uint32_t before = s->count;
    for (int i = 0; i < n; i++)
        if (s->count == before && ends_with(e[i]->d_name, ".onnx")) add_case(s, dir, e[i]->d_name);
    bool is_model = s->count > before;
    for (int i = 0; i < n; i++) {
        char *path = NULL;
        struct stat st;
        if (!is_model && depth && *e[i]->d_name != '.' && asprintf(&path, "%s/%s", dir, e[i]->d_name) >= 0 && !stat(path, &st) && S_ISDIR(st.st_mode)) find_models(s, path, depth - 1);
        free(path);
        free(e[i]);
    }
    if (n >= 0) free(e);
}

static int run_quietly(char *const *argv)
{
    pid_t pid;
    int status = -1;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ)) return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

static TgStatus unpack(const char *archive, char folder[64])
{
    snprintf(folder, 64, "/tmp/tgrun-test.XXXXXX");
    if (!mkdtemp(folder)) return say_error(TG_CACHE, "%s: %s", folder, strerror(errno));
    char *argv[] = { "tar", "-xzf", (char *)(uintptr_t)archive, "-C", folder, "--no-same-owner", NULL };
    return run_quietly(argv) ? say_error(TG_BAD_INPUT, "%s: is no .tar.gz that tar can unpack", archive) : TG_OK;
}

/* ---- running ---- */

static void child_arguments(const Suite *s, const Case *c, const char **argv)
{
    static const struct { Opt o; const char *name; } passed[] = { { OPT_device, "--device" }, { OPT_threads, "--threads" }, { OPT_cpus, "--cpus" }, { OPT_precision, "--precision" },
        { OPT_cache_dir, "--cache-dir" }, { OPT_tolerance, "--tolerance" }, { OPT_rtol, "--rtol" }, { OPT_atol, "--atol" }, { OPT_timeout, "--timeout" }, { OPT_max_memory, "--max-memory" } };
    const char *fixed[] = { s->program, c->model, "--test-data", c->folder, "--runs", "1", "-q" };
    int n = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) argv[n++] = fixed[i];
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (args_has(s->args, passed[i].o)) {
            argv[n++] = passed[i].name;
            argv[n++] = args_text(s->args, passed[i].o, "");
        }
    if (args_has(s->args, OPT_no_cache)) argv[n++] = "--no-cache";
    argv[n] = NULL;
}

/* The last line that the child said. */
static char *last_line(FILE *f)
{
    char *line = NULL, *last = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, f) > 0) {
        line[strcspn(line, "\n")] = 0;
        free(last);
        last = strdup(line);
    }
    free(line);
    return last;
}

static void run_case(const Suite *s, Case *c)
{
    const char *argv[ARGV_MAX];
    int pipe_of[2], status = 0;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    child_arguments(s, c, argv);
    c->code = TG_INTERNAL;
    if (pipe2(pipe_of, O_CLOEXEC)) return;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_of[1], STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    double start = now_s();
    int bad = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_of[1]);
    FILE *f = fdopen(pipe_of[0], "r");
    c->why = f ? last_line(f) : NULL;
    if (f) fclose(f);
    if (!bad && waitpid(pid, &status, 0) == pid) c->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    c->seconds = now_s() - start;
}

/* ---- telling ---- */

static void xml_escaped(FILE *f, const char *s)
{
    for (; s && *s; s++)
        if (strchr("<>&\"", *s) || (unsigned char)*s < 32) fprintf(f, "&#%d;", (unsigned char)*s < 32 ? ' ' : *s);
        else fputc(*s, f);
}

static TgStatus write_junit(const Suite *s, const char *file, uint32_t bad)
{
    FILE *f = fopen(file, "w");
    if (!f) return say_error(TG_CACHE, "--junit: %s: %s", file, strerror(errno));
    fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"tgrun\" tests=\"%u\" failures=\"%u\">\n", s->count, bad);
    for (uint32_t i = 0; i < s->count; i++) {
        const Case *c = &s->list[i];
        fputs("  <testcase name=\"", f);
        xml_escaped(f, c->folder);
        fprintf(f, "\" time=\"%.3f\">", c->seconds);
        if (c->code) {
            fprintf(f, "<failure message=\"exit %d: ", c->code);
            xml_escaped(f, c->why);
            fputs("\"/>", f);
        }
        fputs("</testcase>\n", f);
    }
    fputs("</testsuite>\n", f);
    return fclose(f) ? say_error(TG_CACHE, "--junit: %s: %s", file, strerror(errno)) : TG_OK;
}

static uint32_t run_all(const Suite *s)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        Case *c = &s->list[i];
        run_case(s, c);
        bad += c->code != 0;
        if (c->code) printf("%-40s exit %-3d %6.1f s  %s\n", c->folder, c->code, c->seconds, c->why ? c->why : "");
        else if (!args_has(s->args, OPT_quiet)) printf("%-40s ok       %6.1f s\n", c->folder, c->seconds);
        fflush(stdout);
    }
    printf("%u of %u models are right\n", s->count - bad, s->count);
    return bad;
}

static TgStatus run_folder(Suite *s, const char *dir)
{
    struct stat st;
    char folder[64] = "";
    bool archive = ends_with(dir, ".tar.gz");
    if (stat(dir, &st) || (!archive && !S_ISDIR(st.st_mode))) return say_error(TG_BAD_INPUT, "test: %s is neither a folder nor a .tar.gz", dir);
    TgStatus status = archive ? unpack(dir, folder) : TG_OK;
    if (status == TG_OK) find_models(s, archive ? folder : dir, DEPTH_MAX);
    return status;
}

static void drop_unpacked(const Suite *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const char *prefix = "/tmp/tgrun-test.";
        char top[64];
        if (strncmp(s->list[i].folder, prefix, strlen(prefix))) continue;
        snprintf(top, sizeof top, "%.*s", (int)strlen("/tmp/tgrun-test.XXXXXX"), s->list[i].folder);
        char *argv[] = { "rm", "-rf", top, NULL };
        run_quietly(argv);
    }
}

TgStatus suite_run(const Args *a, const char *const *dir, uint32_t ndir, const char *program)
{
    Suite s = { .args = a, .program = program };
    TgStatus status = ndir ? TG_OK : say_error(TG_USAGE, "test: a folder is missing: tgrun test DIR...");
    for (uint32_t i = 0; i < ndir && status == TG_OK; i++) status = run_folder(&s, dir[i]);
    if (status == TG_OK && !s.count) status = say_error(TG_BAD_INPUT, "test: no model is in there");
    if (status == TG_OK) {
        uint32_t bad = run_all(&s);
        status = bad ? TG_DIFFERS : TG_OK;
        if (args_has(a, OPT_junit) && write_junit(&s, args_text(a, OPT_junit, ""), bad) != TG_OK) status = TG_CACHE;
    }
    drop_unpacked(&s);
    for (uint32_t i = 0; i < s.count; i++) {
        free(s.list[i].folder);
        free(s.list[i].model);
        free(s.list[i].why);
    }
    free(s.list);
    return status;
}
