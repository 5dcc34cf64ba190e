// What a function that is called through Outboard finds, besides outboard.h of the eBPF engine.
//
// A function gets the address and the length of its arguments; what it returns goes to the caller beside its reply:
//
//     u64 touch(const u8 *arguments, u64 length)
//
// Regions are numbers: the first in the list that the function was registered with is 0. What a function has no right to,
// or what lies beyond a region's end, ends the call with an error that names the instruction. What was written until then
// stays written.

#ifndef OUTBOARD_CALLING_H
#define OUTBOARD_CALLING_H

#include "../../ebpf/include/outboard.h"

// Number 16. Copies bytes of a region; answers 0. Aligned words do not tear; between them there is no order.
extern u64 region_read(u64 region, u64 offset, void *into, u64 length);

// Number 17. Copies bytes into a region; answers 0. Whoever sees what was written later sees this.
extern u64 region_write(u64 region, u64 offset, const void *from, u64 length);

// Number 18. Replaces an aligned word if it is as expected; answers what it was.
extern u64 region_compare_swap(u64 region, u64 offset, u64 expected, u64 desired);

// Number 19. Adds to an aligned word; answers what it was.
extern u64 region_fetch_add(u64 region, u64 offset, u64 addend);

// Number 20. Appends to the reply; answers 0.
extern u64 reply(const void *bytes, u64 length);

// Number 21. The same as region_read, into a buffer that the function is given, and whose address is the answer. There
// are 11, the first is 0; what a buffer had before is gone.
extern const void *region_fetch(u64 region, u64 offset, u64 length, u64 buffer);

// Number 22. When this function returns, the call goes on as the function that its caller has registered with that number,
// with these arguments and what is left of the fuel; what this one has replied stays, and what it returns is not looked
// at. Answers 0. The latest counts.
extern u64 forward(u64 function, const void *arguments, u64 length);

// Number 23. The same at another memory server: the one with that number among those that the caller has opened, the first
// of which is 0, as the function that the caller has registered there with that number. It costs 1000 of the fuel. What is
// replied there stands behind what was replied here. The latest of both counts.
extern u64 forward_to(u64 server, u64 function, const void *arguments, u64 length);

#endif
