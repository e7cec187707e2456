/* Random bits as element-wise work: a counter and a key in, as many bits out, the same on every device. */
#include "graph/build.h"

U rotate_left(Graph *g, U x, uint32_t by) { return or_(g, shl(g, x, u32(g, by)), shr(g, x, u32(g, 32 - by))); }

/* Salmon, Moraes, Dror and Shaw, 2011: 20 rounds, five times four with a part of the key between. */
void threefry(Graph *g, U x[2], const U key[2])
{
    static const uint8_t rotation[2][4] = { { 13, 15, 26, 6 }, { 17, 29, 16, 24 } };
    U part[3] = { key[0], key[1], xor_(g, xor_(g, key[0], key[1]), u32(g, 0x1bd11bda)) };
    x[0] = add(g, x[0], part[0]), x[1] = add(g, x[1], part[1]);
    for (uint32_t k = 0; k < 5; k++) {
        for (int r = 0; r < 4; r++) {
            x[0] = add(g, x[0], x[1]);
            x[1] = xor_(g, rotate_left(g, x[1], rotation[k % 2][r]), x[0]);
        }
        x[0] = add(g, x[0], part[(k + 1) % 3]);
        x[1] = add(g, x[1], add(g, part[(k + 2) % 3], u32(g, k + 1)));
    }
}
