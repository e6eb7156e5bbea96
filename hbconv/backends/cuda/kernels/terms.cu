// Sums of terms that another kernel wrote, in the trees' order. SUM: dtype of the sums.
//
// A warp takes 32 rows. AHEAD terms are on their way, since one takes as long to come as a hundred
// additions; those of a PART are added, then as many are asked for in their place.
enum { AHEAD = 64, PART = 16 };

extern "C" __global__ void __launch_bounds__(32)
terms(const SUM* __restrict__ values,       // (trees, n)
      int n, int outputs,
      const int* __restrict__ of_output,    // (outputs + 1): first tree of each
      const SUM* __restrict__ start,        // (outputs)
      SUM* __restrict__ out) {              // (n, outputs)
    int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= n) return;
    for (int output = blockIdx.y; output < outputs; output += gridDim.y) {
        SUM sum = start[output];
        int first = of_output[output], last = of_output[output + 1];
        const SUM* from = values + (long long)first * n + row;
        SUM mine[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            if (first + i < last) mine[i] = from[(long long)i * n];
        for (; first < last; first += AHEAD) {
            from += (long long)AHEAD * n;
#pragma unroll
            for (int part = 0; part < AHEAD; part += PART) {
#pragma unroll
                for (int i = part; i < part + PART; ++i)
                    if (first + i < last) sum = plus(sum, mine[i]);
#pragma unroll
                for (int i = part; i < part + PART; ++i)
                    if (first + AHEAD + i < last) mine[i] = from[(long long)i * n];
            }
        }
        out[(long long)row * outputs + output] = sum;
    }
}
