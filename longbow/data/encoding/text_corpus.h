#pragma once
// What a data set of texts reads, before any of it is tokens.
#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/corpus/readers/record.h"
#include "longbow/corpus/readers/splits.h"
#include "longbow/data/samples/sample_store.h"

namespace longbow {

// What is made of a record: its text or its two texts alone, with one class or with a number, a
// piece of running text, a translation, or the place of an answer.
enum class TextRole { texts, classes, value, language, translation, questions };

struct TextCorpus {
  // Gives every record of a split; may be called again.
  using Read = std::function<void(const corpus::RecordSink&)>;
  Read train = {}, valid = {}, test = {};
  std::vector<std::string> files = {};  // with all that is read
  TextRole role = TextRole::classes;
  bool pairs = false;
  std::vector<std::string> classes = {};  // by id; empty: those of the training split, sorted
  bool shared = true;                     // both sides of a translation have one tokenizer
  WindowOptions windows = {};             // of running text
  bool keep_lines = false;                // a token ends every record of a running text
};

// The files of a data set, with their folder.
struct TextFiles {
  std::string train = {}, valid = {}, test = {};  // empty: a part of the training file
};
// Which records of the training file are for a split that has no file: some by a hash of (seed,
// record), or the last ones.
enum class Parting { hash, order };
constexpr std::array<std::string_view, 2> names_of(Parting) {
  return {"hash", "order"};
}
using ReadFile = std::function<void(const std::string& path, const corpus::RecordSink&)>;
// Sets the three ways to read.
void divide(TextCorpus& corpus, const TextFiles& files, const corpus::SplitOptions& fractions,
            Parting parting, uint64_t seed, const ReadFile& read);
// The same, and the files: of one that is a folder all texts below it.
void read_from(TextCorpus& corpus, const TextFiles& files, const corpus::SplitOptions& fractions,
               Parting parting, uint64_t seed, const ReadFile& read);
// OptionError where the fractions, those of splits without a file, leave no training records.
void check_fractions(const TextFiles& files, const corpus::SplitOptions& fractions);

// The folder of a file, for data.path.
Node folder_of(const std::filesystem::path& file);

// The path of `name` in the folder, or of one that is packed: name.xz, name.gz. UserError when
// there is none.
std::string packed_or_plain(const std::string& folder, const std::string& name);
// The same of all that have a name.
TextFiles files_in(const std::string& folder, const TextFiles& names);

}  // namespace longbow
