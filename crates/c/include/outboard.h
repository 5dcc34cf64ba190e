/* Outboard for C and C++: memory of other machines, messages, functions beside the data, remote writes.
 *
 * Made by `cargo xtask header`; do not edit.
 *
 * What holds for all functions:
 *
 * - Each returns a status, OUTBOARD_OK where it has done what it says. outboard_last_error() has the reason of any other as a text.
 * - What a function gives is put where a pointer says; a handle is NULL there if it fails.
 * - A pointer is to as much as the header says, for as long as the call takes. NULL, texts that are no UTF-8 and numbers out of their
 *   range are refused. Texts end with a zero.
 * - A handle that was closed, or is of another kind, is refused with OUTBOARD_CLOSED; it is never followed.
 * - Options begin with their size and are all zero otherwise unless set: memset() or = {0}, then size = sizeof. NULL for defaults.
 * - Every call ends within a deadline. No exception and no panic leaves a function.
 * - Handles may be used by any thread. Where it says "one at a time", a call while another is under way with the same handle ends at
 *   once with OUTBOARD_BUSY, and has done nothing.
 * - After fork() the child opens everything anew; handles of its parent are refused there with OUTBOARD_CLOSED.
 */

#ifndef OUTBOARD_H
#define OUTBOARD_H

#include <stddef.h>
#include <stdint.h>

// In place of milliseconds: however long it takes.
#define OUTBOARD_FOREVER UINT64_MAX

// As the settings say.
#define OUTBOARD_ON_LOSS_DEFAULT 0

// An access that cannot be served raises SIGBUS.
#define OUTBOARD_ON_LOSS_SIGNAL 1

// An access that cannot be served ends the process with a line on standard error.
#define OUTBOARD_ON_LOSS_EXIT 2

// As the settings say.
#define OUTBOARD_FAULTS_DEFAULT 0

// Threads of the library answer page faults.
#define OUTBOARD_FAULTS_THREADS 1

// The thread that touches absent memory answers the fault itself, in a handler of SIGBUS. System calls that are given absent
// memory fail with EFAULT then.
#define OUTBOARD_FAULTS_SIGNAL 2

// Bytes go by whichever way is measured to be faster.
#define OUTBOARD_PATH_AUTO 0

// Bytes go between this process and the memory server.
#define OUTBOARD_PATH_DIRECT 1

// Bytes go by the agent while it is there.
#define OUTBOARD_PATH_AGENT 2

// The agent keeps what pays.
#define OUTBOARD_CACHE_AUTO 0

// The agent keeps nothing.
#define OUTBOARD_CACHE_OFF 1

// The agent keeps the whole region.
#define OUTBOARD_CACHE_STATIC 2

// The agent keeps what was fetched lately, and what is expected next.
#define OUTBOARD_CACHE_DYNAMIC 3

// The memory server sets room aside for all of it from the start.
#define OUTBOARD_MAPPING_GUARANTEED 1

// It may be written; for outboard_mapping_open() and outboard_mapping_open_file().
#define OUTBOARD_MAPPING_WRITABLE 2

// Bytes are used as it turns out.
#define OUTBOARD_ADVICE_NORMAL 0

// Bytes are used from one end to the other: more is read ahead.
#define OUTBOARD_ADVICE_SEQUENTIAL 1

// Bytes are used without order: nothing is read ahead, and pages come one by one.
#define OUTBOARD_ADVICE_RANDOM 2

// Bytes are used without order, but what is in a chunk together.
#define OUTBOARD_ADVICE_WHOLE 3

// Bytes are used soon: they are fetched in the background.
#define OUTBOARD_ADVICE_WILL_NEED 4

// Bytes are used no longer: their place in the buffer is the next to be taken. What was written is not lost.
#define OUTBOARD_ADVICE_DONT_NEED 5

// Pages may not be touched. Their bytes are kept.
#define OUTBOARD_PROTECT_NONE 0

// Pages may be read.
#define OUTBOARD_PROTECT_READ 1

// Pages may be read and written.
#define OUTBOARD_PROTECT_READ_WRITE 2

// Pages may be read and run as code.
#define OUTBOARD_PROTECT_READ_EXECUTE 3

// Pages may be read, written and run as code.
#define OUTBOARD_PROTECT_READ_WRITE_EXECUTE 4

// Bytes may be read.
#define OUTBOARD_READ 1

// Bytes may be written, and words changed by outboard_region_fetch_add() and outboard_region_compare_swap().
#define OUTBOARD_WRITE 2

// Functions that this process calls may use the region.
#define OUTBOARD_CALL 4

// Many processes have the region together, and all may write it. Needs a name.
#define OUTBOARD_REGION_SHARED 1

// The memory server counts and keeps only what is written through far memory.
#define OUTBOARD_REGION_SPARSE 2

// As the settings say.
#define OUTBOARD_CARRIER_DEFAULT 0

// The agent or the rank's own thread moves bundles, whichever is faster.
#define OUTBOARD_CARRIER_AUTO 1

// The rank's own thread moves bundles, when it calls.
#define OUTBOARD_CARRIER_INLINE 2

// The agent moves bundles.
#define OUTBOARD_CARRIER_AGENT 3

// Calls run where the memory server's table says.
#define OUTBOARD_SITE_STEERED 0

// Calls run in this process.
#define OUTBOARD_SITE_APPLICATION 1

// Calls run at the agent.
#define OUTBOARD_SITE_AGENT 2

// Calls run at the memory server.
#define OUTBOARD_SITE_SERVER 3

// The memory server may move calls into this process as well: they run in the thread that calls.
#define OUTBOARD_CALLER_HERE 1

// Each write is decided by itself.
#define OUTBOARD_WRITE_AUTO 0

// Straight into the memory server's memory.
#define OUTBOARD_WRITE_OFFLOAD 1

// Into a ring at the memory server, from which a processor there copies it home.
#define OUTBOARD_WRITE_UNLOAD 2

