#pragma once
// The attention block of the Set Transformer (Lee et al., 2019, arXiv:1810.00825): rows X read a
// set Y,
//   reference   h = q + softmax(q k^T / sqrt C) v,         MAB(X, Y) = h + relu(F h)
//   paper       h = X + O softmax(q k^T / sqrt D) v,       MAB(X, Y) = h + relu(F h)
//   plain       O softmax(q k^T / sqrt D) v
// with q = X W_q, k = Y W_k, v = Y W_v by head, and a LayerNorm over h and over the result where
// there are norms. The reference divides its C channels among the heads and by sqrt C, not sqrt D.
#include <array>
#include <string_view>

#include "longbow/nn/contract/mixer.h"
#include "longbow/nn/layers/layer_norm.h"

namespace longbow {

enum class SetStyle { reference, paper, plain };
constexpr std::array<std::string_view, 3> names_of(SetStyle) {
  return {"reference", "paper", "plain"};
}

class SetBlock : public Part {
 public:
  // C, H and D are those of site.shape. X has `in` channels, in style paper C, and Y `source`.
  SetBlock(const Site& site, int64_t in, int64_t source, SetStyle style, bool norms);
  // x [B or 1, N, in], y [B, M, source], keep [B, M] bool or undefined -> [B, N, C]. Of an empty
  // set nothing is read.
  Tensor operator()(const Tensor& x, const Tensor& y, const Tensor& keep, Context& context) const;

 private:
  Tensor read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
              Context& context) const;

  SetStyle style_;
  int64_t heads_;
  double scale_;
  std::string path_;
  std::shared_ptr<Linear> query_, key_, value_, output_, feed_forward_;
  std::shared_ptr<LayerNorm> read_norm_, norm_;
};

// [rows, C]: rows that are learned, as the inducing points and the seeds.
Tensor initial_set_rows(const Site& site, const std::string& name, int64_t rows);

}  // namespace longbow
