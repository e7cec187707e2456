/* The k best of a row, for one type of element. Included by host/topks.h once for each, with VALUE the element and
 * LEAST the least, BITS the signed integer of that size and MOST its largest, FLOATS whether the elements are,
 * TURNED(x, turn) the element itself for turn PLAIN, for turn -1 what orders in reverse, TOPK(name) the names.
 */

/* Orders as the values do: zeros of both signs are one, NaN is above all. */
PROCESSOR static inline BITS TOPK(order)(VALUE x)
{
    BITS order;
    x += (VALUE)0;
    memcpy(&order, &x, sizeof order);
    if (FLOATS && order < 0) order ^= MOST;
    return FLOATS && isnan((double)x) ? MOST : order;
}

PROCESSOR static VALUE TOPK(value)(BITS order)
{
    VALUE x;
    if (FLOATS && order < 0) order ^= MOST;
    memcpy(&x, &order, sizeof x);
    return x;
}

PROCESSOR static Keyed TOPK(keyed)(VALUE x, int64_t index, bool largest)
{
    BITS order = TOPK(order)(x);
    return (Keyed){ (uint64_t)(largest ? ~order : order) ^ UINT64_C(1) << 63, index };
}

/* Which of a block may be better than the limit, a bit each. Every NaN may. */
PROCESSOR static inline uint32_t TOPK(better)(const VALUE *x, VALUE limit, bool largest)
{
    uint32_t found = 0;
    if (largest) {
#pragma omp simd reduction(| : found)
        for (int i = 0; i < BLOCK; i++) found |= x[i] <= limit ? 0 : UINT32_C(1) << i;
    } else {
#pragma omp simd reduction(| : found)
        for (int i = 0; i < BLOCK; i++) found |= x[i] >= limit ? 0 : UINT32_C(1) << i;
    }
    return found;
}

/* How many are at least that. */
PROCESSOR static int64_t TOPK(count_from)(const VALUE *x, int64_t n, VALUE least)
{
    BITS count = 0;
#pragma omp simd reduction(+ : count)
    for (int64_t i = 0; i < n; i++) count += x[i] >= least;
    return (int64_t)count;
}

/* Halfway, as numbers or in order: a few large ones are then as far from the others as any. */
PROCESSOR static VALUE TOPK(middle)(VALUE low, VALUE high, bool in_order)
{
    VALUE middle = low / 2 + high / 2;
    if (!in_order && low < middle && middle < high) return middle;
    BITS a = TOPK(order)(low), b = TOPK(order)(high);
    return TOPK(value)((a & b) + ((a ^ b) >> 1));
}

/* What the k best are all better than, and few others: a limit made of the best of groups, which lie side by side, of
 * which k or a few more are. NaN do not count. false: nothing is known. */
PROCESSOR static bool TOPK(first_limit)(VALUE *limit, const VALUE *x, int64_t n, int64_t k, bool largest)
{
    int64_t enough = 4 * k > GROUPS_LEAST ? 4 * k : GROUPS_LEAST, most = n / 4 < GROUPS ? n / 4 : GROUPS,
            groups = enough < most ? (enough + 15) & ~INT64_C(15) : most & ~INT64_C(3);
    VALUE group[GROUPS + 16], low = TURNED(LEAST, -1), high = LEAST, turn = largest ? PLAIN : -1;
    if (groups < 2 * k) return false;
    for (int64_t i = 0; i < groups; i++) group[i] = LEAST;
    for (int64_t from = 0; from + groups <= n; from += groups) {
#pragma omp simd
        for (int64_t i = 0; i < groups; i++) {
            VALUE v = TURNED(x[from + i], turn);
            group[i] = v > group[i] ? v : group[i];
        }
    }
#pragma omp simd reduction(min : low) reduction(max : high)
    for (int64_t i = 0; i < groups; i++)
        low = group[i] < low ? group[i] : low, high = group[i] > high ? group[i] : high;
    for (int64_t step = 0, count = groups; count > k + k / 4; step++) {
        VALUE middle = TOPK(middle)(low, high, step >= STEPS);
        if (middle == low) break;
        int64_t more = TOPK(count_from)(group, groups, middle);
        if (more < k) high = middle;
        else low = middle, count = more;
    }
    BITS order = TOPK(order)(low);
    if (order <= TOPK(order)(LEAST) + 1) return false;
    /* below a zero lies that of the other sign, which equals it */
    *limit = TOPK(value)(order - 2);
    *limit = TURNED(*limit, turn);
    return true;
}

