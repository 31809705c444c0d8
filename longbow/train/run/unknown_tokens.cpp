#include "longbow/train/run/unknown_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/core/log.h"
#include "longbow/data/samples/text_codec.h"

namespace longbow {
namespace {

constexpr int64_t kSamples = 4096;

int64_t unknown_token(const Splits& splits) {
  if (splits.unknown > 0 || !splits.codec) return splits.unknown;
  return splits.codec->find({"[UNK]", "<unk>"});
}

}  // namespace

double unknown_share(const Splits& splits) {
  const auto unknown = static_cast<int32_t>(unknown_token(splits));
  if (unknown == 0) return 0;
  const auto step = std::max<int64_t>(splits.train->size() / kSamples, 1);
  int64_t found = 0, all = 0;
  for (int64_t i = 0; i < splits.train->size(); i += step) {
    const auto tokens = splits.train->get(i).tokens;
    found += std::count(tokens.begin(), tokens.end(), unknown);
    all += std::ssize(tokens);
  }
  return all > 0 ? static_cast<double>(found) / static_cast<double>(all) : 0;
}

void warn_of_unknown_tokens(const Splits& splits) {
  const auto share = unknown_share(splits);
  if (share <= 0.5) return;
  warn(
      fmt::format("{:.0f} % of the tokens of the training split are unknown tokens; the "
                  "tokenizer may be one of another language, or may not lowercase as it did when "
                  "it was trained",
                  100 * share));
}

}  // namespace longbow
