#include "longbow/models/decoder/seq2seq.h"

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "longbow/nn/contract/linear.h"

namespace longbow {
namespace {

const Node& part(const Node& tree, const char* name) {
  const auto* found = tree.find(name);
  return found ? *found : tree;
}

std::vector<std::string> keys_of_both() {
  Describer rows;
  KeysOfBoth<Describer> visitor = {rows};
  DecoderConfig decoder;
  fields(visitor, decoder);
  std::vector<std::string> keys;
  for (const auto& row : rows.take()) keys.push_back(row.name.substr(0, row.name.find('.')));
  return keys;
}

}  // namespace

Node with_parts(const Node& model) {
  Node both = Node::map(), result = model;
  both.place = model.place;
  for (const auto& key : keys_of_both())
    if (const auto* said = model.find(key)) both[key] = *said;
  if (both.entries.empty()) return model;
  std::erase_if(result.entries, [&](const auto& entry) { return both.find(entry.first); });
  for (const auto* name : {"encoder", "decoder"}) {
    const auto* own = model.find(name);
    result[name] = own && own->is_map() ? merged(both, *own) : both;
  }
  return result;
}

void check_seq2seq(const Seq2SeqConfig& config, const Node& tree) {
  check_encoder(config.encoder, part(tree, "encoder"));
  check_decoder(config.decoder,
                {.memory_width = config.encoder.width, .memory_length = config.encoder.max_length},
                part(tree, "decoder"));
  if (config.tie == Tie::all && config.encoder.width != config.decoder.width)
    throw UserError(part(tree, "tie").place,
                    "tie all needs one width, but the encoder's is " +
                        std::to_string(config.encoder.width) + " and the decoder's " +
                        std::to_string(config.decoder.width),
                    "set tie to output, or the widths alike");
  const int64_t words = config.encoder.embedding_width;
  if (config.tie == Tie::all && words > 0 && words != config.decoder.width)
    throw UserError(part(tree, "tie").place,
                    "tie all needs embeddings of the decoder's width " +
                        std::to_string(config.decoder.width) + ", but encoder.embedding_width is " +
                        std::to_string(words),
                    "set tie to output, or leave encoder.embedding_width out");
}

Seq2Seq::Seq2Seq(const Seq2SeqConfig& config, int64_t source_vocabulary, int64_t target_vocabulary,
                 uint64_t seed) {
  encoder_ = register_module("encoder",
                             std::make_shared<Encoder>(config.encoder, source_vocabulary, seed));
  DecoderSite site = {.vocabulary = target_vocabulary,
                      .memory_width = config.encoder.width,
                      .memory_length = config.encoder.max_length,
                      .seed = seed};
  if (config.tie == Tie::all) site.words = encoder_->words();
  decoder_ = register_module("decoder", std::make_shared<Decoder>(config.decoder, site));
  if (config.tie != Tie::none) return;
  const Site head = {.path = "decoder.output", .init = "xavier", .seed = seed};
  output_ = register_module(
      "output", std::make_shared<Linear>(head, config.decoder.width, target_vocabulary));
}

void Seq2Seq::read(const Tensor& source, const Mask& source_mask, Context& context) {
  Context reading = {.mask = source_mask,
                     .random = context.random,
                     .choices = context.choices,
                     .maps = context.maps};
  context.memory = (*encoder_)(source, reading);
  context.memory_keep = source_mask.keep;
  context.memory_ragged = source_mask.ragged;
  if (reading.loss.defined()) context.add_loss(reading.loss);
}

Tensor Seq2Seq::logits(const Tensor& x) const {
  return output_ ? (*output_)(x) : at::linear(x, decoder_->words());
}

Tensor Seq2Seq::operator()(const Tensor& source, const Mask& source_mask, const Tensor& target,
                           Context& context) {
  read(source, source_mask, context);
  return logits((*decoder_)(target, context));
}

Continuation Seq2Seq::continuation(const Tensor& source, const Mask& source_mask,
                                   const Random& random) {
  const at::NoGradGuard no_grad;
  Context context = {.random = random};
  read(source, source_mask, context);
  const auto head = [this](const Tensor& x) { return logits(x); };
  return continuation_of(decoder_, head, source.size(0), decoder_->max_length(), context);
}

}  // namespace longbow
