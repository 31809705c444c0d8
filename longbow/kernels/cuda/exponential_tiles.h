#pragma once
// A block owns a span, and each of its warps 16 tokens. Features are met 16 at a time: of the own
// tokens they stay in registers, where a product leaves them as the next one takes them, and those
// of all others go through a small tile in shared memory. Pairs of tokens are added up meanwhile.
#ifdef __CUDACC__
#include "longbow/kernels/causal_exponential.h"
#include "longbow/kernels/cuda/feature_stage.h"
#include "longbow/kernels/cuda/random_tiles.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels::exponential {

constexpr auto kMap = RandomMap::exponential;
constexpr int kThreads = 256, kWarps = kThreads / 32, kSpan = CausalExponential::span;
constexpr int kStep = 16, kStepStride = mma::padded(kStep);  // features that are met at a time
constexpr int kMostProjections = 384;                        // as random_shape has it
constexpr float kNothing = -1e30f;

using Tokens = TokenStage<kMap, kThreads>;
using Values = Stage<kDepth, kThreads, kSpan>;

// Peaks and offsets are exponents of two here.
struct Memory {
  static constexpr int kTable = 2 * kStep * kStride, kTables = 3, kFeatures = kSpan * kStepStride;
  static constexpr size_t kBytes =
      sizeof(Number) * (4 * kSpan * kStride + 2 * kFeatures + kTables * kTable) +
      sizeof(float) * (kMostProjections + 5 * kSpan);
  Number *q, *k, *g, *v;  // [128, D]
  Number* phi;            // twice [128, 16], of the other tokens
  Number* tables;         // three times: omega [16, D], sums [16, D]
  float* z;               // [P], beside the sums
  float *column, *peaks, *most, *query_offset, *key_offset;  // [128]

  __device__ explicit Memory(unsigned char* shared)
      : q(reinterpret_cast<Number*>(shared)),
        k(q + kSpan * kStride),
        g(k + kSpan * kStride),
        v(g + kSpan * kStride),
        phi(v + kSpan * kStride),
        tables(phi + 2 * kFeatures),
        z(reinterpret_cast<float*>(tables + kTables * kTable)),
        column(z + kMostProjections),
        peaks(column + kSpan),
        most(peaks + kSpan),
        query_offset(most + kSpan),
        key_offset(query_offset + kSpan) {}
};

// What this thread knows of its warp's tokens, of which it holds the rows g and g + 8.
struct Lane {
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
      g = lane / 4, t = lane % 4, row = warp * 16 + g;
};

// Queries or keys of the span: rows [128, D] and offsets.
struct Side {
  const Number* x;
  const float* offset;
};

// A left factor to rows of a tile, from where they can be read as its transpose.
__device__ inline void put_tile(Number* to, const mma::A& a) {
  const Lane at;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<uint32_t*>(to + (at.g + i % 2 * 8) * kStepStride + i / 2 * 8 + 2 * at.t) =
        a.part[i];
}

struct Block {
  const CausalExponential& task;
  const Memory& memory;
  Span span;
  int64_t spans, token;

  __device__ Block(const CausalExponential& all, const Memory& shared)
      : task(all), memory(shared), spans((all.q.tokens + kSpan - 1) / kSpan) {
    const int64_t group = blockIdx.y, first = blockIdx.x * int64_t{kSpan}, end = first + kSpan;
    const unsigned heads = static_cast<unsigned>(all.heads);
    span = {group, blockIdx.y / heads, blockIdx.y % heads, first,
            end < all.q.tokens ? end : all.q.tokens};
    token = group * all.q.tokens;
  }
  __device__ int64_t span_at() const { return span.group * spans + blockIdx.x; }
  __device__ int rows() const { return static_cast<int>(task.shape.projections); }
  // The weights of 16 queries of the span for 16 of its keys, as left factors of 32 threads.
  __device__ uint4* pairs(int queries, int keys) const {
    constexpr int kTiles = CausalExponential::tiles;
    return static_cast<uint4*>(task.pairs) +
           (span_at() * kTiles + queries * (queries + 1) / 2 + keys) * 32;
  }
  __device__ Side queries() const { return {memory.q, memory.query_offset}; }
  __device__ Side keys() const { return {memory.k, memory.key_offset}; }

