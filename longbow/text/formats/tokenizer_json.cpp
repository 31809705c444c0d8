#include "longbow/text/formats/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/text/components/component.h"
#include "longbow/text/components/decoders.h"
#include "longbow/text/components/normalizers.h"
#include "longbow/text/components/post_processors.h"
#include "longbow/text/components/pre_tokenizers.h"
#include "longbow/text/formats/tokenizer_document.h"
#include "longbow/text/models/word_level.h"
#include "longbow/text/models/word_piece.h"

namespace longbow {
namespace {

const std::vector<std::string> kSides = {"Left", "Right"};
const std::vector<std::string> kStrategies = {"LongestFirst", "OnlyFirst", "OnlySecond"};

// Older files leave "type" out; what a model has tells which one it is.
std::string type_of_model(const TokenizerDocument& document, const Node& model) {
  if (document.has_merges) return "BPE";
  if (document.has_pieces) return "Unigram";
  const bool is_word_piece =
      model.find("continuing_subword_prefix") || model.find("max_input_chars_per_word");
  return is_word_piece ? "WordPiece" : "WordLevel";
}

// What is wrong with a vocabulary has no place of its own: that of the model is used.
template <class Make>
auto at_place(const Place& place, const Make& make) {
  try {
    return make();
  } catch (const UserError& error) {
    throw UserError(place, error.what());
  }
}

TokenModelPtr read_bpe(ComponentReader& reader, const TokenizerDocument& document) {
  BpeOptions options;
  const auto* dropout = reader.find("dropout");
  if (dropout && as_number(*dropout, reader.name_of("dropout")) != 0)
    reader.fail(*dropout, "dropout must be null or 0");
  options.unk_token = reader.optional_string("unk_token");
  options.continuing_subword_prefix = reader.optional_string("continuing_subword_prefix");
  options.end_of_word_suffix = reader.optional_string("end_of_word_suffix");
  options.fuse_unk = reader.boolean("fuse_unk", false);
  options.byte_fallback = reader.boolean("byte_fallback", false);
  options.ignore_merges = reader.boolean("ignore_merges", false);
  return at_place(reader.place(),
                  [&] { return make_bpe(options, document.entries, document.merges); });
}

TokenModelPtr read_model_of_type(ComponentReader& reader, const TokenizerDocument& document) {
  const auto& type = reader.type();
  if (type == "Unigram") {
    UnigramOptions options;
    if (reader.find("unk_id")) options.unk_id = reader.count("unk_id");
    options.byte_fallback = reader.boolean("byte_fallback", false);
    return at_place(reader.place(), [&] { return make_unigram(options, document.pieces); });
  }
  if (type == "BPE") return read_bpe(reader, document);
  if (type == "WordPiece") {
    WordPieceOptions options;
    options.unk_token = reader.string("unk_token", options.unk_token);
    options.continuing_subword_prefix =
        reader.string("continuing_subword_prefix", options.continuing_subword_prefix);
    if (reader.find("max_input_chars_per_word"))
      options.max_input_chars_per_word = reader.count("max_input_chars_per_word");
    return at_place(reader.place(), [&] { return make_word_piece(options, document.entries); });
  }
  if (type == "WordLevel") {
    const auto unknown = reader.string("unk_token");
    return at_place(reader.place(), [&] { return make_word_level(unknown, document.entries); });
  }
  reader.fail_type({"BPE", "Unigram", "WordLevel", "WordPiece"});
}

TokenModelPtr read_model(const TokenizerDocument& document) {
  const auto* found = document.root.find("model");
  if (!found || !found->is_map()) throw UserError(document.root.place, "model must be an object");
  Node node = *found;
  if (!node.find("type"))
    node.entries.emplace_back("type", Node::string(type_of_model(document, node)));
  ComponentReader reader(node, "model");
  const bool wants_pieces = reader.type() == "Unigram";
  if (wants_pieces ? !document.has_pieces : !document.has_entries)
    reader.fail(node, wants_pieces ? "vocab must be a list" : "vocab must be an object");
  if (document.has_merges != (reader.type() == "BPE"))
    reader.fail(node, document.has_merges ? "unknown field 'merges'" : "merges is missing");
  auto model = read_model_of_type(reader, document);
  reader.finish();
  return model;
}

std::vector<AddedToken> read_added_tokens(const Node& node) {
  std::vector<AddedToken> tokens;
  if (node.is_null()) return tokens;
  if (!node.is_list()) throw UserError(node.place, "added_tokens must be a list");
  for (const auto& item : node.items) {
    if (!item.is_map()) throw UserError(item.place, "an added token must be an object");
    Node typed = item;
    typed.entries.emplace_back("type", Node::string("token"));
    ComponentReader reader(typed, "added");
    AddedToken token;
    token.id = read_token_id(reader, reader.need("id"));
    token.content = reader.string("content");
    token.single_word = reader.boolean("single_word", false);
    token.lstrip = reader.boolean("lstrip", false);
    token.rstrip = reader.boolean("rstrip", false);
    token.special = reader.boolean("special", false);
    token.normalized = reader.boolean("normalized", !token.special);
    reader.finish();
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Node typed_copy(const Node& node, const char* what) {
  if (!node.is_map()) throw UserError(node.place, std::string(what) + " must be an object or null");
  Node typed = node;
  typed.entries.emplace_back("type", Node::string("settings"));
  return typed;
}

std::optional<Truncation> read_truncation(const Node& node) {
  if (node.is_null()) return {};
  const auto typed = typed_copy(node, "truncation");
  ComponentReader reader(typed, "truncation");
  Truncation out;
  out.side = static_cast<TextSide>(reader.choice("direction", kSides, 1));
  out.max_length = reader.count("max_length");
  out.strategy = static_cast<Truncation::Strategy>(reader.choice("strategy", kStrategies));
  out.stride = reader.count("stride");
  reader.finish();
  return out;
}

std::optional<TokenPadding> read_padding(const Node& node) {
  if (node.is_null()) return {};
  const auto typed = typed_copy(node, "padding");
  ComponentReader reader(typed, "padding");
  constexpr int64_t kMostLength = int64_t{1} << 24;  // a batch of padding must fit in memory
  TokenPadding out;
  const auto length = [&](const Node& value) {
    const auto given = as_integer(value, reader.name_of("length"));
    if (given < 0 || given > kMostLength) reader.fail(value, "the length is out of range");
    return static_cast<size_t>(given);
  };
  const auto& strategy = reader.need("strategy");
  const auto* fixed = strategy.find("Fixed");
  if (fixed)
    out.length = length(*fixed);
  else
    reader.choice("strategy", {"BatchLongest"});
  out.side = static_cast<TextSide>(reader.choice("direction", kSides, 1));
  if (const auto* multiple = reader.find("pad_to_multiple_of")) out.multiple_of = length(*multiple);
  out.id = read_token_id(reader, reader.need("pad_id"));
  out.type_id = read_token_id(reader, reader.need("pad_type_id"));
  out.token = reader.string("pad_token");
  reader.finish();
  return out;
}

Node count_node(size_t count) {
  return Node::integer(static_cast<int64_t>(count));
}
Node side_node(TextSide side) {
  return Node::string(kSides[static_cast<size_t>(side)]);
}

Node truncation_node(const std::optional<Truncation>& truncation) {
  if (!truncation) return {};
  return Node::map(
      {{"direction", side_node(truncation->side)},
       {"max_length", count_node(truncation->max_length)},
       {"strategy", Node::string(kStrategies[static_cast<size_t>(truncation->strategy)])},
       {"stride", count_node(truncation->stride)}});
}

Node padding_node(const std::optional<TokenPadding>& padding) {
  if (!padding) return {};
  return Node::map(
      {{"strategy", padding->length ? Node::map({{"Fixed", count_node(*padding->length)}})
                                    : Node::string("BatchLongest")},
       {"direction", side_node(padding->side)},
       {"pad_to_multiple_of", padding->multiple_of ? count_node(*padding->multiple_of) : Node()},
       {"pad_id", Node::integer(padding->id)},
       {"pad_type_id", Node::integer(padding->type_id)},
       {"pad_token", Node::string(padding->token)}});
}

Node added_token_node(const AddedToken& token) {
  return Node::map({{"id", Node::integer(token.id)},
                    {"content", Node::string(token.content)},
                    {"single_word", Node::boolean(token.single_word)},
                    {"lstrip", Node::boolean(token.lstrip)},
                    {"rstrip", Node::boolean(token.rstrip)},
                    {"normalized", Node::boolean(token.normalized)},
                    {"special", Node::boolean(token.special)}});
}

template <class Component>
Node node_of(const std::shared_ptr<const Component>& component) {
  return component ? component->node() : Node();
}

const Node& entry(const Node& root, const char* key) {
  static const Node none;
  const auto* found = root.find(key);
  return found ? *found : none;
}

void check_root(const Node& root) {
  if (!root.is_map()) throw UserError(root.place, "a tokenizer must be an object");
  const std::vector<std::string> known = {"version",        "truncation", "padding",
                                          "added_tokens",   "normalizer", "pre_tokenizer",
                                          "post_processor", "decoder",    "model"};
  for (const auto& [key, value] : root.entries)
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw UserError(value.place, "unknown key " + quote(key), suggest(key, known));
  const auto* version = root.find("version");
  if (version && as_string(*version, "version") != "1.0")
    throw UserError(version->place, "version is " + quote(version->text), "only 1.0 can be read");
}

}  // namespace

Tokenizer parse_tokenizer_json(const std::string& text, const std::string& name) {
  const auto document = parse_tokenizer_document(text, name);
  const auto& root = document.root;
  check_root(root);
  TokenizerParts parts;
  parts.truncation = read_truncation(entry(root, "truncation"));
  parts.padding = read_padding(entry(root, "padding"));
  parts.added_tokens = read_added_tokens(entry(root, "added_tokens"));
  parts.normalizer = read_normalizer(entry(root, "normalizer"));
  parts.pre_tokenizer = read_pre_tokenizer(entry(root, "pre_tokenizer"));
  parts.post_processor = read_post_processor(entry(root, "post_processor"));
  parts.decoder = read_decoder(entry(root, "decoder"));
  parts.model = read_model(document);
  return at_place(entry(root, "added_tokens").place, [&] { return Tokenizer(std::move(parts)); });
}

std::string tokenizer_json(const Tokenizer& tokenizer, int indent) {
  const auto& parts = tokenizer.parts();
  JsonStream out(indent);
  const auto put = [&](const char* key, const Node& node) {
    out.key(key);
    out.node(node);
  };
  out.begin_map();
  put("version", Node::string("1.0"));
  put("truncation", truncation_node(parts.truncation));
  put("padding", padding_node(parts.padding));
  auto added = Node::list();
  for (const auto& token : parts.added_tokens) added.items.push_back(added_token_node(token));
  put("added_tokens", added);
  put("normalizer", node_of(parts.normalizer));
  put("pre_tokenizer", node_of(parts.pre_tokenizer));
  put("post_processor", node_of(parts.post_processor));
  put("decoder", node_of(parts.decoder));
  out.key("model");
  parts.model->write(out);
  out.end_map();
  return out.take();
}

}  // namespace longbow
