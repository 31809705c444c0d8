#include "longbow/ops/feature_attention.h"

#include <ATen/ATen.h>

#include "longbow/kernels/feature_attention.h"
#include "longbow/ops/head_parts.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;

// The arguments as the kernels read them, for both kinds of features.
struct Read {
  Tensor q, k, v, keep, query_turns, key_turns;  // keep [B, 1, M], turns [1 or B, 1, tokens, 2]
  Tensor omega;                                  // [1, 1 or H, R, E] or undefined
  FeatureMap query_map = FeatureMap::identity, key_map = FeatureMap::identity;
  double scale = 1, added = 0, least = 0;
  bool normalised = true;
  int64_t features = 0;
  Tensor out, inverse, sums;                      // [B, H, N, D], [B, H, N], [B, H, size]
  Tensor dout, dweights, dsums, dq, dk, dv = {};  // only for gradients; dsums [parts, B, H, size]

  Read(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v)
      : q(readable_rows(given_q)), k(readable_rows(given_k)), v(readable_rows(given_v)) {}

  template <class T>
  kernels::FeatureAttention<T> of(int64_t b, int64_t h) const {
    const auto rows = [&](const Tensor& x) {
      return x.defined() ? rows_of<T>(x, b, h) : kernels::Rows<T>();
    };
    const kernels::HeadFeatures<T> queries = {.x = rows_of<const T>(q, b, h),
                                              .tokens = q.size(2),
                                              .width = q.size(3),
                                              .map = query_map,
                                              .turns = data_of<const T>(query_turns, b, h),
                                              .keep = nullptr,
                                              .omega = data_of<const T>(omega, b, h),
                                              .scale = static_cast<T>(scale)};
    auto keys = queries;
    keys.x = rows_of<const T>(k, b, h);
    keys.tokens = k.size(2);
    keys.map = key_map;
    keys.turns = data_of<const T>(key_turns, b, h);
    keys.keep = data_of<const bool>(keep, b, h);
    return {.queries = queries,
            .keys = keys,
            .features = features,
            .value_width = v.size(3),
            .v = rows_of<const T>(v, b, h),
            .normalised = normalised,
            .added = static_cast<T>(added),
            .least = static_cast<T>(least),
            .sums = data_of<T>(sums, b, h),
            .out = rows(out),
            .inverse = data_of<T>(inverse, b, h),
            .dout = {rows(dout).data, rows(dout).row},
            .dweights = data_of<const T>(dweights, b, h),
            .dsums = data_of<T>(dsums, b, h),
            .dq = rows(dq),
            .dk = rows(dk),
            .dv = rows(dv)};
  }
  // Of a tile of tokens, in vectors.
  int64_t work() const {
    return 64 * features * (v.size(3) + (omega.defined() ? q.size(3) : 0)) / 16;
  }
};

template <class T>
void sum_all_keys(Read& read) {
  const int64_t tiles = kernels::feature_tiles(read.k.size(2)),
                parts = parts_of_heads(read.k, tiles);
  read.sums = at::empty({read.q.size(0), read.q.size(1),
                         kernels::feature_sums_size<T>(read.features, read.v.size(3))},
                        read.q.options());
  const auto rooms =
      parts == 1 ? read.sums.unsqueeze(0)
                 : at::empty({parts, read.sums.size(0), read.sums.size(1), read.sums.size(2)},
                             read.sums.options());
  each_part(read.k, parts, parts, 0, [&](const HeadPart& p) {
    for (int64_t part = p.first; part < p.last; ++part)
      kernels::clear_feature_sums(read.of<T>(p.batch, p.head),
                                  data_of<T>(rooms[part], p.batch, p.head));
  });
  each_part(read.k, parts, tiles, read.work(), [&](const HeadPart& p) {
    auto task = read.of<T>(p.batch, p.head);
    task.sums = data_of<T>(rooms[p.part], p.batch, p.head);
    kernels::sum_keys(task, p.first, p.last);
  });
  if (parts == 1) return;
  read.sums.copy_(rooms[0]);
  each_part(read.k, 1, 1, 0, [&](const HeadPart& p) {
    for (int64_t part = 1; part < parts; ++part)
      kernels::add_feature_sums(read.of<T>(p.batch, p.head),
                                data_of<const T>(rooms[part], p.batch, p.head),
                                data_of<T>(read.sums, p.batch, p.head));
  });
}

template <class T>
void run(Read& read) {
  sum_all_keys<T>(read);
  const int64_t tiles = kernels::feature_tiles(read.q.size(2));
  each_part(read.q, tiles, tiles, read.work(), [&](const HeadPart& p) {
    kernels::read_sums(read.of<T>(p.batch, p.head), p.first, p.last);
  });
}

