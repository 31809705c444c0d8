#include "longbow/data/sets/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <unordered_map>

#include "longbow/core/file.h"
#include "longbow/core/seed.h"
#include "longbow/core/utf8.h"

namespace longbow {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr int32_t kUnknown = 1;

// Reads one table from left to right.
class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& name, char separator)
      : text_(text), name_(name), separator_(separator) {
    if (const auto bad = find_invalid_utf8(text); bad != std::string_view::npos)
      throw UserError(
          Place{name, 1 + static_cast<int>(std::count(
                              text.begin(), text.begin() + static_cast<int64_t>(bad), '\n'))},
          "is not UTF-8", "convert the file, for example with iconv");
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  std::vector<CsvRow> rows() {
    std::vector<CsvRow> rows;
    while (at_ < text_.size()) {
      if (take_line_end()) continue;
      rows.push_back(row());
      const auto found = rows.back().fields.size(), wanted = rows.front().fields.size();
      if (found != wanted)
        throw UserError(Place{name_, rows.back().line},
                        fmt::format("{} columns, but the header has {}", found, wanted),
                        "put fields that hold the separator or a line break in double quotes");
    }
    return rows;
  }

 private:
  CsvRow row() {
    CsvRow row = {.fields = {}, .line = line_};
    for (;;) {
      row.fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : plain());
      if (at_ == text_.size() || take_line_end()) return row;
      ++at_;  // the separator
    }
  }
  std::string plain() {
    const char ends[] = {separator_, '\n'};
    const auto end = std::min(text_.find_first_of(std::string_view(ends, 2), at_), text_.size());
    auto field = std::string(text_.substr(at_, end - at_));
    at_ = end;
    const bool at_line_end = end == text_.size() || text_[end] == '\n';
    if (at_line_end && field.ends_with('\r')) field.pop_back();
    return field;
  }
  std::string quoted() {
    const Place opened{name_, line_};
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] == '"' && text_.substr(at_ + 1, 1) == "\"")
        ++at_;
      else if (text_[at_] == '"')
        return after_quote(std::move(field));
      field += text_[at_];
    }
    throw UserError(opened, "a double quote is not closed",
                    "a quote inside a field is doubled: \"\"");
  }
  std::string after_quote(std::string field) {
    ++at_;
    const auto rest = text_.substr(at_, 2);
    if (!rest.empty() && rest[0] != separator_ && rest[0] != '\n' && rest != "\r\n")
      throw UserError(Place{name_, line_}, "text follows a closing double quote",
                      "a quote inside a field is doubled: \"\"");
    return field;
  }
  bool take_line_end() {
    const auto rest = text_.substr(at_, 2);
    const size_t width = rest == "\r\n" ? 2 : rest.starts_with('\n') ? 1 : 0;
    at_ += width;
    line_ += width > 0;
    return width > 0;
  }

  std::string_view text_;
  const std::string& name_;
  char separator_;
  size_t at_ = 0;
  int line_ = 1;
};

using Words = std::vector<std::string>;

