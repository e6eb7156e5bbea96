// Deep trees: a thread takes eight rows down each tree. SUM: dtype of the sums; int for leaf
// numbers. TERMS: whether each tree's value is written, not their sum.
//
// A node is one word: column 8 bits | place of the left child 16 bits | 256 - cutoff 8 bits. So a
// code that is added to it carries into the place where it is not below the cutoff, and the right
// child stands there, beside the left one. A leaf leads to itself: its last byte is 0. Four rows of
// a thread, 32 apart, have their codes in the bytes of a word, [warp][half][column][32]: no two
// lanes meet in a bank, and a lane reads only what it wrote. Trees pass through shared memory, two
// of them in turn: the next one arrives while rows walk. They come in chunks, which read no more
// columns than there is room for.
enum { PARTS = sizeof(SUM) / 4, WARPS = THREADS / 32, ROWS = 8, WARP_ROWS = 32 * ROWS };

__device__ __forceinline__ void
copy_codes(const unsigned char* __restrict__ codes, int columns, const int* __restrict__ picked,
           int count, int group, int groups, int room, word* to) {
#pragma unroll 2
    for (int place = 0; place < count; ++place) {
        word packed[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            long long from = (long long)min(group + k, groups - 1) * columns + picked[place];
            packed[k / 4] |= word(codes[from * GROUP + threadIdx.x % 32]) << k % 4 * 8;
        }
        for (int half = 0; half < 2; ++half) to[(half * room + place) * 32] = packed[half];
    }
}

__device__ __forceinline__ void copy_tree(const uint4* __restrict__ from, int count, word* to) {
    for (int i = threadIdx.x; i < count; i += THREADS) copy_later((uint4*)to + i, from + i);
}

// Products of bytes pick one of four and add it, in an instruction that waits for no other pipe.
// Columns are 128 bytes apart.
__device__ __forceinline__ word codes_of(word node, const unsigned char* memory, word own) {
    return *(const word*)(memory + __dp4a(node, 128u << 24, own));
}

__device__ __forceinline__ word step(word node, word codes, int k) {
    return __dp4a(codes, 1u << k % 4 * 8, node);
}

__device__ __forceinline__ word place_of(word step) { return __byte_perm(step, 0, 0x4421); }

extern "C" __global__ void __launch_bounds__(THREADS, 768 / THREADS)
walk(const unsigned char* __restrict__ codes, int n, int columns, int room, int outputs, int largest,
     const int* __restrict__ of_output,     // (outputs + 1): first tree of each
     const int* __restrict__ chunk_end,     // (chunks): the tree behind each
     const int* __restrict__ first_picked,  // (chunks + 1): first column of each
     const int* __restrict__ picked,        // columns, chunk after chunk
     const uint4* __restrict__ words,       // of each tree: nodes, level after level, then values
     const int* __restrict__ first,         // (trees + 1): first of each tree
     const int* __restrict__ depth,         // (trees)
     const SUM* __restrict__ start,           // (outputs)
     SUM* __restrict__ out) {                 // (n, outputs), or terms: (trees, n)
    extern __shared__ __align__(16) unsigned char shared_memory[];
    word* trees = (word*)shared_memory;                        // (2, largest)
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    word* to = trees + 2 * largest + warp * 2 * room * 32 + lane;
    word first_half = word((unsigned char*)to - shared_memory);
    word own[2] = {first_half, first_half + room * 128};
    int group = (blockIdx.x * WARPS + warp) * ROWS, row = group * GROUP + lane;
    int chunk = 0, ready = 0;
    for (int output = blockIdx.y; output < outputs; output += gridDim.y) {
        int end = of_output[output + 1];
#if !TERMS
        SUM sums[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; ++k) sums[k] = start[output];
#endif
        int tree = of_output[output];
        __syncthreads();  // the last tree of another output may be there
        if (tree < end)
            copy_tree(words + first[tree], first[tree + 1] - first[tree],
                      trees + (tree & 1) * largest);
        for (; tree < end; ++tree) {
            if (tree >= ready) {
                while (chunk_end[chunk] <= tree) ++chunk;
                int from = first_picked[chunk], count = first_picked[chunk + 1] - from;
                copy_codes(codes, columns, picked + from, count, group, (n + GROUP - 1) / GROUP,
                           room, to);
                ready = chunk_end[chunk++];
            }
            const word* here = trees + (tree & 1) * largest;
            int begin = first[tree], behind = first[tree + 1], levels = depth[tree];
            wait_for_copies();
            __syncthreads();
            if (tree + 1 < end)
                copy_tree(words + behind, first[tree + 2] - behind, trees + (~tree & 1) * largest);
            word at[ROWS];
            word root = here[0];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                word four = codes_of(root, shared_memory, own[half]);
#pragma unroll
                for (int k = 0; k < 4; ++k) at[half * 4 + k] = step(root, four, k);
            }
            if (levels > 1) {
                word left = here[1], right = here[2];
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    word four = codes_of(left, shared_memory, own[half]);
                    word others = codes_of(right, shared_memory, own[half]);
#pragma unroll
                    for (int k = half * 4; k < half * 4 + 4; ++k)
                        at[k] = place_of(at[k]) == 1 ? step(left, four, k) : step(right, others, k);
                }
            }
            for (int level = levels; level > 2; --level) {
#pragma unroll
                for (int k = 0; k < ROWS; ++k) {
                    word node = here[place_of(at[k])];
                    at[k] = step(node, codes_of(node, shared_memory, own[k / 4]), k);
                }
            }
            const word* low = here + (behind - begin) / (1 + PARTS) * 4;
            const word* high = low + (behind - begin) / (1 + PARTS) * 4;
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                SUM value = value_of<SUM>(low, high, place_of(at[k]) * 4);
#if TERMS
                int mine = row + k * 32;
                if (mine < n) out[(long long)tree * n + mine] = value;
#else
                sums[k] = plus(sums[k], value);
#endif
            }
        }
#if !TERMS
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            if (row + k * 32 < n) out[(long long)(row + k * 32) * outputs + output] = sums[k];
#endif
    }
}
