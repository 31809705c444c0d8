// Memory-efficient attention (Rabe and Staats, 2021, arXiv:2112.05682; the backward pass as in Dao
// et al., 2022, arXiv:2205.14135): softmax attention itself, on another schedule,
//   o_i = sum_j softmax_j(q_i . k_j / sqrt D) v_j over the keys that are visible to i.
// The scores exist one tile of queries x keys at a time; a row of queries keeps a running maximum,
// the sum of its weights and its output, and the backward pass computes the weights again
// (nn/softmax/tiles.cpp has the recurrence). On a GPU a fused kernel of LibTorch does the same.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/nn/softmax/tiles.h"

namespace longbow {
namespace {

struct Config {
  int64_t query_chunk = 256, key_chunk = 1024;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("query_chunk", c.query_chunk, "queries in a tile of scores", range(1, 65536));
  v("key_chunk", c.key_chunk, "keys in a tile of scores", range(1, 65536));
  v("dropout", c.dropout, "rate on the attention weights, the same ones for all chunks",
    range(0, 0.99));
}

class MemoryEfficient : public AllPairs {
 public:
  MemoryEfficient(const Site& site, const Config& config)
      : AllPairs(site, config.dropout), config_(config) {}

  Tensor attend(const Heads& heads, Context& context) override {
    if (context.maps || drops() || !heads.q.is_cuda()) return AllPairs::attend(heads, context);
    return fused_attention(heads, context.mask, scale_);
  }

 protected:
  Tensor read(const Heads& heads, const Seen& seen, Context& context) override {
    if (context.maps)  // who looks at the weights wants all of them
      return softmax_read(heads.q * scale_, heads.k, heads.v, seen.pairs(heads), weighing(),
                          context);
    const Tiling tiling = {.queries = config_.query_chunk, .keys = config_.key_chunk};
    return tiled_softmax(heads.q, heads.k, heads.v, seen, tiling, weighing(), context, scale_)
        .to(heads.v.scalar_type());
  }

 private:
  Config config_;
};

Promises promises(const Config&) {
  return AllPairs::promised();
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<MemoryEfficient>(site, c);
}

}  // namespace

Mechanism memory_efficient_mechanism() {
  return over_heads<Config>(
      {.name = "memory_efficient",
       .family = "exact",
       .paper = "arXiv:2112.05682",
       .cost = "O(N M D)",
       .summary = "Softmax attention in tiles of queries and keys: no N x M tensor, forward or "
                  "backward.",
       .exact = "always",
       .variants = {{"small", "{query_chunk: 64, key_chunk: 32}"}}},
      promises, make);
}

}  // namespace longbow
