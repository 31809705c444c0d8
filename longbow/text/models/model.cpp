#include "longbow/text/models/model.h"

#include <fmt/format.h>

namespace longbow {

std::string_view TokenModel::text_of(const WordToken& token, std::string_view) const {
  return vocabulary().token_of(token.id);
}

void write_vocabulary(JsonStream& out, const TokenVocabulary& vocabulary) {
  out.key("vocab");
  out.begin_map();
  for (int32_t id = 0; id < vocabulary.end(); ++id) {
    if (!vocabulary.has(id)) continue;
    out.key(vocabulary.token_of(id));
    out.integer(id);
  }
  out.end_map();
}

std::vector<int32_t> byte_tokens(const TokenVocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (int byte = 0; byte < 256; ++byte)
    ids.push_back(vocabulary.id_of(fmt::format("<0x{:02X}>", byte)));
  return ids;
}

}  // namespace longbow
