#pragma once
// A block owns 128 tokens, and each of its warps 16, which meet others up to 32 tokens before and
// after them; under a causal mask also those of the own span. Features are met 32 at a time: of own
// tokens they stay in registers, where a product leaves them as the next one takes them, and those
// of the others go through shared memory.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/feature_stage.h"
#include "longbow/kernels/cuda/random_tiles.h"
#include "longbow/kernels/exponent.h"
#include "longbow/kernels/random_window.h"

namespace longbow::kernels::window {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kSpan = RandomWindow::span, kSide = RandomWindow::side;
constexpr int kStep = 32, kStepStride = mma::padded(kStep);
constexpr int kMostFeatures = 384;  // as random_shape has it
constexpr float kNothing = -1e30f;

// What kernels know as constants.
template <bool mirrored, bool causal>
struct Form {
  static constexpr bool kMirrored = mirrored, kCausal = causal;
  static constexpr int kRows = mirrored ? kStep / 2 : kStep;  // projections of a step
  static constexpr int kOthers = kSpan + (causal ? 1 : 2) * kSide;
  static constexpr int kMet = causal ? kSpan / 16 : 2 * kSide / 16 + 1;  // tiles of a warp, at most
};

struct Memory {
  static constexpr int kOthers = Form<true, false>::kOthers;
  static constexpr int kTable = 2 * kStep * kStride;  // omega [16 or 32, D], sums [32, D]
  static constexpr int kShared = kOthers * kStepStride + 2 * kTable;
  static constexpr size_t kBytes =
      sizeof(Number) * (2 * kSpan * kStride + kOthers * kStride + kShared) +
      sizeof(float) * (kMostFeatures + 4 * kSpan + 4 * kOthers);
  static_assert(kOthers * kStride <= kShared && kBytes == RandomWindow::memory);
  Number *x, *y;         // [128, D]
  Number* other_x;       // [192, D]
  Number* other_y;       // [192, D], where features and tables will be
  Number *phi, *tables;  // [192, 32], of the others; twice
  float* z;              // [R], beside the sums
  // [128], [192]: offsets to base 2; c of queries; m of queries and p of keys; columns of queries.
  float *offset, *most, *peak, *column;
  float *other_offset, *other_most, *other_peak, *other_column;

  __device__ explicit Memory(unsigned char* shared)
      : x(reinterpret_cast<Number*>(shared)),
        y(x + kSpan * kStride),
        other_x(y + kSpan * kStride),
        other_y(other_x + kOthers * kStride),
        phi(other_y),
        tables(phi + kOthers * kStepStride),
        z(reinterpret_cast<float*>(other_y + kShared)),
        offset(z + kMostFeatures),
        most(offset + kSpan),
        peak(most + kSpan),
        column(peak + kSpan),
        other_offset(column + kSpan),
        other_most(other_offset + kOthers),
        other_peak(other_most + kOthers),
        other_column(other_peak + kOthers) {}
};

// What this thread knows of its warp's tokens, of which it holds the rows g and g + 8.
struct Lane {
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
      g = lane / 4, t = lane % 4, row = warp * 16 + g;
};

// Where this block stands.
struct Place {
  int64_t group, b, h, first, tokens;
  int64_t token;  // of the group

  __device__ explicit Place(const RandomWindow& all)
      : group(blockIdx.y),
        b(blockIdx.y / static_cast<unsigned>(all.heads)),
        h(blockIdx.y % static_cast<unsigned>(all.heads)),
        first(blockIdx.x * int64_t{kSpan}),
        tokens(all.q.tokens),
        token(group * tokens) {}
  __device__ bool has(int64_t n) const { return n >= 0 && n < tokens; }
  __device__ HeadRows rows(const ByHead& x) const { return rows_of(x, b, h); }
};

// kCount rows from token `first` on, zeros for tokens that are not there or not kept; each times
// the size of its number where there is a scale. use(row, n, there, |x|^2) for each.
template <int kCount, class F>
__device__ __forceinline__ void load_tokens(Number* to, const Place& place, const ByHead& from,
                                            int64_t first, int64_t width, const bool* keep,
                                            const float* scale, const F& use) {
  constexpr int kPacks = kCount * kDepth / 8 / kThreads;
  const HeadRows rows = place.rows(from);
  const int channel = static_cast<int>(threadIdx.x) % (kDepth / 8) * 8;
  const auto row_of = [](int i) {
    return (i * kThreads + static_cast<int>(threadIdx.x)) / (kDepth / 8);
  };
  uint4 packs[kPacks];
  float factors[kPacks];
  uint32_t there = 0;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int64_t n = first + row_of(i);
    const bool kept = place.has(n) && (!keep || keep[place.b * place.tokens + n]);
    there |= static_cast<uint32_t>(kept) << i;
    packs[i] = kept && channel < width
                   ? *reinterpret_cast<const uint4*>(rows.data + n * rows.stride + channel)
                   : uint4{0, 0, 0, 0};
    factors[i] = kept && scale ? fabsf(scale[place.token + n]) : 1;
  }
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    float x[8], square = 0;
    spread(packs[i], x);
#pragma unroll
    for (float& number : x) {
      number *= factors[i];
      square += number * number;
    }
    *reinterpret_cast<uint4*>(to + row_of(i) * kStride + channel) = scale ? packed(x) : packs[i];
    for (int lane = 1; lane < kDepth / 8; lane *= 2)
      square += __shfl_xor_sync(0xffffffffu, square, lane);
    if (channel == 0) use(row_of(i), first + row_of(i), static_cast<bool>(there >> i & 1), square);
  }
}
struct NothingMore {
  __device__ void operator()(int, int64_t, bool, float) const {}
};

