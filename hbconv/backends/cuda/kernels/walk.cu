// Deep trees: a thread takes two rows down each tree. SUM: dtype of the sums; int for leaf numbers.
// TERMS: whether each tree's value is written, not their sum.
//
// A node is one word: cutoff 8 bits | column 8 bits | 4 x place of the left child 16 bits. Siblings
// stand side by side, and a leaf leads to itself. The rows of a thread are those of its lane in the
// two halves of its warp's 64. Their codes stand in words, [warp][column][64]: a bank is a row, so
// no two lanes meet, and a lane reads only what it wrote. Trees pass through shared memory, two of
// them in turn. They come in chunks, which read no more columns than there is room for. Where terms
// are written, an "output" is a slice of the trees, and blocks side by side take one each.
enum { PARTS = sizeof(SUM) / 4, WARPS = THREADS / 32, BLOCK_ROWS = THREADS * 2 };

__device__ __forceinline__ void
copy_codes(const unsigned char* __restrict__ codes, int columns, const int* __restrict__ picked,
           int count, int groups, word* to) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int half = 0; half < 2; ++half) {
        int group = min(int(blockIdx.x * WARPS + warp) * 2 + half, groups - 1);
        const unsigned char* from = codes + (long long)group * columns * GROUP + lane;
#pragma unroll 16
        for (int place = 0; place < count; ++place)
            to[place * 64 + half * 32 + lane] = from[(long long)picked[place] * GROUP];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
walk(const unsigned char* __restrict__ codes, int n, int columns, int room, int outputs, int largest,
     const int* __restrict__ of_output,     // (outputs + 1): first tree of each
     const int* __restrict__ chunk_end,     // (chunks): the tree behind each
     const int* __restrict__ first_picked,  // (chunks + 1): first column of each
     const int* __restrict__ picked,        // columns, chunk after chunk
     const word* __restrict__ nodes,        // tree after tree, level after level
     const int* __restrict__ first,         // (trees + 1): first node of each
     const int* __restrict__ depth,         // (trees)
     const word* __restrict__ low,          // of values, by node
     const word* __restrict__ high,         // of double ones
     const SUM* __restrict__ start,           // (outputs)
     SUM* __restrict__ out) {                 // (n, outputs), or terms: (trees, n)
    extern __shared__ __align__(16) unsigned char shared_memory[];
    word* all = (word*)shared_memory;                          // (WARPS, room, 64)
    word* trees = all + WARPS * room * 64;                     // (2, 1 + PARTS, largest)
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = (blockIdx.x * WARPS + warp) * 64 + lane, chunk = 0, ready = 0;
    word lane4 = lane * 4;
    word* own = all + warp * room * 64;
    const unsigned char* mine = (const unsigned char*)own;
    for (int output = blockIdx.y; output < outputs; output += gridDim.y) {
#if !TERMS
        SUM sums[2] = {start[output], start[output]};
#endif
        for (int tree = of_output[output]; tree < of_output[output + 1]; ++tree) {
            if (tree >= ready) {
                while (chunk_end[chunk] <= tree) ++chunk;
                int from = first_picked[chunk], count = first_picked[chunk + 1] - from;
                copy_codes(codes, columns, picked + from, count, (n + GROUP - 1) / GROUP, own);
                ready = chunk_end[chunk++];
            }
            word* here = trees + (tree & 1) * (1 + PARTS) * largest;
            int begin = first[tree], count = first[tree + 1] - begin;
            for (int i = threadIdx.x; i < count; i += THREADS) {
                here[i] = nodes[begin + i];
                here[largest + i] = low[begin + i];
                if (PARTS == 2) here[2 * largest + i] = high[begin + i];
            }
            __syncthreads();
            word at[2] = {0, 0};
            for (int level = depth[tree]; level > 0; --level) {
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    word node = *(const word*)((const unsigned char*)here + at[k]);
                    word place = __byte_perm(node, lane4, 0x5524);   // column * 256 + lane * 4
                    word code = *(const word*)(mine + k * 128 + place);
                    at[k] = (node & 0xffff) + (code >= node >> 24 ? 4 : 0);
                }
            }
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                SUM value = value_of<SUM>(here + largest, here + 2 * largest, at[k]);
#if TERMS
                int mine_too = row + k * 32;
                if (mine_too < n) out[(long long)tree * n + mine_too] = value;
#else
                sums[k] = plus(sums[k], value);
#endif
            }
        }
#if !TERMS
#pragma unroll
        for (int k = 0; k < 2; ++k)
            if (row + k * 32 < n) out[(long long)(row + k * 32) * outputs + output] = sums[k];
#endif
    }
}
