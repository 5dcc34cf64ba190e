// A hash table in a region: get, put and delete, from any site, under the promises of one-sided access alone.
//
// The region has a header, buckets of 16 words, and slots of one size that hold a key and its value. The first word of a
// bucket is an intent, the other 15 are entries: 12 bits of the key's hash, 20 bits of the slot's generation, 32 bits of
// the slot's number. What is in a slot never changes while an entry names it; a changed value is a new slot. Every use of
// a slot has a new generation, and a sum over everything in it, so a reader knows what it has read, torn or not.
//
// There is no lock. Whoever changes a bucket announces it in the intent: which slot goes into which entry. From then on
// anybody can finish it, and whoever wants to change the bucket as well does, so nobody waits for somebody who has died.
// Entries and intents never take a value twice, not even when they are empty: an entry that was emptied has the tag of no
// key and the slot that it had. A compare-and-swap that comes late therefore finds something else.

#include "../../../crates/calling/include/calling.h"

#define REGION 0

// A run that is suspended in a function goes on there first, and then in each that has called it: what reads from regions
// is part of its caller.
#define INLINE __attribute__((always_inline)) inline

// The header: what it is, how many buckets less one, how many slots, bytes of a slot, where slots begin, how many slots
// were ever used; then lists of free slots, each by its first one (its number and one, and a count that makes every value
// new). There are many, and each use is of any: whoever is far away would never be the first to change a word that others
// change all the time. Whoever calls has read the header and says what the table is like.
#define LISTS 64
#define LISTS_AT 64
#define HEADER (LISTS_AT + LISTS * 8)
#define SLOTS_AT 16
#define USED_AT 40

// A bucket is used from its beginning: an entry that was never used has none behind it that was.
#define WORDS 16
#define BUCKET (WORDS * 8)

#define BUSY (1ull << 63)
#define DELETES (1ull << 62)
#define PLACE_SHIFT 56
#define SLOT_BITS 0xfffffffffffffull

#define NO_TAG 0xfffull
#define TAG_SHIFT 52

// The results.
#define DONE 0
#define NOT_FOUND 1
#define NO_ROOM 2
#define BUSY_TABLE 3
#define BAD_ARGUMENTS 4

// How often something that others change is tried anew.
#define TRIES 64

// A slot, and so the arguments of every function.
struct slot {
    u64 head; // value length, 12 bits of key length, 20 bits of generation
    u64 sum;  // of all other words; in a free slot the next free one; in arguments the shape of the table
    u64 hash; // of the key; in arguments it is not looked at
    u64 words[]; // the key, then the value, each in whole words
};

// A table as its caller knows it, from its shape: 8 bits of the logarithm of its buckets, then the bytes of a slot.
struct table {
    u64 mask;
    u64 slot_bytes;
    u64 slots_at;
};

static inline u64 value_length(u64 head) { return head & 0xffffffff; }
static inline u64 key_length(u64 head) { return head >> 32 & 0xfff; }
static inline u64 generation(u64 head) { return head >> 44; }
static inline u64 words_of(u64 bytes) { return (bytes + 7) / 8; }

static inline u64 mix(u64 state, u64 word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15ull;
    return state ^ state >> 32;
}

// Two sums at a time: each word waits for the one before.
static INLINE u64 sum_of(const struct slot *slot, u64 words) {
    u64 even = mix(1, slot->head), odd = mix(2, slot->hash), index = 0;
    for (; index + 1 < words; index += 2) {
        even = mix(even, slot->words[index]);
        odd = mix(odd, slot->words[index + 1]);
    }
    if (index < words)
        even = mix(even, slot->words[index]);
    return mix(even, odd);
}

static inline u64 tag_of(u64 hash) {
    u64 tag = hash >> TAG_SHIFT;
    return tag == NO_TAG ? NO_TAG - 1 : tag;
}

static u64 read_word(u64 offset) {
    u64 word;
    region_read(REGION, offset, &word, 8);
    return word;
}

// How many words key and value have, or ~0 if the slot has no room for them.
static inline u64 words_in(u64 head, u64 bytes) {
    u64 words = words_of(key_length(head)) + words_of(value_length(head));
    return words * 8 + sizeof(struct slot) <= bytes ? words : ~0ull;
}

