#include "longbow/ops/channel_taps.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "longbow/kernels/channel_taps.h"
#include "longbow/ops/differentiable.h"
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

Tensor on_cpu(const Tensor& z, const Tensor& taps, const Maybe& bias, int64_t left, bool silu) {
  const Read read(z, taps, bias, left, silu);
  const auto y = at::empty(z.sizes(), z.options());
  z.scalar_type() == at::kDouble ? run<double>(read, y) : run<float>(read, y);
  return y;
}
Three backward_on_cpu(const Tensor& given, const Tensor& z, const Tensor& taps, const Maybe& bias,
                      int64_t left, bool silu) {
  const Read read(z, taps, bias, left, silu);
  const auto dy = given.stride(2) == 1 ? given : given.contiguous(),
             dz = at::empty(z.sizes(), z.options());
  const auto parts = at::zeros({read.parts(), taps.size(1) + 1, z.size(2)}, z.options());
  z.scalar_type() == at::kDouble ? run_backward<double>(read, dy, dz, parts)
                                 : run_backward<float>(read, dy, dz, parts);
  const auto sums = parts.sum(0);
  return {dz, sums.narrow(0, 0, taps.size(1)).t().contiguous(), sums[taps.size(1)]};
}

Tensor call(const Tensor& z, const Tensor& taps, const Maybe& bias, int64_t left, bool silu) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::channel_taps", "")
                             .typed<decltype(on_cpu)>();
  return op.call(z, taps, bias, left, silu);
}

// sum_t dy_t z_{t + j - left} for each of the taps, by ATen.
Tensor taps_gradient(const Tensor& dy, const Tensor& z, int64_t taps, int64_t left) {
  const auto around = at::constant_pad_nd(z, {0, 0, left, taps - 1 - left});
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < taps; ++j)
    columns.push_back((dy * around.narrow(1, j, z.size(1))).sum(at::IntArrayRef({0, 1})));
  return at::stack(columns, 1);
}

struct Gradient : Differentiable {
  Gradient(int64_t back, bool activated) : left(back), silu(activated) {}
  const int64_t left;
  const bool silu;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], inputs[1], given(inputs[2]), left, silu)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::channel_taps_backward", "")
                               .typed<decltype(backward_on_cpu)>();
    const auto kept = saved();
    const auto &z = kept[0], &taps = kept[1], &bias = kept[2];
    const auto [dz, dtaps, dbias] = at::GradMode::is_enabled()
                                        ? recorded(gradients[0], z, taps, bias)
                                        : op.call(gradients[0], z, taps, given(bias), left, silu);
    return {dz, dtaps, bias.defined() ? dbias : Tensor()};
  }

 private:
  static Maybe given(const Tensor& bias) { return bias.defined() ? Maybe(bias) : Maybe(); }
  // With a graph, for a second derivative.
  Three recorded(const Tensor& dy, const Tensor& z, const Tensor& taps, const Tensor& bias) const {
    auto du = dy;
    if (silu) {
      const auto u = channel_taps(z, taps, bias, left), gate = u.sigmoid();
      du = dy * gate * (1 + u * (1 - gate));
    }
    const int64_t count = taps.size(1);
    return {channel_taps(du, taps.flip(1), {}, count - 1 - left), taps_gradient(du, z, count, left),
            du.sum(at::IntArrayRef({0, 1}))};
  }
};

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("channel_taps(Tensor z, Tensor taps, Tensor? bias, int left, bool silu) -> Tensor");
  m.def(
      "channel_taps_backward(Tensor dy, Tensor z, Tensor taps, Tensor? bias, int left, bool silu) "
      "-> (Tensor dz, Tensor dtaps, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("channel_taps", on_cpu);
  m.impl("channel_taps_backward", backward_on_cpu);
}

}  // namespace

Tensor channel_taps(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t left,
                    TapsOutput output) {
  TORCH_CHECK(has_channel_taps(z, taps) && z.size(2) == taps.size(0) && left >= 0 &&
                  left < taps.size(1) && (!bias.defined() || bias.numel() == taps.size(0)),
              "channel_taps: z is ", z.sizes(), " ", z.scalar_type(), ", taps are ", taps.sizes(),
              " ", taps.scalar_type(), " with ", left, " on the left");
  return applied<Gradient>({z, taps, bias}, left, output == TapsOutput::silu)[0];
}

bool has_channel_taps(const Tensor& z, const Tensor& taps) {
  return z.is_cpu() && z.dim() == 3 && taps.dim() == 2 && z.numel() > 0 && taps.numel() > 0 &&
         z.scalar_type() == type_of_sums(z) && taps.scalar_type() == z.scalar_type();
}

}  // namespace longbow
