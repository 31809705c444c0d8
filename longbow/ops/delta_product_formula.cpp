#include "longbow/ops/delta_product_formula.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "longbow/ops/chunk_decays.h"
#include "longbow/ops/linear_scan.h"

namespace longbow {
namespace {

using at::Tensor;

// From the first token to the last; all of one type.
Tensor forwards(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
                const Tensor& log_decay, Tensor& sums, int64_t chunk) {
  const int64_t length = q.size(-2), keys = k.size(-1), values = v.size(-1);
  chunk = std::clamp<int64_t>(length, 1, chunk);
  const int64_t chunks = std::max<int64_t>(1, (length + chunk - 1) / chunk);
  const auto cut = [&](const Tensor& t) {  // [..., chunks, C, …]
    return at::constant_pad_nd(t, {0, 0, 0, chunks * chunk - length})
        .unflatten(-2, {chunks, chunk});
  };
  const auto a = cut(q), b = cut(k), c = cut(v), rate = cut(beta);
  const auto g = log_decay.defined() ? cut(log_decay) : at::zeros_like(rate);
  const auto kept = chunk_decays(g), start = g.cumsum(-2).exp();  // [..., C, C], [..., C, 1]
  // u_i = beta_i (v_i - (what the sums hold for k_i)) contains the u_j before it, by
  //   (I + M) U = beta (V - exp(G) K S),   M_ij = beta_i exp(G_i - G_j) k_i . k_j for j < i,
  // where S are the sums before the chunk: U = U' - W S with both parts solved for at once.
  const auto transposed = b.transpose(-2, -1);  // [..., p, C]
  const auto system = (rate * kept * b.matmul(transposed)).tril(-1);
  const auto solved = at::linalg_solve_triangular(system, at::cat({c, start * b}, -1) * rate,
                                                  /*upper=*/false, /*left=*/true,
                                                  /*unitriangular=*/true);
  const auto fresh = solved.narrow(-1, 0, values), past = solved.narrow(-1, values, keys);
  // The chunk takes S to exp(G_C) S + sum_j exp(G_C - G_j) k_j u_j^T.
  const auto writing = transposed * kept.narrow(-2, chunk - 1, 1);
  const auto whole = start.narrow(-2, chunk - 1, 1) * at::eye(keys, start.options());
  const auto added = writing.matmul(fresh);  // [..., chunks, p, q]
  if (!sums.defined()) sums = at::zeros_like(added.select(-3, 0));
  const auto states = matrix_scan(whole - writing.matmul(past), added, sums);
  sums = states.select(-3, chunks);
  const auto before = states.narrow(-3, 0, chunks);
  const auto corrected = fresh - past.matmul(before);
  const auto inside = (kept * a.matmul(transposed)).matmul(corrected);
  return (inside + (start * a).matmul(before)).flatten(-3, -2).narrow(-2, 0, length);
}

}  // namespace

void check_delta_product(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
                         const Tensor& log_decay) {
  TORCH_CHECK(q.sizes() == k.sizes(), "delta_product: q is ", q.sizes(), " but k is ", k.sizes());
  const auto fits = [&](const Tensor& t) { return t.size(-2) == q.size(-2) && t.size(-1) == 1; };
  TORCH_CHECK(v.size(-2) == q.size(-2) && fits(beta), "delta_product: q is ", q.sizes(),
              " but v is ", v.sizes(), " and beta ", beta.sizes());
  TORCH_CHECK(!log_decay.defined() || fits(log_decay), "delta_product: q is ", q.sizes(),
              " but log_decay is ", log_decay.sizes());
}

Tensor delta_product_formula(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
                             const Tensor& log_decay, const DeltaProduct& how, Tensor& sums,
                             int64_t chunk) {
  check_delta_product(q, k, v, beta, log_decay);
  TORCH_CHECK(chunk > 0, "delta_product: a chunk of ", chunk, " tokens");
  const auto given = [&](const Tensor& t) {
    if (!t.defined()) return t;
    const auto typed = t.to(beta.scalar_type());
    return how.reversed ? typed.flip(-2) : typed;
  };
  const auto queries = how.scale == 1 ? given(q) : given(q) * how.scale;
  const auto out = forwards(queries, given(k), given(v), given(beta), given(log_decay), sums, chunk)
                       .to(q.scalar_type());
  return how.reversed ? out.flip(-2) : out;
}

}  // namespace longbow
