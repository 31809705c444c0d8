#pragma once
#include "longbow/core/fields.h"
#include "longbow/nn/layers/block.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/nn/layers/past_heads.h"

namespace longbow {

struct CrossConfig {
  int64_t heads = 1, head_width = 0, feed_forward = 0;
};
template <class V>
void fields(V& v, CrossConfig& c) {
  v("heads", c.heads, "heads of the cross-attention", range(1, 1024));
  v("head_width", c.head_width, "head width; 0 = the width of the rows that read / heads",
    range(0, 65536));
  v("feed_forward", c.feed_forward,
    "width of the feed-forward layer after the cross-attention; 0 = four times the width",
    at_least(0));
}

// Rows z that read others, x, which may have another width:
//   h = z + W_o softmax(q k^T / sqrt D) v + b,   q = LN(z) W_q, k = LN(x) W_k, v = LN(x) W_v,
//   y = h + F(LN h).
// A row that sees none of the others reads zero, without b. Norms, dropout and the kind of the
// feed-forward layer are those of a block, of which the residual is always pre_norm.
class CrossLayer : public Part {
 public:
  // Rows of site.shape.width channels read `source` channels, with site.shape's heads. `adds` is
  // whether z itself is a part of h.
  CrossLayer(const Site& site, int64_t source, const BlockConfig& block, bool adds = true);
  KeysAndValues source(const Tensor& x) const;  // [B, M, source] -> [B, H, M, D] each
  // z [B, N, C] -> [B, N, C]; visible [1 or B, 1, 1 or N, M] bool, undefined = all.
  Tensor operator()(const Tensor& z, const KeysAndValues& source, const Tensor& visible,
                    Context& context) const;

 private:
  Tensor read(const Tensor& z, const KeysAndValues& source, const Tensor& visible,
              Context& context) const;
  std::string path_;
  int64_t heads_;
  double scale_, dropout_;
  bool adds_;
  std::shared_ptr<LayerNorm> norm_, source_norm_, feed_forward_norm_;
  std::shared_ptr<Linear> query_, key_, value_, output_;
  std::shared_ptr<FeedForward> feed_forward_;
};

}  // namespace longbow
