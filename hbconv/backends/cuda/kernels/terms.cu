// Sums of terms that another kernel wrote, in the trees' order. SUM: dtype of the sums.
//
// A block takes 32 rows, a lane each. One warp adds: a sum's additions wait for each other. The
// others meanwhile bring the next chunk of terms to shared memory, two of them in turn: a term takes
// as long to come as a hundred additions.
enum { LOADERS = 8, EACH = 16, CHUNK = LOADERS * EACH };

__device__ __forceinline__ void
load_terms(const SUM* __restrict__ from, int n, int count, SUM* to) {
    SUM mine[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i)
        if (i < count) mine[i] = from[(long long)i * n];
#pragma unroll
    for (int i = 0; i < EACH; ++i)
        if (i < count) to[i * 32] = mine[i];
}

extern "C" __global__ void __launch_bounds__(32 * (1 + LOADERS))
terms(const SUM* __restrict__ values,       // (trees, n)
      int n, int outputs,
      const int* __restrict__ of_output,    // (outputs + 1): first tree of each
      const SUM* __restrict__ start,        // (outputs)
      SUM* __restrict__ out) {              // (n, outputs)
    extern __shared__ __align__(16) unsigned char shared_memory[];
    int lane = threadIdx.x % 32, loader = threadIdx.x / 32 - 1, row = blockIdx.x * 32 + lane;
    SUM* mine = (SUM*)shared_memory + lane;   // of (2, CHUNK, 32)
    int buffer = 0;
    for (int output = blockIdx.y; output < outputs; output += gridDim.y) {
        SUM sum = start[output];
        int last = of_output[output + 1];
        for (int first = of_output[output]; first < last; first += CHUNK, buffer ^= 1) {
            SUM* held = mine + buffer * CHUNK * 32;
            int tree = first + loader * EACH;
            const SUM* from = values + (long long)tree * n + min(row, n - 1);
            if (loader >= 0) load_terms(from, n, last - tree, held + loader * EACH * 32);
            __syncthreads();
            if (loader >= 0) continue;
            int count = min(last - first, int(CHUNK));
#pragma unroll 16
            for (int i = 0; i < count; ++i) sum = plus(sum, held[i * 32]);
        }
        if (loader < 0 && row < n) out[(long long)row * outputs + output] = sum;
    }
}
