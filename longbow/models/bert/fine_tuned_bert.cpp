#include "longbow/models/bert/fine_tuned_bert.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "longbow/models/bert/hugging_face.h"
#include "longbow/models/encoder/pooling.h"
#include "longbow/models/heads/language_model.h"

namespace longbow {
namespace {

// A class of theirs, with the names of what it has on top of BERT.
struct Head {
  std::string architecture;
  bool pooler = false;
  std::vector<std::pair<std::string, std::string>> names = {};  // theirs, ours
  int64_t answers = 0;                                          // labels; 0: it has none
};

void add(Head& head, const std::string& theirs, const std::string& ours) {
  for (const auto* end : {".weight", ".bias"}) head.names.emplace_back(theirs + end, ours + end);
}

// What decides only how a model is trained.
bool matters(const std::string& key) {
  constexpr std::array<std::string_view, 7> kTraining = {
      "init",    "zero_padding", "embedding_dropout", "attention",
      "dropout", "rezero_start", "feed_forward_chunk"};
  return key != "recompute" &&
         std::find(kTraining.begin(), kTraining.end(), key) == kTraining.end();
}

void check_same(const Node& ours, const Node& theirs, const std::string& prefix,
                const Place& place) {
  for (const auto& [key, value] : ours.entries) {
    if (!matters(key)) continue;
    const auto& wanted = *theirs.find(key);
    if (value.is_map())
      check_same(value, wanted, prefix + key + ".", place);
    else if (!(value == wanted))
      throw UserError(place, "model." + prefix + key + " is " + to_json(value) +
                                 ", but Hugging Face's BERT has " + to_json(wanted));
  }
}

BertConfig bert_of(const FineTunedBert& model) {
  BertConfig bert = {.encoder = model.encoder,
                     .vocabulary = model.weights.at("encoder.embedding.words").size(0),
                     .token_types = model.encoder.segments};
  auto& encoder = bert.encoder;
  if (encoder.block.feed_forward.width == 0) encoder.block.feed_forward.width = 4 * encoder.width;
  if (encoder.head_width * encoder.heads == encoder.width) encoder.head_width = 0;
  if (encoder.embedding_width == encoder.width) encoder.embedding_width = 0;
  return bert;
}

// Whatever their config.json cannot say is not as it is in their model.
void check_bert(const BertConfig& bert, const Place& place) {
  if (bert.token_types == 0)
    throw UserError(place, "model.segments is 0, but Hugging Face's BERT adds an embedding of them",
                    "start from a BERT, or train with model.segments: 2");
  check_softmax(bert, place);
  const auto there = encoder_of(bert_from_hugging_face(bert_to_hugging_face(bert, {})));
  check_same(written(bert.encoder), written(there), "", place);
}

std::string said(const Node& model, const char* key) {
  const auto* found = model.find(key);
  return found ? found->text : "";
}

Head classifier_head(const FineTunedBert& model, const Place& place) {
  const auto pooling = said(model.model, "pooling");
  const bool pooler = said(model.model, "pooler") == "true", tokens = pooling == "none" && !pooler;
  if (said(model.model, "head") != "0" || !(tokens || (pooling == "first" && pooler)))
    throw UserError(place,
                    "Hugging Face's classifiers read each token, or the first one through BERT's "
                    "pooler, and have no hidden layer",
                    "train with model.pooling: first, model.pooler: true and model.head: 0");
  Head head = {
      .architecture = tokens ? "BertForTokenClassification" : "BertForSequenceClassification",
      .pooler = pooler,
      .answers = model.weights.at("output.weight").size(0)};
  add(head, "classifier", "output");
  return head;
}

Head pair_head(const FineTunedBert& model, const Place& place) {
  if (model.weights.at("output.weight").size(1) > model.encoder.width)
    throw UserError(place, "Hugging Face's BERT has no model with two towers",
                    "train with model.pairs: joint");
  const auto* range = model.model.find("range");
  if (range && !range->items.empty())
    throw UserError(place, "Hugging Face's BERT does not keep values in a range",
                    "train without model.range");
  return classifier_head(model, place);
}

Head word_head(const FineTunedBert& model, const Place& place) {
  const auto& activation = model.encoder.block.feed_forward.activation;
  const auto own = name_of(activation);
  if (said(model.model, "tied") != "true" || said(model.model, "transform") != "true" ||
      said(model.model, "head_activation") != own)
    throw UserError(place,
                    "Hugging Face's language head is tied to the words and has a layer with the "
                    "activation of the others",
                    "train with model.tied: true, model.transform: true and "
                    "model.head_activation: " +
                        own);
  Head head = {.architecture = "BertForMaskedLM"};
  add(head, "cls.predictions.transform.dense", "head.transform");
  add(head, "cls.predictions.transform.LayerNorm", "head.norm");
  head.names.emplace_back("cls.predictions.bias", "head.bias");
  return head;
}

Head head_of(const FineTunedBert& model, const Place& place) {
  TORCH_CHECK(model.head != BertHead::none, "to_hugging_face: the model has no head of theirs");
  if (model.head == BertHead::classes) return classifier_head(model, place);
  if (model.head == BertHead::pairs || model.head == BertHead::values)
    return pair_head(model, place);
  if (model.head == BertHead::words) return word_head(model, place);
  Head head = {.architecture = "BertForQuestionAnswering"};
  add(head, "qa_outputs", "output");
  return head;
}

// A token that the data does not have, such as a mask, is never an answer.
Tensor for_all_words(const Tensor& bias, int64_t words) {
  return at::constant_pad_nd(bias, {0, words - bias.size(0)}, -1e4);
}

void name_answers(const FineTunedBert& model, const Head& head, Node& config) {
  const auto count = head.answers;
  Node names = Node::map(), ids = Node::map();
  for (int64_t i = 0; i < count; ++i) {
    const auto label = std::ssize(model.labels) == count ? model.labels[static_cast<size_t>(i)]
                                                         : "LABEL_" + std::to_string(i);
    names[std::to_string(i)] = Node::string(label);
    ids[label] = Node::integer(i);
  }
  config["id2label"] = names;
  config["label2id"] = ids;
  config["num_labels"] = Node::integer(count);
  config["problem_type"] =
      Node::string(model.head == BertHead::values ? "regression" : "single_label_classification");
}

}  // namespace

HuggingFaceModel to_hugging_face(const FineTunedBert& model, const Node& source,
                                 const Place& place) {
  const auto head = head_of(model, place);
  auto bert = bert_of(model);
  check_bert(bert, place);
  bert.pooler = head.pooler;
  HuggingFaceModel result = {.config = bert_to_hugging_face(bert, source)};
  result.config["architectures"] = Node::list({Node::string(head.architecture)});
  if (head.answers > 0) name_answers(model, head, result.config);
  for (const auto& name : bert_weight_names(bert))
    result.weights["bert." + name.theirs] = model.weights.at(name.ours);
  for (const auto& [theirs, ours] : head.names) result.weights[theirs] = model.weights.at(ours);
  if (const auto bias = result.weights.find("cls.predictions.bias"); bias != result.weights.end())
    bias->second = for_all_words(bias->second, bert.vocabulary);
  return result;
}

}  // namespace longbow
