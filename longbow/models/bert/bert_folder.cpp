#include "longbow/models/bert/bert_folder.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/core/folder.h"
#include "longbow/core/listing.h"
#include "longbow/models/bert/hugging_face.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/tensors/shards.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

const char* const kConfig = "config.json";
const char* const kWeights = "model.safetensors";
const char* const kIndex = "model.safetensors.index.json";  // of weights in several files
const char* const kModelType = "longbow_bert";
const char* const kSource = "hugging_face";  // key of what config.json said before the import

std::string in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

std::string weights_file(const std::string& folder) {
  const auto whole = in(folder, kWeights), index = in(folder, kIndex);
  if (fs::exists(whole)) return whole;
  if (fs::exists(index)) return index;
  throw UserError(Place{folder, 0}, "holds no weights: model.safetensors is missing",
                  "save the model with safe_serialization");
}

Tensors tensors_in(const std::string& file) {
  return file.ends_with(kIndex) ? load_shards(file) : load_safetensors(file).tensors;
}

// A tensor of the file under the name that BertModel gives it today.
struct Found {
  std::string name;  // as it stands in the file
  Tensor tensor;
};

std::string renamed(std::string name, const std::string& end, const std::string& now) {
  return name.ends_with(end) ? name.replace(name.size() - end.size(), end.size(), now) : name;
}

// A model with a head keeps BERT under "bert."; older files say gamma and beta, and list positions.
std::map<std::string, Found> read_weights(const std::string& file,
                                          std::vector<std::string>& left_out) {
  const auto tensors = tensors_in(file);
  const std::string prefix = "bert.";
  const bool headed = std::any_of(tensors.begin(), tensors.end(), [&](const auto& entry) {
    return entry.first.starts_with(prefix);
  });
  std::map<std::string, Found> found;
  for (const auto& [name, tensor] : tensors) {
    if ((headed && !name.starts_with(prefix)) || name.ends_with("embeddings.position_ids")) {
      left_out.push_back(name);
      continue;
    }
    const auto own = headed ? name.substr(prefix.size()) : name;
    found[renamed(renamed(own, ".LayerNorm.gamma", ".LayerNorm.weight"), ".LayerNorm.beta",
                  ".LayerNorm.bias")] = {name, tensor};
  }
  return found;
}

bool fits(const Tensor& got, const Tensor& wanted) {
  return got.sizes() == wanted.sizes() && got.is_floating_point() == wanted.is_floating_point();
}

// Theirs against the sizes that their config claims, before a model of these sizes is made.
void check_theirs(const std::vector<WeightName>& names, std::map<std::string, Found> found,
                  const std::string& file) {
  Misfits misfits;
  for (const auto& name : names) {
    const auto theirs = found.extract(name.theirs);
    if (theirs.empty())
      misfits.missing(name.theirs);
    else if (const auto& [as_written, tensor] = theirs.mapped();
             tensor.sizes() != name.shape || !tensor.is_floating_point())
      misfits.reshaped(as_written, tensor, name.shape);
  }
  for (const auto& [name, rest] : found) misfits.unexpected(rest.name);
  misfits.check(Place{file, 0});
}

// The same for ours, as far as the sizes do not depend on the mechanism and the kind of layer.
void check_ours(const BertConfig& config, const Tensors& weights, const std::string& file) {
  const bool dense = config.encoder.block.feed_forward.kind == FeedForwardKind::dense;
  Misfits misfits;
  for (const auto& name : bert_weight_names(config)) {
    const bool depends = name.ours.find(".mixer.") != std::string::npos ||
                         (!dense && name.ours.find(".feed_forward") != std::string::npos);
    if (depends) continue;
    const auto given = weights.find(name.ours);
    if (given == weights.end())
      misfits.missing(name.ours);
    else if (given->second.sizes() != name.shape)
      misfits.reshaped(name.ours, given->second, name.shape);
  }
  misfits.check(Place{file, 0});
}

Node read_json(const std::string& folder) {
  const auto file = in(folder, kConfig);
  if (!fs::exists(file))
    throw UserError(Place{folder, 0}, "is not a model folder: config.json is missing");
  weights_file(folder);
  return parse_json(read_file(file), file);
}

bool is_ours(const Node& tree) {
  const auto* type = tree.find("model_type");
  return type && type->text == kModelType;
}

BertConfig our_config(const Node& tree) {
  Node own = tree;
  std::erase_if(own.entries, [](const auto& entry) {
    return entry.first == "model_type" || entry.first == kSource;
  });
  return read<BertConfig>(own, "model");
}

