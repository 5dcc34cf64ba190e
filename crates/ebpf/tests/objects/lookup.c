// A lookup in one bucket of a hash table: seven one-byte tags, and what they stand for.

typedef unsigned char u8;
typedef unsigned long long u64;

struct query {
    u64 key[2];
    u8 tags[8];
    u64 slots[7];
};

u64 bucket_lookup(const struct query *query) {
    u64 hash = (query->key[0] ^ (query->key[1] << 32 | query->key[1] >> 32)) * 0x9e3779b97f4a7c15ull;
    u8 tag = hash >> 56;
    for (int slot = 0; slot < 7; slot++)
        if (query->tags[slot] == tag)
            return query->slots[slot];
    return 0;
}
