#include "longbow/text/tokenizer/shorten.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/core/error.h"

namespace longbow {
namespace {

void cut(Encoding& text, size_t most, const Truncation& truncation) {
  if (text.size() <= most) return;
  if (most > 0 && truncation.stride >= most)
    throw UserError(
        fmt::format("truncation: a stride of {} in windows of {} tokens", truncation.stride, most),
        "choose a smaller stride or a greater length");
  text.truncate(most, truncation.stride, truncation.side);
}

void cut_longest(Encoding& first, Encoding& second, size_t most, const Truncation& truncation) {
  size_t shorter = std::min(first.size(), second.size());
  size_t longer = shorter > most ? shorter : std::max(shorter, most - shorter);
  if (shorter + longer > most) {
    shorter = most / 2;
    longer = shorter + most % 2;
  }
  const bool is_swapped = first.size() > second.size();
  cut(first, is_swapped ? longer : shorter, truncation);
  cut(second, is_swapped ? shorter : longer, truncation);
}

}  // namespace

void shorten(Encoding& first, Encoding* second, const Truncation& truncation, size_t added) {
  if (truncation.max_length < added)
    throw UserError(fmt::format("truncation: {} tokens leave no room for the {} special tokens",
                                truncation.max_length, added));
  const size_t most = truncation.max_length - added;
  const size_t total = first.size() + (second ? second->size() : 0);
  if (most == 0) {
    cut(first, 0, truncation);
    if (second) cut(*second, 0, truncation);
    return;
  }
  if (total <= most) return;
  using Strategy = Truncation::Strategy;
  if (truncation.strategy == Strategy::longest_first)
    return second ? cut_longest(first, *second, most, truncation) : cut(first, most, truncation);
  auto* target = truncation.strategy == Strategy::only_first ? &first : second;
  if (!target) throw UserError("truncation: only_second needs a second text");
  if (target->size() <= total - most)
    throw UserError(fmt::format("truncation: the text that may be cut has {} tokens, {} too many",
                                target->size(), total - most),
                    "use longest_first or a greater length");
  cut(*target, target->size() - (total - most), truncation);
}

void pad_all(std::span<Encoding> encodings, const TokenPadding& padding) {
  size_t length = padding.length.value_or(0);
  if (!padding.length)
    for (const auto& encoding : encodings) length = std::max(length, encoding.size());
  if (const size_t multiple = padding.multiple_of.value_or(0); multiple > 0)
    length = (length + multiple - 1) / multiple * multiple;
  const Encoding::Filler filler = {padding.id, padding.type_id, padding.token, padding.side};
  for (auto& encoding : encodings) encoding.pad(length, filler);
}

}  // namespace longbow