// kKeys: own tokens are keys and the others queries, or the other way round.
template <class Form, bool kKeys>
struct Block {
  static constexpr bool kMirrored = Form::kMirrored, kCausal = Form::kCausal;
  static constexpr int kMet = Form::kMet;
  // The others begin that many tokens before the own.
  static constexpr int kBefore = kCausal && kKeys ? 0 : kSide;
  const RandomWindow& task;
  const Memory& memory;
  Place place;

  __device__ Block(const RandomWindow& all, const Memory& shared)
      : task(all), memory(shared), place(all) {}
  __device__ int rows() const { return static_cast<int>(task.shape.projections); }
  __device__ float half(float square) const { return task.q.factor * task.q.factor * square / 2; }
  // The place of the sums that are read: of all tokens or beside this span.
  __device__ int64_t sums_at() const {
    return kCausal ? place.group * gridDim.x + blockIdx.x : place.group;
  }
  // The peak of all keys, or of those before this span. For all threads of a warp at once.
  __device__ float peak_of_sums() const {
    const int64_t spans = kCausal ? blockIdx.x : task.k.peak_spans;
    float peak = kNothing;
    for (int64_t span = threadIdx.x % 32; span < spans; span += 32)
      peak = fmaxf(peak, task.k.peaks[place.group * task.k.peak_spans + span]);
    for (int other = 1; other < 32; other *= 2)
      peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, other));
    return peak;
  }

  // Keys with their offsets; those without features have an infinite one.
  template <int kCount>
  __device__ void load_keys(Number* to, float* offsets, float* peaks, int64_t first) const {
    const float all = kCausal ? 0 : peak_of_sums();
    load_tokens<kCount>(to, place, task.k.x, first, task.k.width, task.k.keep, nullptr,
                        [&](int row, int64_t n, bool there, float square) {
                          const float offset = !there    ? INFINITY
                                               : kCausal ? task.k.offset[place.token + n]
                                                         : half(square) + all;
                          offsets[row] = offset * kLog2E;
                          if (kCausal) peaks[row] = there ? task.peaks[place.token + n] : kNothing;
                        });
  }
  // Queries with their offsets, c and m.
  template <int kCount>
  __device__ void load_queries(Number* to, float* offsets, float* mosts, float* peaks,
                               int64_t first) const {
    load_tokens<kCount>(to, place, task.q.x, first, task.q.width, nullptr, nullptr,
                        [&](int row, int64_t n, bool there, float) {
                          offsets[row] = there ? task.offset[place.token + n] * kLog2E : INFINITY;
                          mosts[row] = there ? task.most[place.token + n] : 0;
                          if (kCausal) peaks[row] = there ? task.peak[place.token + n] : 0;
                        });
  }
  // y = g / d.
  template <int kCount>
  __device__ void load_slopes(Number* to, const ByHead& g, int64_t first) const {
    load_tokens<kCount>(to, place, g, first, task.depth, nullptr, task.inverse, NothingMore{});
  }
  template <int kCount>
  __device__ void load_values(Number* to, int64_t first) const {
    load_tokens<kCount>(to, place, task.v, first, task.depth, nullptr, nullptr, NothingMore{});
  }

  // The first of the tiles of others that this warp meets, and whether it meets the n-th from there
  // on; all others are as far away as no pair is.
  __device__ static int first_tile() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return kCausal && !kKeys ? min(warp, kSide / 16) : warp;
  }
  __device__ static bool meets(int n) {
    if (!kCausal) return true;
    const int warp = static_cast<int>(threadIdx.x) / 32, tile = first_tile() + n;
    return tile <= warp + kSide / 16 || (kKeys && tile < kWarps);
  }
  // What a pair of an own token and another counts: whether it has an exact weight, and the factor
  // of the product of its features beside what the sums have of it.
  struct Pair {
    bool near;
    float factor;
  };
  __device__ __forceinline__ Pair pair_of(int row, int other) const {
    const int ahead_of = row + kBefore - other, behind = kKeys ? -ahead_of : ahead_of;  // i - j
    const bool there = memory.other_offset[other] < INFINITY &&
                       (!kKeys || memory.offset[row] < INFINITY),
               near = there && behind <= static_cast<int>(task.back) &&
                      behind >= -static_cast<int>(task.ahead);
    if constexpr (!kCausal) return {near, near ? -1.0f : 0.0f};
    const bool of_span = kKeys ? other < kSpan : other >= kSide;
    const bool counts = of_span ? there && behind > static_cast<int>(task.back) : near;
    if (!counts) return {near, 0};
    const float peak = kKeys ? memory.peak[row] : memory.other_peak[other],
                most = kKeys ? memory.other_peak[other] : memory.peak[row],
                factor = __expf(peak - most);
    return {near, of_span ? factor : -factor};
  }
  // The products of features of own tokens and others become their weights M, as far as the sums
  // do not have them.
  __device__ __forceinline__ void weigh(mma::C (&pairs)[2], const Number* x, int tile) const {
    const Lane at;
    const float score = task.q.factor * task.q.factor;
    mma::C scores[2] = {};
    Rows16(x).times_transposed(scores, memory.other_x + tile * kStride);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = at.row + i % 4 / 2 * 8, other = tile + i / 4 * 8 + 2 * at.t + i % 2;
      const auto [near, factor] = pair_of(row, other);
      const float most = kKeys ? memory.other_most[other] : memory.most[row];
      float& pair = pairs[i / 4].part[i % 4];
      pair = (near ? __expf(scores[i / 4].part[i % 4] * score - most) : 0) + factor * pair;
    }
  }

  // Rows of omega and of the sums from projection r on to one of two tables.
  __device__ void begin_tables(int r, int slot) const {
    const int thread = static_cast<int>(threadIdx.x), row = thread / (kDepth / 8),
              channel = thread % (kDepth / 8) * 8;
    Number* const table = memory.tables + slot * Memory::kTable;
    const Number* omega =
        static_cast<const Number*>(task.q.omega) + place.h * task.q.omega_head + r * kDepth;
    if (row < Form::kRows)
      mma::copy_async(table + row * kStride + channel, omega + row * kDepth + channel, true);
    const auto* sums = static_cast<const Number*>(task.sums) +
                       (sums_at() * task.shape.sets * rows() + feature(r, row)) * kDepth;
    mma::copy_async(table + (kStep + row) * kStride + channel, sums + channel, true);
  }
  // Which feature is number i of a step from projection r on.
  __device__ int feature(int r, int i) const {
    return kMirrored ? r + i % 16 + i / 16 * rows() : r + i;
  }
  // use(omega, sums, r) for 32 features at a time, while those of the others are in shared memory.
  template <class F>
  __device__ __forceinline__ void each_step(const F& use) const {
    __syncthreads();  // nobody reads what was where the tables are
    begin_tables(0, 0);
    mma::commit_copies();
    const int features = static_cast<int>(task.shape.sets) * rows();
    for (int r = static_cast<int>(threadIdx.x); r < features; r += kThreads)
      memory.z[r] = task.beside[sums_at() * features + r];
#pragma unroll 1
    for (int r = 0, slot = 0; r < rows(); r += Form::kRows, slot ^= 1) {
      const Number* table = memory.tables + slot * Memory::kTable;
      mma::await_copies<0>();
      __syncthreads();  // the table is there, and nobody reads features or the other table
      if (r + Form::kRows < rows()) begin_tables(r + Form::kRows, slot ^ 1);
      mma::commit_copies();
      form_others(table, r);
      __syncthreads();
      use(table, table + kStep * kStride, r);
    }
    __syncthreads();
  }

  __device__ __forceinline__ float map(float u, float offset, bool there) const {
    return there ? mma::power_of_two(u * (task.q.factor * kLog2E) - offset) : 0;
  }
  // Each tile of 16 others in two parts.
  __device__ __forceinline__ void form_others(const Number* omega, int r) const {
    constexpr int kUnits = Form::kOthers / 16 * 2;
    const Lane at;
    const int left = static_cast<int>(task.q.projections) - r;
#pragma unroll
    for (int first = 0; first < kUnits; first += kWarps) {
      const int unit = first + at.warp, tile = unit / 2, part = unit % 2;
      if (unit >= kUnits) continue;
      const Number* x = memory.other_x + tile * 16 * kStride;
      mma::C u[2] = {};
#pragma unroll
      for (int d = 0; d < kDepth; d += 16) {
        const mma::A a = mma::a_of_rows(x + d, kStride);
        const mma::TwoB b =
            mma::b_of_columns(omega + (kMirrored ? 0 : part * 16 * kStride) + d, kStride);
        if constexpr (kMirrored) {
          const auto& [left_half, right_half] = b.tile;
          const mma::B half = {{part == 0 ? left_half.part[0] : right_half.part[0],
                                part == 0 ? left_half.part[1] : right_half.part[1]}};
          mma::multiply<Number>(u[0], a, half);
        } else {
          mma::multiply<Number>(u[0], a, b.tile[0]);
          mma::multiply<Number>(u[1], a, b.tile[1]);
        }
      }
      const int column = part * (kMirrored ? 8 : 16) + 2 * at.t;
#pragma unroll
      for (int n = 0; n < 2; ++n)  // features of the projections or their negatives; or the next 8
#pragma unroll
        for (int low = 0; low < 2; ++low) {
          const int row = tile * 16 + at.g + 8 * low, from = column + (kMirrored ? 0 : n * 8);
          const float offset = memory.other_offset[row], sign = kMirrored && n == 1 ? -1 : 1;
          const float* one = u[kMirrored ? 0 : n].part + 2 * low;
          *reinterpret_cast<uint32_t*>(memory.phi + row * kStepStride + column +
                                       n * (kMirrored ? 16 : 8)) =
              mma::pack<Number>(map(sign * one[0], offset, from < left),
                                map(sign * one[1], offset, from + 1 < left));
        }
    }
  }
  // Those of 16 own tokens, in two sets of 16.
  __device__ __forceinline__ void own_features(mma::C (&phi)[2][2], const Number* omega,
                                               int r) const {
    const Lane at;
    const int left = static_cast<int>(task.q.projections) - r;
    const Rows16 x(memory.x + at.warp * 16 * kStride);
    const float offset[2] = {memory.offset[at.row], memory.offset[at.row + 8]};
#pragma unroll
    for (int set = 0; set < 2; ++set) {
      phi[set][0] = phi[set][1] = {};
      if (kMirrored && set == 1) continue;
      x.times_transposed(phi[set], omega + set * 16 * kStride);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float &first = phi[0][i / 4].part[i % 4], &second = phi[1][i / 4].part[i % 4];
      const int number = i / 4 * 8 + 2 * at.t + i % 2;
      if constexpr (kMirrored) second = -first;
      first = map(first, offset[i % 4 / 2], number < left);
      second = map(second, offset[i % 4 / 2], number + (kMirrored ? 0 : 16) < left);
    }
  }
  // values += phi S, and pairs += phi times the features of the others.
  __device__ __forceinline__ void add_products(mma::C (&values)[kDepth / 8],
                                               mma::C (&pairs)[kMet][2], const mma::A& phi, int set,
                                               const Number* sums) const {
    times_rows<1>({&values}, {phi}, sums + set * 16 * kStride);
#pragma unroll
    for (int n = 0; n < kMet; ++n) {
      if (!meets(n)) continue;
      const mma::TwoB b = mma::b_of_columns(
          memory.phi + (first_tile() + n) * 16 * kStepStride + set * 16, kStepStride);
      mma::multiply<Number>(pairs[n][0], phi, b.tile[0]);
      mma::multiply<Number>(pairs[n][1], phi, b.tile[1]);
    }
  }
};

// Calls body with the form as a constant.
template <class F>
void with_form(const RandomWindow& task, const F& body) {
  const auto with_map = [&]<bool kMirrored>() {
    if (task.causal) return body.template operator()<Form<kMirrored, true>>();
    body.template operator()<Form<kMirrored, false>>();
  };
  if (task.q.map == RandomMap::mirrored) return with_map.template operator()<true>();
  with_map.template operator()<false>();
}
inline dim3 blocks_of(const RandomWindow& task) {
  return {static_cast<unsigned>((task.q.tokens + kSpan - 1) / kSpan),
          static_cast<unsigned>(task.batch * task.heads)};
}

}  // namespace longbow::kernels::window
#endif