// Nothing is known of the page.
#define OUTBOARD_HINT_NONE 0

// The page is written again and again.
#define OUTBOARD_HINT_HOT 1

// The page is hardly ever written.
#define OUTBOARD_HINT_COLD 2

// The write is one of many that go through memory in order.
#define OUTBOARD_HINT_STREAMING 3

// Unloaded writes go through the agent, if there is one.
#define OUTBOARD_WRITER_BY_AGENT 1

// outboard_writer_wait() tells the end of the write also if it is a good one.
#define OUTBOARD_WRITE_SIGNAL 1

// Calls functions on the regions of a memory server.
typedef struct outboard_caller outboard_caller;

// One process's far memory: memory servers' regions behind plain pointers, with one buffer for all of them.
typedef struct outboard_far outboard_far;

// This process's place in a job: its number, and how many there are.
typedef struct outboard_job outboard_job;

// A region of far memory at an address of this process.
typedef struct outboard_mapping outboard_mapping;

// A connection to a memory server, for its regions.
typedef struct outboard_memory outboard_memory;

// Messages between the ranks of a job.
typedef struct outboard_messenger outboard_messenger;

// A region that this process has opened.
typedef struct outboard_region outboard_region;

// A memory server and perhaps an agent. It holds no connection: each service that it opens makes its own.
typedef struct outboard_t outboard_t;

// Writes to regions of a memory server, each by the path that is expected to be faster.
typedef struct outboard_writer outboard_writer;

// How a call has ended: OUTBOARD_OK, or one of the other numbers, of which outboard_last_error() has the reason as a text.
// More can be added: take a number that you do not know as an error.
typedef int32_t outboard_status;

// Which daemons, and how long calls wait. All zero: as the configuration file and the environment say.
typedef struct outboard_options {
    // sizeof(outboard_options)
    size_t size;
    // The memory server: "unix:@name", "unix:/path" or "tcp:host:port". NULL: the one of the settings, which is that of this
    // user's `outboard up` where they name none.
    const char *memory;
    // The agent, in the same form, or "none". NULL: the one of the settings, if there is one.
    const char *agent;
    // The name by which daemons and their operators know this process. NULL: "application".
    const char *name;
    // How long each call may take in milliseconds. 0: link.deadline of the settings, 5 s.
    uint64_t deadline_ms;
} outboard_options;

// A job that a program describes itself, instead of `outboard run`, mpirun, srun or torchrun.
typedef struct outboard_job_options {
    // sizeof(outboard_job_options)
    size_t size;
    // Which rank this process is, from 0 on.
    uint32_t rank;
    // How many ranks there are.
    uint32_t ranks;
    // A number that no other job of these machines has at the time.
    uint64_t id;
    // What the ranks know each other by: 16 to 64 bytes that others cannot guess.
    const char *secret;
    // Where the ranks meet, at rank 0: "tcp:host:port" if there are several machines. NULL: on this machine.
    const char *rendezvous;
    // Where other ranks reach this one: "tcp:host:0" if there are several machines. NULL: on this machine.
    const char *listen;
    // The daemons, which have to be there. NULL: none.
    struct outboard_t *outboard;
    // How long ranks wait for each other at the start. 0: 30 s.
    uint64_t join_deadline_ms;
} outboard_job_options;

// How far memory works. All zero: as the settings say.
typedef struct outboard_far_options {
    // sizeof(outboard_far_options)
    size_t size;
    // How much may be here at once: "256MiB", a fraction of footprint as "1/3", or "auto", which follows the memory that is left.
    const char *buffer;
    // Up to how many bytes outboard_far_set_buffer() may go. 0: what it is at first.
    uint64_t buffer_max;
    // How many bytes of far memory will be used; needed if the buffer is a fraction.
    uint64_t footprint;
    // The largest chunk that mappings will have, the unit in which memory moves: a power of two up to 2 MiB. 0: 64 KiB.
    uint64_t chunk;
    // How long a memory server that is lost may stay away. 0: 10 s.
    uint64_t grace_ms;
    // The end of an access that cannot be served: OUTBOARD_ON_LOSS_...
    uint32_t on_loss;
    // Which thread answers page faults: OUTBOARD_FAULTS_...
    uint32_t faults;
    // Addresses of memory servers over which mappings are striped. NULL: the one of the outboard_t.
    const char *const *servers;
    // How many servers there are.
    size_t servers_count;
} outboard_far_options;

// What far memory has done so far.
typedef struct outboard_far_stats {
    // sizeof(outboard_far_stats), set before the call
    size_t size;
    // Faults that waited for bytes from afar.
    uint64_t faults_fetched;
    // Faults on chunks that were on their way already.
    uint64_t faults_joined;
    // Faults on chunks that had been set aside and were still here.
    uint64_t faults_rescued;
    // Chunks fetched before they were needed.
    uint64_t chunks_ahead;
    // Chunks that were never written, and came as zeros without being fetched.
    uint64_t chunks_blank;
    // Chunks that gave their place to others.
    uint64_t evictions;
    // Chunks written back.
    uint64_t saves;
    // Bytes that the buffer may have now.
    uint64_t buffer;
    // Bytes of the buffer in use.
    uint64_t buffer_used;
} outboard_far_stats;

// How a mapping is made. All zero: the defaults.
typedef struct outboard_mapping_options {
    // sizeof(outboard_mapping_options)
    size_t size;
    // A name under which a reserved region outlives this process and others can open it. NULL: it ends with the mapping.
    const char *name;
    // The unit in which it moves: a power of two from a page to 2 MiB. 0: 64 KiB.
    uint64_t chunk;
    // OUTBOARD_PATH_...
    uint32_t path;
    // OUTBOARD_CACHE_...
    uint32_t cache;
    // OUTBOARD_MAPPING_..., added up.
    uint32_t flags;
    // Zero.
    uint32_t reserved;
    // How long the server may take to load a file. 0: a minute.
    uint64_t load_deadline_ms;
} outboard_mapping_options;