  // Without waiting. Of what a token that is not kept holds nothing is read.
  __device__ void start_tokens() const {
    start_rows(memory.q, task.q.x, task.q.width, nullptr);
    start_rows(memory.k, task.k.x, task.k.width,
               task.k.keep ? task.k.keep + span.b * task.k.tokens : nullptr);
    start_rows(memory.v, task.v, task.depth, nullptr);
    const int at = static_cast<int>(threadIdx.x) * 4;
    if (at < rows()) mma::copy_async(memory.z + at, task.beside + span_at() * rows() + at, true);
    start_tables();
  }
  __device__ void put_offsets() const {
    if (threadIdx.x >= kSpan) return;
    const int64_t n = span.first + threadIdx.x;
    const bool there = n < span.end;
    const float peak = there ? task.peaks[token + n] : kNothing,
                query = there ? task.q.offset[token + n] : INFINITY;
    const bool kept = there && (!task.k.keep || task.k.keep[span.b * task.k.tokens + n]);
    const float key = kept ? task.k.offset[token + n] : INFINITY;
    memory.peaks[threadIdx.x] = peak * kLog2E;
    memory.query_offset[threadIdx.x] = query * kLog2E;
    memory.key_offset[threadIdx.x] = key * kLog2E;
  }
  // m of the tokens of the span, INFINITY behind its end; and y = g / d.
  __device__ void load_gradient(const ByHead& from) const {
    const int thread = static_cast<int>(threadIdx.x);
    Values g;
    g.load(rows_of(from, span.b, span.h), span.first, span.end, task.depth);
    const float scale = g.scale_of(task.inverse + token, span.first, span.end);
    if (thread < kSpan) {
      const int64_t n = span.first + thread;
      memory.most[thread] = n < span.end ? task.most[token + n] * kLog2E : INFINITY;
    }
    g.scale(scale);
    g.store(memory.g);
  }

  // The first two tables; the loops expect them to have arrived.
  __device__ void start_tables() const {
    start_table(0, memory.tables);
    if (rows() > kStep) start_table(1, memory.tables + Memory::kTable);
    mma::commit_copies();
  }
  __device__ void await() const {
    mma::await_copies<0>();
    __syncthreads();
  }

