#include "longbow/ops/channel_taps.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "longbow/kernels/channel_taps.h"
#include "longbow/kernels/grid_taps.h"
#include "longbow/ops/add_bias.h"
#include "longbow/ops/block_memory.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/head_parts.h"
#include "longbow/ops/in_parallel.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// The arguments as the kernels read them.
struct Read {
  Tensor z, weights, bias;  // weights [K, C]
  int64_t left;
  bool silu;

  Read(const Tensor& given, const Tensor& taps, const Maybe& added, int64_t back, bool activated)
      : z(given.stride(2) == 1 ? given : given.contiguous()),
        weights(taps.t().contiguous()),
        bias(added ? added->contiguous() : Tensor()),
        left(back),
        silu(activated) {}

  template <class T>
  kernels::ChannelTaps<T> task(int64_t row) const {
    return {.tokens = z.size(1),
            .channels = z.size(2),
            .taps = weights.size(0),
            .left = left,
            .z = rows<const T>(z, row),
            .weights = data_of<const T>(weights),
            .bias = bias.defined() ? data_of<const T>(bias) : nullptr,
            .silu = silu,
            .y = {}};
  }
  template <class T>
  static kernels::Rows<T> rows(const Tensor& x, int64_t row) {
    return {data_of<T>(x) + row * x.stride(0), x.stride(1)};
  }
  // body(part, sequence, first tile, last tile): a part is done by one thread.
  template <class Body>
  void each(int64_t parts, const Body& body) const {
    const int64_t tiles = kernels::channel_tiles(z.size(1)), all = z.size(0) * tiles;
    in_parallel(parts, all / parts * 64 * weights.numel(), [&](int64_t from, int64_t to) {
      for (int64_t part = from; part < to; ++part)
        for (int64_t i = part * all / parts, end = (part + 1) * all / parts; i < end;) {
          const int64_t row = i / tiles, last = std::min(tiles, end - row * tiles);
          body(part, row, i % tiles, last);
          i = row * tiles + last;
        }
    });
  }
  int64_t parts() const {
    return std::min<int64_t>(at::get_num_threads(), z.size(0) * kernels::channel_tiles(z.size(1)));
  }
};

template <class T>
void run(const Read& read, const Tensor& y) {
  read.each(read.parts(), [&](int64_t, int64_t row, int64_t first, int64_t last) {
    auto task = read.task<T>(row);
    task.y = Read::rows<T>(y, row);
    kernels::channel_taps(task, first, last);
  });
}
template <class T>
void run_backward(const Read& read, const Tensor& dy, const Tensor& dz, const Tensor& dweights) {
  read.each(dweights.size(0), [&](int64_t part, int64_t row, int64_t first, int64_t last) {
    kernels::channel_taps_backward<T>({.past = read.task<T>(row),
                                       .dy = Read::rows<const T>(dy, row),
                                       .dz = Read::rows<T>(dz, row),
                                       .dweights = data_of<T>(dweights[part])},
                                      first, last);
  });
}

Maybe optional(const Tensor& x) {
  return x.defined() ? Maybe(x) : std::nullopt;
}
TapsOutput output_of(bool silu) {
  return silu ? TapsOutput::silu : TapsOutput::sum;
}

Tensor on_cpu(const Tensor& z, const Tensor& taps, const Maybe& bias, int64_t left, bool silu,
              int64_t columns) {
  if (!has_channel_taps(z, taps))
    return channel_taps_formula(z, taps, bias.value_or(Tensor()), left, output_of(silu), columns);
  const Read read(z, taps, bias, left, silu);
  const auto y = at::empty(z.sizes(), z.options());
  z.scalar_type() == at::kDouble ? run<double>(read, y) : run<float>(read, y);
  return y;
}
Three backward_on_cpu(const Tensor& given, const Tensor& z, const Tensor& taps, const Maybe& bias,
                      int64_t left, bool silu, int64_t columns) {
  if (!has_channel_taps(z, taps))
    return channel_taps_formula_backward(given, z, taps, bias.value_or(Tensor()), left,
                                         output_of(silu), columns);
  const Read read(z, taps, bias, left, silu);
  const auto dy = given.stride(2) == 1 ? given : given.contiguous(),
             dz = at::empty(z.sizes(), z.options());
  const auto parts = at::zeros({read.parts(), taps.size(1) + 1, z.size(2)}, z.options());
  z.scalar_type() == at::kDouble ? run_backward<double>(read, dy, dz, parts)
                                 : run_backward<float>(read, dy, dz, parts);
  const auto sums = parts.sum(0);
  return {dz, sums.narrow(0, 0, taps.size(1)).t().contiguous(), sums[taps.size(1)]};
}
Tensor on_meta(const Tensor& z, const Tensor&, const Maybe&, int64_t, bool, int64_t) {
  return at::empty(z.sizes(), z.options());
}
Three backward_on_meta(const Tensor&, const Tensor& z, const Tensor& taps, const Maybe&, int64_t,
                       bool, int64_t) {
  return {at::empty(z.sizes(), z.options()), at::empty(taps.sizes(), taps.options()),
          at::empty({taps.size(0)}, taps.options())};
}