void prepare(const std::string& from, const std::string& out) {
  if (fs::exists(in(out, kWeights)) || fs::exists(in(out, kIndex)))
    throw UserError(Place{out, 0}, "already holds a model", "name another folder with --out");
  make_folder(out);
  for (const auto* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "vocab.txt", "vocab.json", "merges.txt", "tokenizer.model", "spiece.model"})
    if (!from.empty() && fs::exists(in(from, name)))
      write_file(in(out, name), read_file(in(from, name)));
}

}  // namespace

ImportedBert import_bert(const std::string& folder, const Node& attention, uint64_t seed) {
  ImportedBert result;
  result.source = read_json(folder);
  result.config = bert_from_hugging_face(result.source);
  if (!attention.is_null()) result.config.encoder.attention = attention;
  check_attention(result.config.encoder);
  const auto file = weights_file(folder);
  const auto found = read_weights(file, result.left_out);
  result.config.pooler = found.count("pooler.dense.weight") || found.count("pooler.dense.bias");

  const auto names = bert_weight_names(result.config);
  check_theirs(names, found, file);

  const auto own = weights_of(Bert(result.config, seed));
  for (const auto& name : names) {
    const auto& theirs = found.at(name.theirs);
    const auto wanted = own.find(name.ours);
    if (wanted != own.end() && fits(theirs.tensor, wanted->second))
      result.weights[name.ours] = theirs.tensor;
    else  // the mechanism that takes the place of softmax has no such projection
      result.left_out.push_back(theirs.name);
  }
  result.kept = static_cast<int64_t>(result.weights.size());
  for (const auto& [name, tensor] : own)
    if (result.weights.emplace(name, tensor).second) result.anew.push_back(name);
  return result;
}

namespace {

ImportedBert either_folder(const std::string& folder) {
  const auto tree = read_json(folder);
  if (!is_ours(tree)) return import_bert(folder);
  return {.config = our_config(tree), .weights = tensors_in(weights_file(folder))};
}

}  // namespace

void save_bert(const ImportedBert& bert, const std::string& from, const std::string& out) {
  prepare(from, out);
  auto config = bert.config;
  config.encoder.attention = resolved_attention(config.encoder.attention);
  Node tree = written(config);
  tree["model_type"] = Node::string(kModelType);
  tree[kSource] = bert.source;
  save_safetensors(in(out, kWeights), bert.weights, {{"format", "pt"}});
  write_file(in(out, kConfig), to_json(tree, 2) + "\n");
}

BertConfig read_bert_config(const std::string& folder) {
  const auto tree = read_json(folder);
  return is_ours(tree) ? our_config(tree) : bert_from_hugging_face(tree);
}

Tensors read_bert_weights(const std::string& folder) {
  return either_folder(folder).weights;
}

std::shared_ptr<Bert> load_bert(const std::string& folder) {
  const auto found = either_folder(folder);
  check_ours(found.config, found.weights, weights_file(folder));
  auto model = std::make_shared<Bert>(found.config, 1);
  load_weights(*model, found.weights, weights_file(folder));
  return model;
}

void export_bert(const std::string& folder, const std::string& out, int64_t shard_bytes) {
  const auto tree = read_json(folder);
  if (!is_ours(tree))
    throw UserError(Place{in(folder, kConfig), 0},
                    "the model is not a BERT: model_type is not \"longbow_bert\"",
                    "`longbow import` makes such a folder");
  const auto config = our_config(tree);
  check_softmax(config, Place{in(folder, kConfig), 0});
  const auto names = bert_weight_names(config);
  const auto own = weights_of(*load_bert(folder));
  const bool known = std::all_of(names.begin(), names.end(),
                                 [&](const WeightName& name) { return own.count(name.ours) > 0; });
  if (!known || names.size() != own.size())
    throw UserError(Place{in(folder, kConfig), 0},
                    "the model has other weights than Hugging Face's BERT");
  const auto weights = tensors_in(weights_file(folder));
  const auto* source = tree.find(kSource);
  HuggingFaceModel theirs = {.config = bert_to_hugging_face(config, source ? *source : Node())};
  for (const auto& name : names) theirs.weights[name.theirs] = weights.at(name.ours);
  save_hugging_face(theirs, folder, out, shard_bytes);
}

void save_hugging_face(const HuggingFaceModel& model, const std::string& from,
                       const std::string& out, int64_t shard_bytes) {
  prepare(from, out);
  if (shard_bytes > 0)
    save_shards(out, model.weights, shard_bytes);
  else
    save_safetensors(in(out, kWeights), model.weights, {{"format", "pt"}});
  write_file(in(out, kConfig), to_json(model.config, 2) + "\n");
}

Node hugging_face_config(const std::string& folder) {
  if (!fs::exists(in(folder, kConfig))) return {};
  const auto tree = parse_json(read_file(in(folder, kConfig)), in(folder, kConfig));
  const auto* source = tree.find(kSource);
  return is_ours(tree) ? (source ? *source : Node()) : tree;
}

}  // namespace longbow