// Some bytes of a mapping.
typedef struct outboard_span {
    // Where they begin in it.
    size_t start;
    // How many there are.
    size_t length;
} outboard_span;

// How a region is reserved. All zero: the defaults.
typedef struct outboard_region_options {
    // sizeof(outboard_region_options)
    size_t size;
    // A name under which the region outlives this process and others can open it. NULL: it ends with this process.
    const char *name;
    // The unit in which far memory would move it: a power of two from 4 KiB to 2 MiB. 0: 64 KiB.
    uint64_t chunk;
    // OUTBOARD_REGION_..., added up.
    uint32_t flags;
    // Zero.
    uint32_t reserved;
} outboard_region_options;

// A region as outboard_memory_list() tells of it.
typedef struct outboard_region_entry {
    // Its number at the memory server.
    uint64_t id;
    // Its name, or NULL. It stays as long as the handler runs.
    const char *name;
    // Its size in bytes.
    uint64_t bytes;
    // The number of the process that reserved it, or 0 if that has gone.
    uint32_t owner;
} outboard_region_entry;

// Is told of a region. It must not throw, nor leave by longjmp().
typedef void (*outboard_region_handler)(void *context, const struct outboard_region_entry *entry);

// How messages are bundled. All ranks give the same, but for the carrier. All zero: as the settings say.
typedef struct outboard_messenger_options {
    // sizeof(outboard_messenger_options)
    size_t size;
    // How many independent spaces of messages there are, counted from 0. 0: one.
    uint32_t spaces;
    // OUTBOARD_CARRIER_...
    uint32_t carrier;
    // How many bytes a bundle has. 0: 32 KiB.
    uint64_t bundle;
    // How many bytes a message may have. 0: 64 MiB.
    uint64_t longest;
    // How long ranks wait for each other. 0: 10 minutes.
    uint64_t deadline_ms;
} outboard_messenger_options;

// Handles a message, whose bytes stay as long as it runs. It may send by the messenger that it is given, also where there is no
// room, and call nothing else with it. It must not throw, nor leave by longjmp().
typedef void (*outboard_message_handler)(void *context,
                                         struct outboard_messenger *messenger,
                                         uint32_t from,
                                         const void *bytes,
                                         size_t length);

// How a caller works. All zero: the defaults.
typedef struct outboard_caller_options {
    // sizeof(outboard_caller_options)
    size_t size;
    // How many calls may be under way, at most 4096. 0: 256.
    uint64_t under_way_max;
    // Where calls run: OUTBOARD_SITE_...
    uint32_t site;
    // 0 or OUTBOARD_CALLER_HERE.
    uint32_t flags;
} outboard_caller_options;

// The number of a function that a caller has registered.
typedef uint32_t outboard_function;

// How one call is made. All zero: the defaults.
typedef struct outboard_call_options {
    // sizeof(outboard_call_options)
    size_t size;
    // Calls of one key go to the same site, those of other keys perhaps to others. NULL: no key.
    const void *key;
    // How many bytes the key has.
    size_t key_length;
    // How long it may take. 0: the deadline of the outboard_t, and of outboard_caller_begin() however long it takes.
    uint64_t deadline_ms;
} outboard_call_options;

// What a call has given.
typedef struct outboard_reply {
    // sizeof(outboard_reply), set before the call
    size_t size;
    // Where the bytes of the reply go, set before the call; may be NULL with room 0.
    void *bytes;
    // How much room there is, set before the call.
    size_t room;
    // How many bytes the whole reply has.
    size_t length;
    // What the function has returned.
    uint64_t value;
    // Which call it was.
    uint64_t id;
    // How it has ended: OUTBOARD_OK, or as a call fails, of which outboard_last_error() has the text.
    outboard_status status;
    // 1 if the function may have run, in part or as a whole; 0 if it has not.
    uint32_t may_have_run;
} outboard_reply;

// A region that a function may use.
typedef struct outboard_function_region {
    // The region. It was opened with these rights and OUTBOARD_CALL.
    struct outboard_region *region;
    // OUTBOARD_READ, OUTBOARD_WRITE and OUTBOARD_CALL, added up.
    uint32_t rights;
    // Zero.
    uint32_t reserved;
} outboard_function_region;

// A function: its code, as text or as an object file, and what it may use.
typedef struct outboard_function_options {
    // sizeof(outboard_function_options)
    size_t size;
    // In the text form of the eBPF engine, or NULL.
    const char *text;
    // The bytes of an object file that clang has made of C with -target bpf, or NULL.
    const void *object;
    // How many bytes it has.
    size_t object_length;
    // The name of the function in it. NULL: "main".
    const char *entry;
    // How many instructions each call may take. 0: 100000.
    uint64_t fuel;
    // The longest reply in bytes, at most 16 KiB. 0: 4 KiB.
    uint32_t reply_max;
    // Zero.
    uint32_t reserved;
    // The regions that it may use, which it knows by their places in this list.
    const struct outboard_function_region *regions;
    // How many there are.
    size_t regions_count;
} outboard_function_options;

// How a writer works. All zero: the defaults.
typedef struct outboard_writer_options {
    // sizeof(outboard_writer_options)
    size_t size;
    // The path of all writes: OUTBOARD_WRITE_AUTO, OUTBOARD_WRITE_OFFLOAD or OUTBOARD_WRITE_UNLOAD.
    uint32_t path;
    // 0 or OUTBOARD_WRITER_BY_AGENT.
    uint32_t flags;
    // Bytes that may be unloaded and not settled; half of it bounds the longest write. 0: 256 KiB.
    uint64_t ring_bytes;
    // Writes that may be under way by each path. 0: 512.
    uint64_t under_way_max;
} outboard_writer_options;

// The number of a region that a writer has open.
typedef uint32_t outboard_target;

