#include "longbow/ops/decayed_product.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>

#include "longbow/kernels/decayed_product.h"
#include "longbow/kernels/faded_blocks.h"
#include "longbow/ops/block_memory.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/head_parts.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// One of [p, q] for each head of each sequence.
std::array<int64_t, 4> sizes_of_sums(const Tensor& x, const Tensor& z) {
  return {x.size(0), x.size(1), x.size(3), z.size(3)};
}

// out, the sums after the last token, and those before each chunk in a form of the device's own.
Three by_aten(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
              const Maybe& sums, bool columns, bool reversed, double scale) {
  auto after = sums.value_or(Tensor());
  const auto out = decayed_product_formula(
      x, y, z, log_decay,
      {.fading = columns ? Fading::columns : Fading::rows, .scale = scale, .reversed = reversed},
      after);
  return {out, after, at::empty({0}, log_decay.options())};
}

// The arguments as kernels on a CPU read them, for some of the blocks of a head; rows that fade by
// themselves are one block.
struct Faded {
  Tensor x, y, z, log_decay, sums, before;  // before [B, H, h, chunks, p, r]
  bool by_row, reversed;
  double scale;
  int64_t blocks = by_row ? 1 : log_decay.size(3), columns = z.size(3) / blocks;

  // The tokens of a head in their order, from channel `from` on.
  template <class T>
  kernels::Rows<T> tokens(const Tensor& t, const HeadPart& p, int64_t from) const {
    auto rows = rows_of<T>(t, p.batch, p.head);
    if (reversed) rows = {rows.data + (t.size(2) - 1) * rows.row, -rows.row};
    return {rows.data + from, rows.row};
  }
  template <class T>
  static kernels::Rows<T> sums_of(const Tensor& t, const HeadPart& p, int64_t from) {
    if (!t.defined()) return {};
    const auto rows = rows_of<T>(t, p.batch, p.head);
    return {rows.data + from, rows.row};
  }
  template <class T>
  kernels::FadedBlocks<T> task(const HeadPart& p) const {
    return {.tokens = x.size(2),
            .width = x.size(3),
            .columns = columns,
            .blocks = p.last - p.first,
            .scale = static_cast<T>(scale),
            .x = tokens<const T>(x, p, 0),
            .y = tokens<const T>(y, p, 0),
            .z = tokens<const T>(z, p, p.first * columns),
            .log_decay = tokens<const T>(log_decay, p, p.first),
            .first = sums_of<const T>(sums, p, p.first * columns),
            .out = {},
            .last = {},
            .before = before.defined()
                          ? data_of<T>(before, p.batch, p.head) + p.first * before.stride(2)
                          : nullptr};
  }
  // body(part) over some blocks of each head, as many as give every thread some.
  template <class Body>
  void each(const Body& body) const {
    each_part(x, parts_of_heads(x, blocks), blocks, x.size(2) * x.size(3) * columns / 8, body);
  }
};

Faded faded(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
            const Tensor& sums, Fading fading, bool reversed, double scale) {
  return {.x = readable_rows(x),
          .y = readable_rows(y),
          .z = readable_rows(z),
          .log_decay = log_decay.contiguous(),
          .sums = sums.defined() ? sums.contiguous() : sums,
          .before = {},
          .by_row = !fades_by_block(log_decay, fading),
          .reversed = reversed,
          .scale = scale};
}

template <class T>
void run(const Faded& read, const Tensor& out, const Tensor& last) {
  read.each([&](const HeadPart& p) {
    auto task = read.task<T>(p);
    task.out = read.tokens<T>(out, p, p.first * read.columns);
    task.last = Faded::sums_of<T>(last, p, p.first * read.columns);
    read.by_row ? kernels::faded_rows(task) : kernels::faded_blocks(task);
  });
}

