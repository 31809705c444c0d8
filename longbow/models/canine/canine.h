#pragma once
#include "longbow/models/encoder/tower.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"

namespace longbow {

// aligned: every chunk of characters becomes a molecule, hidden where it holds no real character;
//   padded characters are zeros to the convolutions. Padding is invisible.
// shifted: as the published implementations have it. The last chunk is left out, slot s takes the
//   mask of chunk s although it holds chunk s - 1, and padded characters enter the convolutions. A
//   text that is shorter than a chunk is filled up to one.
enum class Molecules { aligned, shifted };
constexpr std::array<std::string_view, 2> names_of(Molecules) {
  return {"aligned", "shifted"};
}

// An encoder's config with CANINE's own defaults.
EncoderConfig canine_encoder();

struct CanineConfig {
  EncoderConfig encoder = canine_encoder();
  int64_t hashes = 8, buckets = 16384, rate = 4, kernel = 4, token_types = 16;
  Molecules molecules = Molecules::aligned;
  Node first = Node::map({{"name", Node::string("local")},
                          {"window", Node::integer(128)},
                          {"back", Node::integer(0)},
                          {"ahead", Node::integer(0)}});
  Node last = Node::string("softmax");
};
template <class V>
void fields(V& v, CanineConfig& c) {
  fields(v, c.encoder);
  v("hashes", c.hashes, "hash tables K, with fixed multipliers; the width is a multiple of it",
    range(1, 16));
  v("buckets", c.buckets, "rows of each hash table", range(1, 1 << 30));
  v("rate", c.rate, "characters of a molecule r", range(1, 1024));
  v("kernel", c.kernel, "characters that the convolution of the up-sampling sees", range(1, 1024));
  v("token_types", c.token_types, "kinds of segments that a character can belong to",
    range(1, 65536));
  v("molecules", c.molecules,
    "aligned: every molecule with a real character counts, so that padding is invisible; shifted: "
    "as published, without the last chunk and with its mask one slot off");
  v("first", c.first,
    "the mechanism of the layer before the down-sampling; with local, `all_read_first` and "
    "`first_reads_all` make the first character global");
  v("last", c.last, "the mechanism of the layer after the up-sampling");
}

// UserError with file and line where a mechanism does not exist or has wrong options, and where the
// width does not divide among heads and hashes; `tree` is where the config was read from.
void check_canine(const CanineConfig& config, const Node& tree);

// y_t = sum_j W_j x_(stride t + j) + b, without filling up: [B, N, in] -> [B, M, out].
class Convolution : public Part {
 public:
  Convolution(const Site& site, int64_t in, int64_t out, int64_t kernel);
  Tensor operator()(const Tensor& x, int64_t stride) const;
  Tensor weight, bias;  // [out, in, kernel], [out]
};

struct CanineOutput {
  Tensor embedding, local;  // [B, N, C], of the characters before the down-sampling
  Tensor molecules, deep;   // [B, M, C], before and after the deep stack
  Tensor joined;            // [B, N, C], of the characters after the up-sampling
  Tensor characters;        // [B, N, C], the output
  Tensor pooled;            // [B, C], of the first molecule
};

// CANINE (Clark et al., 2021, arXiv:2103.06874): a model of characters without a vocabulary. Their
// code points are hashed into K tables side by side; one layer looks at neighbours; each r
// characters become a molecule, for which the deep stack is N / r long; its output goes back to the
// characters it came from, and one more layer joins the two. Slot 0 of the molecules is the first
// character alone.
//   down_s = act(sum_j D_j local_(rs + j)),   molecules = LN([local_0, down_0, down_1, …])
//   joined_t = LN(act(sum_j U_j [local, deep_(t div r + 1)]_(t + j - (w - 1) div 2)))
class Canine : public Part {
 public:
  Canine(const CanineConfig& config, uint64_t seed);
  // Code points [B, N] and the type of each (undefined: 0); real characters stand first.
  CanineOutput operator()(const Tensor& characters, const Tensor& types, Context& context);

 private:
  // The same of fewer characters than a chunk has.
  CanineOutput filled_up(const Tensor& characters, const Tensor& types, Context& context);
  Tensor embedded(const Tensor& characters, const Tensor& types, const Context& context);
  Tensor activated(const Tensor& x) const;
  Tensor whole_chunks(const Tensor& x) const;  // [B, N, …] filled up or cut to a multiple of r
  Tensor down_sampled(const Tensor& local) const;
  Tensor molecule_keep(const Tensor& keep) const;
  Tensor up_sampled(const Tensor& local, const Tensor& deep, const Tensor& keep,
                    const Context& context) const;
  CanineConfig config_;
  Tensor hashes_, primes_, positions_, segments_;
  std::shared_ptr<LayerNorm> embedding_norm_, down_norm_, up_norm_;
  std::shared_ptr<Convolution> down_, up_;
  std::shared_ptr<Tower> first_, deep_, last_;
  std::shared_ptr<Linear> pooler_;
};

}  // namespace longbow
