// A B-tree in a region: look-ups and scans from any site, under the promises of one-sided access alone; inserts at the
// server.
//
// The region is a header and fat nodes of one size. A node has fences: every key in it, and below it, is at least `low` and
// less than `high`; and it knows the next node of its level, to which keys go that are not less than `high`. Whoever splits
// a node links the new one from its left neighbour first and from the level above later, and readers go on to the right
// meanwhile. Nodes are never given back, and neither their level nor their low fence ever changes.
//
// So whoever goes down need not care whether what it reads of an inner node is torn: whatever child that leads to was one
// at some time, and the child's fences say whether it is the right one. Only leaves must be read as they were at one moment.
// Their version is odd while they are changed, and different afterwards: it is read before and behind.
//
// Inserts lock nodes by their versions. A lock is held by a function that runs at the server, and so to its end.

#include "../../../crates/calling/include/calling.h"

#define REGION 0

// The header: what it is, bytes of a node, how many nodes there is room for, the root (its number, and its level above it),
// how many nodes are used.
#define MAGIC 0x3130656572746274ull
#define HEADER 64
#define ROOT_AT 24
#define USED_AT 32

#define NODE 1024
#define NODE_HEAD 64
#define ROOM 60
// One entry more than this has place in a buffer, before a node is split.
#define ENTRIES_MAX 59

#define LEVEL_SHIFT 48
#define NUMBER 0xffffffffffffull

// A high fence without anything behind it; no key is as high.
#define INFINITE (~0ull)

// The results.
#define DONE 0
#define NOT_FOUND 1
#define NO_ROOM 2
#define BUSY_TREE 3
#define NO_TREE 4
#define BAD_ARGUMENTS 5
#define REPLACED 6

// How often something that others change is tried anew.
#define TRIES 8
// How often to look whether somebody has unlocked a node, who does so within a microsecond.
#define LOOKS 200
// How far a level is followed to the right, or the tree down, before that is tried anew.
#define STEPS 32
// How many levels there can be.
#define LEVELS 12
// The most pairs that a scan gives.
#define SCAN_MAX 1000

struct header {
    u64 magic;
    u64 node_bytes;
    u64 nodes;
    u64 root;
    u64 used;
    u64 unused[3];
};

struct entry {
    u64 key;
    u64 value; // in inner nodes the number of a node of the level below
};

struct node {
    u64 version;
    u64 count;
    u64 level;
    u64 low;
    u64 high;
    u64 next; // 0 if there is none
    u64 unused[2];
    struct entry entries[ROOM];
};

static u64 read_word(u64 offset) {
    u64 word;
    region_read(REGION, offset, &word, 8);
    return word;
}

static void write_word(u64 offset, u64 word) { region_write(REGION, offset, &word, 8); }

// Nodes are numbered from 1.
static inline u64 node_at(u64 number) { return HEADER + (number - 1) * NODE; }

static inline u64 is_node(u64 number, u64 nodes) { return number - 1 < nodes; }

