/* External data: a folder of good files, links, pipes and traps, and a table of what a model may name. */
#define _GNU_SOURCE
#include "onnx/model.h"
#include "tests/pbtext.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[] = "/tmp/tgrun-files-XXXXXX";
static const float weights[] = { 1, 2, 3, 4 };

static void write_file(const char *name, const void *data, size_t size)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

/* outside/ holds what no model may read; store/ is where a cache keeps the real files of snap/. */
static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(root) || chdir(root)) return -1;
    static const char *const folders[] = { "model", "model/sub", "outside", "store", "snap" };
    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) mkdir(folders[k], 0755);
    write_file("outside/secret.bin", weights, sizeof weights);
    write_file("model/w.bin", weights, sizeof weights);
    write_file("model/w..v1.bin", weights, sizeof weights);
    write_file("model/sub/w.bin", weights, sizeof weights);
    write_file("model/empty.bin", "", 0);
    write_file("store/blob2", weights, sizeof weights);
    write_file("store/beside.bin", weights, sizeof weights);
    bool made = !symlink("../outside/secret.bin", "model/link.bin") && !symlink("../outside", "model/folder") &&
        !symlink("w.bin", "model/inner.bin") && !symlink("/dev/zero", "model/zero") && !mkfifo("model/pipe", 0644) &&
        !symlink("../store/blob1", "snap/model.onnx") && !symlink("../store/blob2", "snap/w.bin") &&
        !symlink("../outside/secret.bin", "snap/evil.bin");
    return made ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") || remove_tree(root);
}

/* A model whose initializer w is the text's tensor. */
static Text model_bytes(const char *tensor)
{
    char text[6000];
    snprintf(text, sizeof text, "1:8 8{2:13} 7{1{1:'w' 2:'y' 3:'n' 4:'Relu'} 12{1:'y' 2{1{1:1}}} 5{8:'w' %s}}", tensor);
    return pb_text(text);
}

#define EXTERNAL(...) "1:4 2:1 14:1 " __VA_ARGS__
#define AT(name) EXTERNAL("13{1:'location' 2:'" name "'}")
#define OFFSET(v) EXTERNAL("13{1:'location' 2:'w.bin'} 13{1:'offset' 2:'" v "'}")
#define LENGTH(v) EXTERNAL("13{1:'location' 2:'w.bin'} 13{1:'length' 2:'" v "'}")

static const struct { const char *tensor; const char *says; } rows[] = {
    { AT("w.bin"), NULL },
    { AT("./w.bin"), NULL },
    { AT("sub/w.bin"), NULL },
    { AT("w..v1.bin"), NULL },
    { OFFSET("0"), NULL },
    { LENGTH("16"), NULL },
    { "1:2 2:1 14:1 13{1:'location' 2:'w.bin'} 13{1:'offset' 2:'4'}", NULL },       /* the file may be longer */
    { "1:3 2:1 14:1 13{1:'length' 2:'12'} 13{1:'checksum' 2:'x'} 13{1:'offset' 2:'2'} 13{1:'location' 2:'w.bin'}", NULL },      /* odd offset, unknown keys, any order */
    { "1:0 2:1 14:1 13{1:'location' 2:'empty.bin'}", NULL },
    { AT("../outside/secret.bin"), "holds .." },
    { AT("sub/../../outside/secret.bin"), "holds .." },
    { AT("sub/.."), "holds .." },
    { AT(".."), "holds .." },
    { AT("."), "not a regular file" },
    { AT(""), "has no name" },
    { AT("/etc/passwd"), "absolute" },
    { AT("//etc/passwd"), "absolute" },
    { AT("sub//w.bin"), "empty part" },
    { AT("sub/"), "empty part" },
    { AT("file:///etc/passwd"), "empty part" },
    { AT("~/w.bin"), "No such file" },
    { AT("sub\\w.bin"), "No such file" },
    { AT("*/_ORT_MEM_ADDR_/*"), "No such file" },
    { AT("missing.bin"), "No such file" },
    { AT("link.bin"), "link" },
    { AT("inner.bin"), "link" },
    { AT("folder/secret.bin"), "link" },
    { AT("zero"), "link" },
    { AT("pipe"), "not a regular file" },
    { AT("sub"), "not a regular file" },
    { AT("empty.bin"), "has 0 bytes" },
    { EXTERNAL(""), "without a location" },
    { EXTERNAL("13{1:'location' 2:'w.bin'} 13{1:'location' 2:'w.bin'}"), "location twice" },
    { OFFSET("1"), "lie outside" },
    { OFFSET("17"), "lie outside" },
    { OFFSET("-1"), "no number" },
    { OFFSET("0x4"), "no number" },
    { OFFSET("4 "), "no number" },
    { OFFSET(""), "no number" },
    { OFFSET("18446744073709551615"), "lie outside" },
    { OFFSET("18446744073709551600"), "lie outside" },
    { OFFSET("9223372036854775807"), "lie outside" },
    { OFFSET("111111111111111111111111111111111"), "no number" },
    { LENGTH("15"), "type and shape need 16" },
    { LENGTH("17"), "type and shape need 16" },
    { LENGTH("-16"), "no number" },
    { LENGTH("1125899906842624"), "type and shape need 16" },
    { "1:1099511627776 2:1 14:1 13{1:'location' 2:'w.bin'}", "lie outside" },
    { "1:1 2:8 14:1 13{1:'location' 2:'w.bin'}", "string_data" },
    { AT("w.bin") " 9#00000000#", "two places" },
};

