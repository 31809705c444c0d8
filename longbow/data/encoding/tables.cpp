#include "longbow/data/encoding/tables.h"

#include "longbow/core/option_error.h"

namespace longbow {
namespace {

TextRole role_of(const corpus::TableOptions& columns) {
  if (!columns.value.empty()) return TextRole::value;
  return columns.label.empty() ? TextRole::texts : TextRole::classes;
}

}  // namespace

TextCorpus table_corpus(const TextFiles& files, const corpus::TableOptions& columns,
                        const corpus::SplitOptions& fractions, uint64_t seed,
                        const corpus::TextOptions& text) {
  auto own = columns;
  if (!own.value.empty()) own.label.clear();
  TextCorpus corpus = {.role = role_of(own), .pairs = !own.second.empty()};
  if (corpus.role == TextRole::classes) corpus.classes = own.classes;
  read_from(corpus, files, fractions, Parting::hash, seed,
            [own, text](const std::string& path, const corpus::RecordSink& sink) {
              corpus::TextFile file(path, text);
              corpus::read_table(file, own, sink);
            });
  return corpus;
}

std::string table_objective(const corpus::TableOptions& columns) {
  if (!columns.value.empty()) return "regression";
  require_option(!columns.label.empty(), "label", "is empty",
                 "name the column of the class, or of a number with value; to learn the texts "
                 "themselves, set objective");
  return columns.second.empty() ? "classification" : "pairs";
}

}  // namespace longbow