Three on_cpu(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
             const Maybe& sums, bool columns, bool reversed, double scale) {
  const auto fading = columns ? Fading::columns : Fading::rows;
  if (!has_decay_kernel(x, y, z, log_decay, fading))
    return by_aten(x, y, z, log_decay, sums, columns, reversed, scale);
  const auto type = log_decay.scalar_type();
  TORCH_CHECK(!sums || (sums->scalar_type() == type &&
                        sums->sizes() == at::IntArrayRef(sizes_of_sums(x, z))),
              "decayed_product: sums are ", sums->scalar_type(), " ", sums->sizes(), ", not ", type,
              " ", at::IntArrayRef(sizes_of_sums(x, z)));
  auto read = faded(x, y, z, log_decay, sums.value_or(Tensor()), fading, reversed, scale);
  const auto out = empty_rows(read.z, z.size(3)),
             last = at::empty({x.size(0), x.size(1), x.size(3), z.size(3)}, read.z.options());
  read.before = at::empty({x.size(0), x.size(1), read.blocks, kernels::faded_chunks(x.size(2)),
                           x.size(3), read.columns},
                          read.z.options());
  x.scalar_type() == at::kDouble ? run<double>(read, out, last) : run<float>(read, out, last);
  return {out.to(z.scalar_type()), last, read.before};
}

struct FadedGradients {
  Tensor dx, dy, dz, dlog_decay, dfirst;  // dx and dy [parts, B, H, N, p]
};

template <class T>
void run_backward(const Faded& read, const Tensor& dout, const Tensor& dlast,
                  const FadedGradients& found) {
  read.each([&](const HeadPart& p) {
    const int64_t from = p.first * read.columns;
    const kernels::FadedBlocksBackward<T> task = {
        .past = read.task<T>(p),
        .dout = read.tokens<const T>(dout, p, from),
        .dlast = Faded::sums_of<const T>(dlast, p, from),
        .dx = read.tokens<T>(found.dx[p.part], p, 0),
        .dy = read.tokens<T>(found.dy[p.part], p, 0),
        .dz = read.tokens<T>(found.dz, p, from),
        .dlog_decay = read.tokens<T>(found.dlog_decay, p, p.first),
        .dfirst = Faded::sums_of<T>(found.dfirst, p, from)};
    read.by_row ? kernels::faded_rows_backward(task) : kernels::faded_blocks_backward(task);
  });
}

Five backward_on_cpu(const Tensor& dout, const Tensor& dsums, const Tensor& x, const Tensor& y,
                     const Tensor& z, const Tensor& log_decay, const Tensor& before, bool columns,
                     bool reversed, double scale) {
  auto read =
      faded(x, y, z, log_decay, {}, columns ? Fading::columns : Fading::rows, reversed, scale);
  read.before = before;
  const int64_t parts = parts_of_heads(x, read.blocks);
  const auto by_part = [&] {
    const auto room =
        at::empty({parts, x.size(0), x.size(2), x.size(1), x.size(3)}, read.x.options());
    if (parts > 1) room.zero_();  // a thread may do several parts as one
    return room.transpose(2, 3);
  };
  const FadedGradients found = {by_part(), by_part(), empty_rows(read.z, z.size(3)),
                                at::empty_like(read.log_decay),
                                at::empty(dsums.sizes(), dsums.options())};
  const auto slopes = readable_rows(dout), last = dsums.contiguous();
  x.scalar_type() == at::kDouble ? run_backward<double>(read, slopes, last, found)
                                 : run_backward<float>(read, slopes, last, found);
  const auto together = [&](const Tensor& t) {
    return (parts == 1 ? t[0] : t.sum(0)).to(x.scalar_type());
  };
  return {together(found.dx), together(found.dy), found.dz.to(z.scalar_type()), found.dlog_decay,
          found.dfirst};
}

