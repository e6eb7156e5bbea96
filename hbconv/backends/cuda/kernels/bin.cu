// Values as codes. INPUT: dtype of the values. CATEGORIES: whether some columns have categories.
//
// A warp takes 32 columns of a group of rows. Edges of a lane stand in a bank of its own. A column
// of categories has no edges: its codes are looked up by the category.

enum { ROW = 32 * sizeof(INPUT) };  // bytes from an edge of a column to the next

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

extern "C" __global__ void __launch_bounds__(256)
bin(const INPUT* __restrict__ x, int n, int features, int columns,
    const int* __restrict__ feature,       // (columns): the feature that each reads
    const int* __restrict__ missing,       // (columns): code of NaN
    const int* __restrict__ last,          // (columns): last category, -1 for numbers
    const int* __restrict__ first,         // (columns): place of the first category's code
    const INPUT* __restrict__ edges,           // (passes, 256, 32): padded with infinity
    const unsigned char* __restrict__ lookup, uint2* __restrict__ codes) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    INPUT* mine = (INPUT*)shared_memory;
    for (int i = threadIdx.x; i < EDGES * 32; i += blockDim.x)
        mine[i] = edges[blockIdx.y * EDGES * 32 + i];
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int column = blockIdx.y * 32 + lane;
    if (column >= columns) return;
    int nan = missing[column], categories = last[column], groups = (n + GROUP - 1) / GROUP;
    const INPUT* from = x + feature[column];
    const unsigned char* found = lookup + first[column];
    for (int group = blockIdx.x * warps + warp; group < groups; group += gridDim.x * warps) {
        uint2* to = codes + ((long long)group * columns + column) * (GROUP / 8);
#pragma unroll 1
        for (int part = 0; part < GROUP / 8; ++part) {
            word v[2] = {0, 0};
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                int row = min(group * GROUP + part * 8 + i, n - 1);
                INPUT value = from[(long long)row * features];
                word code = CATEGORIES && categories >= 0 ? look_up(value, categories, found)
                                                          : count_edges(value, mine + lane);
                code = value != value ? nan : code;
                v[i / 4] |= code << (8 * (i % 4));
            }
            to[part] = make_uint2(v[0], v[1]);
        }
    }
}