// How many entries of the node have keys that are not greater. What is torn may say anything of their number.
static inline u64 position(const struct node *node, u64 key) {
    u64 from = 0, to = node->count > ROOM ? ROOM : node->count;
    while (from < to) {
        u64 middle = (from + to) / 2;
        if (middle >= ROOM)
            return 0;
        if (node->entries[middle].key <= key)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

// The node of that level to which the key belongs, or one to the left of it; 0 if the tree has changed too often.
static u64 descend(u64 nodes, u64 key, u64 level) {
    for (u64 tried = 0; tried < TRIES; tried++) {
        u64 root = read_word(ROOT_AT);
        u64 number = root & NUMBER, above = root >> LEVEL_SHIFT;
        for (u64 step = 0; step < STEPS && above > level; step++) {
            const struct node *node = region_fetch(REGION, node_at(number), NODE, 0);
            u64 next = 0;
            if (key >= node->high) {
                next = node->next;
            } else if (key >= node->low) {
                u64 place = position(node, key);
                if (place && place <= ROOM) {
                    next = node->entries[place - 1].value;
                    above--;
                }
            }
            number = next;
            if (!is_node(number, nodes))
                break;
        }
        if (above == level && is_node(number, nodes))
            return number;
    }
    return 0;
}

// A leaf as it was at one moment, in the second buffer; 0 if others change it all the time.
static const struct node *read_leaf(u64 number) {
    u64 at = node_at(number);
    for (u64 looked = 0; looked < LOOKS; looked++) {
        u64 before = read_word(at);
        if (before & 1)
            continue;
        const struct node *node = region_fetch(REGION, at, NODE, 1);
        if (read_word(at) == before)
            return node;
    }
    return 0;
}

// The leaf to which the key belongs; 0 if the tree changes too fast.
static const struct node *find_leaf(u64 nodes, u64 key) {
    for (u64 tried = 0; tried < TRIES; tried++) {
        u64 number = descend(nodes, key, 0);
        for (u64 step = 0; step < STEPS && is_node(number, nodes); step++) {
            const struct node *leaf = read_leaf(number);
            if (!leaf)
                return 0;
            if (key < leaf->low)
                break;
            if (key < leaf->high)
                return leaf;
            number = leaf->next;
        }
    }
    return 0;
}

static u64 open(u64 *nodes) {
    u64 words[3];
    region_read(REGION, 0, words, sizeof(words));
    *nodes = words[2];
    return words[0] == MAGIC && words[1] == NODE;
}

// The value of a key.
u64 btree_lookup(const u64 *arguments, u64 length) {
    u64 nodes;
    if (!open(&nodes))
        return NO_TREE;
    if (length < 8 || arguments[0] == INFINITE)
        return BAD_ARGUMENTS;
    u64 key = arguments[0];
    const struct node *leaf = find_leaf(nodes, key);
    if (!leaf)
        return BUSY_TREE;
    u64 place = position(leaf, key);
    if (!place || place > ROOM || leaf->entries[place - 1].key != key)
        return NOT_FOUND;
    reply(&leaf->entries[place - 1].value, 8);
    return DONE;
}

// Pairs from a key on, as many as there are and at most so many. Those of one leaf are from one moment.
u64 btree_scan(const u64 *arguments, u64 length) {
    u64 nodes;
    if (!open(&nodes))
        return NO_TREE;
    if (length < 16 || arguments[0] == INFINITE || arguments[1] > SCAN_MAX)
        return BAD_ARGUMENTS;
    u64 key = arguments[0], left = arguments[1];
    while (left) {
        const struct node *leaf = find_leaf(nodes, key);
        if (!leaf)
            return BUSY_TREE;
        u64 count = leaf->count > ROOM ? ROOM : leaf->count;
        u64 from = position(leaf, key);
        if (from && from <= ROOM && leaf->entries[from - 1].key == key)
            from--;
        u64 taken = count > from ? count - from : 0;
        if (taken > left)
            taken = left;
        if (from < ROOM)
            reply(&leaf->entries[from], taken * sizeof(struct entry));
        left -= taken;
        if (leaf->high == INFINITE)
            break;
        key = leaf->high;
    }
    return DONE;
}

// Locks the node of that level to which the key belongs, beginning with one that may be to the left of it. It is in the
// second buffer afterwards, and its number is the answer; 0 if others are in the way.
static u64 lock(u64 number, u64 nodes, u64 key, struct node **locked) {
    u64 step = 0;
    for (u64 looked = 0; looked < LOOKS && step < STEPS; looked++) {
        u64 at = node_at(number);
        u64 version = read_word(at);
        if (version & 1 || region_compare_swap(REGION, at, version, version + 1) != version)
            continue;
        struct node *node = (struct node *)region_fetch(REGION, at, NODE, 1);
        *locked = node;
        if (key >= node->low && key < node->high && node->count <= ENTRIES_MAX)
            return number;
        u64 next = node->next;
        u64 is_left = key >= node->high && is_node(next, nodes);
        write_word(at, version + 2);
        if (!is_left)
            return 0;
        number = next;
        looked = 0;
        step++;
    }
    return 0;
}

static inline void unlock(u64 number, const struct node *node) {
    write_word(node_at(number), node->version + 1);
}

// Writes entries from a place on, and how many there are.
static inline void write_entries(u64 number, const struct node *node, u64 from, u64 to, u64 target) {
    if (from < to && to <= ROOM)
        region_write(REGION, node_at(number) + NODE_HEAD + target * sizeof(struct entry), &node->entries[from],
                     (to - from) * sizeof(struct entry));
}

// What a split leaves to be done on the level above.
struct split {
    u64 key;
    u64 number;
};

// Writes the upper half of a locked node that has become too long to a new one, and links that.
static u64 split(u64 number, struct node *node, u64 nodes, struct split *parted) {
    u64 fresh = region_fetch_add(REGION, USED_AT, 1) + 1;
    if (!is_node(fresh, nodes))
        return NO_ROOM;
    u64 half = ROOM / 2;
    u64 head[8] = {0, ROOM - half, node->level, node->entries[half].key, node->high, node->next, 0, 0};
    parted->key = head[3];
    parted->number = fresh;
    write_entries(fresh, node, half, ROOM, 0);
    region_write(REGION, node_at(fresh), head, sizeof(head));
    write_entries(number, node, 0, half, 0);
    u64 left[5] = {half, node->level, node->low, parted->key, fresh};
    region_write(REGION, node_at(number) + 8, left, sizeof(left));
    return DONE;
}

// Adds an entry to the node of that level to which it belongs, beginning at one that may be to the left of it.
static u64 add(u64 number, u64 nodes, const struct entry *entry, struct split *parted) {
    struct node *node = 0;
    number = lock(number, nodes, entry->key, &node);
    if (!number || !node)
        return BUSY_TREE;
    u64 place = position(node, entry->key), count = node->count;
    if (place > ENTRIES_MAX || count > ENTRIES_MAX) {
        unlock(number, node);
        return BUSY_TREE;
    }
    if (place && node->entries[place - 1].key == entry->key) {
        write_word(node_at(number) + NODE_HEAD + (place - 1) * sizeof(struct entry) + 8, entry->value);
        unlock(number, node);
        return REPLACED;
    }
    for (u64 index = count; index > place && index < ROOM; index--)
        node->entries[index] = node->entries[index - 1];
    node->entries[place] = *entry;
    u64 result = DONE;
    if (count < ENTRIES_MAX) {
        write_entries(number, node, place, count + 1, place);
        write_word(node_at(number) + 8, count + 1);
    } else {
        result = split(number, node, nodes, parted);
    }
    unlock(number, node);
    return result;
}

// Puts a new root above the present one, if that is of the level below.
static void grow(u64 nodes, u64 level, const struct split *parted) {
    u64 root = read_word(ROOT_AT);
    if (root >> LEVEL_SHIFT != level - 1)
        return;
    u64 fresh = region_fetch_add(REGION, USED_AT, 1) + 1;
    if (!is_node(fresh, nodes))
        return;
    u64 words[12] = {0, 2, level, 0, INFINITE, 0, 0, 0, 0, root & NUMBER, parted->key, parted->number};
    region_write(REGION, node_at(fresh), words, sizeof(words));
    region_compare_swap(REGION, ROOT_AT, root, level << LEVEL_SHIFT | fresh);
}

// Gives a key a value. A node that was split and could not be linked from above is found from its left neighbour.
u64 btree_insert(const u64 *arguments, u64 length) {
    u64 nodes;
    if (!open(&nodes))
        return NO_TREE;
    if (length < 16 || arguments[0] == INFINITE)
        return BAD_ARGUMENTS;
    struct entry entry = {arguments[0], arguments[1]};
    struct split parted = {0, 0};
    u64 outcome = BUSY_TREE;
    for (u64 tried = 0; tried < TRIES && outcome == BUSY_TREE; tried++) {
        u64 leaf = descend(nodes, entry.key, 0);
        if (leaf)
            outcome = add(leaf, nodes, &entry, &parted);
    }
    for (u64 level = 1; level < LEVELS && parted.number && outcome == DONE; level++) {
        struct split above = {0, 0};
        u64 result = BUSY_TREE;
        for (u64 tried = 0; tried < TRIES && result == BUSY_TREE; tried++) {
            if (read_word(ROOT_AT) >> LEVEL_SHIFT < level) {
                grow(nodes, level, &parted);
                if (read_word(ROOT_AT) >> LEVEL_SHIFT < level)
                    break;
            }
            entry.key = parted.key;
            entry.value = parted.number;
            u64 parent = descend(nodes, parted.key, level);
            if (parent)
                result = add(parent, nodes, &entry, &above);
        }
        parted = above;
    }
    return outcome == REPLACED ? DONE : outcome;
}