Words words_in(std::string_view text) {
  Words words;
  for (auto at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const auto end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

// One name a code point: a blank has a name that can be seen, since blanks stand between tokens.
Words characters_in(std::string_view text) {
  Words characters;
  for (size_t at = 0; at < text.size(); at += characters.back().size())
    characters.emplace_back(text.substr(at, utf8_at(text, at).bytes));
  for (auto& character : characters)
    if (character.size() == 1 && kBlanks.find(character) != std::string_view::npos)
      character = character == " " ? "␣" : fmt::format("<{:02x}>", character[0]);
  return characters;
}

std::string byte_name(int byte) {
  const bool shown = byte > 0x20 && byte < 0x7f;
  return shown ? std::string(1, static_cast<char>(byte)) : fmt::format("<{:02x}>", byte);
}

Words bytes_in(std::string_view text) {
  Words bytes;
  for (const char byte : text) bytes.push_back(byte_name(static_cast<unsigned char>(byte)));
  return bytes;
}

// What tokens or labels are called, numbered as they come: a file has many of them and few names.
class Names {
 public:
  std::vector<int32_t> numbers(const Words& words) {
    std::vector<int32_t> all;
    all.reserve(words.size());
    for (const auto& word : words) {
      const auto [found, is_new] = numbers_.try_emplace(word, static_cast<int32_t>(all_.size()));
      if (is_new) all_.push_back(word);
      all.push_back(found->second);
    }
    return all;
  }
  const Words& all() const { return all_; }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  Words all_;  // by number
};

// A row of the file; tokens and targets by the numbers of their names.
struct Record {
  std::vector<int32_t> text = {}, second = {}, targets = {};
  std::shared_ptr<const std::string> file = {};
  int line = 0;
  Place place() const { return {*file, line}; }
};

size_t column_in(const CsvRow& header, const std::string& column, const std::string& path) {
  const auto found = std::find(header.fields.begin(), header.fields.end(), column);
  if (found == header.fields.end())
    throw UserError(Place{path, header.line}, "no column " + quote(column),
                    suggest(column, header.fields));
  return static_cast<size_t>(found - header.fields.begin());
}

char separator_of(const CsvConfig& config, const std::string& file) {
  switch (config.separator) {
    case CsvSeparator::comma:
      return ',';
    case CsvSeparator::tab:
      return '\t';
    case CsvSeparator::semicolon:
      return ';';
    default:
      return file.ends_with(".tsv") || file.ends_with(".tab") ? '\t' : ',';
  }
}

class Table {
 public:
  Table(const DataConfig& data, const CsvConfig& config) : folder_(data.path), config_(config) {}

  std::vector<Record> read(const std::string& file, Splits& splits) {
    const auto path = (std::filesystem::path(folder_) / file).string();
    auto rows = rows_in(file, path, splits);
    if (rows.size() < 2)
      throw UserError(Place{path, 1}, "no rows", "the first line names the columns");
    const auto& header = rows.front();
    const auto text = column_in(header, config_.text, path);
    const auto second = config_.second.empty() ? text : column_in(header, config_.second, path);
    const bool labelled = config_.targets != CsvTargets::none;
    const auto label = labelled ? column_in(header, config_.label, path) : text;
    const auto name = std::make_shared<const std::string>(path);
    std::vector<Record> records;
    for (size_t i = 1; i < rows.size(); ++i) {
      const auto fields = std::move(rows[i].fields);
      Record record = {
          .text = tokens_.numbers(tokens_in(fields[text])), .file = name, .line = rows[i].line};
      if (!config_.second.empty()) record.second = tokens_.numbers(tokens_in(fields[second]));
      if (labelled) record.targets = labels_.numbers(targets_in(fields[label]));
      check(record);
      records.push_back(std::move(record));
    }
    return records;
  }
  const Names& tokens() const { return tokens_; }
  const Names& labels() const { return labels_; }

 private:
  std::vector<CsvRow> rows_in(const std::string& file, const std::string& path,
                              Splits& splits) const {
    const auto contents = read_file(path);
    splits.checksums[file] = sha256(contents);
    return parse_csv(contents, path, separator_of(config_, file));
  }
  Words tokens_in(const std::string& text) const {
    return config_.tokens == CsvTokens::words        ? words_in(text)
           : config_.tokens == CsvTokens::characters ? characters_in(text)
                                                     : bytes_in(text);
  }
  Words targets_in(const std::string& text) const {
    auto words = words_in(text);
    if (config_.targets == CsvTargets::tags || words.empty()) return words;
    // A label may have blanks inside, but not around it.
    const auto first = text.find_first_not_of(kBlanks), last = text.find_last_not_of(kBlanks);
    return {text.substr(first, last - first + 1)};
  }
  void check(const Record& record) const {
    const auto need = [&](const std::vector<int32_t>& words, const std::string& column) {
      if (words.empty()) throw UserError(record.place(), "column " + quote(column) + " is empty");
    };
    need(record.text, config_.text);
    if (!config_.second.empty()) need(record.second, config_.second);
    if (config_.targets == CsvTargets::none) return;
    need(record.targets, config_.label);
    if (config_.targets == CsvTargets::tags && record.targets.size() != record.text.size())
      throw UserError(record.place(), fmt::format("{} tags for {} words", record.targets.size(),
                                                  record.text.size()));
  }
  std::string folder_;
  const CsvConfig& config_;
  Names tokens_, labels_;
};

// How often each name occurs in these lists of the records.
std::vector<int64_t> counts_of(const std::vector<Record>& records, const Names& names,
                               std::initializer_list<std::vector<int32_t> Record::*> lists) {
  std::vector<int64_t> counts(names.all().size());
  for (const auto& record : records)
    for (const auto list : lists)
      for (const auto number : record.*list) ++counts[static_cast<size_t>(number)];
  return counts;
}

// Names by id, those of the training split, the most frequent first; padding and unknown before
// them. All bytes have ids.
Words vocabulary_of(const std::vector<Record>& train, const Names& tokens,
                    const CsvConfig& config) {
  Words names = {"<pad>", "<unk>"};
  if (config.tokens == CsvTokens::bytes) {
    for (int byte = 0; byte < 256; ++byte) names.push_back(byte_name(byte));
    return names;
  }
  const auto counts = counts_of(train, tokens, {&Record::text, &Record::second});
  std::vector<std::pair<int64_t, std::string>> order;
  for (size_t i = 0; i < counts.size(); ++i)
    if (const auto& name = tokens.all()[i];
        counts[i] >= config.min_count && name != "<pad>" && name != "<unk>")
      order.emplace_back(-counts[i], name);
  std::sort(order.begin(), order.end());
  if (std::ssize(order) > config.max_words) order.resize(static_cast<size_t>(config.max_words));
  for (auto& [count, word] : order) names.push_back(std::move(word));
  return names;
}

// Ids in place of the numbers of names.
class Numbering {
 public:
  Numbering(const std::vector<Record>& train, const Table& table, const CsvConfig& config,
            Splits& splits)
      : table_(table), config_(config) {
    splits.symbols = vocabulary_of(train, table.tokens(), config);
    splits.vocabulary = std::ssize(splits.symbols);
    splits.unknown = kUnknown;
    std::unordered_map<std::string, int32_t> ids;
    for (size_t id = 1; id < splits.symbols.size(); ++id)
      ids.emplace(splits.symbols[id], static_cast<int32_t>(id));
    for (const auto& name : table.tokens().all()) {
      const auto found = ids.find(name);
      ids_.push_back(found == ids.end() ? kUnknown : found->second);
    }
    const auto counts = counts_of(train, table.labels(), {&Record::targets});
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i] > 0 && !is_ignored(table.labels().all()[i]))
        labels_.push_back(table.labels().all()[i]);
    std::sort(labels_.begin(), labels_.end());
    splits.labels = labels_;
    splits.classes = std::ssize(labels_);
  }

  std::shared_ptr<const Dataset> operator()(std::vector<Record> records) const {
    std::vector<Sample> samples;
    for (auto& record : records) {
      for (auto* list : {&record.text, &record.second})
        for (auto& token : *list) token = ids_[static_cast<size_t>(token)];
      for (auto& target : record.targets) target = class_of(target, record);
      samples.push_back({.tokens = std::move(record.text),
                         .targets = std::move(record.targets),
                         .second = std::move(record.second)});
    }
    return std::make_shared<SampleList>(std::move(samples), config_.targets == CsvTargets::tags);
  }

 private:
  bool is_ignored(const std::string& label) const {
    return config_.targets == CsvTargets::tags && label == config_.ignored_tag;
  }
  int32_t class_of(int32_t number, const Record& record) const {
    const auto& name = table_.labels().all()[static_cast<size_t>(number)];
    if (is_ignored(name)) return kIgnore;
    const auto found = std::lower_bound(labels_.begin(), labels_.end(), name);
    if (found == labels_.end() || *found != name)
      throw UserError(
          record.place(),
          fmt::format("{} {} does not occur in the training split",
                      config_.targets == CsvTargets::tags ? "tag" : "label", quote(name)),
          suggest(name, labels_));
    return static_cast<int32_t>(found - labels_.begin());
  }
  const Table& table_;
  const CsvConfig& config_;
  std::vector<int32_t> ids_;  // by the number of a token
  Words labels_;              // by class
};

