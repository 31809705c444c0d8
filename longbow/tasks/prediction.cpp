#include "longbow/tasks/prediction.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "longbow/data/samples/framed.h"
#include "longbow/data/samples/joined.h"

namespace longbow {
namespace {

// Seven digits, whatever the host's locale is.
Node number(double value) {
  const auto text = fmt::format("{:.7g}", value);
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return Node::number(rounded);
}
Node integer(int64_t value) {
  return value == kIgnore ? Node{} : Node::integer(value);
}
Node named(const Tensor& classes, const std::vector<std::string>& labels) {
  Node list = Node::list();
  for (int64_t i = 0; i < classes.size(0); ++i)
    list.items.push_back(Node::string(labels.at(static_cast<size_t>(classes[i].item<int64_t>()))));
  return list;
}
// A list's only item, or the list.
Node one_or_all(Node list, bool one) {
  return one ? list.items.at(0) : list;
}

}  // namespace

Node list_of(const Tensor& row) {
  const bool whole = !row.is_floating_point();
  const auto values = row.to(at::kCPU, whole ? at::kLong : at::kDouble).contiguous();
  Node list = Node::list();
  for (int64_t i = 0; i < values.size(0); ++i)
    list.items.push_back(whole ? integer(values.const_data_ptr<int64_t>()[i])
                               : number(values.const_data_ptr<double>()[i]));
  return list;
}

Node words_of(const Tensor& ids, const Symbols& names) {
  const auto values = ids.cpu().contiguous();
  Node list = Node::list();
  for (int64_t i = 0; i < values.size(0); ++i)
    list.items.push_back(Node::string(names.text({values.const_data_ptr<int64_t>() + i, 1})));
  return list;
}

std::string text_of(const Tensor& tokens, const Tensor& length, const Symbols& names) {
  const auto values = tokens.cpu().contiguous();
  return names.text(
      {values.const_data_ptr<int64_t>(), static_cast<size_t>(length.item<int64_t>())});
}

std::vector<Node> class_predictions(const Tensor& logits, const Batch& batch,
                                    const std::vector<std::string>& labels) {
  const bool each = logits.dim() == 2;  // one class a sample
  auto [sure, best] = logits.to(wide(logits)).softmax(-1).max(-1);
  sure = sure.cpu();
  best = best.cpu();
  const auto lengths = batch.lengths.cpu();
  const auto targets = batch.targets.defined() ? batch.targets.cpu() : Tensor();
  std::vector<Node> all;
  for (int64_t b = 0; b < logits.size(0); ++b) {
    const auto row = [&](const Tensor& rows) {
      return each ? rows.narrow(0, b, 1) : rows[b].narrow(0, 0, lengths[b].item<int64_t>());
    };
    all.push_back(Node::map({{each ? "class" : "classes", one_or_all(list_of(row(best)), each)}}));
    if (!labels.empty())
      all.back()[each ? "label" : "labels"] = one_or_all(named(row(best), labels), each);
    all.back()[each ? "probability" : "probabilities"] = one_or_all(list_of(row(sure)), each);
    if (targets.defined()) all.back()["target"] = one_or_all(list_of(row(targets)), each);
  }
  return all;
}

std::vector<Node> value_predictions(const Tensor& values, const Tensor& wanted) {
  const bool one = values.size(1) == 1;
  std::vector<Node> all;
  for (int64_t b = 0; b < values.size(0); ++b) {
    all.push_back(Node::map({{one ? "value" : "values", one_or_all(list_of(values[b]), one)}}));
    if (wanted.defined()) all.back()["target"] = one_or_all(list_of(wanted[b]), one);
  }
  return all;
}

std::string input_text(const Task& task, const Batch& batch, int64_t row) {
  const auto names = task.texts().read;
  if (batch.second.defined())
    return text_of(batch.tokens[row], batch.lengths[row], names) + "\t" +
           text_of(batch.second[row], batch.second_lengths[row], names);
  const auto tokens = batch.tokens[row].cpu().contiguous();
  const std::span ids(tokens.const_data_ptr<int64_t>(),
                      static_cast<size_t>(batch.lengths[row].item<int64_t>()));
  const auto separator = task.splits().separator;
  const auto at = separator > 0 ? std::ranges::find(ids, separator) : ids.end();
  const auto first = static_cast<size_t>(at - ids.begin());
  if (at == ids.end()) return names.text(ids);
  return names.text(ids.first(first)) + "\t" + names.text(ids.subspan(first + 1));
}

std::shared_ptr<const Dataset> inputs_of(const Task& task, std::vector<Sample> samples) {
  const auto separator = task.splits().separator;
  const bool joins = separator > 0 && !samples.empty();
  const auto frame = task.texts().frame;
  auto list = std::make_shared<SampleList>(std::move(samples), /*per_token=*/false);
  return joins ? joined(list, separator, Answers::classes, frame) : framed(list, frame);
}

}  // namespace longbow
