#pragma once
#include <array>
#include <iterator>
#include <string_view>

#include "longbow/models/encoder/tower.h"
#include "longbow/models/perceiver/cross_layer.h"
#include "longbow/models/perceiver/fourier.h"

namespace longbow {

// Whether repeats have the same weights: all but the first, all, or none.
enum class RepeatWeights { first_apart, shared, own };
constexpr std::array<std::string_view, 3> names_of(RepeatWeights) {
  return {"first_apart", "shared", "own"};
}

// Width, heads, layers, block and attention of the encoder are those of the latent blocks;
// embedding_width, positions and max_length are those of the tokens.
struct PerceiverConfig {
  EncoderConfig encoder = {};
  int64_t latents = 64, repeats = 2, reads = 0;
  RepeatWeights repeat_weights = RepeatWeights::first_apart;
  CrossConfig cross = {};
  FourierConfig fourier = {};

  EncoderConfig blocks() const;     // of the latents
  EncoderConfig embedding() const;  // of the tokens, whose width is the model's there
  int64_t channels() const { return encoder.words() + fourier.channels(); }  // of a token
};
template <class V>
void fields(V& v, PerceiverConfig& c) {
  fields(v, c.encoder);
  v("latents", c.latents, "learned rows N that read the tokens", range(1, 1 << 20));
  v("repeats", c.repeats,
    "how often the latents read the tokens and then pass through the latent blocks",
    range(1, 1024));
  v("reads", c.reads,
    "repeats that read the tokens, the first ones; 0 = all, 1 = as in Perceiver IO",
    range(0, 1024));
  v("repeat_weights", c.repeat_weights,
    "the weights of a repeat: those of all others but the first, those of all others, or its own");
  v("cross", c.cross, "the cross-attention from the latents to the tokens");
  v("fourier", c.fourier, "Fourier features of the positions, beside the embeddings");
}

// UserError with file and line for what cannot be built; `tree` is where the config was read from.
void check_perceiver(const PerceiverConfig& config, const Node& tree);
// The same of one cross-attention, a part of the model: whether its heads divide the rows' width.
void check_cross(const CrossConfig& config, const std::string& part, int64_t width,
                 const Node& tree);

// The site of a cross-attention in a model, and the block that its norms, dropout and feed-forward
// layer are taken from.
Site cross_site(const Site& site, const CrossConfig& config, int64_t width);
BlockConfig cross_block(const CrossConfig& config, BlockConfig block);

// Parts of one kind, registered by number.
template <class T>
class Numbered : public Part {
 public:
  void add(std::shared_ptr<T> part) {
    parts_.push_back(register_module(std::to_string(parts_.size()), std::move(part)));
  }
  T& operator[](int64_t which) const { return *parts_[static_cast<size_t>(which)]; }
  int64_t size() const { return std::ssize(parts_); }

 private:
  std::vector<std::shared_ptr<T>> parts_;
};

// Perceiver (Jaegle et al., 2021, arXiv:2103.03206; Perceiver IO, arXiv:2107.14795): a few learned
// latents read any number of tokens, and the deep stack works on the latents alone.
//   z = latents;   r times:  z = Cross(z, x),  z = Blocks(z).
// Time and memory are linear in the number of tokens.
class Perceiver : public Part {
 public:
  // Reads rows of `channels` channels.
  Perceiver(const PerceiverConfig& config, int64_t channels, uint64_t seed);
  // x [B, M, channels] -> [B, N, C]. context.mask.keep [B, M] says which rows are real; of a
  // sequence without any, nothing is read.
  Tensor operator()(const Tensor& x, Context& context);

 private:
  int64_t weights_of(int64_t repeat) const;
  PerceiverConfig config_;
  int64_t channels_, reads_;
  Tensor latents_;  // [N, C]
  std::shared_ptr<Numbered<CrossLayer>> cross_;
  std::shared_ptr<Numbered<Tower>> blocks_;
};

// What the latents of a Perceiver read: embeddings of tokens and the features of their places,
// [B, M] -> [B, M, config.channels()].
class PerceiverInput : public Part {
 public:
  PerceiverInput(const PerceiverConfig& config, int64_t vocabulary, uint64_t seed);
  Tensor operator()(const Tensor& tokens, const Context& context) const;

 private:
  int64_t max_length_;
  std::shared_ptr<Embedding> embedding_;
  Tensor features_;  // [max_length, channels] or undefined
};

}  // namespace longbow
