#pragma once
#include <string_view>
#include <type_traits>
#include <utility>

#include "longbow/models/decoder/decoder.h"
#include "longbow/models/decoder/decoding.h"
#include "longbow/nn/contract/linear.h"

namespace longbow {

// Which matrices are one: none; the decoder's embedding and its output; the encoder's embedding
// too.
enum class Tie { none, output, all };
constexpr std::array<std::string_view, 3> names_of(Tie) {
  return {"none", "output", "all"};
}

struct Seq2SeqConfig {
  EncoderConfig encoder = {};
  DecoderConfig decoder = {};
  Tie tie = Tie::none;
};

// The keys of a decoder that an encoder has too.
template <class V>
struct KeysOfBoth {
  V& visitor;
  template <class... Field>
  void operator()(const char* name, Field&&... field) {
    if (std::string_view(name) != "cross_attention") visitor(name, std::forward<Field>(field)...);
  }
};
// These may stand beside `encoder` and `decoder` as well; see with_parts.
template <class V>
void fields(V& v, Seq2SeqConfig& c) {
  if constexpr (!std::is_same_v<V, Writer>) {
    DecoderConfig both;
    KeysOfBoth<V> keys = {v};
    fields(keys, both);
  }
  v("encoder", c.encoder, "reads the source");
  v("decoder", c.decoder, "writes the target");
  v("tie", c.tie,
    "one matrix for the decoder's embedding and output, or for the encoder's embedding as well");
}

// The model part of a config with what it says of both parts said in each of them, where the part
// does not say otherwise: {width: 64, decoder: {width: 32}} is {encoder: {width: 64}, decoder:
// {width: 32}}.
Node with_parts(const Node& model);

// UserError with file and line for what cannot be built; `tree` is where the config was read from.
void check_seq2seq(const Seq2SeqConfig& config, const Node& tree);

// An encoder and a decoder that reads what it gives.
class Seq2Seq : public Part {
 public:
  Seq2Seq(const Seq2SeqConfig& config, int64_t source_vocabulary, int64_t target_vocabulary,
          uint64_t seed);
  // Logits [B, N, V] of what follows each target token; context.mask is that of the targets.
  Tensor operator()(const Tensor& source, const Mask& source_mask, const Tensor& target,
                    Context& context);
  // To be decoded: the sources are read at once.
  Continuation continuation(const Tensor& source, const Mask& source_mask, const Random& random);

 private:
  void read(const Tensor& source, const Mask& source_mask, Context& context);
  Tensor logits(const Tensor& x) const;

  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Decoder> decoder_;
  std::shared_ptr<Linear> output_;  // null where it is the decoder's embedding
};

}  // namespace longbow
