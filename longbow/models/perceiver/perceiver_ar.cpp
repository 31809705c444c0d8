#include "longbow/models/perceiver/perceiver_ar.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "longbow/nn/softmax/softmax.h"

namespace longbow {
namespace {

const std::string kKeys = "prefix";  // the site of the draw

// The config of the blocks, which know nothing of what stands before the latents.
EncoderConfig latent_blocks(const PerceiverArConfig& config) {
  auto blocks = config.encoder;
  blocks.max_length = config.latents;
  blocks.positions = Positions::none;
  return blocks;
}

// [1 or B, 1, N, M]: keys that do not stand behind the query.
Tensor visible_before(const Tensor& keys, const Tensor& queries) {
  return (keys.unsqueeze(1) <= queries.unsqueeze(2)).unsqueeze(1);
}

// Rows [B, M, C] at the places [B, N].
Tensor rows_at(const Tensor& x, const Tensor& places) {
  return x.gather(1, places.unsqueeze(-1).expand({-1, -1, x.size(2)}));
}

Tensor places_upto(int64_t count, const Tensor& tokens) {
  return at::arange(count, tokens.options().dtype(at::kLong)).unsqueeze(0);
}

}  // namespace

void check_perceiver_ar(const PerceiverArConfig& config, const Node& tree) {
  const auto& encoder = config.encoder;
  if (!encoder.causal)
    throw UserError(tree.place_of("causal"), "perceiver_ar is causal",
                    "leave model.causal out, or take perceiver");
  require_tokens(encoder, tree, "perceiver_ar");
  if (encoder.positions == Positions::rotary)
    throw UserError(tree.place_of("positions"), "a Perceiver has no rotary positions",
                    "take learned, sinusoidal, axial or none");
  auto tokens = encoder;
  tokens.attention = Node::string("softmax");
  check_encoder(tokens, tree);
  check_encoder(latent_blocks(config), tree);
  check_cross(config.cross, "cross", encoder.width, tree);
  check_language_head(config.head, encoder.words(), encoder.width, tree);
}

PerceiverAr::PerceiverAr(const PerceiverArConfig& config, int64_t vocabulary, uint64_t seed)
    : config_(config) {
  const auto& encoder = config.encoder;
  TORCH_CHECK(encoder.causal, "perceiver_ar: is causal");
  TORCH_CHECK(encoder.positions != Positions::rotary, "perceiver_ar: has no rotary positions");
  const auto site = site_of(encoder, seed);
  embedding_ = register_module("embedding", std::make_shared<Embedding>(site, encoder, vocabulary));
  cross_ = register_module("cross", std::make_shared<CrossLayer>(
                                        cross_site(site.at("cross"), config.cross, encoder.width),
                                        encoder.width, cross_block(config.cross, encoder.block)));
  blocks_ =
      register_module("blocks", std::make_shared<Tower>(site.at("blocks"), latent_blocks(config)));
  if (encoder.block.residual == Residual::pre_norm ||
      encoder.block.residual == Residual::reversible)
    norm_ = register_module("norm",
                            std::make_shared<LayerNorm>(encoder.width, encoder.block.norm_epsilon));
  const Site head = {.shape = {.width = encoder.width},
                     .path = "head",
                     .init = name_of(encoder.init),
                     .seed = seed};
  head_ = register_module(
      "head", std::make_shared<LanguageHead>(config.head, head, embedding_->words(), vocabulary,
                                             encoder.block.norm_epsilon));
}

Tensor PerceiverAr::embedded(const Tensor& tokens, Context& context) const {
  TORCH_CHECK(tokens.size(1) <= max_length(), "perceiver_ar: ", tokens.size(1),
              " tokens, but max_length is ", max_length());
  TORCH_CHECK(!context.mask.ragged || !context.mask.keep.defined(),
              "perceiver_ar: real tokens must come first");
  return (*embedding_)(tokens, context);
}

Tensor PerceiverAr::finished(const Tensor& z) const {
  return (*head_)(norm_ ? (*norm_)(z) : z);
}

// All tokens; while training, the latents' own and a random choice of those before them. The tokens
// behind the latents are the first to go.
PerceiverAr::Keys PerceiverAr::kept_keys(const Tensor& x, const Tensor& places,
                                         const Context& context) const {
  const int64_t tokens = x.size(1), latents = places.size(1);
  const auto all = places_upto(tokens, places);
  const int64_t count =
      latents + static_cast<int64_t>(std::ceil((1 - config_.prefix_dropout) *
                                               static_cast<double>(tokens - latents)));
  if (!is_training() || count >= tokens) return {x, all};
  const auto chosen = context.pick(kKeys, [&] {
    const auto drawn = context.random.uniform({x.size(0), tokens}, kKeys);
    const auto first = places.narrow(1, 0, 1), last = places.narrow(1, latents - 1, 1);
    const auto rank = at::where(all < first, drawn, at::where(all <= last, 2.0, -1.0));
    return std::get<1>(rank.topk(count, 1));
  });
  return {rows_at(x, chosen), chosen};
}

PerceiverAr::Rows PerceiverAr::operator()(const Tensor& tokens, const Tensor& first,
                                          Context& context) {
  const auto x = embedded(tokens, context);
  const auto& keep = context.mask.keep;
  const int64_t length = tokens.size(1), count = std::min(config_.latents, length);
  // Where rows differ, each has its own places; otherwise these are the same for all.
  const bool apart = keep.defined() || first.defined();
  const auto real = keep.defined() ? keep.sum(1) : Tensor();
  auto begins = first;
  if (keep.defined() && !first.defined()) begins = (real - count).clamp_min(0);
  const auto places = apart ? begins.unsqueeze(1) + places_upto(count, tokens)
                            : places_upto(count, tokens) + (length - count);
  const auto inside = places.clamp_max(length - 1);
  const auto z = apart ? rows_at(x, inside) : x.narrow(1, length - count, count);
  const auto keys = kept_keys(x, inside, context);
  const auto read =
      (*cross_)(z, cross_->source(keys.rows), visible_before(keys.places, inside), context);
  Mask mask = {.causal = true};
  if (keep.defined()) mask.keep = places < real.unsqueeze(1);
  const auto y = (*blocks_)(read, mask, context);
  return {finished(y), places.expand({tokens.size(0), -1})};
}

Tensor PerceiverAr::all(const Tensor& tokens, Context& context) {
  const auto x = embedded(tokens, context);
  const auto source = cross_->source(x);
  const auto& keep = context.mask.keep;
  const auto places = places_upto(tokens.size(1), tokens);
  std::vector<Tensor> logits;
  for (int64_t first = 0; first < tokens.size(1); first += config_.latents) {
    const int64_t count = std::min(config_.latents, tokens.size(1) - first), end = first + count;
    const KeysAndValues seen = {source.k.narrow(2, 0, end), source.v.narrow(2, 0, end)};
    const auto z = (*cross_)(
        x.narrow(1, first, count), seen,
        visible_before(places.narrow(1, 0, end), places.narrow(1, first, count)), context);
    Mask mask = {.causal = true};
    if (keep.defined()) mask.keep = keep.narrow(1, first, count);
    logits.push_back(finished((*blocks_)(z, mask, context)));
  }
  return at::cat(logits, 1);
}

State PerceiverAr::start(int64_t lanes, int64_t capacity, const Random& random) const {
  TORCH_CHECK(capacity <= max_length(), "perceiver_ar: a capacity of ", capacity,
              " tokens, but max_length is ", max_length());
  State state;
  Context context = {.random = random};
  const auto& words = embedding_->words();
  const auto site = cross_site({}, config_.cross, config_.encoder.width);
  const auto empty = at::zeros({lanes, config_.cross.heads, 0, site.shape.head()}, words.options());
  open_cache(state, {empty, empty, empty, empty, empty}, capacity);
  blocks_->start(state.child["latents"], lanes, config_.latents, context);
  state.seen = at::zeros({lanes}, words.options().dtype(at::kLong));
  return state;
}

Tensor PerceiverAr::extend(const Tensor& tokens, State& state, Context& context) const {
  TORCH_CHECK(state.seen.defined(), "perceiver_ar: extend before start");
  const auto keep = context.mask.keep;
  const auto seen = state.seen;  // [B]
  Context placed = context;
  placed.positions = seen.unsqueeze(1) + positions_of(tokens, {.mask = {.keep = keep}});
  const auto x = embedded(tokens, placed);
  const auto added = cross_->source(x);
  auto &keys = state.lane.at("keys"), &values = state.lane.at("values");
  const int64_t capacity = keys.size(2) - 1, latents = config_.latents;
  const auto slots = slots_of({.q = {}, .k = added.k, .v = {}, .x = {}, .source = {}},
                              {.mask = {.keep = keep}, .positions = placed.positions}, capacity);
  write_slots(keys, slots, added.k);
  write_slots(values, slots, added.v);

  const auto count = keep.defined() ? keep.sum(1) : at::full_like(seen, tokens.size(1));
  state.seen = seen + count;
  // The last tokens, those of them that are latents: from the last multiple of N on.
  const int64_t rows = std::min(tokens.size(1), latents);
  const auto begins = (state.seen - 1).div(latents, "floor") * latents;        // [B]
  const auto which = (count - rows).unsqueeze(1) + places_upto(rows, tokens);  // [B, rows]
  const auto places = seen.unsqueeze(1) + which;
  const auto real = (which >= 0).logical_and(places >= begins.unsqueeze(1));
  const auto slot = places_upto(capacity + 1, tokens);
  const auto visible = visible_before(slot, places).logical_and(slot < capacity);
  const auto z = (*cross_)(rows_at(x, which.clamp_min(0)), {keys, values}, visible, context);
  auto& blocks = state.child.at("latents");
  blocks.reset(begins >= seen);
  const auto y = blocks_->extend(z, blocks, {.ragged = true, .keep = real}, context);
  return finished(y.select(1, rows - 1));
}

Continuation PerceiverAr::continuation(int64_t lanes, const Random& random) {
  const auto self = std::dynamic_pointer_cast<PerceiverAr>(shared_from_this());
  return {.lanes = lanes,
          .longest = max_length(),
          .start = [=](int64_t capacity) { return self->start(lanes, capacity, random); },
          .next =
              [=](const Tensor& tokens, const Tensor& keep, State& state) {
                Context context = {.mask = {.keep = keep}, .random = random};
                return self->extend(tokens, state, context);
              }};
}

}  // namespace longbow
