#include "longbow/ops/tile_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>

#include "longbow/kernels/cpu/half_product.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/head_parts.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/packed_rule.h"
#include "longbow/ops/philox_task.h"

namespace longbow {
namespace {

using at::Tensor;

// Rows as a kernel reads them: bfloat16 where the machine multiplies that.
Tensor rows_to_read(const Tensor& x, bool halves) {
  if (!halves) return readable_rows(x);
  return x.stride(3) == 1 ? x : x.contiguous();
}
// Keys or values that many tiles of queries read lie beside each other, which is as much work as
// one tile has with them.
Tensor keys_to_read(const Tensor& x, bool halves, const BlockPairs& pairs) {
  constexpr int64_t kMany = 512;
  const bool many = halves && pairs.columns.size(3) * pairs.key_block >= kMany;
  return many ? x.contiguous() : rows_to_read(x, halves);
}

template <class Row>
kernels::Rows<const Row> read_rows(const Tensor& x, int64_t b, int64_t h) {
  if constexpr (!std::is_same_v<Row, kernels::Bfloat16>) {
    return rows_of<const Row>(x, b, h);
  } else {
    const auto rows = rows_of<const at::BFloat16>(x, b, h);
    return {reinterpret_cast<const Row*>(rows.data), rows.row};
  }
}

// Without gaps, in the type of the kernel.
Tensor dense(const Tensor& x, at::ScalarType type) {
  return x.defined() ? x.to(type).contiguous() : x;
}

// The arguments as the kernel reads them.
struct Read {
  bool halves;
  Tensor q, k, v;
  at::ScalarType type;  // of sums
  const BlockRule& rule;
  TileWeights weights;
  Tensor columns, keep, query_positions, key_positions, query_groups, key_groups, key_bias, bias;
  Tensor out, log_sum;

  Read(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
       const Tensor& given_bias, const BlockRule& how, TileWeights kind)
      : halves(given_q.scalar_type() == at::kBFloat16 && has_tile_products(given_q)),
        q(rows_to_read(given_q, halves)),
        k(keys_to_read(given_k, halves, how.pairs)),
        v(keys_to_read(given_v, halves, how.pairs)),
        type(type_of_sums(q)),
        rule(how),
        weights(kind),
        columns(dense(how.pairs.columns, at::kLong)),
        keep(dense(how.visibility.keep, at::kBool)),
        query_positions(dense(how.visibility.query_positions, at::kLong)),
        key_positions(dense(how.visibility.key_positions, at::kLong)),
        query_groups(dense(how.visibility.query_groups, at::kLong)),
        key_groups(dense(how.visibility.key_groups, at::kLong)),
        key_bias(dense(how.visibility.key_bias, type)),
        bias(dense(given_bias, type)) {
    if (how.dropped.rate > 0) check_key(how.dropped.key, "block_softmax");
  }

  // Whether every query reads all keys, once.
  bool reads_everything() const {
    return rule.visibility.hides_nothing() && columns.numel() == 1 &&
           *columns.const_data_ptr<int64_t>() == 0 && rule.pairs.key_block >= k.size(2);
  }
  // Of a tile of queries, in vectors.
  int64_t work() const {
    return std::min<int64_t>(rule.pairs.query_block, 64) * rule.pairs.columns.size(3) *
           rule.pairs.key_block * (q.size(3) + v.size(3)) / 16;
  }

  at::TensorOptions sums() const { return q.options().dtype(type); }
  int64_t tiles() const { return kernels::query_tiles(q.size(2), rule.pairs.query_block); }

