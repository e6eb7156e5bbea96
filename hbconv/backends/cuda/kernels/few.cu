// A few rows of any trees: a block for each row, a thread for each tree. INPUT: dtype of the
// values. SUM: dtype of the sums; int for leaf numbers. TERMS: whether each tree's value is written.
//
// A node is four words: its threshold, in one word or two; the feature, whether NaN goes right (bit
// 30), and whether it is a category (bit 31), which has the place of its first decision and its
// last category for a threshold; and the place of the left child, or ~leaf.
enum { CHUNK = 4096 };

__device__ __forceinline__ INPUT threshold_of(uint4 node) {
    return sizeof(INPUT) == 4 ? INPUT(__int_as_float(node.x))
                              : INPUT(__hiloint2double(node.y, node.x));
}

__device__ __forceinline__ bool
goes_left(uint4 node, INPUT value, const unsigned char* __restrict__ decisions) {
    if (node.z >> 31) {
        int last = node.y, category = double(value) >= last ? last : int(value);
        return decisions[node.x + max(category, 0)];
    }
    return value != value ? !(node.z >> 30 & 1) : value <= threshold_of(node);
}

__device__ __forceinline__ int
find_leaf(const uint4* __restrict__ nodes, int root, const INPUT* __restrict__ x,
          const unsigned char* __restrict__ decisions) {
    uint4 node = nodes[root];
    while (int(node.w) >= 0) {
        INPUT value = x[node.z & 0x3fffffff];
        node = nodes[node.w + (goes_left(node, value, decisions) ? 0 : 1)];
    }
    return ~int(node.w);
}

extern "C" __global__ void __launch_bounds__(512)
few(const INPUT* __restrict__ x, int n, int features, int trees, int outputs,
    const int* __restrict__ of_output,      // (outputs + 1): first tree of each
    const uint4* __restrict__ nodes, const int* __restrict__ roots,
    const unsigned char* __restrict__ decisions,
    const SUM* __restrict__ values,           // (leaves)
    const SUM* __restrict__ start,            // (outputs)
    SUM* __restrict__ out) {                  // (n, outputs), or terms: (trees, n)
#if !TERMS
    extern __shared__ __align__(16) unsigned char shared_memory[];
    SUM* terms = (SUM*)shared_memory;       // (CHUNK)
#endif
    const INPUT* mine = x + (long long)blockIdx.x * features;
    for (int begin = 0; begin < trees; begin += CHUNK) {
        int end = min(trees, begin + int(CHUNK));
        for (int tree = begin + threadIdx.x; tree < end; tree += blockDim.x) {
            int leaf = find_leaf(nodes, roots[tree], mine, decisions);
#if TERMS
            out[(long long)tree * n + blockIdx.x] = values[leaf];
#else
            terms[tree - begin] = values[leaf];
#endif
        }
#if !TERMS
        __syncthreads();
        for (int output = threadIdx.x; output < outputs; output += blockDim.x) {
            SUM* to = out + (long long)blockIdx.x * outputs + output;
            SUM sum = begin ? *to : start[output];
            int stop = min(end, of_output[output + 1]);
#pragma unroll 8
            for (int tree = max(begin, of_output[output]); tree < stop; ++tree)
                sum = plus(sum, terms[tree - begin]);
            *to = sum;
        }
        __syncthreads();
#endif
    }
}