// How one write is done. All zero: the defaults.
typedef struct outboard_write_options {
    // sizeof(outboard_write_options)
    size_t size;
    // What is known of its page: OUTBOARD_HINT_...
    uint32_t hint;
    // Its path: OUTBOARD_WRITE_AUTO, OUTBOARD_WRITE_OFFLOAD or OUTBOARD_WRITE_UNLOAD.
    uint32_t path;
    // 0 or OUTBOARD_WRITE_SIGNAL.
    uint32_t flags;
    // Zero.
    uint32_t reserved;
} outboard_write_options;

// A part of a write of several parts.
typedef struct outboard_write_part {
    // Where it begins in the region.
    uint64_t offset;
    // Its bytes.
    const void *bytes;
    // How many there are.
    size_t length;
} outboard_write_part;

// A write that has ended.
typedef struct outboard_write_end {
    // sizeof(outboard_write_end), set before the call
    size_t size;
    // Which write it was.
    uint64_t id;
    // OUTBOARD_OK if it is visible, or why not, of which outboard_last_error() has the text.
    outboard_status status;
    // By which path it went: OUTBOARD_WRITE_OFFLOAD or OUTBOARD_WRITE_UNLOAD.
    uint32_t path;
} outboard_write_end;

// It is done.
#define OUTBOARD_OK 0

// Nothing has ended within the deadline. No error.
#define OUTBOARD_NOTHING 1

// All bundles are under way: handle what has come, then try again. Ordinary back-pressure.
#define OUTBOARD_FULL 2

// An argument cannot be: NULL, no UTF-8, an option out of its range, a structure of the wrong size.
#define OUTBOARD_INVALID 3

// The handle was closed, or never was one of this kind.
#define OUTBOARD_CLOSED 4

// Another thread is in a call with this handle, or this thread is in a handler of it. Nothing was done.
#define OUTBOARD_BUSY 5

// A daemon or another rank cannot be reached.
#define OUTBOARD_UNREACHABLE 6

// A daemon was reached and said no.
#define OUTBOARD_REFUSED 7

// There is no region, file, rank, space, function or target of this name or number.
#define OUTBOARD_NOT_THERE 8

// The region was opened without this right, or bytes are protected.
#define OUTBOARD_NO_RIGHT 9

// The bytes are not inside the region, or a word is not aligned to 8 bytes.
#define OUTBOARD_OUT_OF_BOUNDS 10

// Not that much memory, or not that much of another bounded thing.
#define OUTBOARD_NO_ROOM 11

// The call has waited for as long as its deadline says. What it began may still happen.
#define OUTBOARD_DEADLINE 12

// A daemon or a rank is gone.
#define OUTBOARD_LOST 13

// Meanwhile another process has become the writer of the region.
#define OUTBOARD_STALE 14

// This machine cannot, or may not.
#define OUTBOARD_UNSUPPORTED 15

// A function did something that it must not, and was ended.
#define OUTBOARD_TRAPPED 16

// It is done, and what it gave is longer than the room for it, which has the first part.
#define OUTBOARD_TOO_SHORT 17

// A peer said something that makes no sense.
#define OUTBOARD_NONSENSE 18

// A mistake of the library. Please report the text.
#define OUTBOARD_INTERNAL 19

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Why the latest call of this thread that did not end with OUTBOARD_OK did so: a sentence or two in UTF-8, which name the peer and
// say what to do. Empty if none has. It stays until the next such call of this thread.
//
// Threads: each has its own.
const char *outboard_last_error(void);

// A few words that say what a status means, for any number. They stay for ever.
//
// Threads: any.
const char *outboard_status_text(outboard_status status);

// The version of the library that is running, as "0.1.0".
//
// Threads: any.
const char *outboard_version(void);

// Finds the memory server and the agent that this process works with. Whether they run is seen when a service is connected.
//
// options: NULL for all defaults.
// outboard: is given the handle; outboard_close() ends it.
//
// Threads: any, at the same time.
outboard_status outboard_find(const struct outboard_options *options,
                              struct outboard_t **outboard);

// Says which memory server and which agent were chosen, a line each, for people.
//
// text, room: where to put the text, which is cut to fit and ends with a zero. OUTBOARD_TOO_SHORT if it was cut.
// length: is given the length of the whole text without the zero; may be NULL. With room 0 only that is told.
//
// Threads: any, at the same time.
outboard_status outboard_explain(struct outboard_t *outboard,
                                 char *text,
                                 size_t room,
                                 size_t *length);

// Ends a handle. What was opened by it stays.
//
// Threads: any, but not while another is in a call with this handle.
outboard_status outboard_close(struct outboard_t *outboard);

// Takes this process's place, and waits for the other ranks.
//
// options: NULL: as the environment says that `outboard run` and other launchers have set. A process that none of them has started
// is the only rank of a job of its own.
// job: is given the handle; outboard_job_close() ends it.
//
// Threads: any.
outboard_status outboard_job_join(const struct outboard_job_options *options,
                                  struct outboard_job **job);

// This process's number in the job, and how many ranks there are.
//
// rank, ranks: are given the numbers; either may be NULL.
//
// Threads: any, one at a time.
outboard_status outboard_job_rank(struct outboard_job *job, uint32_t *rank, uint32_t *ranks);

// The daemons of the job, which open the services that need no ranks.
//
// outboard: is given a handle of its own; outboard_close() ends it.
//
// Threads: any, one at a time.
outboard_status outboard_job_daemons(struct outboard_job *job, struct outboard_t **outboard);

// Leaves the job. Close its messenger before.
//
// Threads: any, but not while another is in a call with this handle.
outboard_status outboard_job_close(struct outboard_job *job);

// Connects to the memory server, and to the agent if there is one, and starts the threads that answer page faults.
//
// options: NULL for the settings.
// far: is given the handle; outboard_far_close() ends it.
//
// Threads: any.
outboard_status outboard_far_connect(struct outboard_t *outboard,
                                     const struct outboard_far_options *options,
                                     struct outboard_far **far);

