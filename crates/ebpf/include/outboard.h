// What a function in C finds: types, and the helpers of `outboard bpf run`.
//
// A function gets the address and the length of its context:
//
//     u64 sum(const u8 *context, u64 length)
//
// Global functions can be started, static ones only called. Helpers are declared and not defined; a site that has
// others than these declares them the same way.

#ifndef OUTBOARD_H
#define OUTBOARD_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

// Number 1. Shows a message of so many bytes, 1024 at most, and answers 0.
extern u64 outboard_log(const char *message, u64 length);

// Number 2. Nanoseconds since 1970, by the clock of the site.
extern u64 outboard_time(void);

// Number 3. Any number, none likelier than another. Not for secrets.
extern u64 outboard_random(void);

#endif
