/* Calls for memory at random, by several threads, compared with a model that lies in static arrays, which are never far.
 *
 * torture SEED STEPS THREADS: each thread does so many steps. Exit code 0 if nothing differed. Without far memory it is a test of the
 * model itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, SPANS = 8, PAGES = 96, THREADS_MAX = 8, BLOCKS = 64, LEAST = 32 };
enum { GONE = -1 };

struct span {
    unsigned char *start; /* null if it is not mapped at all */
    int pages;
    int rights[PAGES]; /* of each page, or GONE */
    int is_file[PAGES];
    unsigned char bytes[PAGES][PAGE];
};

struct block {
    unsigned char *start;
    size_t bytes;
    unsigned char tag;
};

static struct span spans[THREADS_MAX][SPANS];
static struct block blocks[THREADS_MAX][BLOCKS];
static pthread_t threads[THREADS_MAX];
static int thread_count;
static long steps;
static uint64_t seed;
static int file;
static unsigned char file_bytes[8 * PAGE];
/* Far, and touched by handlers of signals. */
static _Atomic uint64_t *shared;
static _Atomic uint64_t handled, sent;
static _Atomic int running;

static __thread uint64_t state;
static __thread int own;
static __thread volatile sig_atomic_t is_tried;
static __thread sigjmp_buf after;