// Lets so much of far memory be here at once from now on: more, up to outboard_far_options.buffer_max, or less.
//
// buffer: as in outboard_far_options.
//
// Threads: any, at the same time.
outboard_status outboard_far_set_buffer(struct outboard_far *far,
                                        const char *buffer);

// Counts what far memory has done so far.
//
// stats: is filled as far as its size says, which is set before.
//
// Threads: any, at the same time.
outboard_status outboard_far_get_stats(struct outboard_far *far, struct outboard_far_stats *stats);

// Says what was chosen and why, in lines for people.
//
// text, room, length: as in outboard_explain().
//
// Threads: any, at the same time.
outboard_status outboard_far_explain(struct outboard_far *far,
                                     char *text,
                                     size_t room,
                                     size_t *length);

// Ends a handle. Far memory itself ends, with its threads, when its last mapping is closed.
//
// Threads: any, but not while another is in a call with this handle.
outboard_status outboard_far_close(struct outboard_far *far);

// Reserves bytes of far memory, all zero, at an address of this process. What was never written takes memory nowhere.
//
// bytes: how many.
// options: NULL for the defaults.
// mapping: is given the handle; outboard_mapping_close() ends it.
//
// Threads: any, at the same time.
outboard_status outboard_mapping_reserve(struct outboard_far *far,
                                         uint64_t bytes,
                                         const struct outboard_mapping_options *options,
                                         struct outboard_mapping **mapping);

// Opens a region that has a name: to read it together with other readers, or with OUTBOARD_MAPPING_WRITABLE as its only writer.
//
// name: the region's.
// options: NULL for the defaults. Its name is not looked at.
// mapping: is given the handle; outboard_mapping_close() ends it.
//
// Threads: any, at the same time.
outboard_status outboard_mapping_open(struct outboard_far *far,
                                      const char *name,
                                      const struct outboard_mapping_options *options,
                                      struct outboard_mapping **mapping);

// Opens a file below the memory server's data directory, which loads it unless it has already: to read it together with other
// readers, or with OUTBOARD_MAPPING_WRITABLE as its only writer. outboard_mapping_sync() brings what was written to the file.
//
// path: the file's, below that directory.
// options: NULL for the defaults. Its name is not looked at.
// mapping: is given the handle; outboard_mapping_close() ends it.
//
// Threads: any, at the same time.
outboard_status outboard_mapping_open_file(struct outboard_far *far,
                                           const char *path,
                                           const struct outboard_mapping_options *options,
                                           struct outboard_mapping **mapping);

// Where a mapping begins, and how long it is. Touching it may wait for the memory server; if that is lost for good it raises SIGBUS,
// or the process ends. A store to a mapping that may only be read raises SIGSEGV.
//
// address, bytes: are given the two; either may be NULL.
//
// Threads: any, at the same time.
outboard_status outboard_mapping_address(struct outboard_mapping *mapping,
                                         void **address,
                                         size_t *bytes);

// Waits until the memory server has all that was written to a mapping before the call.
//
// Threads: any, at the same time.
outboard_status outboard_mapping_flush(struct outboard_mapping *mapping);

// Flushes, and has the memory server write a mapping to the file that it was opened from.
//
// deadline_ms: how long the server may take.
// bytes: is given how many bytes the file has; may be NULL.
//
// Threads: any, at the same time.
outboard_status outboard_mapping_sync(struct outboard_mapping *mapping,
                                      uint64_t deadline_ms,
                                      uint64_t *bytes);

// Flushes a mapping and makes it read-only from now on, which makes faults cheaper. It lies at another address afterwards. After a
// failure it can only be closed.
//
// address: is given the new address; may be NULL.
//
// Threads: any; it waits for other calls with this mapping. No thread may touch it meanwhile.
outboard_status outboard_mapping_freeze(struct outboard_mapping *mapping,
                                        void **address);

// Says what was chosen for a mapping and why, in lines for people.
//
// text, room, length: as in outboard_explain().
//
// Threads: any, at the same time.
outboard_status outboard_mapping_explain(struct outboard_mapping *mapping,
                                         char *text,
                                         size_t room,
                                         size_t *length);

// Gives a mapping's region back to the memory server with all that is in it, whether it has a name or not, and ends the handle.
//
// Threads: any, but not while another is in a call with this handle. No thread may touch the mapping any more.
outboard_status outboard_mapping_free(struct outboard_mapping *mapping);

// Ends a mapping. What it holds is given up if it has no name, and written back if it has; flush it before, to know that it was.
//
// Threads: any, but not while another is in a call with this handle. No thread may touch the mapping any more.
outboard_status outboard_mapping_close(struct outboard_mapping *mapping);

// Says how bytes will be used, from now on or until it is said otherwise.
//
// start, length: which bytes.
// advice: OUTBOARD_ADVICE_...
//
// Threads: any, at the same time.
outboard_status outboard_mapping_advise(struct outboard_mapping *mapping,
                                        size_t start,
                                        size_t length,
                                        uint32_t advice);

// Says that the bytes of these spans will be touched next, in any order. They are fetched in the background, as far as there is
// room. It returns at once.
//
// spans, count: which bytes.
//
// Threads: any, at the same time.
outboard_status outboard_mapping_prefetch(struct outboard_mapping *mapping,
                                          const struct outboard_span *spans,
                                          size_t count);

// Brings bytes here before they are needed, as far as the buffer has room for them, and waits for them.
//
// start, length: which bytes.
//
// Threads: any, at the same time.
outboard_status outboard_mapping_prefault(struct outboard_mapping *mapping,
                                          size_t start,
                                          size_t length);

// Brings bytes here and keeps them here until outboard_mapping_unpin(), so that system calls and devices can be given them. Half of
// the buffer may be pinned at most.
//
// start, length: which bytes.
//
// Threads: any; it waits for other calls with this mapping.
outboard_status outboard_mapping_pin(struct outboard_mapping *mapping,
                                     size_t start,
                                     size_t length);

