#include "longbow/data/encoding/tables.h"

namespace longbow {

TextCorpus table_corpus(const TextFiles& files, const corpus::TableOptions& columns,
                        const corpus::SplitOptions& fractions, uint64_t seed,
                        const corpus::TextOptions& text) {
  auto own = columns;
  if (!own.value.empty()) own.label.clear();
  TextCorpus corpus = {.role = own.value.empty() ? TextRole::classes : TextRole::value,
                       .pairs = !own.second.empty(),
                       .classes = own.value.empty() ? own.classes : std::vector<std::string>{}};
  read_from(corpus, files, fractions, Parting::hash, seed,
            [own, text](const std::string& path, const corpus::RecordSink& sink) {
              corpus::TextFile file(path, text);
              corpus::read_table(file, own, sink);
            });
  return corpus;
}

std::string table_objective(const corpus::TableOptions& columns) {
  if (!columns.value.empty()) return "regression";
  return columns.second.empty() ? "classification" : "pairs";
}

}  // namespace longbow
