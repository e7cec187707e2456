/* In: a text and the file of a tokenizer, as language models come with one. Out: a tensor for one port. The tokenizer
 * runs as peers/tokens.py, once for each text: models take the same one in two or three inputs. */
#define _GNU_SOURCE /* pipe2, strcasestr, asprintf */
#include "bench/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/python.h"
#include "bench/say.h"
#include "bench/values.h"

extern const char peer_tokens[];
extern char **environ;
enum { PART_IDS, PART_MASK, PART_TYPES, PART_POSITIONS, TEXT_BYTES = 100000 };

bool is_text_spec(const char *spec) { return !strncmp(spec, "text(", 5); }

bool takes_tokens(const TgPort *port)
{
    return (port->type == TG_I64 || port->type == TG_I32) && (port->rank == 1 || port->rank == 2);
}

static int part_of(const char *name)
{
    static const struct {
        const char *word;
        int part;
    } words[] = {
        { "mask", PART_MASK }, { "type", PART_TYPES }, { "segment", PART_TYPES }, { "position", PART_POSITIONS }
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(name, words[i].word)) return words[i].part;
    return PART_IDS;
}

/* ---- the specification ---- */

typedef struct {
    char tokenizer[4096], *text;
} Text;

static TgStatus read_file(Text *t, const char *path, const TgPort *port)
{
    FILE *f = fopen(path, "rb");
    if (!f) return say_error(TG_BAD_INPUT, "input '%s': %s: %s", port->name, path, strerror(errno));
    t->text = malloc(TEXT_BYTES + 1);
    size_t n = t->text ? fread(t->text, 1, TEXT_BYTES + 1, f) : 0;
    bool bad = !t->text || ferror(f);
    fclose(f);
    if (bad) return say_error(TG_BAD_INPUT, "input '%s': %s: it cannot be read", port->name, path);
    if (n > TEXT_BYTES || memchr(t->text, 0, n))
        return say_error(TG_BAD_INPUT, "input '%s': %s: a text of at most %d bytes is wanted", port->name, path,
                         TEXT_BYTES);
    t->text[n] = 0;
    return TG_OK;
}

/* A file's name has no parenthesis followed by a colon. */
static TgStatus read_spec(Text *t, const char *spec, const TgPort *port)
{
    const char *name = spec + strlen("text("), *end = strstr(name, "):");
    if (!end || end == name || (size_t)(end - name) >= sizeof t->tokenizer || !end[2])
        return say_error(TG_BAD_INPUT, "input '%s': '%s' is wrong; text(TOKENIZER.json):TEXT or ..:@FILE is wanted",
                         port->name, spec);
    snprintf(t->tokenizer, sizeof t->tokenizer, "%.*s", (int)(end - name), name);
    if (end[2] == '@') return read_file(t, end + 3, port);
    if (strlen(end + 2) > TEXT_BYTES)
        return say_error(TG_BAD_INPUT, "input '%s': a text of at most %d bytes is wanted", port->name, TEXT_BYTES);
    t->text = strdup(end + 2);
    return t->text ? TG_OK : say_error(TG_LIMIT, "input '%s': no memory for its text", port->name);
}

/* ---- the tokenizer ---- */

/* The first line that a program prints; NULL: it could not be started. */
static char *first_line(const char *const *argv)
{
    int from[2];
    pid_t pid;
    char *line = NULL;
    size_t cap = 0;
    posix_spawn_file_actions_t actions;
    if (pipe2(from, O_CLOEXEC)) return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    bool started = !posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(from[1]);
    FILE *f = fdopen(from[0], "r");
    if (started && getline(&line, &cap, f) <= 0 && line) *line = 0;
    fclose(f);
    if (started) waitpid(pid, NULL, 0);
    return line;
}

/* What the tokenizer says of a text: three lists, and what fills up. The last one is kept, for the model's other
 * inputs. */
static TgStatus tokens_of(json_t **out, const Text *t, const TgPort *port)
{
    static json_t *kept;
    static char *kept_for;
    char python[4200], *key;
    if (asprintf(&key, "%s\n%s", t->tokenizer, t->text) < 0)
        return say_error(TG_LIMIT, "input '%s': no memory for its text", port->name);
    *out = kept;
    if (kept && !strcmp(kept_for, key)) return free(key), TG_OK;
    const char *argv[] = {
        python_program(python, sizeof python), "-W", "ignore", "-c", peer_tokens, t->tokenizer, t->text, NULL
    };
    char *line = first_line(argv);
    json_t *lists = line ? json_loads(line, 0, NULL) : NULL;
    TgStatus status = TG_OK;
    if (json_array_size(lists) != 4) {
        bool said = line && !strncmp(line, "error ", 6);
        status = say_error(TG_BAD_INPUT, "input '%s': %s: %s", port->name, t->tokenizer,
                           said ? (line[strcspn(line, "\n")] = 0, line + 6) : "the tokenizer did not answer");
        json_decref(lists);
        free(key);
    } else {
        json_decref(kept);
        free(kept_for);
        *out = kept = lists;
        kept_for = key;
    }
    free(line);
    return status;
}

/* ---- the tensor ---- */

static TgStatus fill(TgTensor *out, const json_t *lists, const TgPort *port, const int64_t *wanted, int32_t rank)
{
    int part = part_of(port->name);
    const json_t *list = json_array_get(lists, part == PART_POSITIONS ? PART_IDS : (size_t)part);
    int64_t found = (int64_t)json_array_size(list), shape[2] = { 1, 1 }, last = wanted[rank - 1];
    int64_t n = shape[rank - 1] = last >= 0 ? last : found;
    if (rank == 2 && wanted[0] > 1)
        return say_error(TG_BAD_INPUT, "input '%s': text: one text is given; its first axis is %ld", port->name,
                         (long)wanted[0]);
    if (found > n) say_note("input '%s': %ld of %ld tokens are left out", port->name, (long)(found - n), (long)found);
    if (!tensor_new(out, port->type, shape, rank))
        return say_error(TG_LIMIT, "input '%s': no memory for its shape", port->name);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = part == PART_POSITIONS ? i
            : i < found                    ? json_integer_value(json_array_get(list, (size_t)i))
            : part == PART_IDS             ? json_integer_value(json_array_get(lists, 3))
                                           : 0;
        value_put_int(port->type, out->data, i, v);
    }
    return TG_OK;
}

TgStatus text_read(TgTensor *out, const char *spec, const TgPort *port, const int64_t *shape, int32_t rank)
{
    Text t = { .text = NULL };
    json_t *lists = NULL;
    if (!takes_tokens(port))
        return say_error(TG_BAD_INPUT, "input '%s': text: whole numbers of one or two axes are wanted; it has others",
                         port->name);
    TgStatus status = read_spec(&t, spec, port);
    if (status == TG_OK) status = tokens_of(&lists, &t, port);
    if (status == TG_OK) status = fill(out, lists, port, shape, rank);
    free(t.text);
    return status;
}