// Ends all pins of a mapping.
//
// Threads: any; it waits for other calls with this mapping.
outboard_status outboard_mapping_unpin(struct outboard_mapping *mapping);

// Makes bytes zero that are needed no longer. What of them are whole chunks takes no memory afterwards, here or at the memory
// server. No other thread may touch them meanwhile.
//
// start, length: which bytes.
//
// Threads: any; it waits for other calls with this mapping.
outboard_status outboard_mapping_discard(struct outboard_mapping *mapping,
                                         size_t start,
                                         size_t length);

// Changes what may be done to the pages that these bytes are in, as mprotect() does.
//
// start, length: which bytes; start is the first of a page.
// protection: OUTBOARD_PROTECT_...
//
// Threads: any, at the same time.
outboard_status outboard_mapping_protect(struct outboard_mapping *mapping,
                                         size_t start,
                                         size_t length,
                                         uint32_t protection);

// Copies bytes out of a mapping, with a status where touching them would raise a signal.
//
// start: where they begin in the mapping.
// into, length: where they go, and how many there are.
// deadline_ms: how long it may take in all to fetch what is not here. With 0 only what is here can be read.
//
// Threads: any, at the same time.
outboard_status outboard_mapping_read(struct outboard_mapping *mapping,
                                      size_t start,
                                      void *into,
                                      size_t length,
                                      uint64_t deadline_ms);

// Copies bytes into a mapping, with a status where touching it would raise a signal.
//
// start: where they begin in the mapping.
// from, length: the bytes.
// deadline_ms: as in outboard_mapping_read().
//
// Threads: any, at the same time.
outboard_status outboard_mapping_write(struct outboard_mapping *mapping,
                                       size_t start,
                                       const void *from,
                                       size_t length,
                                       uint64_t deadline_ms);

// Connects to the memory server, to reserve, open, read, write and update its regions.
//
// memory: is given the handle; outboard_memory_close() ends it.
//
// Threads: any.
outboard_status outboard_memory_connect(struct outboard_t *outboard,
                                        struct outboard_memory **memory);

// Reserves bytes at the memory server, all zero.
//
// bytes: how many.
// options: NULL for the defaults.
// region: is given the handle; outboard_region_close() or outboard_region_free() ends it.
//
// Threads: any, one at a time with this memory and its regions.
outboard_status outboard_memory_reserve(struct outboard_memory *memory,
                                        uint64_t bytes,
                                        const struct outboard_region_options *options,
                                        struct outboard_region **region);

// Opens a region that has a name: as its only writer if the rights include OUTBOARD_WRITE, else as one of its readers. With
// OUTBOARD_REGION_SHARED together with all others who open it so.
//
// name: the region's.
// rights: OUTBOARD_READ, OUTBOARD_WRITE and OUTBOARD_CALL, added up.
// flags: 0 or OUTBOARD_REGION_SHARED.
// region: is given the handle; outboard_region_close() or outboard_region_free() ends it.
//
// Threads: any, one at a time with this memory and its regions.
outboard_status outboard_memory_open(struct outboard_memory *memory,
                                     const char *name,
                                     uint32_t rights,
                                     uint32_t flags,
                                     struct outboard_region **region);

// Opens a file below the memory server's data directory, which loads it unless it has already.
//
// path: the file's, below that directory.
// rights: as in outboard_memory_open().
// deadline_ms: how long loading may take.
// region: is given the handle; outboard_region_close() or outboard_region_free() ends it.
//
// Threads: any, one at a time with this memory and its regions.
outboard_status outboard_memory_load(struct outboard_memory *memory,
                                     const char *path,
                                     uint32_t rights,
                                     uint64_t deadline_ms,
                                     struct outboard_region **region);

// Tells of all regions of the memory server, one after the other.
//
// handler: is called for each, in this thread.
// context: is given to the handler.
//
// Threads: any, one at a time with this memory and its regions.
outboard_status outboard_memory_list(struct outboard_memory *memory,
                                     outboard_region_handler handler,
                                     void *context);

// Ends a connection. Its regions can only be closed then.
//
// Threads: any, but not while another is in a call with this handle or its regions.
outboard_status outboard_memory_close(struct outboard_memory *memory);

// A region's number at its memory server, and its size.
//
// id, bytes: are given the two; either may be NULL.
//
// Threads: any, at the same time.
outboard_status outboard_region_size(struct outboard_region *region, uint64_t *id, uint64_t *bytes);

// Reads bytes of a region.
//
// offset: where they begin in it.
// into, length: where they go, and how many there are.
//
// Threads: any, one at a time with its memory.
outboard_status outboard_region_read(struct outboard_region *region,
                                     uint64_t offset,
                                     void *into,
                                     size_t length);

// Writes bytes of a region; they are visible there when the call returns.
//
// offset: where they begin in it.
// from, length: the bytes.
//
// Threads: any, one at a time with its memory.
outboard_status outboard_region_write(struct outboard_region *region,
                                      uint64_t offset,
                                      const void *from,
                                      size_t length);

// Adds to a word of a region, as one step for all processes.
//
// offset: where the word is, a multiple of 8.
// addend: what is added; wraps around.
// before: is given what the word held before; may be NULL.
//
// Threads: any, one at a time with its memory.
outboard_status outboard_region_fetch_add(struct outboard_region *region,
                                          uint64_t offset,
                                          uint64_t addend,
                                          uint64_t *before);

// Replaces a word of a region if it holds what is expected, as one step for all processes.
//
// offset: where the word is, a multiple of 8.
// expected, replacement: what it has to hold, and what it holds then.
// before: is given what it held before: it was replaced if that is what was expected. May be NULL.
//
// Threads: any, one at a time with its memory.
outboard_status outboard_region_compare_swap(struct outboard_region *region,
                                             uint64_t offset,
                                             uint64_t expected,
                                             uint64_t replacement,
                                             uint64_t *before);

