// Functions that call every helper of the header.

#include "../../include/outboard.h"

static const char greeting[] = "sum of the context";

u64 sum(const u8 *context, u64 length) {
    u64 total = 0;
    for (u64 index = 0; index < length; index++)
        total += context[index];
    outboard_log(greeting, sizeof(greeting) - 1);
    return total;
}

// Whether the clock runs forwards and two draws differ.
u64 site(void) {
    u64 before = outboard_time();
    u64 drawn = outboard_random();
    return before != 0 && outboard_time() >= before && outboard_random() != drawn;
}

// A message that the program does not have.
u64 wild(const u8 *context, u64 length) {
    return outboard_log((const char *)context, length + 1);
}