Tensor call(const Tensor& z, const Tensor& taps, const Maybe& bias, int64_t left, bool silu,
            int64_t columns) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::channel_taps", "")
                             .typed<decltype(on_cpu)>();
  return op.call(z, taps, bias, left, silu, columns);
}
Three call_backward(const Tensor& dy, const Tensor& z, const Tensor& taps, const Maybe& bias,
                    int64_t left, bool silu, int64_t columns) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::channel_taps_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dy, z, taps, bias, left, silu, columns);
}

struct Gradient : Differentiable {
  Gradient(int64_t back, bool activated, int64_t in_row)
      : left(back), silu(activated), columns(in_row) {}
  const int64_t left;
  const bool silu;
  const int64_t columns;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], inputs[1], optional(inputs[2]), left, silu, columns)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto [dz, dtaps, dbias] =
        call_backward(gradients[0], kept[0], kept[1], optional(kept[2]), left, silu, columns);
    return {dz, dtaps, kept[2].defined() ? dbias : Tensor()};
  }
};

// The formula is recorded as it is.
Tensor with_gradient(const Tensor& z, const Tensor& taps, const Maybe& bias, int64_t left,
                     bool silu, int64_t columns) {
  const auto added = bias.value_or(Tensor());
  if (!wants_gradient(z, taps, added)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(z, taps, bias, left, silu, columns);
  }
  if (!has_channel_taps(z, taps))
    return channel_taps_formula(z, taps, added, left, output_of(silu), columns);
  return applied<Gradient>({z, taps, added}, left, silu, columns)[0];
}
// A second derivative is that of the formula.
Three backward_with_gradient(const Tensor& dy, const Tensor& z, const Tensor& taps,
                             const Maybe& bias, int64_t left, bool silu, int64_t columns) {
  const auto added = bias.value_or(Tensor());
  if (wants_gradient(dy, z, taps, added))
    return channel_taps_formula_backward(dy, z, taps, added, left, output_of(silu), columns);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dy, z, taps, bias, left, silu, columns);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "channel_taps(Tensor z, Tensor taps, Tensor? bias, int left, bool silu, int columns) -> "
      "Tensor");
  m.def(
      "channel_taps_backward(Tensor dy, Tensor z, Tensor taps, Tensor? bias, int left, bool silu, "
      "int columns) -> (Tensor dz, Tensor dtaps, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("channel_taps", on_cpu);
  m.impl("channel_taps_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("channel_taps", on_meta);
  m.impl("channel_taps_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("channel_taps", with_gradient);
  m.impl("channel_taps_backward", backward_with_gradient);
}

// Rows of pixels, [B, H, W, C]: a sequence is one row, and the last one of an image is filled up
// with zeros.
Tensor pixels_of(const Tensor& z, int64_t columns) {
  if (columns == 0) return z.unsqueeze(1);
  const int64_t rows = (z.size(1) + columns - 1) / columns;
  const int64_t missing = rows * columns - z.size(1);
  return (missing > 0 ? at::constant_pad_nd(z, {0, 0, 0, missing}) : z)
      .unflatten(1, {rows, columns});
}
Tensor rows_of_taps(const Tensor& taps) {
  return taps.dim() == 2 ? taps.unsqueeze(1) : taps;  // [C, 1 or K, K]
}

}  // namespace

Tensor channel_taps(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t left,
                    TapsOutput output, int64_t columns) {
  const int64_t count = taps.size(-1);
  const bool fits = columns == 0 ? taps.dim() == 2 && left >= 0 && left < count
                                 : taps.dim() == 3 && taps.size(1) == count && columns > 0 &&
                                       count == 2 * left + 1;
  TORCH_CHECK(fits && z.dim() == 3 && z.size(2) == taps.size(0) &&
                  z.scalar_type() == taps.scalar_type() &&
                  (!bias.defined() ||
                   (bias.numel() == taps.size(0) && bias.scalar_type() == z.scalar_type())),
              "channel_taps: z is ", z.sizes(), " ", z.scalar_type(), ", taps are ", taps.sizes(),
              " ", taps.scalar_type(), " with ", left, " on the left",
              columns == 0 ? "" : c10::str(", ", columns, " columns"));
  return call(z, taps, optional(bias), left, output == TapsOutput::silu, columns);
}

bool has_channel_taps(const Tensor& z, const Tensor& taps) {
  const auto type = z.scalar_type();
  if (z.dim() != 3 || z.numel() == 0 || taps.numel() == 0 || taps.scalar_type() != type)
    return false;
  if (z.is_cpu()) return taps.dim() == 2 && type == type_of_sums(z);
  constexpr int64_t kMostTokens = 1 << 30;
  const bool typed = type == at::kBFloat16 || type == at::kHalf || type == at::kFloat;
  const int64_t count = taps.size(-1);
  const bool few = taps.dim() == 2 ? count <= kernels::kMostSequenceTaps
                                   : taps.dim() == 3 && taps.size(1) == count && count % 2 == 1 &&
                                         count <= kernels::kMostImageTaps;
  return z.is_cuda() && typed && few && z.size(2) * z.element_size() % 16 == 0 &&
         z.size(0) * z.size(1) <= kMostTokens &&
         kernels::grid_taps_memory(taps.dim() == 2 ? 1 : count, count, z.element_size()) <=
             block_memory(z);
}

Tensor channel_taps_formula(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t left,
                            TapsOutput output, int64_t columns) {
  const auto kernel = rows_of_taps(taps).unsqueeze(1);
  const int64_t count = taps.size(-1), after = count - 1 - left;
  auto pixels = pixels_of(z, columns).permute({0, 3, 1, 2});
  if (left != after) pixels = at::constant_pad_nd(pixels, {left, after});
  const auto sum = at::conv2d(pixels, kernel, {}, 1, {kernel.size(2) / 2, left == after ? left : 0},
                              1, taps.size(0))
                       .permute({0, 2, 3, 1})
                       .flatten(1, 2)
                       .narrow(1, 0, z.size(1));
  const auto u = bias.defined() ? add_bias(sum, bias) : sum;
  return output == TapsOutput::silu ? at::silu(u) : u;
}

// With du = dy silu'(u): dz are the same taps, mirrored, over du, and
// da_ij = sum_rc du_rc z_{r + i - above, c + j - left}.
Three channel_taps_formula_backward(const Tensor& dy, const Tensor& z, const Tensor& taps,
                                    const Tensor& bias, int64_t left, TapsOutput output,
                                    int64_t columns) {
  auto du = dy;
  if (output == TapsOutput::silu) {
    const auto u = channel_taps(z, taps, bias, left, TapsOutput::sum, columns), gate = u.sigmoid();
    du = dy * gate * (1 + u * (1 - gate));
  }
  const auto kernel = rows_of_taps(taps);
  const int64_t tall = kernel.size(1), wide = kernel.size(2), after = wide - 1 - left;
  const auto slopes = pixels_of(du, columns);
  const auto around =
      at::constant_pad_nd(pixels_of(z, columns), {0, 0, left, after, tall / 2, tall / 2});
  std::vector<Tensor> sums;
  for (int64_t i = 0; i < tall; ++i)
    for (int64_t j = 0; j < wide; ++j)
      sums.push_back((slopes * around.narrow(1, i, slopes.size(1)).narrow(2, j, slopes.size(2)))
                         .sum(at::IntArrayRef({0, 1, 2})));
  const auto mirrored = kernel.flip({1, 2}).view(taps.sizes());
  return {channel_taps(du, mirrored, {}, after, TapsOutput::sum, columns),
          at::stack(sums, 1).view(taps.sizes()), du.sum(at::IntArrayRef({0, 1}))};
}

}  // namespace longbow
