// What only newer processors have: signed division, atomics with results. From `-mcpu=v4` on.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

i64 divide(const i64 *context) {
    return context[0] / context[1] * 1000 + context[0] % context[1];
}

i32 divide_narrow(const i32 *context) {
    return context[0] / context[1] * 1000 + context[0] % context[1];
}

u64 exchange(u64 *context) {
    u64 before = __sync_fetch_and_add(&context[0], 5);
    u64 swapped = __sync_val_compare_and_swap(&context[1], 7, 9);
    u32 narrow = __sync_fetch_and_xor((u32 *)&context[2], 0xff);
    u64 old = __sync_lock_test_and_set(&context[3], before);
    return before + swapped * 10 + narrow * 100 + old * 1000;
}