/* The k best of a short row, without a branch on data: an element's place is how many come before it. */
PROCESSOR static const Keyed *TOPK(ranked)(const VALUE *x, int64_t n, int64_t k, bool largest, Keyed *item)
{
    BITS order[RANKED], number[RANKED], before[RANKED];
    uint8_t at[RANKED];
    int64_t room = (n + LANES - 1) / LANES * LANES;
    for (int64_t i = 0; i < room; i++) order[i] = i < n ? TOPK(order)(x[i]) : MOST, number[i] = (BITS)i, before[i] = 0;
    for (int64_t i = 0; i < n && largest; i++) order[i] = ~order[i];
    for (int64_t j = 0; j < n; j++) {
        BITS other = order[j], own = (BITS)j;
#pragma omp simd
        for (int64_t i = 0; i < room; i++) before[i] += (other < order[i]) | ((other == order[i]) & (own < number[i]));
    }
    for (int64_t i = 0; i < n; i++) at[before[i]] = (uint8_t)i;
    for (int64_t i = 0; i < k; i++) item[i].index = at[i];
    return item;
}

/* The few best of a row: each is put in its place among those before it. */
PROCESSOR static const Keyed *TOPK(few_best)(const VALUE *x, int64_t n, int64_t k, bool largest, Keyed *item)
{
    int64_t count = 0;
    for (int64_t i = 0, j; i < n; i++) {
        Keyed one = TOPK(keyed)(x[i], i, largest);
        if (count == k && one.key >= item[k - 1].key) continue;
        for (j = count < k ? count++ : k - 1; j > 0 && item[j - 1].key > one.key; j--) item[j] = item[j - 1];
        item[j] = one;
    }
    return item;
}

/* The k best of n, best first, k > 0. What may be among them gathers in item, and is sorted when there is no room for
 * more. Returns the list: one of the two. */
PROCESSOR static const Keyed *TOPK(best)(const VALUE *x, int64_t n, int64_t k, bool largest, Keyed *item, Keyed *spare)
{
    if (n > LANES && n <= RANKED) return TOPK(ranked)(x, n, k, largest, item);
    if (n <= LANES) return TOPK(few_best)(x, n, k, largest, item);
    int64_t count = 0, room = select_room(n, k);
    VALUE limit;
    bool limited = TOPK(first_limit)(&limit, x, n, k, largest);
    if (!limited && k <= FEW) return TOPK(few_best)(x, n, k, largest, item);
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t left = n - from;
        uint32_t wanted = left < BLOCK ? (UINT32_C(1) << left) - 1 : UINT32_MAX;
        if (limited && left >= BLOCK) wanted = TOPK(better)(x + from, limit, largest);
        for (; wanted; wanted &= wanted - 1) {
            int64_t i = from + __builtin_ctz(wanted);
            if (limited && (largest ? x[i] <= limit : x[i] >= limit)) continue;
            item[count++] = TOPK(keyed)(x[i], i, largest);
            if (count < room) continue;
            Keyed *sorted = keyed_sort(item, spare, count);
            spare = sorted == item ? spare : item;
            item = sorted;
            count = k;
            limit = x[item[k - 1].index];
            limited = true;
        }
    }
    return keyed_sort(item, spare, count);
}

/* The few best of several columns at once, a lane each: an element goes down the list as far as it is no better; from
 * there on all move by a place. */
