// Values as codes. INPUT: dtype of the values. CATEGORIES: whether some columns have categories.
//
// A warp takes 32 columns of 8 rows at once. Edges of a lane stand in a bank of its own. A column
// of categories has no edges: its codes are looked up by the category.

enum {
    ROW = 32 * sizeof(INPUT),      // bytes from an edge of a column to the next
    QUADS = EDGES * ROW / 16,      // of 16 bytes, in which a block copies its edges
    THREADS = 256,
    WARPS = THREADS / 32,
    PARTS = GROUP / 8,             // of a group: a warp takes 8 rows at once
};

// Count the edges that a value is not at or below. The first may be NaN, of which all lies right.
// The place is an offset in bytes: an index would be one more instruction for each step.
__device__ __forceinline__ word count_edges(INPUT value, const INPUT* edges) {
    word place = 0;
#pragma unroll
    for (int step = 128; step; step /= 2) {
        const unsigned char* at = (const unsigned char*)edges + place + (step - 1) * ROW;
        if (!(value <= *(const INPUT*)at)) place += step * ROW;
    }
    return place / ROW;
}

__device__ __forceinline__ word look_up(INPUT value, int last, const unsigned char* codes) {
    int category = double(value) >= last ? last : int(value);
    return codes[max(category, 0)];
}

extern "C" __global__ void __launch_bounds__(THREADS)
bin(const INPUT* __restrict__ x, int n, int features, int columns,
    const int* __restrict__ feature,       // (columns): the feature that each reads
    const int* __restrict__ missing,       // (columns): code of NaN
    const int* __restrict__ last,          // (columns): last category, -1 for numbers
    const int* __restrict__ first,         // (columns): place of the first category's code
    const INPUT* __restrict__ edges,           // (passes, 256, 32): padded with infinity
    const unsigned char* __restrict__ lookup, uint2* __restrict__ codes) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    const INPUT* mine = (const INPUT*)shared_memory;
    const uint4* all = (const uint4*)edges + blockIdx.y * QUADS;
#pragma unroll 8
    for (int i = threadIdx.x; i < QUADS; i += THREADS) ((uint4*)shared_memory)[i] = all[i];
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int column = blockIdx.y * 32 + lane;
    if (column >= columns) return;
    int nan = missing[column], categories = last[column], groups = (n + GROUP - 1) / GROUP;
    const INPUT* from = x + feature[column];
    const unsigned char* found = lookup + first[column];
    for (int item = blockIdx.x * WARPS + warp; item / PARTS < groups; item += gridDim.x * WARPS) {
        word v[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            int row = min(item * 8 + i, n - 1);
            INPUT value = from[(long long)row * features];
            word code = CATEGORIES && categories >= 0 ? look_up(value, categories, found)
                                                      : count_edges(value, mine + lane);
            code = value != value ? nan : code;
            v[i / 4] |= code << (8 * (i % 4));
        }
        uint2* to = codes + ((long long)(item / PARTS) * columns + column) * PARTS;
        to[item % PARTS] = make_uint2(v[0], v[1]);
    }
}