template <class T>
void run_backward(Read& read) {
  const int64_t query_tiles = kernels::feature_tiles(read.q.size(2)),
                key_tiles = kernels::feature_tiles(read.k.size(2)),
                parts = parts_of_heads(read.q, query_tiles);
  const auto rooms = at::zeros({parts, read.sums.size(0), read.sums.size(1), read.sums.size(2)},
                               read.sums.options());
  read.dsums = rooms[0];
  each_part(read.q, parts, query_tiles, 2 * read.work(), [&](const HeadPart& p) {
    auto task = read.of<T>(p.batch, p.head);
    task.dsums = data_of<T>(rooms[p.part], p.batch, p.head);
    kernels::query_gradients(task, p.first, p.last);
  });
  if (parts > 1) read.dsums = rooms.sum(0);
  each_part(read.k, key_tiles, key_tiles, 2 * read.work(), [&](const HeadPart& p) {
    kernels::key_gradients(read.of<T>(p.batch, p.head), p.first, p.last);
  });
}

void forward(Read& read) {
  read.out = empty_rows(read.q, read.v.size(3));
  read.inverse = at::empty(read.q.sizes().slice(0, 3), read.q.options());
  read.q.scalar_type() == at::kDouble ? run<double>(read) : run<float>(read);
}

std::array<Tensor, 3> backward(Read& read, const Tensor& g, const Tensor& q, const Tensor& k,
                               const Tensor& v) {
  read.dout = readable_rows(g);
  const auto beside = empty_beside(read.q, read.k, read.v);
  read.dq = beside.q;
  read.dk = beside.k;
  read.dv = beside.v;
  read.q.scalar_type() == at::kDouble ? run_backward<double>(read) : run_backward<float>(read);
  return {read.dq.to(q.scalar_type()), read.dk.to(k.scalar_type()), read.dv.to(v.scalar_type())};
}

Tensor by_head(const Tensor& x, at::ScalarType type) {
  return x.defined() ? x.to(type).unsqueeze(1).contiguous() : x;
}

Read mapped(const Tensor& q, const Tensor& k, const Tensor& v, const FeatureProduct& how) {
  Read read(q, k, v);
  const auto type = read.q.scalar_type();
  read.keep = by_head(how.keep, at::kBool);
  read.query_turns = by_head(how.query_turns, type);
  read.key_turns = by_head(how.key_turns, type);
  read.query_map = how.query_map;
  read.key_map = how.key_map;
  read.added = how.added;
  read.least = how.least;
  read.normalised = how.normalised;
  read.features = (how.query_turns.defined() ? 2 : 1) * q.size(3);
  return read;
}

Read random(const Tensor& q, const Tensor& k, const Tensor& v, const RandomProduct& how) {
  Read read(q, k, v);
  read.keep = by_head(how.keep, at::kBool);
  read.omega = how.omega.to(read.q.scalar_type()).contiguous().unsqueeze(0);
  read.scale = how.scale;
  read.least = kLeastWeights;
  read.features = how.omega.size(1);
  return read;
}

}  // namespace

bool has_feature_tiles(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const auto& x : {q, k, v})
    if (!x.is_cpu() || x.numel() == 0 || x.scalar_type() != q.scalar_type()) return false;
  return true;
}

Three feature_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const FeatureProduct& how) {
  check_feature_product(q, k, v, how);
  auto read = mapped(q, k, v, how);
  forward(read);
  return {read.out.to(v.scalar_type()), read.inverse, read.sums};
}

std::array<Tensor, 3> feature_attention_backward(const Tensor& g, const Tensor& q, const Tensor& k,
                                                 const Tensor& v, const Tensor& inverse,
                                                 const Tensor& sums, const FeatureProduct& how) {
  auto read = mapped(q, k, v, how);
  (how.normalised ? read.inverse : read.dweights) = inverse.to(read.q.scalar_type()).contiguous();
  read.sums = sums;
  return backward(read, g, q, k, v);
}

std::tuple<Tensor, Tensor> random_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const RandomProduct& how) {
  check_random_product(q, k, v, how);
  auto read = random(q, k, v, how);
  forward(read);
  return {read.out.to(v.scalar_type()), at::cat({read.sums, read.inverse}, 2)};
}

std::array<Tensor, 3> random_attention_backward(const Tensor& g, const Tensor& q, const Tensor& k,
                                                const Tensor& v, const Tensor& kept,
                                                const RandomProduct& how) {
  auto read = random(q, k, v, how);
  const int64_t size = kept.size(2) - q.size(2);
  read.sums = kept.narrow(2, 0, size).contiguous();
  read.inverse = kept.narrow(2, size, q.size(2)).contiguous();
  return backward(read, g, q, k, v);
}

}  // namespace longbow