static int wrong_locations(void)
{
    int wrong = 0;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        Model *m;
        Text bytes = model_bytes(rows[k].tensor);
        write_file("model/m.onnx", bytes.s, bytes.len);
        TgStatus status = model_load(&m, "model/m.onnx", NULL);
        bool right = rows[k].says
            ? status == TG_BAD_MODEL && strstr(tg_error(), rows[k].says) && strstr(tg_error(), "initializer 'w'")
            : status == TG_OK;
        if (!right)
            print_error("%s: status %d, \"%s\"; expected \"%s\"\n", rows[k].tensor, status, tg_error(), rows[k].says);
        wrong += !right;
        if (status == TG_OK) model_free(m);
        text_free(&bytes);
    }
    return wrong;
}

static void locations(void **state)
{
    (void)state;
    assert_int_equal(wrong_locations(), 0);
}

/* The same on a kernel that has no openat2: a child's system call filter says so. */
static void locations_old_kernel(void **state)
{
    (void)state;
    struct sock_filter code[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    int status;
    pid_t child = fork();
    if (!child)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                  ? 77
                  : wrong_locations());
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void long_name(void **state)
{
    (void)state;
    char tensor[5600], name[5001];
    Model *m;
    memset(name, 'a', 5000);
    name[5000] = 0;
    snprintf(tensor, sizeof tensor, EXTERNAL("13{1:'location' 2:'%s'}"), name);
    Text bytes = model_bytes(tensor);
    assert_int_equal(model_load_bytes(&m, bytes.s, bytes.len, "model", NULL), TG_BAD_MODEL);
    assert_non_null(strstr(tg_error(), "too long"));
    text_free(&bytes);
}

static void values(void **state)
{
    (void)state;
    Model *m;
    Text bytes = model_bytes("1:3 2:1 14:1 13{1:'location' 2:'w.bin'} 13{1:'offset' 2:'4'}");
    char hash[33];
    assert_int_equal(model_load_bytes(&m, bytes.s, bytes.len, "model", NULL), TG_OK);
    assert_memory_equal(m->graph.init[0].data, weights + 1, 12);
    memcpy(hash, m->hash, sizeof hash);
    model_free(m);
    write_file("model/w.bin", (const float[]){ 1, 2, 3, 5 }, 16);       /* other weights: another digest */
    assert_int_equal(model_load_bytes(&m, bytes.s, bytes.len, "model", NULL), TG_OK);
    assert_string_not_equal(m->hash, hash);
    model_free(m);
    write_file("model/w.bin", weights, sizeof weights);
    text_free(&bytes);
}

/* Every door: attributes, subgraphs and functions, too, may not leave the folder. */
static void doors(void **state)
{
    (void)state;
    static const char *const models[] = {
        "1:8 8{2:13} 7{1{2:'y' 4:'Constant' 5{1:'value' 20:4 5{%s}}} 12{1:'y' 2{1{1:1}}}}",
        "1:8 8{2:13} 7{1{2:'y' 4:'If' 5{1:'b' 20:5 6{5{8:'w' %s} 12{1:'w'}}}} 12{1:'y' 2{1{1:1}}}}",
        ("1:8 8{2:13} 25{1:'F' 10:'f' 5:'y' 9{2:13} 7{2:'y' 4:'Constant' 5{1:'value' 20:4 5{%s}}}} 7{1{2:'y' "
         "4:'Constant' 5{1:'value_int' 20:2 3:1}} 12{1:'y' 2{1{1:1}}}}"),
        "1:8 8{2:13} 7{1{2:'y' 4:'Abs'} 12{1:'y' 2{1{1:1}}} 15{1{8:'w' %s} 2{1:4 2:7 7[0 1 2 3]} 3:4}}",
    };
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        for (int evil = 0; evil < 2; evil++) {
            char text[1000];
            Model *m;
            snprintf(text, sizeof text, models[k], evil ? AT("../outside/secret.bin") : AT("w.bin"));
            Text bytes = pb_text(text);
            assert_int_equal(model_load_bytes(&m, bytes.s, bytes.len, "model", NULL), evil ? TG_BAD_MODEL : TG_OK);
            if (!evil) model_free(m);
            text_free(&bytes);
        }
}

/* A cache whose snapshot consists of links into a store: works when the user names the link, for files of that store
 * only. */
static void link_store(void **state)
{
    (void)state;
    static const struct {
        const char *tensor;
        bool good;
    } cases[] = { { AT("w.bin"), true },
                  { AT("beside.bin"), true },
                  { AT("evil.bin"), false },
                  { AT("none.bin"), false },
                  { AT("../store/blob2"), false } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Model *m;
        Text bytes = model_bytes(cases[k].tensor);
        write_file("store/blob1", bytes.s, bytes.len);
        assert_int_equal(model_load(&m, "snap/model.onnx", NULL), cases[k].good ? TG_OK : TG_BAD_MODEL);
        if (cases[k].good) model_free(m);
        text_free(&bytes);
    }
}

/* The user's own path: anything but a regular file is refused at once. */
static void paths(void **state)
{
    (void)state;
    static const struct {
        const char *path, *says;
    } cases[] = { { "none.onnx", "No such file" },        { "model", "is a folder" },
                  { "model/pipe", "not a regular file" }, { "/dev/zero", "not a regular file" },
                  { "model/empty.bin", "is empty" },      { "large", "2 GiB" } };
    int fd = open("large", O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0 && !ftruncate(fd, (off_t)3 << 30));
    close(fd);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Model *m;
        assert_int_equal(model_load(&m, cases[k].path, NULL), TG_BAD_MODEL);
        assert_non_null(strstr(tg_error(), cases[k].says));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(locations), cmocka_unit_test(locations_old_kernel),
                                        cmocka_unit_test(long_name), cmocka_unit_test(values),
                                        cmocka_unit_test(doors),     cmocka_unit_test(link_store),
                                        cmocka_unit_test(paths) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
