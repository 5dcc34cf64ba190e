// Functions that use everything an object can have. `README.md` says how the objects beside it are made.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// Helpers: the first by its name, the second by its number.
extern u64 ask(u64 first, u64 second);
static u64 (*const tell)(u64) = (void *)9;

static const u8 weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
const u64 primes[5] = {2, 3, 5, 7, 11};
static const char *const names[3] = {"far", "near", "here"};
u64 counter = 40;
u64 totals[4];

// Not inlined, so that there are calls within a section and across sections.
#define CALLED __attribute__((noinline))

static CALLED u64 weigh(const u8 *bytes, u64 length) {
    u64 sum = 0;
    for (u64 index = 0; index < length; index++)
        sum += bytes[index] * weights[index & 7];
    return sum;
}

CALLED u64 prime(u64 number) {
    return primes[number % 5];
}

// Sums the context's bytes, each with a weight, and adds a prime.
u64 checksum(const u8 *context, u64 length) {
    return weigh(context, length) + prime(length);
}

// Variables begin anew in every run.
u64 count(const u64 *context) {
    counter += context[0];
    totals[context[0] & 3] += counter;
    return counter + totals[0] + totals[1] + totals[2] + totals[3];
}

// The first letter of a name, by way of addresses within data.
u64 letter(const u64 *context) {
    return names[context[0] % 3][0];
}

// Whatever has a sign, and is extended with it where the processor can.
i64 signs(const i32 *context) {
    i64 wide = context[0];
    signed char narrow = (signed char)context[1];
    return wide * 1000 + narrow + (short)context[1];
}

u64 swaps(const u64 *context) {
    return __builtin_bswap16((u16)context[0]) + __builtin_bswap32((u32)context[0]) +
           __builtin_bswap64(context[0]);
}

// In a section of its own: calls into another one, and helpers.
__attribute__((section("elsewhere"))) u64 outside(const u64 *context) {
    u64 answer = ask(context[0], 7);
    return weigh((const u8 *)context, 8) + answer + tell(answer) + prime(2);
}