// Has the memory server write a loaded region to its file.
//
// deadline_ms: how long it may take.
// bytes: is given how many bytes the file has; may be NULL.
//
// Threads: any, one at a time with its memory.
outboard_status outboard_region_sync(struct outboard_region *region,
                                     uint64_t deadline_ms,
                                     uint64_t *bytes);

// Has the memory server take memory for all of a region now, in large pages where its machine has them.
//
// large: is given how many bytes lie in those; may be NULL.
//
// Threads: any, one at a time with its memory.
outboard_status outboard_region_populate(struct outboard_region *region,
                                         uint64_t *large);

// Gives a region back to the memory server with all that is in it, and ends the handle if that is done.
//
// Threads: any, one at a time with its memory.
outboard_status outboard_region_free(struct outboard_region *region);

// Gives up a region, and ends the handle. It stays at the memory server if it has a name or a file; if not, it is freed.
//
// Threads: any, one at a time with its memory.
outboard_status outboard_region_close(struct outboard_region *region);

// Connects this rank with all others; every rank of the job has to do so. A job has one messenger.
//
// options: NULL for the settings.
// messenger: is given the handle; outboard_messenger_close() ends it.
//
// Threads: any, one at a time with this job.
outboard_status outboard_messenger_connect(struct outboard_job *job,
                                           const struct outboard_messenger_options *options,
                                           struct outboard_messenger **messenger);

// Sends a message to a rank, this one included. Nothing blocks: OUTBOARD_FULL says that all bundles are under way, and then
// outboard_messenger_make_room() is to be called before it is tried again. Messages of one rank arrive in no particular order,
// and each is handled once.
//
// space: which of the spaces, 0 if there is one.
// rank: to which rank.
// bytes, length: the message. It can be changed when the call returns.
//
// Threads: any, one at a time; also handlers of this messenger.
outboard_status outboard_messenger_send(struct outboard_messenger *messenger,
                                        uint32_t space,
                                        uint32_t rank,
                                        const void *bytes,
                                        size_t length);

// Sends many messages of one length, which costs less than a call for each. It stops at the first that is not taken.
//
// space: which of the spaces, 0 if there is one.
// ranks, count: to which rank each goes, and how many there are.
// bytes, length: the messages one behind the other, and how many bytes each has.
// sent: is given how many were taken; may be NULL.
//
// Threads: any, one at a time; also handlers of this messenger.
outboard_status outboard_messenger_send_many(struct outboard_messenger *messenger,
                                             uint32_t space,
                                             const uint32_t *ranks,
                                             size_t count,
                                             const void *bytes,
                                             size_t length,
                                             size_t *sent);

// Sends what is in open bundles now.
//
// space: which of the spaces, 0 if there is one.
//
// Threads: any, one at a time.
outboard_status outboard_messenger_flush(struct outboard_messenger *messenger, uint32_t space);

// Handles the messages that have arrived.
//
// space: which of the spaces, 0 if there is one.
// handler, context: is called for each message in this thread, with this context.
// count: is given how many there were; may be NULL.
//
// Threads: any, one at a time.
outboard_status outboard_messenger_receive(struct outboard_messenger *messenger,
                                           uint32_t space,
                                           outboard_message_handler handler,
                                           void *context,
                                           size_t *count);

// Handles the messages that have arrived, and waits for a moment where there are none: what to do after OUTBOARD_FULL. Fails when a
// rank is lost, of which each is told once.
//
// space, handler, context: as in outboard_messenger_receive().
//
// Threads: any, one at a time.
outboard_status outboard_messenger_make_room(struct outboard_messenger *messenger,
                                             uint32_t space,
                                             outboard_message_handler handler,
                                             void *context);

// Handles messages until all that were sent in a space, also by handlers, are handled at all ranks. Every rank has to call it.
//
// space, handler, context: as in outboard_messenger_receive().
//
// Threads: any, one at a time.
outboard_status outboard_messenger_quiesce(struct outboard_messenger *messenger,
                                           uint32_t space,
                                           outboard_message_handler handler,
                                           void *context);

// Begins what outboard_messenger_quiesce() waits for, and goes on: this rank sends nothing more in the space but by handlers.
//
// space: which of the spaces, 0 if there is one.
//
// Threads: any, one at a time.
outboard_status outboard_messenger_begin_quiesce(struct outboard_messenger *messenger,
                                                 uint32_t space);

// Whether all messages have been handled at all ranks since outboard_messenger_begin_quiesce(). Go on receiving until then.
//
// space: which of the spaces, 0 if there is one.
// done: is given 1 or 0.
//
// Threads: any, one at a time.
outboard_status outboard_messenger_poll_quiesce(struct outboard_messenger *messenger,
                                                uint32_t space,
                                                uint32_t *done);

// Waits until all ranks have come to it. It handles no messages.
//
// Threads: any, one at a time.
outboard_status outboard_messenger_barrier(struct outboard_messenger *messenger);

// Says which process moves bundles and why, in lines for people.
//
// text, room, length: as in outboard_explain().
//
// Threads: any, one at a time.
outboard_status outboard_messenger_explain(struct outboard_messenger *messenger,
                                           char *text,
                                           size_t room,
                                           size_t *length);

// Delivers what was sent, for some seconds at most, and ends a messenger.
//
// Threads: any, but not while another is in a call with this handle.
outboard_status outboard_messenger_close(struct outboard_messenger *messenger);

// Connects to the memory server, and to the agent if there is one, to call functions.
//
// options: NULL for the defaults.
// caller: is given the handle; outboard_caller_close() ends it.
//
// Threads: any.
outboard_status outboard_caller_connect(struct outboard_t *outboard,
                                        const struct outboard_caller_options *options,
                                        struct outboard_caller **caller);