Three on_meta(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
              const Maybe& sums, bool columns, bool, double) {
  check_decayed_product(x, y, z, log_decay, columns ? Fading::columns : Fading::rows);
  auto sizes = z.sizes().vec();
  sizes[sizes.size() - 2] = x.size(-1);
  return {at::empty_like(z), sums ? at::empty_like(*sums) : at::empty(sizes, log_decay.options()),
          at::empty({0}, log_decay.options())};
}
Five backward_on_meta(const Tensor&, const Tensor& dsums, const Tensor& x, const Tensor& y,
                      const Tensor& z, const Tensor& log_decay, const Tensor&, bool, bool, double) {
  return {at::empty_like(x), at::empty_like(y), at::empty_like(z), at::empty_like(log_decay),
          at::empty_like(dsums)};
}

void add_gradients(const Five& found, const Tensor& dx, const Tensor& dy, const Tensor& dz,
                   const Tensor& dlog_decay) {
  dx.add_(std::get<0>(found));
  dy.add_(std::get<1>(found));
  dz.add_(std::get<2>(found));
  dlog_decay.add_(std::get<3>(found));
}

void backward_add_on_cpu(const Tensor& dout, const Tensor& x, const Tensor& y, const Tensor& z,
                         const Tensor& log_decay, const Tensor& before, bool columns, bool reversed,
                         double scale, const Tensor& dx, const Tensor& dy, const Tensor& dz,
                         const Tensor& dlog_decay) {
  const auto none = at::zeros({x.size(0), x.size(1), x.size(3), z.size(3)}, log_decay.options());
  add_gradients(backward_on_cpu(dout, none, x, y, z, log_decay, before, columns, reversed, scale),
                dx, dy, dz, dlog_decay);
}
void backward_add_on_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, bool, bool, double, const Tensor&, const Tensor&,
                          const Tensor&, const Tensor&) {}

Three call(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
           const Maybe& sums, bool columns, bool reversed, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::decayed_product", "")
                             .typed<decltype(by_aten)>();
  return op.call(x, y, z, log_decay, sums, columns, reversed, scale);
}
Five call_backward(const Tensor& dout, const Tensor& dsums, const Tensor& x, const Tensor& y,
                   const Tensor& z, const Tensor& log_decay, const Tensor& before, bool columns,
                   bool reversed, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::decayed_product_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dout, dsums, x, y, z, log_decay, before, columns, reversed, scale);
}

void call_backward_add(const Tensor& dout, const Tensor& x, const Tensor& y, const Tensor& z,
                       const Tensor& log_decay, const Tensor& before, bool columns, bool reversed,
                       double scale, const Five& to) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::decayed_product_backward_add", "")
                             .typed<decltype(backward_add_on_cpu)>();
  const auto& [dx, dy, dz, dlog_decay, none] = to;
  op.call(dout, x, y, z, log_decay, before, columns, reversed, scale, dx, dy, dz, dlog_decay);
}

// That of the kernels.
struct Gradient : Differentiable {
  Gradient(bool by_column, bool from_behind, double factor)
      : columns(by_column), reversed(from_behind), scale(factor) {}
  const bool columns, reversed;
  const double scale;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto &x = inputs[0], &y = inputs[1], &z = inputs[2], &log_decay = inputs[3];
    const auto sums = inputs[4].defined() ? Maybe(inputs[4]) : Maybe();
    const auto [out, after, before] = call(x, y, z, log_decay, sums, columns, reversed, scale);
    save({x, y, z, log_decay, before});
    no_gradient_of({before});
    return {out, after, before};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "decayed_product has no second derivative here");
    const auto kept = saved();

    const auto [dx, dy, dz, dlog_decay, dsums] =
        call_backward(gradients[0], gradients[1], kept[0], kept[1], kept[2], kept[3], kept[4],
                      columns, reversed, scale);
    return {dx, dy, dz, dlog_decay, dsums};
  }
};

