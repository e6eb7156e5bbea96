// Trees of up to 2^BITS leaves, on bit planes. SUM: dtype of the sums; int for leaf numbers. TERMS:
// whether each tree's value is written, not their sum. LANES: words of a plane. LISTS: whether a
// test may be several cutoffs.
//
// A tile is LANES lanes of 32 rows, a plane LANES words of shared memory, a bit for each row. A
// team of LANES threads takes one tree of a group of TEAMS trees, and finds the code of the leaf
// that each row reaches. Then each thread adds up the values of its own rows, tree after tree.
//
// Trees come in chunks: those of a chunk read no more columns than there is room for. Where terms
// are written, an "output" is a slice of the trees, and blocks side by side take one each.
enum {
    PLANE = LANES * 4,
    COLUMN = 32 * PLANE,
    TILE = LANES * 32,
    TEAMS = THREADS / LANES,
    SIZE = 1 << BITS,
    PARTS = sizeof(SUM) / 4,
    ROWS = TILE / THREADS,     // that a thread adds up
    STEP = THREADS / LANES,    // from one of them to the next
    WORDS = TILE / 4,          // of the leaf codes of a tree
};

// Planes of one digit: where its four bits say less than v, v = 1..15.
__device__ __forceinline__ void below16(const word* b, word (&below)[16]) {
    word n0 = ~b[0], n1 = ~b[1], n2 = ~b[2], n3 = ~b[3];
    word two[4] = {0, n0 & n1, n1, n0 | n1};
    word three[8] = {0,  n2 & two[1], n2 & two[2], n2 & two[3],
                     n2, n2 | two[1], n2 | two[2], n2 | two[3]};
    below[0] = 0;
    below[8] = n3;
#pragma unroll
    for (int v = 1; v < 8; ++v) {
        below[v] = n3 & three[v];
        below[8 + v] = n3 | three[v];
    }
}

// Planes of a column: 0 zeros; 1 to 15 high digit below v; 16 ones; 17 to 31 low digit below 1 to
// 15. Word w of the column at place p stands at w ^ p % LANES: writers' lanes are columns, readers'
// are rows, and neither meet in a bank.
__device__ __forceinline__ void
write_planes(const uint4* __restrict__ codes, int columns, const int* __restrict__ picked,
             int count, int groups, int tile, unsigned char* planes) {
    int lane = threadIdx.x % LANES;
    for (int item = threadIdx.x / LANES; item / LANES * LANES < count; item += TEAMS) {
        int w = item % LANES, place = item / LANES * LANES + lane;
        if (place >= count) continue;
        int group = min(tile * LANES + w, groups - 1);
        const uint4* from = codes + ((long long)group * columns + picked[place]) * 2;
        uint4 a = from[0], b = from[1];
        word v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        transpose8(v);
        word* to = (word*)(planes + place * COLUMN) + (w ^ lane);
        word below[16];
        below16(v + 4, below);
#pragma unroll
        for (int i = 0; i < 16; ++i) to[i * LANES] = below[i];
        to[16 * LANES] = ~0u;
        below16(v, below);
#pragma unroll
        for (int i = 1; i < 16; ++i) to[(16 + i) * LANES] = below[i];
    }
}

// A program under way. The words of the next cutoff have been asked for, so that it need not wait.
struct Stream {
    const uint2* at;
    const unsigned char* planes;
    word lane4;
    uint2 next;

    __device__ __forceinline__ uint2 take() {
        uint2 cutoff = next;
        next = *at++;
        return cutoff;
    }
};

// Codes below a cutoff of 16 high + low: a majority, since below high implies below high + 1.
__device__ __forceinline__ word below(const Stream& s, uint2 cutoff) {
    const word* high = (const word*)(s.planes + ((cutoff.x & ~3u) ^ s.lane4));
    const word* low = (const word*)(s.planes + ((cutoff.y & 0x7fffffffu) ^ s.lane4));
    return majority(high[0], high[PLANE / 4], *low);
}

// What lies before a split: tests joined by "and" or, where the top bit says so, "or". A test is
// the exclusive or of the codes below each of its cutoffs; more of them follow where bit 1 says so.
__device__ __forceinline__ word before(Stream& s) {
    word decided = 0;
    uint2 cutoff;
    do {
        cutoff = s.take();
        word test = below(s, cutoff);
#if LISTS
        while (cutoff.x & 2) {
            cutoff = s.take();
            test ^= below(s, cutoff);
        }
#endif
        decided = majority(test, decided, word(int(cutoff.y) >> 31));
    } while (cutoff.x & 1);
    return decided;
}

// Codes of a range of leaves: its sides', joined by what lies before their split, the highest bit.
template <int B> struct Range {
    static __device__ __forceinline__ void codes(Stream& s, word* out) {
        word left[B], right[B];
        Range<B - 1>::codes(s, left);
        Range<B - 1>::codes(s, right);
        word first = before(s);
#pragma unroll
        for (int i = 0; i < B - 1; ++i) out[i] = chosen(left[i], right[i], first);
        out[B - 1] = first;
    }
};
template <> struct Range<1> {
    static __device__ __forceinline__ void codes(Stream& s, word* out) { out[0] = before(s); }
};