static void fail(const char *text, ...) {
    va_list arguments;
    va_start(arguments, text);
    fprintf(stderr, "torture: seed %lu, thread %d: ", (unsigned long)seed, own);
    vfprintf(stderr, text, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    fflush(stderr);
    abort();
}

static uint32_t below(uint32_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return limit ? (uint32_t)(state >> 33) % limit : 0;
}

static void on_fault(int number) {
    if (!is_tried) {
        static const char text[] = "torture: a fault that was not tried\n";
        (void)!write(2, text, sizeof text - 1);
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    is_tried = 0;
    siglongjmp(after, 1);
}

static void on_signal(int number) {
    (void)number;
    int before = errno;
    atomic_fetch_add(&shared[below(16) * 4096], 1);
    atomic_fetch_add(&handled, 1);
    errno = before;
}

/* Whether an access ends in a fault. */
static int faults(volatile unsigned char *place, int writes) {
    if (sigsetjmp(after, 1)) return 1;
    is_tried = 1;
    if (writes) *place = *place; else (void)*place;
    is_tried = 0;
    return 0;
}

static void compare(struct span *span, int page) {
    if (span->rights[page] == GONE || !(span->rights[page] & PROT_READ)) return;
    unsigned char *place = span->start + (size_t)page * PAGE;
    if (memcmp(place, span->bytes[page], PAGE)) {
        int at = 0;
        while (place[at] == span->bytes[page][at]) at++;
        fail("span %ld, page %d of %d, byte %d is %d and not %d", (long)(span - spans[own]), page, span->pages, at, place[at],
             span->bytes[page][at]);
    }
}

static void compare_all(struct span *span) {
    for (int page = 0; page < span->pages; page++) compare(span, page);
}

/* A part of a span. */
static void part(struct span *span, int *first, int *count) {
    *first = below(span->pages);
    *count = 1 + below(span->pages - *first);
    if (below(4) == 0) *first = 0, *count = span->pages;
}

static int is_whole(struct span *span, int first, int count, int rights) {
    for (int page = first; page < first + count; page++)
        if (span->rights[page] == GONE || (rights != GONE && span->rights[page] != rights)) return 0;
    return 1;
}

static void unmap(struct span *span, int first, int count) {
    if (munmap(span->start + (size_t)first * PAGE, (size_t)count * PAGE)) fail("munmap: %s", strerror(errno));
    int left = 0;
    for (int page = first; page < first + count; page++) span->rights[page] = GONE;
    for (int page = 0; page < span->pages; page++) left += span->rights[page] != GONE;
    if (!left) span->start = NULL;
}

static void map_new(struct span *span) {
    static const int rights[] = {PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_NONE, PROT_READ};
    int pages = LEAST + below(PAGES - LEAST), is = rights[below(4)];
    void *start = mmap(NULL, (size_t)pages * PAGE, is, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) fail("mmap: %s", strerror(errno));
    span->start = start;
    span->pages = pages;
    memset(span->bytes, 0, sizeof span->bytes);
    for (int page = 0; page < pages; page++) span->rights[page] = is, span->is_file[page] = 0;
}

static void store(struct span *span) {
    for (int times = 1 + below(20); times; times--) {
        int page = below(span->pages);
        if (span->rights[page] == GONE || !(span->rights[page] & PROT_WRITE)) continue;
        int at = below(PAGE), len = 1 + below(below(3) ? 16 : PAGE - at);
        if (at + len > PAGE) len = PAGE - at;
        unsigned char value = below(256);
        memset(span->start + (size_t)page * PAGE + at, value, len);
        memset(span->bytes[page] + at, value, len);
    }
}

/* Over what this thread has mapped: elsewhere another thread may have mapped something meanwhile. */
static void map_over(struct span *span) {
    int first, count;
    part(span, &first, &count);
    if (!is_whole(span, first, count, GONE)) return;
    unsigned char *place = span->start + (size_t)first * PAGE;
    int is_file = below(3) == 0;
    if (is_file && count > 8) count = 8;
    int flags = MAP_PRIVATE | MAP_FIXED | (is_file ? 0 : MAP_ANONYMOUS);
    void *start = mmap(place, (size_t)count * PAGE, PROT_READ | PROT_WRITE, flags, is_file ? file : -1, 0);
    if (start != place) fail("mmap over %d pages: %s", count, strerror(errno));
    for (int page = 0; page < count; page++) {
        span->rights[first + page] = PROT_READ | PROT_WRITE;
        span->is_file[first + page] = is_file;
        if (is_file) memcpy(span->bytes[first + page], file_bytes + page * PAGE, PAGE);
        else memset(span->bytes[first + page], 0, PAGE);
    }
}

static void protect(struct span *span) {
    static const int all[] = {PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};
    int first, count, rights = all[below(4)];
    part(span, &first, &count);
    int is = is_whole(span, first, count, GONE);
    if (!is) return;
    if (mprotect(span->start + (size_t)first * PAGE, (size_t)count * PAGE, rights)) fail("mprotect: %s", strerror(errno));
    for (int page = first; page < first + count; page++) span->rights[page] = rights;
}

static void try_rights(struct span *span) {
    int page = below(span->pages), is = span->rights[page];
    if (is == GONE) return;
    volatile unsigned char *place = span->start + (size_t)page * PAGE + below(PAGE);
    if (faults(place, 0) != !(is & PROT_READ)) fail("page %d may be read or may not: %d", page, is);
    if (faults(place, 1) != !(is & PROT_WRITE)) fail("page %d may be written or may not: %d", page, is);
}

static void advise(struct span *span) {
    static const int hints[] = {MADV_WILLNEED, MADV_RANDOM, MADV_SEQUENTIAL, MADV_NORMAL, 20, 21, MADV_NOHUGEPAGE, MADV_DONTDUMP};
    int first, count;
    part(span, &first, &count);
    if (!is_whole(span, first, count, GONE)) return;
    unsigned char *place = span->start + (size_t)first * PAGE;
    int files = 0;
    for (int page = first; page < first + count; page++) files += span->is_file[page];
    /* A private mapping of a file has the file's bytes again then, and a copy in far memory zeros. */
    if (below(2) && !files) {
        if (madvise(place, (size_t)count * PAGE, MADV_DONTNEED)) fail("MADV_DONTNEED: %s", strerror(errno));
        for (int page = first; page < first + count; page++) memset(span->bytes[page], 0, PAGE);
    } else {
        int hint = hints[below(8)];
        if (madvise(place, (size_t)count * PAGE, hint) && errno != EINVAL) fail("advice %d: %s", hint, strerror(errno));
    }
}

static void move(struct span *span) {
    int is = span->rights[0];
    if (is == GONE || !is_whole(span, 0, span->pages, is)) return;
    int pages = LEAST + below(PAGES - LEAST), flags = below(3) ? MREMAP_MAYMOVE : 0;
    void *start = mremap(span->start, (size_t)span->pages * PAGE, (size_t)pages * PAGE, flags);
    if (start == MAP_FAILED) {
        /* Pieces that have been mapped one by one may be several mappings to the kernel. */
        if (errno != ENOMEM && errno != EFAULT) fail("mremap: %s", strerror(errno));
        return;
    }
    if (!flags && start != span->start) fail("mremap has moved what was to stay");
    span->start = start;
    for (int page = span->pages; page < pages; page++) {
        span->rights[page] = is;
        span->is_file[page] = 0;
        memset(span->bytes[page], 0, PAGE);
    }
    span->pages = pages;
}

static void through_a_pipe(struct span *span) {
    int page = below(span->pages), other = below(span->pages), ends[2];
    if (span->rights[page] == GONE || !(span->rights[page] & PROT_READ)) return;
    if (span->rights[other] == GONE || !(span->rights[other] & PROT_WRITE)) return;
    if (pipe(ends)) fail("pipe: %s", strerror(errno));
    int len = 1 + below(PAGE);
    if (write(ends[1], span->start + (size_t)page * PAGE, len) != len) fail("write: %s", strerror(errno));
    if (read(ends[0], span->start + (size_t)other * PAGE, len) != len) fail("read: %s", strerror(errno));
    memmove(span->bytes[other], span->bytes[page], len);
    close(ends[0]);
    close(ends[1]);
}

static void compare_block(struct block *block, size_t bytes) {
    for (size_t at = 0; at < bytes; at++)
        if (block->start[at] != block->tag) fail("a block of %zu bytes: byte %zu is %d and not %d", block->bytes, at, block->start[at], block->tag);
}

static size_t length(void) {
    switch (below(8)) {
    case 0: return below(300000);
    case 1: return below(3000000);
    case 2: return below(20000);
    default: return below(600);
    }
}

static void use_block(struct block *block) {
    if (!block->start) {
        size_t bytes = length(), align = 16;
        switch (below(4)) {
        case 0: {
            block->start = calloc(1, bytes);
            for (size_t at = 0; at < bytes; at++)
                if (block->start[at]) fail("calloc of %zu bytes: byte %zu is %d", bytes, at, block->start[at]);
            break;
        }
        case 1:
            align = (size_t)16 << below(14);
            if (posix_memalign((void **)&block->start, align, bytes)) fail("posix_memalign of %zu at %zu", bytes, align);
            break;
        default: block->start = malloc(bytes);
        }
        if (!block->start) fail("no block of %zu bytes", bytes);
        if ((uintptr_t)block->start % align) fail("a block at %p is not aligned to %zu", (void *)block->start, align);
        if (malloc_usable_size(block->start) < bytes) fail("a block of %zu bytes has %zu", bytes, malloc_usable_size(block->start));
        block->bytes = bytes;
        block->tag = 1 + below(255);
        memset(block->start, block->tag, bytes);
        return;
    }
    compare_block(block, block->bytes);
    if (below(3) == 0) {
        size_t bytes = 1 + length();
        unsigned char *start = realloc(block->start, bytes);
        if (!start) fail("no block of %zu bytes in place of one of %zu", bytes, block->bytes);
        block->start = start;
        compare_block(block, bytes < block->bytes ? bytes : block->bytes);
        block->bytes = bytes;
        memset(block->start, block->tag, bytes);
        return;
    }
    errno = 77;
    free(block->start);
    if (errno != 77) fail("free has changed errno to %d", errno);
    block->start = NULL;
}

static void *work(void *number) {
    own = (int)(intptr_t)number;
    state = seed * 1000003 + own;
    for (long step = 0; step < steps; step++) {
        struct span *span = &spans[own][below(SPANS)];
        int act = below(14);
        if (act < 3) use_block(&blocks[own][below(BLOCKS)]);
        else if (!span->start) map_new(span);
        else switch (act) {
            case 3: case 4: store(span); break;
            case 5: compare_all(span); break;
            case 6: {
                int first, count;
                part(span, &first, &count);
                if (below(2) && is_whole(span, first, count, GONE)) unmap(span, first, count);
                break;
            }
            case 7: map_over(span); break;
            case 8: protect(span); break;
            case 9: try_rights(span); break;
            case 10: advise(span); break;
            case 11: move(span); break;
            case 12: through_a_pipe(span); break;
            default: {
                int other = below(thread_count);
                if (below(4) == 0 && threads[other] && !pthread_kill(threads[other], SIGUSR1)) atomic_fetch_add(&sent, 1);
            }
        }
    }
    for (int at = 0; at < SPANS; at++)
        if (spans[own][at].start) compare_all(&spans[own][at]);
    for (int at = 0; at < BLOCKS; at++)
        if (blocks[own][at].start) compare_block(&blocks[own][at], blocks[own][at].bytes);
    atomic_fetch_sub(&running, 1);
    /* Threads that are sent signals have to be there. */
    while (atomic_load(&running)) usleep(1000);
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    seed = strtoul(arguments[1], NULL, 10);
    steps = strtol(arguments[2], NULL, 10);
    thread_count = atoi(arguments[3]);
    char name[] = "/tmp/outboard-torture-XXXXXX";
    file = mkstemp(name);
    unlink(name);
    for (size_t at = 0; at < sizeof file_bytes; at++) file_bytes[at] = at * 7 + at / 251;
    if (write(file, file_bytes, sizeof file_bytes) != sizeof file_bytes) return 2;
    shared = mmap(NULL, 16 * 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction fault = {.sa_handler = on_fault, .sa_flags = SA_NODEFER}, other = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGSEGV, &fault, NULL);
    sigaction(SIGUSR1, &other, NULL);
    atomic_store(&running, thread_count);
    for (intptr_t at = 0; at < thread_count; at++)
        if (pthread_create(&threads[at], NULL, work, (void *)at)) return 2;
    for (int at = 0; at < thread_count; at++) pthread_join(threads[at], NULL);
    uint64_t counted = 0;
    for (int at = 0; at < 16; at++) counted += atomic_load(&shared[at * 4096]);
    if (counted != atomic_load(&handled)) fail("%lu of %lu counts of handlers are there", (unsigned long)counted, (unsigned long)handled);
    printf("%d threads, %ld steps each, %lu signals: nothing differs\n", thread_count, steps, (unsigned long)handled);
    return 0;
}