  template <class T, class Row>
  kernels::TileAttention<T, Row> of(int64_t b, int64_t h) const {
    const auto& seen = rule.visibility;
    const auto& dropped = rule.dropped;
    const int64_t blocks = rule.pairs.columns.size(2), listed = rule.pairs.columns.size(3);
    return {.weights = weights,
            .queries = q.size(2),
            .keys = k.size(2),
            .width = q.size(3),
            .value_width = v.size(3),
            .query_block = rule.pairs.query_block,
            .key_block = rule.pairs.key_block,
            .listed = listed,
            .scale = static_cast<T>(rule.scale),
            .q = read_rows<Row>(q, b, h),
            .k = read_rows<Row>(k, b, h),
            .v = read_rows<Row>(v, b, h),
            .columns = data_of<const int64_t>(columns, b, h),
            .back = seen.back,
            .ahead = seen.ahead,
            .first = seen.first,
            .apart = seen.apart,
            .keep = data_of<const bool>(keep, b, h),
            .query_positions = data_of<const int64_t>(query_positions, b, h),
            .key_positions = data_of<const int64_t>(key_positions, b, h),
            .query_groups = data_of<const int64_t>(query_groups, b, h),
            .key_groups = data_of<const int64_t>(key_groups, b, h),
            .key_bias = data_of<const T>(key_bias, b, h),
            .bias = data_of<const T>(bias, b, h),
            .low = rule.distances.low,
            .high = rule.distances.high,
            .key = dropped.rate > 0 ? dropped.key.const_data_ptr<int64_t>() : nullptr,
            .site = dropped.site,
            .rate = dropped.rate,
            .first_weight = (b * q.size(1) + h) * blocks * rule.pairs.query_block * listed *
                            rule.pairs.key_block,
            .out = rows_of<T>(out, b, h),
            .log_sum = data_of<T>(log_sum, b, h)};
  }
};

template <class T, class Row = T>
void run(const Read& read) {
  const int64_t tiles = read.tiles();
  each_part(read.q, tiles, tiles, read.work(), [&](const HeadPart& p) {
    kernels::tile_attention(read.of<T, Row>(p.batch, p.head), p.first, p.last);
  });
}
void run(const Read& read) {
  if (read.halves) return run<float, kernels::Bfloat16>(read);
  read.q.scalar_type() == at::kDouble ? run<double>(read) : run<float>(read);
}

// Room for sums of gradients: several parts of a head must not write to the same.
struct Sums {
  Tensor all;  // [parts, B, H, M, D], or [B, H, M, D]
  Sums(const Tensor& like, int64_t parts, bool fresh) {
    if (parts == 1) {
      all = (fresh ? like : like.zero_()).unsqueeze(0);
      return;
    }
    all =
        at::zeros({parts, like.size(0), like.size(1), like.size(2), like.size(3)}, like.options());
  }
  void add_to(Tensor& like) const {
    if (all.size(0) > 1) at::sum_out(like, all, {0});
  }
};

struct Returned {
  Tensor dout, dlog_sum, dq, dk, dv, dbias;
};

template <class T, class Row = T>
void run_backward(const Read& read, Returned& d) {
  const int64_t tiles = read.tiles(), parts = parts_of_heads(read.q, tiles);
  const bool fresh = tiles == 1 && read.reads_everything();
  const Sums dk(d.dk, parts, fresh), dv(d.dv, parts, fresh);
  each_part(read.q, parts, tiles, 2 * read.work(), [&](const HeadPart& p) {
    const int64_t b = p.batch, h = p.head;
    kernels::tile_attention_backward<T, Row>({.past = read.of<T, Row>(b, h),
                                              .dout = read_rows<Row>(d.dout, b, h),
                                              .dlog_sum = data_of<const T>(d.dlog_sum, b, h),
                                              .dq = rows_of<T>(d.dq, b, h),
                                              .dk = rows_of<T>(dk.all[p.part], b, h),
                                              .dv = rows_of<T>(dv.all[p.part], b, h),
                                              .fresh = fresh,
                                              .dbias = data_of<T>(d.dbias, b, h)},
                                             p.first, p.last);
  });
  dk.add_to(d.dk);
  dv.add_to(d.dv);
}

void run_backward(const Read& read, Returned& d) {
  if (read.halves) return run_backward<float, kernels::Bfloat16>(read, d);
  read.q.scalar_type() == at::kDouble ? run_backward<double>(read, d)
                                      : run_backward<float>(read, d);
}

Tensor room_for_bias(const Read& read) {
  const auto &q = read.q, &columns = read.rule.pairs.columns;
  const int64_t labels = read.rule.distances.count();
  if (labels > 0) return at::zeros({q.size(0), q.size(1), q.size(2), labels}, read.sums());
  return at::zeros({q.size(0), q.size(1), columns.size(2), read.rule.pairs.query_block,
                    columns.size(3) * read.rule.pairs.key_block},
                   read.sums());
}

// What is read in the type of the sums, and their logarithms.
std::tuple<Tensor, Tensor> attended(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& bias, const BlockRule& rule,
                                    TileWeights weights) {
  Read read(q, k, v, bias, rule, weights);
  read.out = at::empty({q.size(0), q.size(2), q.size(1), v.size(3)}, read.sums()).transpose(1, 2);
  if (weights == TileWeights::softmax) read.log_sum = at::empty(q.sizes().slice(0, 3), read.sums());
  if (read.out.numel() > 0 || read.q.numel() > 0) run(read);
  return {read.out, read.log_sum};
}

using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Two on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensors& rule,
           at::IntArrayRef numbers, at::ArrayRef<double> factors, int64_t weights) {
  const auto [out, log_sum] =
      attended(q, k, v, {}, unpacked(rule, numbers, factors), static_cast<TileWeights>(weights));
  return {out, log_sum.defined() ? log_sum : at::empty({0}, q.options())};
}
Three backward_on_cpu(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Tensor& out, const Tensor& log_sum, const OptionalTensors& rule,
                      at::IntArrayRef numbers, at::ArrayRef<double> factors, int64_t weights) {
  const auto [dq, dk, dv, none] =
      tile_attention_backward({q, k, v, {}, out, log_sum, dout, {}, false},
                              unpacked(rule, numbers, factors), static_cast<TileWeights>(weights));
  return {dq, dk, dv};
}

struct Gradient : Differentiable {
  Gradient(PackedRule which, TileWeights kind)
      : rule(std::move(which)), weights(static_cast<int64_t>(kind)) {}
  PackedRule rule;  // its tensors until the forward pass has them
  const int64_t weights;