// Bytes hold four times the code of a leaf: its place in the table of values.
__device__ __forceinline__ void
write_codes(const uint2* program, const unsigned char* planes, word* codes) {
    int lane = threadIdx.x % LANES;
    Stream s{program + 1, planes, word(lane * 4), program[0]};
    word v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    Range<BITS>::codes(s, v + 2);
    transpose8(v);
#pragma unroll
    for (int q = 0; q < 8; ++q) codes[q * LANES + lane] = v[q];
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
bits(const uint4* __restrict__ codes, int n, int columns, int room, int outputs, int longest,
     const int* __restrict__ of_output,     // (outputs + 1): first tree of each
     const int* __restrict__ chunk_end,     // (chunks): the tree behind each
     const int* __restrict__ first_picked,  // (chunks + 1): first column of each
     const int* __restrict__ picked,        // columns, chunk after chunk
     const uint2* __restrict__ cutoffs,     // programs, tree after tree
     const int* __restrict__ first,         // (trees + 1): first cutoff of each
     const word* __restrict__ low,          // (trees, SIZE): of values, by leaf code
     const word* __restrict__ high,         // (trees, SIZE): of double ones
     const SUM* __restrict__ start,           // (outputs)
     SUM* __restrict__ out) {                 // (n, outputs), or terms: (trees, n)
    extern __shared__ __align__(16) unsigned char shared_memory[];
    unsigned char* planes = shared_memory;
    word* reached = (word*)(planes + room * COLUMN);           // (2, TEAMS, WORDS)
    word* values = reached + 2 * TEAMS * WORDS;                // (2, TEAMS, PARTS, SIZE)
    uint2* programs = (uint2*)(values + 2 * TEAMS * PARTS * SIZE);   // (TEAMS, longest)
    int lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
    int word_of_row = threadIdx.x / 4;  // of a byte for each: four threads side by side fill a sector
    int place = word_of_row % LANES * 32 + word_of_row / LANES * 4 + threadIdx.x % 4;
    int groups = (n + GROUP - 1) / GROUP, buffer = 0;
    for (int tile = blockIdx.x; (long long)tile * TILE < n; tile += gridDim.x) {
        int row = tile * TILE + place, chunk = 0, ready = 0;
        for (int output = blockIdx.y; output < outputs; output += gridDim.y) {
#if !TERMS
            SUM sums[ROWS];
#pragma unroll
            for (int j = 0; j < ROWS; ++j) sums[j] = start[output];
#endif
            int last = of_output[output + 1];
            for (int base = of_output[output], end; base < last; base = end, buffer ^= 1) {
                if (base >= ready) {  // no thread reads planes: the last barrier came behind that
                    while (chunk_end[chunk] <= base) ++chunk;
                    int begin = first_picked[chunk], count = first_picked[chunk + 1] - begin;
                    write_planes(codes, columns, picked + begin, count, groups, tile, planes);
                    ready = chunk_end[chunk++];
                    __syncthreads();
                }
                end = min(min(base + int(TEAMS), last), ready);
                int tree = base + team;
                uint2* program = programs + team * longest;
                word* table = values + (buffer * TEAMS + team) * PARTS * SIZE;
                if (tree < end) {
                    int count = first[tree + 1] - first[tree];
                    for (int i = lane; i < count; i += LANES) program[i] = cutoffs[first[tree] + i];
                    for (int i = lane; i < SIZE; i += LANES) {
                        table[i] = low[tree * SIZE + i];
                        if (PARTS == 2) table[SIZE + i] = high[tree * SIZE + i];
                    }
                }
                __syncwarp();
                if (tree < end)
                    write_codes(program, planes, reached + (buffer * TEAMS + team) * WORDS);
                __syncthreads();
                const unsigned char* from =
                    (const unsigned char*)(reached + buffer * TEAMS * WORDS) + threadIdx.x;
                const word* tables = values + buffer * TEAMS * PARTS * SIZE;
#pragma unroll 4
                for (int t = 0; t < end - base; ++t) {
                    const word* its = tables + t * PARTS * SIZE;
#pragma unroll
                    for (int j = 0; j < ROWS; ++j) {
                        SUM value = value_of<SUM>(its, its + SIZE, from[t * TILE + j * THREADS]);
#if TERMS
                        int its_row = row + j * STEP;
                        if (its_row < n) out[(long long)(base + t) * n + its_row] = value;
#else
                        sums[j] = plus(sums[j], value);
#endif
                    }
                }
            }
#if !TERMS
#pragma unroll
            for (int j = 0; j < ROWS; ++j)
                if (row + j * STEP < n)
                    out[(long long)(row + j * STEP) * outputs + output] = sums[j];
#endif
        }
    }
}
