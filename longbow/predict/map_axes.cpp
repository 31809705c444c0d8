#include "longbow/predict/map_axes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <tuple>

#include "longbow/models/encoder/layer_attention.h"

namespace longbow::predict {
namespace {

// "decoder.layers.2.cross" -> decoder, 2, cross.
struct PathParts {
  std::string part;  // of the model; empty for its encoder
  int64_t layer = 0;
  std::string rest;  // mixer, cross, mixer.pack
};

PathParts parts_of(const std::string& path) {
  const std::string word = "layers.";
  const auto at = path.find(word);
  if (at == std::string::npos) return {.part = path, .layer = 0, .rest = ""};
  const auto dot = path.find('.', at + word.size());
  return {.part = at == 0 ? "" : path.substr(0, at - 1),
          .layer = std::atoll(path.c_str() + at + word.size()),
          .rest = dot == std::string::npos ? "" : path.substr(dot + 1)};
}

// The maps of one layer over x [1, tokens, C].
Tensors probed(const Node& options, int64_t tokens) {
  const at::NoGradGuard no_grad;
  Tensors maps;
  const Site site = {.shape = {.width = 8, .heads = 2, .max_length = 256},
                     .path = "probe",
                     .seed = 1,
                     .shared = std::make_shared<Shared>()};
  const auto block = make_block(options, site, {});
  block->eval();
  const bool causal = !mechanism_of(options).promises(options_of(options)).bidirectional;
  Context context = {.mask = {.causal = causal}, .random = Random::from_seed(1), .maps = &maps};
  block->forward(at::ones({1, tokens, 8}), context);
  std::erase_if(maps, [](const auto& entry) { return entry.second.dim() != 4; });
  return maps;
}

// Whether the columns of its map are the tokens it reads, and not slots of its own; `rest` is what
// its path ends in.
bool weighs_tokens(const std::string& mechanism, const std::string& rest) {
  const auto options = Node::map({{"name", Node::string(mechanism)}});
  const auto columns = [&](int64_t tokens) {
    const auto maps = probed(options, tokens);
    const auto found = maps.find("probe." + rest);
    return found == maps.end() ? 0 : found->second.size(3);
  };
  return columns(7) == 7 && columns(11) == 11;
}

// A class token is read before all tokens of a sequence.
bool has_class_token(const Node& model) {
  const auto* pooling = model.find("pooling");
  return pooling && pooling->text == "class_token";
}

}  // namespace

std::vector<std::string> mechanisms_with_maps() {
  std::vector<std::string> names;
  for (const auto& mechanism : mechanisms())
    if (!probed(Node::map({{"name", Node::string(mechanism.name)}}), 7).empty())
      names.push_back(mechanism.name);
  return names;
}

void MapAxes::keep_rows(int64_t limit) {
  rows = std::min(rows, limit);
  if (static_cast<int64_t>(queries.size()) > rows) queries.resize(static_cast<size_t>(rows));
}

MapReader::MapReader(Node model, const std::string& objective, const Splits& splits,
                     const Sample& sample)
    : model_(std::move(model)),
      sites_(find_objective(objective).sites),
      named_(!splits.symbols.empty()) {
  const auto named = [](const std::vector<int32_t>& ids, const Names& symbols) {
    Names names;
    for (const auto id : ids) {
      const auto at = static_cast<size_t>(id);
      names.push_back(at < symbols.size() ? symbols[at] : std::to_string(id));
    }
    return names;
  };
  const bool one_vocabulary = splits.second_vocabulary == 0;
  first_ = named(sample.tokens, splits.symbols);
  second_ = named(sample.second, one_vocabulary ? splits.symbols : splits.second_symbols);
  if (!second_.empty()) {
    written_ = {"<begin>"};
    written_.insert(written_.end(), second_.begin(), second_.end() - 1);
  }
  if (!has_class_token(model_)) return;
  for (auto* names : {&first_, &second_})
    if (!names->empty()) names->insert(names->begin(), "<class>");
}

const AttentionSite& MapReader::site_of(const std::string& path) const {
  const auto [part, layer, rest] = parts_of(path);
  const auto& begins = part;  // clang 14 captures no structured binding
  const auto found = std::find_if(sites_.begin(), sites_.end(), [&](const AttentionSite& site) {
    return site.path == begins || (!site.path.empty() && begins.starts_with(site.path + "."));
  });
  TORCH_CHECK(found != sites_.end(), "maps: no attention site of the objective has ", path);
  return *found;
}

bool MapReader::comes_before(const std::string& path, const std::string& other) const {
  const auto key = [&](const std::string& text) {
    const auto [part, layer, rest] = parts_of(text);
    return std::tuple(&site_of(text), part.size(), part, layer, rest.starts_with("cross"), rest);
  };
  return key(path) < key(other);
}

std::string MapReader::name(const std::string& path) const {
  auto [part, layer, rest] = parts_of(path);
  if (part == path) return path;  // not a layer of a stack
  if (part.empty()) part = site_of(path).name;
  if (rest == "mixer") rest = "";
  if (rest.starts_with("mixer.")) rest = rest.substr(6);
  return (part.empty() ? "" : part + ".") + "layers." + std::to_string(layer) +
         (rest.empty() ? "" : "." + rest);
}

Node MapReader::options_at(const std::string& path) const {
  const auto [part, layer, rest] = parts_of(path);
  const auto& site = site_of(path);
  const auto& owner = site.part.empty() ? model_ : *model_.find(site.part);
  if (site.key.empty()) return Node::string("softmax");
  if (site.choice == AttentionSite::Choice::fixed) return *owner.find(site.key);
  const auto layers = as_integer(*owner.find("layers"), "layers");
  const std::string key = rest.starts_with("cross") ? "cross_attention" : site.key;
  return attention_per_layer(*owner.find(key), layers).at(static_cast<size_t>(layer));
}

MapAxes MapReader::axes(const std::string& path, int64_t sequence, int64_t rows,
                        int64_t columns) const {
  const auto [part, layer, rest] = parts_of(path);
  MapAxes result = {mechanism_of(options_at(path)).name, rows, columns};
  const auto there = rest.starts_with("cross") ? "mixer" + rest.substr(5) : rest;
  const auto& rows_are = site_of(path).queries;
  const bool packs = rest.ends_with(".pack") || !rows_are.empty();  // slots read the tokens
  const bool weighs = packs || weighs_tokens(result.mechanism, there);
  const auto& other = site_of(path).reads;
  if (!other.empty()) result.row_title = result.column_title = other;
  if (packs) result.row_title = rows_are.empty() ? "slots" : rows_are;
  if (!weighs) result.column_title = "slots";
  if (!other.empty()) return result;
  const bool writes = part == "decoder", crosses = rest.starts_with("cross");
  const auto& own = writes ? written_ : sequence == 1 ? second_ : first_;
  const auto& read = crosses ? first_ : own;
  const auto named = [&](const Names& tokens, int64_t& count, Names& names) {
    count = std::min(count, std::ssize(tokens));
    if (named_) names = {tokens.begin(), tokens.begin() + count};
  };
  if (!packs) named(own, result.rows, result.queries);
  if (weighs) named(read, result.columns, result.keys);
  return result;
}

}  // namespace longbow::predict