void check(const CsvConfig& config) {
  const bool tags = config.targets == CsvTargets::tags;
  require_option(!tags || config.tokens == CsvTokens::words, "targets",
                 "is tags, but tokens are not words", "set tokens: words");
  require_option(!tags || config.second.empty(), "second",
                 "is given, but tags are for the words of one text", "leave second out");
  require_option(config.valid_fraction + config.test_fraction < 1, "test_fraction",
                 "and valid_fraction leave no training samples", "their sum is below 1");
}

struct Parts {
  std::vector<Record> train = {}, valid = {}, test = {};
};

// Moves a fraction of the training rows, at least one, to the splits that have no file.
Parts split(std::vector<Record> all, const CsvConfig& config, uint64_t seed) {
  const auto count = std::ssize(all);
  const auto share = [&](const std::string& file, double fraction) {
    const auto rows = static_cast<int64_t>(fraction * static_cast<double>(count));
    return file.empty() ? std::max<int64_t>(rows, 1) : 0;
  };
  const auto valid = share(config.valid, config.valid_fraction);
  const auto test = share(config.test, config.test_fraction);
  if (valid + test >= count)
    throw UserError(all.front().place(), fmt::format("{} rows cannot be split in three", count),
                    "name files for valid and test");
  const auto order = Stream(seed, "csv/split").permutation(count);
  Parts parts;
  for (int64_t i = 0; i < count; ++i) {
    auto& part = order[static_cast<size_t>(i)] < valid          ? parts.valid
                 : order[static_cast<size_t>(i)] < valid + test ? parts.test
                                                                : parts.train;
    part.push_back(std::move(all[static_cast<size_t>(i)]));
  }
  return parts;
}

Splits load(const DataConfig& data, const CsvConfig& config) {
  if (!std::filesystem::is_directory(data.path))
    throw UserError(Place{data.path, 0}, "no such folder", "it should hold " + config.train);
  Table table(data, config);
  Splits splits;
  auto parts = split(table.read(config.train, splits), config, data.seed);
  if (!config.valid.empty()) parts.valid = table.read(config.valid, splits);
  if (!config.test.empty()) parts.test = table.read(config.test, splits);
  const Numbering numbered(parts.train, table, config, splits);
  set_splits(splits, numbered(std::move(parts.train)), numbered(std::move(parts.valid)),
             numbered(std::move(parts.test)));
  return truncate(std::move(splits), data.max_tokens);
}

}  // namespace

std::vector<CsvRow> parse_csv(std::string_view text, const std::string& name, char separator) {
  return CsvParser(text, name, separator).rows();
}

DataSource csv_data_set() {
  return data_source<CsvConfig>(
      {.name = "csv",
       .description = "your own CSV or TSV file: a column of texts and one of labels or tags",
       .objective = "classification",
       .recipe = {"{task: csv, data: {path: ., csv: {train: train.csv, text: text, label: label}}}",
                  "what your data allows"}},
      load, nullptr, check);
}

}  // namespace longbow