// Arguments that are a key, and what they say: the hash goes into them.
static INLINE u64 understand(struct slot *wanted, u64 length, struct table *table) {
    if (length < sizeof(struct slot) || !key_length(wanted->head) || generation(wanted->head))
        return 0;
    table->mask = (1ull << (wanted->sum & 63)) - 1;
    table->slot_bytes = wanted->sum >> 8;
    table->slots_at = HEADER + (table->mask + 1) * BUCKET;
    u64 words = words_in(wanted->head, length);
    if (words == ~0ull || words * 8 + sizeof(struct slot) > table->slot_bytes)
        return 0;
    u64 hash = key_length(wanted->head);
    for (u64 index = 0; index < words_of(key_length(wanted->head)); index++)
        hash = mix(hash, wanted->words[index]);
    wanted->hash = mix(hash, hash >> 29);
    return 1;
}

#define SAME 1
#define OTHER 0
#define CHANGED 2

// Whether the slot that an entry names has this key. It is in the second buffer afterwards.
static INLINE u64 compare(const struct slot *wanted, const struct table *table, u64 entry, const struct slot **found) {
    u64 bytes = table->slot_bytes;
    const struct slot *slot =
        region_fetch(REGION, table->slots_at + (entry & 0xffffffff) * bytes, bytes, 1);
    *found = slot;
    u64 words = words_in(slot->head, bytes);
    if (words == ~0ull || generation(slot->head) != (entry >> 32 & 0xfffff) || slot->sum != sum_of(slot, words))
        return CHANGED;
    if (slot->hash != wanted->hash || key_length(slot->head) != key_length(wanted->head))
        return OTHER;
    for (u64 index = 0; index < words_of(key_length(wanted->head)); index++)
        if (slot->words[index] != wanted->words[index])
            return OTHER;
    return SAME;
}

#define NOWHERE 64
#define TORN 65

// Where the key is among the words of a bucket from the first to before the end, which lie in the first buffer.
static INLINE u64 find(const struct slot *wanted, const struct table *table, const u64 *words, u64 first, u64 end,
                       const struct slot **found) {
    u64 tag = tag_of(wanted->hash);
    for (u64 place = first; place < end; place++) {
        u64 entry = words[place];
        if (!entry || entry >> TAG_SHIFT != tag)
            continue;
        u64 is = compare(wanted, table, entry, found);
        if (is == SAME)
            return place;
        if (is == CHANGED)
            return TORN;
    }
    return NOWHERE;
}

static inline u64 bucket_at(const struct table *table, u64 hash) {
    return HEADER + (hash & table->mask) * BUCKET;
}

static inline u64 any_list(void) { return LISTS_AT + (outboard_random() & (LISTS - 1)) * 8; }

// Whether no list has a slot.
static u64 all_used(void) {
    const u64 *lists = region_fetch(REGION, LISTS_AT, LISTS * 8, 2);
    for (u64 list = 0; list < LISTS; list++)
        if (lists[list] & 0xffffffff)
            return 0;
    return 1;
}

// A slot that nobody uses and its next generation, as in entries; 0 if there is none, ~0 if others were faster.
static u64 allocate(const struct table *table) {
    u64 header[USED_AT / 8 - SLOTS_AT / 8 + 1];
    region_read(REGION, SLOTS_AT, header, sizeof(header));
    u64 slots = header[0], used = header[USED_AT / 8 - SLOTS_AT / 8];
    for (u64 tried = 0; tried < TRIES; tried++) {
        u64 list = any_list();
        u64 first = read_word(list);
        if (!(first & 0xffffffff)) {
            if (used < slots) {
                used = region_fetch_add(REGION, USED_AT, 1);
                if (used < slots)
                    return 1ull << 32 | used;
            } else if (tried % 8 == 7 && all_used())
                return 0;
            continue;
        }
        u64 number = (first & 0xffffffff) - 1;
        u64 slot[2];
        region_read(REGION, table->slots_at + number * table->slot_bytes, slot, sizeof(slot));
        u64 next = ((first >> 32) + 1) << 32 | (slot[1] & 0xffffffff);
        if (region_compare_swap(REGION, list, first, next) != first)
            continue;
        u64 last = generation(slot[0]);
        return (last == 0xfffff ? 1 : last + 1) << 32 | number;
    }
    return ~0ull;
}

static void give_back(const struct table *table, u64 slot) {
    u64 number = slot & 0xffffffff;
    for (u64 tried = 0; tried < TRIES; tried++) {
        u64 list = any_list();
        u64 first = read_word(list);
        u64 next = first & 0xffffffff;
        region_write(REGION, table->slots_at + number * table->slot_bytes + 8, &next, 8);
        u64 changed = ((first >> 32) + 1) << 32 | (number + 1);
        if (region_compare_swap(REGION, list, first, changed) == first)
            return;
    }
}