  TensorVector forward(const TensorVector& inputs) override {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::tile_attention", "")
                               .typed<decltype(on_cpu)>();
    const auto &q = inputs[0], &k = inputs[1], &v = inputs[2];
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, log_sum] = op.call(q, k, v, rule.tensors, rule.numbers, rule.factors, weights);
    save(rule.moved_behind({q, k, v, out, log_sum}));
    return {out};
  }
  TensorVector backward(const TensorVector& gradients) override {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::tile_attention_backward", "")
                               .typed<decltype(backward_on_cpu)>();
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "attention in tiles computes its weights again and has no second derivative; form: "
                "naive of softmax and rela has");
    const auto kept = saved();
    const auto [dq, dk, dv] = op.call(gradients[0], kept[0], kept[1], kept[2], kept[3], kept[4],
                                      rule_tensors(kept, 5), rule.numbers, rule.factors, weights);
    return {dq, dk, dv};
  }
};

// `rule`, `numbers` and `factors` are those of ops/packed_rule.h, `weights` is a TileWeights.
TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "tile_attention(Tensor q, Tensor k, Tensor v, Tensor?[] rule, int[] numbers, "
      "float[] factors, int weights) -> (Tensor out, Tensor log_sum)");
  m.def(
      "tile_attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, "
      "Tensor log_sum, Tensor?[] rule, int[] numbers, float[] factors, int weights) -> (Tensor dq, "
      "Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("tile_attention", on_cpu);
  m.impl("tile_attention_backward", backward_on_cpu);
}

}  // namespace

Tensor attend_tiles(const Tensor& q, const Tensor& k, const Tensor& v, const BlockRule& rule,
                    TileWeights weights) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(3) == k.size(3) &&
                  k.size(2) == v.size(2) && has_tile_kernel(q, k, v),
              "attend_tiles: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(), " on ",
              q.device());
  check_block_rule("attend_tiles", q, k, rule);
  TORCH_CHECK(rule.visibility.memory.tokens == 0, "attend_tiles: a memory of ",
              rule.visibility.memory.tokens, " tokens, but the kernels know none");
  // The backward pass wants it as it was before it is rounded.
  return applied<Gradient>({q, k, v}, packed(rule), weights)[0].to(v.scalar_type());
}

bool has_tile_kernel(const Tensor& q, const Tensor& k, const Tensor& v) {
  return q.is_cpu() && q.is_floating_point() && k.scalar_type() == q.scalar_type() &&
         v.scalar_type() == q.scalar_type() && k.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
         v.sizes().slice(0, 2) == q.sizes().slice(0, 2);
}

bool has_tile_products(const Tensor& x) {
  return x.scalar_type() == type_of_sums(x) ||
         (x.scalar_type() == at::kBFloat16 && kernels::has_half_products());
}

std::tuple<Tensor, Tensor> tile_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                          const Tensor& bias, const BlockRule& rule,
                                          TileWeights weights) {
  const auto [out, log_sum] = attended(q, k, v, bias, rule, weights);
  return {out.to(v.scalar_type()), log_sum};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> tile_attention_backward(const BlockSoftmaxPast& past,
                                                                   const BlockRule& rule,
                                                                   TileWeights weights) {
  Read read(past.q, past.k, past.v, past.bias, rule, weights);
  if (weights == TileWeights::softmax) {
    // Sums over what was rounded to a half type are too far off where values are nearly alike.
    const bool rounded = past.out.scalar_type() != read.type;
    read.out = rounded ? std::get<0>(attended(past.q, past.k, past.v, past.bias, rule, weights))
                       : readable_rows(past.out);
    read.log_sum = past.log_sum.contiguous();
  } else {
    read.out = at::empty(read.v.sizes(), read.sums());  // not read
  }
  const auto given = empty_beside(past.q, past.k, past.v);
  const auto room_beside = [&](const Tensor& x) {
    return x.scalar_type() == read.type ? x : at::empty_like(x, read.sums());
  };
  Returned d = {.dout = rows_to_read(past.dout.to(read.q.scalar_type()), read.halves),
                .dlog_sum = past.dlog_sum.defined() ? past.dlog_sum.contiguous() : Tensor(),
                .dq = room_beside(given.q),
                .dk = room_beside(given.k),
                .dv = room_beside(given.v),
                .dbias = past.wants_bias ? room_for_bias(read) : Tensor()};
  run_backward(read, d);
  const auto given_back = [](const Tensor& to, const Tensor& from) {
    return to.is_same(from) ? to : to.copy_(from);
  };
  const auto& bias = past.bias;
  return {given_back(given.q, d.dq), given_back(given.k, d.dk), given_back(given.v, d.dv),
          past.wants_bias ? d.dbias.sum_to_size(bias.sizes()).to(bias.scalar_type()) : Tensor()};
}

}  // namespace longbow
