// Trees of any depth: a thread takes four rows down each tree. INPUT: dtype of the values. SUM:
// dtype of the sums; int for leaf numbers. TERMS: whether each tree's value is written, not their
// sum. STAGED: whether rows fit shared memory.
//
// A node is a threshold and a branch: the feature, whether NaN goes right, whether the right child
// is a leaf, whether the left one is, and, in the last bits, the place of the pair of its children.
// A leaf is its value. A tree begins with a node that all rows pass to the right, to the root. All
// warps walk one tree at about the same time, so its upper levels stay in the first cache. The rows
// lie in shared memory, [feature][row]: no two lanes meet in a bank, and a thread reads only what it
// wrote.
enum { ROWS = 4, BLOCK_ROWS = THREADS * ROWS };

template <class T> struct NodeOf { typedef uint2 type; };
template <> struct NodeOf<double> { typedef uint4 type; };
typedef NodeOf<INPUT>::type Node;

__device__ __forceinline__ float threshold_of(uint2 node) { return __int_as_float(node.x); }
__device__ __forceinline__ double threshold_of(uint4 node) {
    return __hiloint2double(node.y, node.x);
}
__device__ __forceinline__ word branch_of(uint2 node) { return node.y; }
__device__ __forceinline__ word branch_of(uint4 node) { return node.z; }

extern "C" __global__ void __launch_bounds__(THREADS)
deep(const INPUT* __restrict__ x, int n, int features, int outputs, int bits,
     const int* __restrict__ of_output,     // (outputs + 1): first tree of each
     const Node* __restrict__ nodes,        // tree after tree, level after level
     const int* __restrict__ first,         // (trees): first node of each
     const SUM* __restrict__ start,           // (outputs)
     SUM* __restrict__ out) {                 // (n, outputs), or terms: (trees, n)
    int row = blockIdx.x * BLOCK_ROWS + threadIdx.x;
#if STAGED
    extern __shared__ __align__(16) unsigned char shared_memory[];
    INPUT* own = (INPUT*)shared_memory + threadIdx.x;  // (features, BLOCK_ROWS)
#pragma unroll 4
    for (int feature = 0; feature < features; ++feature)
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            own[feature * BLOCK_ROWS + k * THREADS] =
                x[(long long)min(row + k * THREADS, n - 1) * features + feature];
#else
    const INPUT* own[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
        own[k] = x + (long long)min(row + k * THREADS, n - 1) * features;
#endif
    for (int output = blockIdx.y; output < outputs; output += gridDim.y) {
#if !TERMS
        SUM sums[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; ++k) sums[k] = start[output];
#endif
        for (int tree = of_output[output]; tree < of_output[output + 1]; ++tree) {
            const Node* here = nodes + first[tree];
            Node at[ROWS];
            word branch[ROWS];  // 0 at a leaf
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                at[k] = here[0];
                branch[k] = branch_of(at[k]);
            }
            for (word any = 1; any;) {
                word next[ROWS];
                bool leaf[ROWS];
#pragma unroll
                for (int k = 0; k < ROWS; ++k) {
                    int feature = branch[k] >> (bits + 3);
#if STAGED
                    INPUT value = own[feature * BLOCK_ROWS + k * THREADS];
#else
                    INPUT value = own[k][feature];
#endif
                    bool above = value > threshold_of(at[k]), below = value <= threshold_of(at[k]);
                    word right = above | (!below & bool(branch[k] & 4u << bits));
                    next[k] = (branch[k] & ((1u << bits) - 1)) * 2 + right;
                    leaf[k] = branch[k] & (1u << bits) << right;
                }
                any = 0;
#pragma unroll
                for (int k = 0; k < ROWS; ++k) {
                    if (branch[k]) {
                        at[k] = here[next[k]];
                        branch[k] = leaf[k] ? 0 : branch_of(at[k]);
                    }
                    any |= branch[k];
                }
            }
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                SUM value = value_of<SUM>(&at[k].x, &at[k].y, 0);
#if TERMS
                int mine = row + k * THREADS;
                if (mine < n) out[(long long)tree * n + mine] = value;
#else
                sums[k] = plus(sums[k], value);
#endif
            }
        }
#if !TERMS
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            int mine = row + k * THREADS;
            if (mine < n) out[(long long)mine * outputs + output] = sums[k];
        }
#endif
    }
}
