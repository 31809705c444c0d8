#include "longbow/data/samples/text_codec.h"

#include <algorithm>

namespace longbow {
namespace {

bool is_padding(const std::string& token) {
  return token == "[PAD]" || token == "<pad>" || token == "<PAD>";
}

}  // namespace

TextCodec::TextCodec(Tokenizer tokenizer)
    : tokenizer_(std::move(tokenizer)), shift_(is_padding(tokenizer_.token_of(0)) ? 0 : 1) {}

void TextCodec::encode(std::string_view text, std::vector<int32_t>& ids) const {
  const auto before = static_cast<ptrdiff_t>(ids.size());
  tokenizer_.ids_of(text, ids);
  std::for_each(ids.begin() + before, ids.end(), [&](int32_t& id) { id += shift_; });
  // A text may spell out the padding token: it is not a token of the text then.
  ids.erase(std::remove(ids.begin() + before, ids.end(), 0), ids.end());
}

std::vector<TokenOffsets> TextCodec::offsets(std::string_view text) const {
  auto encoding = tokenizer_.encode(text, {.add_special_tokens = false,
                                           .offsets = EncodeOptions::OffsetUnit::bytes,
                                           .truncation = {},
                                           .padding = {},
                                           .use_file_settings = false});
  std::vector<TokenOffsets> offsets;
  for (size_t i = 0; i < encoding.size(); ++i)
    if (encoding.ids[i] + shift_ != 0) offsets.push_back(encoding.offsets[i]);
  return offsets;
}

std::string TextCodec::decode(std::span<const int64_t> ids) const {
  std::vector<int32_t> own;
  for (const auto id : ids)
    if (id > 0) own.push_back(static_cast<int32_t>(id) - shift_);
  return tokenizer_.decode(own, Tokenizer::SpecialTokens::skipped);
}

int64_t TextCodec::find(std::initializer_list<const char*> tokens) const {
  for (const auto* token : tokens)
    if (const auto id = tokenizer_.id_of(token); id + shift_ > 0) return id + shift_;
  return 0;
}

std::vector<std::string> TextCodec::symbols() const {
  std::vector<std::string> all = {"[PAD]"};
  for (int64_t id = 1; id < vocabulary(); ++id)
    all.push_back(tokenizer_.token_of(static_cast<int32_t>(id) - shift_));
  return all;
}

std::vector<TokenTraits> TextCodec::traits() const {
  auto all = token_traits(tokenizer_);
  all.insert(all.begin(), static_cast<size_t>(shift_), TokenTraits{});
  all.front().special = true;
  return all;
}

}  // namespace longbow