static inline u64 entry_of(u64 intent, u64 tag) {
    return (intent & DELETES ? NO_TAG : tag) << TAG_SHIFT | (intent & SLOT_BITS);
}

// Finishes what somebody else has announced.
static void help(const struct table *table, u64 at, u64 intent) {
    u64 place = at + (intent >> PLACE_SHIFT & 15) * 8;
    u64 hash = read_word(table->slots_at + (intent & 0xffffffff) * table->slot_bytes + 16);
    u64 entry = entry_of(intent, tag_of(hash));
    u64 now = read_word(place);
    // Only while it is announced does the slot have its key, and the entry what is to be replaced.
    if (read_word(at) != intent)
        return;
    if (now != entry)
        region_compare_swap(REGION, place, now, entry);
    region_compare_swap(REGION, at, intent, intent & ~BUSY);
}

u64 kv_get(struct slot *wanted, u64 length) {
    struct table table;
    if (!understand(wanted, length, &table))
        return BAD_ARGUMENTS;
    u64 at = bucket_at(&table, wanted->hash);
    for (u64 tried = 0; tried < TRIES; tried++) {
        u64 place = NOWHERE, last = 1;
        const struct slot *slot = 0;
        // Most buckets have few keys, in their first half.
        for (u64 half = 0; half < 2 && place == NOWHERE && last; half++) {
            const u64 *words = region_fetch(REGION, at + half * (BUCKET / 2), BUCKET / 2, 0);
            last = words[WORDS / 2 - 1];
            place = find(wanted, &table, words, !half, WORDS / 2, &slot);
        }
        if (place == NOWHERE)
            return NOT_FOUND;
        if (place == TORN)
            continue;
        reply(slot->words + words_of(key_length(slot->head)), value_length(slot->head));
        return DONE;
    }
    return BUSY_TABLE;
}

// Puts the slot into the table, or the key out of it. A key that goes leaves the number of its slot behind, in the entry
// and in the intent: no other of its generation will.
static u64 change(const struct slot *wanted, const struct table *table, u64 slot, u64 deletes) {
    u64 at = bucket_at(table, wanted->hash);
    for (u64 tried = 0; tried < TRIES; tried++) {
        u64 intent = read_word(at);
        if (intent & BUSY) {
            help(table, at, intent);
            continue;
        }
        // Read behind the intent: if that is still the same below, nothing has changed since.
        const u64 *bucket = region_fetch(REGION, at, BUCKET, 0);
        const struct slot *found = 0;
        u64 place = find(wanted, table, bucket, 1, WORDS, &found);
        if (place == TORN)
            continue;
        if (place == NOWHERE && deletes)
            return NOT_FOUND;
        u64 is_new = place == NOWHERE;
        for (u64 other = 1; other < WORDS && place == NOWHERE; other++)
            if (!bucket[other] || bucket[other] >> TAG_SHIFT == NO_TAG)
                place = other;
        if (place == NOWHERE)
            return NO_ROOM;
        u64 old = bucket[place];
        u64 names = deletes ? old & SLOT_BITS : slot;
        u64 announced = BUSY | deletes | place << PLACE_SHIFT | names;
        if (region_compare_swap(REGION, at, intent, announced) != intent)
            continue;
        region_compare_swap(REGION, at + place * 8, old, entry_of(announced, tag_of(wanted->hash)));
        region_compare_swap(REGION, at, announced, announced & ~BUSY);
        if (!is_new)
            give_back(table, old);
        return DONE;
    }
    return BUSY_TABLE;
}

u64 kv_put(struct slot *wanted, u64 length) {
    struct table table;
    if (!understand(wanted, length, &table))
        return BAD_ARGUMENTS;
    u64 slot = allocate(&table);
    if (!slot)
        return NO_ROOM;
    if (slot == ~0ull)
        return BUSY_TABLE;
    wanted->head |= (slot >> 32) << 44;
    u64 words = words_in(wanted->head, table.slot_bytes);
    wanted->sum = sum_of(wanted, words);
    region_write(REGION, table.slots_at + (slot & 0xffffffff) * table.slot_bytes, wanted,
                 sizeof(struct slot) + words * 8);
    u64 result = change(wanted, &table, slot, 0);
    if (result != DONE)
        give_back(&table, slot);
    return result;
}

u64 kv_delete(struct slot *wanted, u64 length) {
    struct table table;
    if (!understand(wanted, length, &table))
        return BAD_ARGUMENTS;
    return change(wanted, &table, 0, DELETES);
}