PROCESSOR static void TOPK(in_lanes)(const Topk *s, const VALUE *x, VALUE *value, int64_t *index, int64_t columns)
{
    /* as vectors, which stay in registers: with arrays each element on its way down was stored and loaded again */
    typedef BITS Lanes __attribute__((vector_size(COLUMNS * sizeof(BITS))));
    Lanes best[LANES_BEST], number[LANES_BEST];
    BITS turn = s->largest ? 0 : -1, order[COLUMNS];
    VALUE row[COLUMNS] = { 0 };
    bool side = columns == COLUMNS && s->at[COLUMNS - 1] - s->at[0] == COLUMNS - 1;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t held = i < s->k ? i : s->k;
        if (side) memcpy(row, x + s->at[0] + i * s->inner, sizeof row);
        else
            for (int64_t c = 0; c < columns; c++) row[c] = x[s->at[c] + i * s->inner];
#pragma omp simd
        for (int c = 0; c < COLUMNS; c++) order[c] = TOPK(order)(row[c]) ^ turn;
        Lanes one, own = (Lanes){ 0 } + (BITS)i, moves = { 0 };
        memcpy(&one, order, sizeof one);
        if (held == s->k) {
            Lanes better = one > best[held - 1];
            BITS any = 0;
            memcpy(order, &better, sizeof order);
#pragma omp simd reduction(| : any)
            for (int c = 0; c < COLUMNS; c++) any |= order[c];
            if (!any) continue;
        }
        for (int64_t j = 0; j < held; j++) {
            Lanes all = moves | (one > best[j]), value = (best[j] ^ one) & all, place = (number[j] ^ own) & all;
            best[j] ^= value, one ^= value;
            number[j] ^= place, own ^= place;
            moves = all;
        }
        if (held < s->k) best[held] = one, number[held] = own;
    }
    for (int64_t c = 0; c < columns; c++)
        for (int64_t i = 0; i < s->k; i++) {
            int64_t to = s->to[c] + i * s->inner;
            if (value) value[to] = x[s->at[c] + number[i][c] * s->inner];
            if (index) index[to] = number[i][c];
        }
}

/* Columns side by side become rows, so that each line of memory is read once; room stays between them, since all
 * would share a set of the cache where n is a power of two. */
PROCESSOR static void TOPK(rows)(const Topk *s, const VALUE *x, VALUE *row, int64_t columns)
{
    for (int64_t from = 0, n; from < s->n; from += n) {
        n = s->n - from < COLUMNS ? s->n - from : COLUMNS;
        for (int64_t c = 0; c < columns; c++) {
            const VALUE *column = x + s->at[c] + from * s->inner;
            VALUE *to = row + c * row_room(s->n) + from;
            for (int64_t i = 0; i < n; i++) to[i] = column[i * s->inner];
        }
    }
}

/* So many columns, to value and index (NULL: not wanted). */
PROCESSOR static void TOPK(columns)(const Topk *s, const void *data, void *values, int64_t *index, int64_t columns)
{
    const VALUE *x = data;
    VALUE *value = values;
    bool lanes = s->k <= LANES_FEW ? s->n <= LANES_LONG : s->k <= LANES_BEST && s->n * s->k <= LANES_WORK;
    if (columns > 1 && lanes && (s->inner > 1 || s->n <= LANES_ROW)) {
        TOPK(in_lanes)(s, x, value, index, columns);
        return;
    }
    if (s->inner > 1) TOPK(rows)(s, x, s->rows, columns);
    for (int64_t c = 0; c < columns; c++) {
        const VALUE *row = s->inner > 1 ? (VALUE *)s->rows + c * row_room(s->n) : x + s->at[c];
        const Keyed *best = TOPK(best)(row, s->n, s->k, s->largest, s->item, s->spare);
        for (int64_t i = 0, to = s->to[c]; i < s->k; i++, to += s->inner) {
            if (value) value[to] = row[best[i].index];
            if (index) index[to] = best[i].index;
        }
    }
}

#undef VALUE
#undef LEAST
#undef BITS
#undef MOST
#undef FLOATS
#undef PLAIN
#undef TURNED
#undef TOPK