// Of both directions: the second one's gradients are added to the first one's.
struct BothGradients : Differentiable {
  BothGradients(bool by_column, double factor) : columns(by_column), scale(factor) {}
  const bool columns;
  const double scale;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto &x = inputs[0], &y = inputs[1], &z = inputs[2], &log_decay = inputs[3];
    const auto [forth, last, before] = call(x, y, z, log_decay, {}, columns, false, scale);
    const auto [back, first, behind] = call(x, y, z, log_decay, {}, columns, true, scale);
    save({x, y, z, log_decay, before, behind});
    return {forth, back};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "decayed_product has no second derivative here");
    const auto kept = saved();
    const auto &x = kept[0], &y = kept[1], &z = kept[2], &log_decay = kept[3];
    const auto none = at::zeros({x.size(0), x.size(1), x.size(3), z.size(3)}, log_decay.options());
    const auto found =
        call_backward(gradients[0], none, x, y, z, log_decay, kept[4], columns, false, scale);
    call_backward_add(gradients[1], x, y, z, log_decay, kept[5], columns, true, scale, found);
    const auto& [dx, dy, dz, dlog_decay, dsums] = found;
    return {dx, dy, dz, dlog_decay};
  }
};

// The formula is recorded as it is.
Three with_gradient(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
                    const Maybe& sums, bool columns, bool reversed, double scale) {
  const auto before = sums.value_or(Tensor());
  if (!has_decay_kernel(x, y, z, log_decay, columns ? Fading::columns : Fading::rows))
    return by_aten(x, y, z, log_decay, sums, columns, reversed, scale);
  if (!wants_gradient(x, y, z, log_decay, before)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, y, z, log_decay, sums, columns, reversed, scale);
  }
  const auto found = applied<Gradient>({x, y, z, log_decay, before}, columns, reversed, scale);
  return {found[0], found[1], found[2]};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "decayed_product(Tensor x, Tensor y, Tensor z, Tensor log_decay, Tensor? sums, bool columns, "
      "bool reversed, float scale) -> (Tensor out, Tensor sums, Tensor before)");
  m.def(
      "decayed_product_backward(Tensor dout, Tensor dsums, Tensor x, Tensor y, Tensor z, "
      "Tensor log_decay, Tensor before, bool columns, bool reversed, float scale) -> "
      "(Tensor dx, Tensor dy, Tensor dz, Tensor dlog_decay, Tensor dsums)");
  m.def(
      "decayed_product_backward_add(Tensor dout, Tensor x, Tensor y, Tensor z, Tensor log_decay, "
      "Tensor before, bool columns, bool reversed, float scale, Tensor(a!) dx, Tensor(b!) dy, "
      "Tensor(c!) dz, Tensor(d!) dlog_decay) -> ()");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("decayed_product", on_cpu);
  m.impl("decayed_product_backward", backward_on_cpu);
  m.impl("decayed_product_backward_add", backward_add_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("decayed_product", on_meta);
  m.impl("decayed_product_backward", backward_on_meta);
  m.impl("decayed_product_backward_add", backward_add_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("decayed_product", with_gradient);
}

// Chunks would multiply what is not there; so a decoding step takes two passes over its state.
Tensor of_one_token(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
                    const DecayedProduct& how, Tensor& sums) {
  check_decayed_product(x, y, z, log_decay, how.fading);
  const auto type = type_of_sums(x);
  const auto column = y.to(type).transpose(-2, -1), row = z.to(type);  // [..., p, 1], [..., 1, q]
  auto decay = log_decay.to(type).exp();
  decay = how.fading == Fading::rows ? decay.transpose(-2, -1)
                                     : decay.repeat_interleave(z.size(-1) / decay.size(-1), -1);
  sums = sums.defined() ? at::addcmul(sums.to(type) * decay, column, row) : column * row;
  const auto read = x.to(type).matmul(sums);
  return (how.scale == 1 ? read : read * how.scale).to(x.scalar_type());
}

// The sums before the first token as kernels read them; the formula broadcasts them by itself.
Maybe first_sums(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
                 Fading fading, const Tensor& sums) {
  if (!sums.defined()) return {};
  if (!has_decay_kernel(x, y, z, log_decay, fading)) return sums;
  const auto sizes = sizes_of_sums(x, z);
  TORCH_CHECK(at::is_expandable_to(sums.sizes(), at::IntArrayRef(sizes)),
              "decayed_product: sums are ", sums.sizes(), ", but x is ", x.sizes(), " and z ",
              z.sizes());
  const auto typed = sums.to(log_decay.scalar_type());
  return typed.sizes() == at::IntArrayRef(sizes) ? typed : typed.expand(sizes);
}

}  // namespace

