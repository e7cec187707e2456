/* Instructions behind a loop read a register of their own, but where a jump goes over the loop (x86/split.c). */
#include "backends/x86/mir.h"
#include "tests/test.h"

enum { ROOM = 32, TIMES = 10, OVER = 1, TOP, END };

static Mcode *new_code(void)
{
    Arena *a = arena_new();
    Mcode *m = NEW(a, Mcode);
    *m = (Mcode){ .arena = a, .cap = ROOM, .reg_cap = ROOM, .loop_cap = 2, .pool_cap = 64, .nreg = 1, .avx2 = true };
    m->ins = NEW_N(a, Ins, ROOM), m->reg = NEW_N(a, RegInfo, ROOM), m->loop = NEW_N(a, Loop, 2);
    m->pool = NEW_N(a, uint8_t, 64), m->labels = END;
    return m;
}

static Ins *put(Mcode *m, int op, Reg dst, Reg a, Reg b)
{
    Ins *i = mcode_put(m, op);
    i->dst = dst, i->a = a, i->b = b, i->width = 32;
    return i;
}

/* sum += x, ten times; the sum is stored. jumps: all but the store where a condition holds */
static void sum_of_loop(bool jumps)
{
    Mcode *m = new_code();
    Reg x = mcode_reg(m, CLASS_VECTOR, 32), sum = mcode_reg(m, CLASS_VECTOR, 32), i = mcode_reg(m, CLASS_GENERAL, 8);
    put(m, M_VLOAD, x, 0, 0)->at.kind = AT_POOL;
    put(m, M_VLOAD, sum, 0, 0)->at.kind = AT_POOL;
    put(m, M_CONST, i, 0, 0);
    if (jumps) put(m, M_JUMP_ZERO, 0, i, 0)->label = OVER;
    m->loop[m->nloop++].begin = m->count;
    put(m, M_LABEL, 0, 0, 0)->label = TOP;
    put(m, M_ADDPS, sum, sum, x);
    put(m, M_ADD, i, i, 0)->imm = 1;
    m->loop[0].end = m->count;
    *put(m, M_JUMP_IF, 0, i, 0) = (Ins){ .op = M_JUMP_IF, .a = i, .imm = TIMES, .cond = COND_LESS, .label = TOP };
    put(m, M_LABEL, 0, 0, 0)->label = END;
    if (jumps) put(m, M_LABEL, 0, 0, 0)->label = OVER;
    put(m, M_VSTORE, 0, sum, 0)->at.kind = AT_FRAME;
    uint32_t before = m->count;
    mcode_split(m);
    const Ins *store = &m->ins[m->count - 1];
    assert_int_equal(m->count, before + !jumps);
    assert_int_equal(store->op, M_VSTORE);
    assert_true((store->a == sum) == jumps);
    if (!jumps) {
        const Ins *move = store - 1;
        assert_int_equal(move->op, M_VMOVE);
        assert_true(move->b == sum && move->dst == store->a);
    }
    arena_free(m->arena);
}

static void splits(void **state) { (void)state, sum_of_loop(false); }
static void stays(void **state) { (void)state, sum_of_loop(true); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(splits), cmocka_unit_test(stays) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