// Calls a function and waits for what it gives. Other calls that end meanwhile are told by outboard_caller_wait().
//
// function: its number.
// options: NULL for the defaults.
// arguments, length: what the function is given.
// reply: is filled as far as its size says; may be NULL. Its id means nothing.
//
// Threads: any, one at a time.
outboard_status outboard_caller_call(struct outboard_caller *caller,
                                     outboard_function function,
                                     const struct outboard_call_options *options,
                                     const void *arguments,
                                     size_t length,
                                     struct outboard_reply *reply);

// Begins a call, and waits only if too many are under way. outboard_caller_wait() tells its end.
//
// function: its number.
// options: NULL for the defaults.
// arguments, length: what the function is given. They can be changed when the call returns.
// id: is given the number of the call; may be NULL.
//
// Threads: any, one at a time.
outboard_status outboard_caller_begin(struct outboard_caller *caller,
                                      outboard_function function,
                                      const struct outboard_call_options *options,
                                      const void *arguments,
                                      size_t length,
                                      uint64_t *id);

// Sends what was begun. Waiting does so too.
//
// Threads: any, one at a time.
outboard_status outboard_caller_flush(struct outboard_caller *caller);

// Waits for the next call that ends. OUTBOARD_NOTHING if the deadline has passed or none is under way. Otherwise
// outboard_reply.status says how the call has ended, and OUTBOARD_TOO_SHORT that its reply was cut.
//
// deadline_ms: how long to wait; 0 only looks.
// reply: is filled as far as its size says.
//
// Threads: any, one at a time.
outboard_status outboard_caller_wait(struct outboard_caller *caller,
                                     uint64_t deadline_ms,
                                     struct outboard_reply *reply);

// How many calls are under way, or have ended and were not told.
//
// count: is given how many.
//
// Threads: any, one at a time.
outboard_status outboard_caller_under_way(struct outboard_caller *caller, size_t *count);

// Says where calls run and why, in lines for people.
//
// text, room, length: as in outboard_explain().
//
// Threads: any, one at a time.
outboard_status outboard_caller_explain(struct outboard_caller *caller,
                                        char *text,
                                        size_t room,
                                        size_t *length);

// Ends a caller. Calls that are under way may still run.
//
// Threads: any, but not while another is in a call with this handle.
outboard_status outboard_caller_close(struct outboard_caller *caller);

// Makes a function known, which is sent to where it runs unless it is there.
//
// options: the function.
// function: is given its number.
//
// Threads: any, one at a time.
outboard_status outboard_caller_register(struct outboard_caller *caller,
                                         const struct outboard_function_options *options,
                                         outboard_function *function);

// Connects to the memory server for writes.
//
// options: NULL for the defaults.
// writer: is given the handle; outboard_writer_close() ends it.
//
// Threads: any.
outboard_status outboard_writer_connect(struct outboard_t *outboard,
                                        const struct outboard_writer_options *options,
                                        struct outboard_writer **writer);

// Opens a region for writing.
//
// region: the region, which stays open for itself.
// target: is given its number here.
//
// Threads: any, one at a time.
outboard_status outboard_writer_open(struct outboard_writer *writer,
                                     struct outboard_region *region,
                                     outboard_target *target);

// Gives a target back when all writes have ended.
//
// target: its number, which means nothing then.
//
// Threads: any, one at a time.
outboard_status outboard_writer_close_target(struct outboard_writer *writer,
                                             outboard_target target);

// Begins a write; waits if others have to end first. Its bytes can be changed when the call returns, and it goes on while any call
// of this writer is made. If it fails outboard_writer_wait() and outboard_writer_flush() tell.
//
// target, offset: where it goes.
// bytes, length: what is written.
// options: NULL for the defaults.
// id: is given the number of the write; may be NULL.
//
// Threads: any, one at a time.
outboard_status outboard_writer_write(struct outboard_writer *writer,
                                      outboard_target target,
                                      uint64_t offset,
                                      const void *bytes,
                                      size_t length,
                                      const struct outboard_write_options *options,
                                      uint64_t *id);

// Begins several writes in order, of which outboard_writer_wait() tells once when all have ended, or how the first that failed
// did. All are checked before the first begins.
//
// target: where they go.
// parts, count: the writes.
// id: is given the number of the write; may be NULL.
//
// Threads: any, one at a time.
outboard_status outboard_writer_write_parts(struct outboard_writer *writer,
                                            outboard_target target,
                                            const struct outboard_write_part *parts,
                                            size_t count,
                                            uint64_t *id);

// Orders everything: writes from now on begin when all before have ended.
//
// Threads: any, one at a time.
outboard_status outboard_writer_fence(struct outboard_writer *writer);

// Waits until every write has ended: all that were begun since the latest flush are visible then, or it fails as the first of them
// did.
//
// Threads: any, one at a time.
outboard_status outboard_writer_flush(struct outboard_writer *writer);

// Waits for the next write that ends and is to be told of. OUTBOARD_NOTHING if the deadline has passed, or if none is under way.
// Otherwise outboard_write_end.status says how the write has ended.
//
// deadline_ms: how long to wait; 0 only looks.
// end: is filled as far as its size says.
//
// Threads: any, one at a time.
outboard_status outboard_writer_wait(struct outboard_writer *writer,
                                     uint64_t deadline_ms,
                                     struct outboard_write_end *end);

// The longest write that one can have, in bytes.
//
// bytes: is given how many.
//
// Threads: any, one at a time.
outboard_status outboard_writer_longest(struct outboard_writer *writer, size_t *bytes);

// Says how paths are chosen at present and why, in lines for people.
//
// text, room, length: as in outboard_explain().
//
// Threads: any, one at a time.
outboard_status outboard_writer_explain(struct outboard_writer *writer,
                                        char *text,
                                        size_t room,
                                        size_t *length);

// Ends a writer. Flush it before, to know that all is written.
//
// Threads: any, but not while another is in a call with this handle.
outboard_status outboard_writer_close(struct outboard_writer *writer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OUTBOARD_H */
