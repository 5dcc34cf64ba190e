// A small function of which there are many: each copy of it has a number of its own in place of NUMBER, and so another
// code and another name.

#include "../../crates/calling/include/calling.h"

#define NUMBER 0x4d495845

#define LINE 8

// Adds up the line that the argument names, in a way that is this copy's own.
u64 mix(const u64 *arguments, u64 length) {
    u64 line[LINE];
    if (length < 8)
        return 0;
    region_read(0, (*arguments & 1023) * sizeof(line), line, sizeof(line));
    u64 sum = *arguments ^ NUMBER;
    for (u64 index = 0; index < LINE; index++) {
        sum = (sum ^ line[index]) * 0x9e3779b97f4a7c15ull;
        sum ^= sum >> 32;
    }
    reply(&sum, sizeof(sum));
    return sum;
}