Tensor decayed_product(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
                       const DecayedProduct& how, Tensor& sums) {
  if (x.is_cuda() && x.size(-2) == 1) return of_one_token(x, y, z, log_decay, how, sums);
  const auto found = call(x, y, z, log_decay, first_sums(x, y, z, log_decay, how.fading, sums),
                          how.fading == Fading::columns, how.reversed, how.scale);
  sums = std::get<1>(found);
  return std::get<0>(found);
}

BothWays decayed_products(const Tensor& x, const Tensor& y, const Tensor& z,
                          const Tensor& log_decay, const DecayedProduct& how) {
  TORCH_CHECK(!how.reversed, "decayed_products: goes both ways, and so is not reversed");
  const bool columns = how.fading == Fading::columns;
  if (wants_gradient(x, y, z, log_decay) && has_decay_kernel(x, y, z, log_decay, how.fading)) {
    const auto found = applied<BothGradients>({x, y, z, log_decay}, columns, how.scale);
    return {found[0], found[1]};
  }
  const auto one_way = [&](bool reversed) {
    return std::get<0>(call(x, y, z, log_decay, {}, columns, reversed, how.scale));
  };
  return {one_way(false), one_way(true)};
}

bool fades_by_block(const Tensor& log_decay, Fading fading) {
  return fading == Fading::columns || log_decay.size(-1) == 1;
}

bool has_decay_kernel(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
                      Fading fading) {
  const bool alike = x.dim() == 4 && x.sizes() == y.sizes() && z.dim() == 4 &&
                     z.sizes().slice(0, 3) == x.sizes().slice(0, 3) && log_decay.dim() == 4 &&
                     log_decay.sizes().slice(0, 3) == x.sizes().slice(0, 3) && x.numel() > 0 &&
                     z.numel() > 0 && log_decay.numel() > 0;
  if (!alike || y.scalar_type() != x.scalar_type() || z.scalar_type() != x.scalar_type())
    return false;
  const int64_t decays = log_decay.size(3);
  if (x.is_cpu())
    return x.is_floating_point() && log_decay.scalar_type() == type_of_sums(x) &&
           (fades_by_block(log_decay, fading) ? z.size(3) % decays == 0 : decays == x.size(3));
  constexpr int64_t kMostHeads = 65535;  // of all sequences
  if (!x.is_cuda() || !y.is_cuda() || !z.is_cuda() || x.scalar_type() != at::kBFloat16 ||
      log_decay.scalar_type() != at::kFloat || x.size(0) * x.size(1) > kMostHeads)
    return false;
  if (fades_by_block(log_decay, fading)) {
    const auto shape = kernels::block_shape(x.size(3), z.size(3) / decays);
    return decays <= kernels::kMostBlocks && x.size(0) * x.size(1) * decays <= kMostHeads &&
           z.size(3) % decays == 0 && shape.rows > 0 &&
           kernels::block_decay_memory(shape) <= block_memory(x);
  }
  const auto shape = kernels::decay_shape(x.size(3), z.size(3));
  return decays == x.size(3) && shape.rows > 0 && kernels::decay_memory(shape) <= block_memory(x);
}

}  // namespace longbow
