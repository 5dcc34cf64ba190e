// A loop that no compiler can shorten: each round needs the one before.

typedef unsigned long long u64;

u64 mix(const u64 *context) {
    u64 sum = context[1];
    for (u64 round = 0; round < context[0]; round++)
        sum = (sum ^ round) * 0x9e3779b97f4a7c15ull;
    return sum;
}