  // use(phi, omega, sums, z, others, slot) for 16 features at a time: phi of this warp's own
  // tokens, and those of all others [128, 16]. While they are used, those of the next step are
  // formed. Where it is there, `lent` has in one of two slots phi of the later half of the own
  // tokens, too.
  template <class F>
  __device__ __forceinline__ void each_step(const Side& own, const Side& others, const F& use,
                                            Number* lent = nullptr) const {
    const Features mine(*this, own), all(*this, others);
    const int steps = rows() / kStep;
    Number *table = memory.tables, *next = table + Memory::kTable, *free = next + Memory::kTable;
    mma::A phi;
    const auto form = [&](int s, const Number* omega) {
      mma::C u[2][2] = {}, others_u[2][2] = {};
      const Rows16 x(mine.x), others_x(all.x);
#pragma unroll
      for (int d = 0; d < kDepth / 16; ++d) {
        const mma::TwoB b = mma::b_of_columns(omega + d * 16, kStride);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          mma::multiply<Number>(u[0][n], x.part[d], b.tile[n]);
          mma::multiply<Number>(others_u[0][n], others_x.part[d], b.tile[n]);
        }
      }
      all.apply(others_u, s);
      mine.apply(u, s);
      put_tile(memory.phi + s % 2 * Memory::kFeatures + Lane().warp * 16 * kStepStride,
               mma::a_of<Number>(others_u[0][0], others_u[0][1]));
      const mma::A formed = mma::a_of<Number>(u[0][0], u[0][1]);
      const int warp = Lane().warp - kWarps / 2;
      if (lent && warp >= 0) put_tile(lent + (s % 2 * kSpan / 2 + warp * 16) * kStepStride, formed);
      return formed;
    };
    phi = form(0, table);
    __syncthreads();
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      if (s + 2 < steps) start_table(s + 2, free);
      mma::commit_copies();
      // Behind the last step these are of rows that are there, but have no use.
      const mma::A ahead = form(s + 1, s + 1 < steps ? next : table);
      use(phi, table, table + kStep * kStride, memory.z + s * kStep,
          memory.phi + s % 2 * Memory::kFeatures, s % 2);
      phi = ahead;
      await();
      Number* const done = table;
      table = next;
      next = free;
      free = done;
    }
  }
  // use(phi, sums) for 16 features of the own tokens at a time.
  template <class F>
  __device__ __forceinline__ void each_own_step(const Side& own, const F& use) const {
    const Features mine(*this, own);
    const int steps = rows() / kStep;
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      Number* const table = memory.tables + s % Memory::kTables * Memory::kTable;
      if (s + 2 < steps)
        start_table(s + 2, memory.tables + (s + 2) % Memory::kTables * Memory::kTable);
      mma::commit_copies();
      mma::C u[2][2] = {};
      Rows16(mine.x).times_transposed(u[0], table);
      mine.apply(u, s);
      use(mma::a_of<Number>(u[0][0], u[0][1]), table + kStep * kStride);
      await();
    }
  }

 private:
  // Features of this warp's 16 of 128 tokens.
  struct Features {
    const Number* x;
    float factor[2], offset[2];
    int projections;

    __device__ Features(const Block& block, const Side& side)
        : projections(static_cast<int>(block.task.q.projections)) {
      const Lane at;
      x = side.x + at.warp * 16 * kStride;
      factor[0] = factor[1] = for_map<kMap>(block.task.q.factor);
      offset[0] = side.offset[at.row];
      offset[1] = side.offset[at.row + 8];
    }
    __device__ void apply(mma::C (&u)[2][2], int step) const {
      apply_map<kMap>(u, factor, offset, projections - step * kStep);
    }
  };

  __device__ void start_rows(Number* to, const ByHead& from, int64_t width,
                             const bool* keep) const {
    constexpr int kPacks = kDepth / 8, kRows = kThreads / kPacks;
    const HeadRows rows = rows_of(from, span.b, span.h);
    const int row = static_cast<int>(threadIdx.x) / kPacks,
              channel = static_cast<int>(threadIdx.x) % kPacks * 8;
#pragma unroll
    for (int i = 0; i < kSpan; i += kRows) {
      const int64_t n = span.first + row + i;
      const bool there = n < span.end && channel < width && (!keep || keep[n]);
      mma::copy_async(to + (row + i) * kStride + channel,
                      rows.data + (there ? n * rows.stride + channel : 0), there);
    }
  }
  // Rows of omega and of the sums: half of the threads have the first.
  __device__ void start_table(int step, Number* to) const {
    constexpr int kPacks = kStep * kDepth / 8;
    const int thread = static_cast<int>(threadIdx.x), pack = thread % kPacks;
    const auto* from = thread < kPacks
                           ? matrix_of(task.q.omega, task.q.omega_head, span)
                           : static_cast<const Number*>(task.sums) + span_at() * rows() * kDepth;
    mma::copy_async(to + thread / (kDepth / 8) * kStride + pack % (kDepth / 8) * 8,
                    from + (step * kPacks + pack) * 8, true);
  }
};

// Whether own tokens meet the 16 others from 16 n on: of queries the earlier, of keys the later.
template <bool kKeys>
__device__ __forceinline__ bool meets(int n) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return kKeys ? n >= warp : n <= warp;
}

// Each pair with the 16 others from 16 n on times exp(p_j - m_i), or 0 where query i does not see
// key j: where they are the same `tokens`.
template <bool kKeys>
__device__ __forceinline__ void weigh(mma::C* pairs, int n, const float (&own)[2],
                                      const float* others, int tokens) {
  const Lane at;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float other = others[n * 16 + i / 4 * 8 + 2 * at.t + i % 2], mine = own[i % 4 / 2];
    pairs[i / 4].part[i % 4] *= mma::power_of_two(kKeys ? mine - other : other - mine);
  }
  if (n != tokens) return;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = at.g + i % 4 / 2 * 8, other = i / 4 * 8 + 2 * at.t + i % 2;
    if (kKeys ? other < row : other > row) pairs[i / 4].part[i % 4] = 0;
  }
}

inline dim3 blocks_of(const CausalExponential& task) {
  return {static_cast<unsigned>((task.q.tokens + kSpan - 1) / kSpan),
          static_cast<unsigned>(task.batch * task.heads)};
}

}  // namespace longbow::kernels::exponential
#endif
