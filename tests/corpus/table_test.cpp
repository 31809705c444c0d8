#include "longbow/corpus/readers/table.h"

#include <gtest/gtest.h>

#include <map>

#include "longbow/core/seed.h"
#include "longbow/corpus/readers/classes.h"
#include "tests/corpus/support.h"

namespace longbow::corpus {
namespace {

// A record in one line: texts | label | value | id @ line.
std::string shown(const Record& record) {
  std::string all;
  for (const auto& text : record.texts) all += (all.empty() ? "" : "/") + text;
  all += "|" + record.label + "|";
  if (record.value) all += std::to_string(*record.value).substr(0, 4);
  return all + "|" + record.id + "@" + std::to_string(record.line);
}

using Shown = std::vector<std::string>;

TableOptions options_of(const std::string& yaml) {
  return read<TableOptions>(parse_yaml(yaml, "run.yaml"), "table");
}

Shown rows(const std::string& name, const std::string& text, const std::string& options = "{}",
           ReadCounts* counts = nullptr) {
  Shown all;
  auto file = TextFile::in_memory(text, name);
  const auto found =
      read_table(file, options_of(options), [&](Record&& record) { all.push_back(shown(record)); });
  EXPECT_EQ(found.records, std::ssize(all));
  if (counts) *counts = found;
  return all;
}

std::string refused(const std::string& name, const std::string& text,
                    const std::string& options = "{}") {
  return mistake([&] { rows(name, text, options); });
}

const char* const kAll = "{text: a, second: b, label: l, value: v, id: i}";

TEST(Table, ReadsTheNamedColumnsOfEveryFormat) {
  const Shown wanted = {"x/y|c|1.50|7@2", "z/w|d|-2.0|8@3"};
  EXPECT_EQ(rows("t.csv", "i,l,a,b,v,extra\n7,c,x,y,1.5,\n8,d,z,w,-2,\n", kAll), wanted);
  EXPECT_EQ(rows("t.tsv", "i\tl\ta\tb\tv\n7\tc\tx\ty\t1.5\n8\td\tz\tw\t-2\n", kAll), wanted);
  EXPECT_EQ(rows("t.csv", "i;l;a;b;v\n7;c;x;y;1.5\n8;d;z;w;-2\n", kAll), wanted);
  EXPECT_EQ(rows("t.jsonl",
                 "\n{\"i\": 7, \"l\": \"c\", \"a\": \"x\", \"b\": \"y\", \"v\": 1.5, \"e\": [1]}\n"
                 "{\"a\": \"z\", \"b\": \"w\", \"l\": \"d\", \"v\": \"-2\", \"i\": \"8\"}\n",
                 kAll),
            wanted);
  EXPECT_EQ(rows("t.json",
                 "[\n{\"i\": 7, \"l\": \"c\", \"a\": \"x\", \"b\": \"y\", \"v\": 1.5, \"e\": {}},\n"
                 "{\"a\": \"z\", \"b\": \"w\", \"l\": \"d\", \"v\": \"-2\", \"i\": \"8\"}]\n",
                 kAll),
            wanted);
}

TEST(Table, ReadsQuotedFieldsAsRfc4180Says) {
  EXPECT_EQ(rows("t.csv", "text,label\n\"a, b\",x\n\"say \"\"hi\"\"\",\"y\"\n\"\"\"\",z\n"),
            (Shown{"a, b|x||@2", "say \"hi\"|y||@3", "\"|z||@4"}));
  EXPECT_EQ(rows("t.csv", "text,label\nit\"s,5\"\n"), Shown{"it\"s|5\"||@2"})
      << "a quote inside a plain field is a character like any other";
}

TEST(Table, CountsLinesInsideQuotesAndKeepsTheirEnds) {
  EXPECT_EQ(rows("t.csv", "text,label\r\n\"two\r\nlines\",x\r\n\r\n\"a\nb\"\"\n\",\"y\"\nlast,z"),
            (Shown{"two\r\nlines|x||@2", "a\nb\"\n|y||@5", "last|z||@8"}));
}

TEST(Table, ReadsAByteOrderMarkAndAHeaderInQuotes) {
  EXPECT_EQ(rows("t.csv", "\xef\xbb\xbf\"text\",\"label\"\r\na,x\r\n"), Shown{"a|x||@2"});
}

TEST(Table, TakesQuotesOfTsvAsCharactersUnlessTold) {
  const std::string text = "text\tlabel\n\"a\" b\tx\n\"c\td\n";
  EXPECT_EQ(rows("t.tsv", text), (Shown{"\"a\" b|x||@2", "\"c|d||@3"}));
  EXPECT_EQ(rows("t.tsv", "text\tlabel\n\"a\tb\"\tx\n", "{quotes: double}"), Shown{"a\tb|x||@2"});
}

TEST(Table, NumbersTheColumnsOfAFileWithoutHeader) {
  EXPECT_EQ(
      rows("t.tsv", "Hi.\tHallo!\nRun!\tLauf!\n", "{header: false, text: 1, second: 2, label: ''}"),
      (Shown{"Hi./Hallo!|||@1", "Run!/Lauf!|||@2"}));
}

TEST(Table, FindsTheFormatByNameAndContent) {
  const Shown wanted = {"a|x||@2"};
  EXPECT_EQ(rows("t.CSV.xz", "text,label\na,x\n"), wanted);
  EXPECT_EQ(rows("t.txt", "text\tlabel\na\tx\n"), wanted);
  EXPECT_EQ(rows("t.txt", "text,label\na,x\n"), wanted);
  EXPECT_EQ(rows("t.txt", "[\n{\"text\": \"a\", \"label\": \"x\"}]"), wanted);
  EXPECT_EQ(rows("t.json", "\n{\"text\": \"a\", \"label\": \"x\"}"), wanted);
  EXPECT_EQ(rows("t.csv", "text\tlabel\na\tx\n"), wanted);
  EXPECT_EQ(rows("t.csv", "\"te,xt;\";label\na;x\n", "{text: 'te,xt;'}"), wanted)
      << "separators in quotes do not count";
  EXPECT_EQ(rows("t.tsv", "text,label\na,x\n", "{format: csv}"), wanted);
  EXPECT_EQ(rows("t.csv", "text;label\na;x\n", "{separator: semicolon}"), wanted);
}

TEST(Table, FollowsDottedPathsIntoObjects) {
  EXPECT_EQ(rows("t.json",
                 R"([{"s": {"t": "a", "u": {"text": "no"}}, "l": {"label": 3.7, "label2": 1}}])",
                 "{text: s.t, label: '', value: l.label}"),
            Shown{"a||3.70|@1"});
  EXPECT_EQ(rows("t.jsonl", R"({"s.t": "a"})", "{text: s.t, label: ''}"), Shown{"a|||@1"});
  EXPECT_EQ(rows("t.jsonl", R"({"t": "a"})", "{text: t, label: t}"), Shown{"a|a||@1"});
}

TEST(Table, TakesNumbersAndBooleansOfJsonAsLabels) {
  const auto label = [](const std::string& value) {
    return rows("t.jsonl", "{\"text\": \"a\", \"label\": " + value + "}").at(0);
  };
  EXPECT_EQ(label("1"), "a|1||@1");
  EXPECT_EQ(label("1.0"), "a|1||@1");
  EXPECT_EQ(label("1e0"), "a|1||@1");
  EXPECT_EQ(label("3.70"), "a|3.7||@1");
  EXPECT_EQ(label("12345678901234567890"), "a|12345678901234567890||@1");
  EXPECT_EQ(label("true"), "a|true||@1");
  EXPECT_EQ(label("\"1.0\""), "a|1.0||@1") << "a string stays as it is";
}

TEST(Table, StripsLabelsAndMapsThem) {
  EXPECT_EQ(rows("t.csv", "text,label\n a ,2  \n", "{label_map: {2: love}}"),
            Shown{" a |love||@2"});
  EXPECT_EQ(refused("t.csv", "text,label\na,3\n", "{label_map: {2: love}}"),
            "t.csv:2: label '3' is not in label_map; one of: 2");
  EXPECT_EQ(refused("t.csv", "text,label\na,3\n", "{label_map: [love]}"),
            "label_map is not a map; write {label: class, ...}");
  EXPECT_EQ(refused("t.csv", "text,label\na,3\n", "{label_map: {3: [love]}}"),
            "label_map.3 is not the name of a class; write {label: class, ...}");
}

TEST(Table, HoldsLabelsToTheDeclaredClasses) {
  EXPECT_EQ(rows("t.csv", "text,label\na,no\n", "{classes: [yes, no]}"), Shown{"a|no||@2"});
  EXPECT_EQ(refused("t.csv", "text,label\na,yse\n", "{classes: [yes, no]}"),
            "t.csv:2: label 'yse' is not in classes; did you mean 'yes'?");
}

TEST(Table, RefusesSkipsOrKeepsRowsWithEmptyFields) {
  const std::string text = "text,label\na,x\n  ,y\nb,\n";
  EXPECT_EQ(refused("t.csv", text),
            "t.csv:3: column 'text' is empty; set empty: skip or empty: keep to allow that");
  ReadCounts counts;
  EXPECT_EQ(rows("t.csv", text, "{empty: skip}", &counts), Shown{"a|x||@2"});
  EXPECT_EQ(counts.skipped, 2);
  EXPECT_EQ(rows("t.csv", text, "{empty: keep}"), (Shown{"a|x||@2", "  |y||@3", "b|||@4"}));
  EXPECT_EQ(rows("t.jsonl", "{\"text\": \"a\", \"v\": null}\n{\"text\": \"b\", \"v\": 1}",
                 "{label: '', value: v, empty: keep}"),
            (Shown{"a|||@1", "b||1.00|@2"}));
}

TEST(Table, NamesKeysThatAreMissing) {
  const std::string text = "{\"text\": \"a\", \"lable\": 1, \"other\": {\"x\": 1}}\n";
  EXPECT_EQ(refused("t.jsonl", text), "t.jsonl:1: no key 'label'; did you mean 'lable'?");
  EXPECT_EQ(refused("t.jsonl", text, "{empty: skip}"),
            "t.jsonl: no row has the key 'label'; did you mean 'lable'?");
  EXPECT_EQ(refused("t.jsonl", text, "{label: other.y}"),
            "t.jsonl:1: no key 'other.y'; did you mean 'other.x'?");
  ReadCounts counts;
  EXPECT_EQ(rows("t.jsonl", text + "{\"text\": \"b\", \"label\": 2}", "{empty: skip}", &counts),
            Shown{"b|2||@2"});
  EXPECT_EQ(counts.skipped, 1);
}

TEST(Table, RefusesMalformedTables) {
  EXPECT_EQ(refused("t.csv", ""), "t.csv: is empty; the first line names the columns");
  EXPECT_EQ(refused("t.csv", "", "{header: false, text: 1, label: ''}"), "t.csv: is empty");
  EXPECT_EQ(refused("t.csv", "text,label\n"), "t.csv:1: no rows; the first line names the columns");
  EXPECT_EQ(refused("t.csv", "txet,label\na,x\n"),
            "t.csv:1: no column 'text'; did you mean 'txet'?");
  EXPECT_EQ(refused("t.csv", "a,b\n", "{header: false, text: 3, label: ''}"),
            "t.csv:1: no column '3'; without a header the columns are 1 to 2");
  EXPECT_EQ(refused("t.csv", "text,label,text\na,x,b\n"),
            "t.csv:1: two columns are called 'text'; rename one of them");
  EXPECT_EQ(refused("t.csv", "text,label\na,x\nb,\"y\nc,z\n"),
            "t.csv:3: a double quote is not closed; a quote inside a field is doubled: \"\"");
  EXPECT_EQ(refused("t.csv", "text,label\n\"a\nb\"c,x\n"),
            "t.csv:3: text follows a closing double quote; a quote inside a field is doubled: "
            "\"\"");
  EXPECT_EQ(refused("t.csv", "text,label\na,x,y\n"),
            "t.csv:2: 3 columns, but the header has 2; put fields that hold the separator or a "
            "line break in double quotes");
  EXPECT_EQ(refused("t.csv", "text,label\na\n"),
            "t.csv:2: 1 columns, but the header has 2; put fields that hold the separator or a "
            "line break in double quotes");
  EXPECT_EQ(refused("t.tsv", "a\tb\nc\n", "{header: false, text: 1, label: 2}"),
            "t.tsv:2: 1 columns, but the first row has 2; set quotes: double if fields with the "
            "separator are in double quotes");
  EXPECT_EQ(refused("t.csv", "text,score\na,high\n", "{label: '', value: score}"),
            "t.csv:2: column 'score' is 'high', not a number");
  EXPECT_EQ(refused("t.csv", "text,score\na,nan\n", "{label: '', value: score}"),
            "t.csv:2: column 'score' is 'nan', not a number");
  EXPECT_EQ(refused("t.csv", "text,score\na,1e999\n", "{label: '', value: score}"),
            "t.csv:2: column 'score' is '1e999', not a number");
  EXPECT_EQ(refused("t.csv", "text,label\na,x\n", "{text: ''}"),
            "text is empty; name the column of the text");
  auto file = TextFile::in_memory("text,label\n\"a\nb\nc\nd\",x", "t.csv", {.max_line = 12});
  EXPECT_EQ(mistake([&] { read_table(file, {}, [](Record&&) {}); }), "no UserError was thrown");
  auto longer =
      TextFile::in_memory("text,label\n\"a\nb\nc\nd\nefghij\",x", "t.csv", {.max_line = 12});
  EXPECT_EQ(mistake([&] { read_table(longer, {}, [](Record&&) {}); }),
            "t.csv:2: the row is longer than 12 bytes; is a double quote not closed? max_line sets "
            "the limit");
}

TEST(Table, RefusesMalformedJson) {
  EXPECT_EQ(refused("t.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\"\n"),
            "t.jsonl:2: not valid JSON: ':' is missing after a key");
  EXPECT_EQ(refused("t.jsonl", "{\"text\": \"a\", \"label\": 1} x\n"),
            "t.jsonl:1: not valid JSON: text after the end of the value");
  EXPECT_EQ(refused("t.jsonl", "[1]\n"),
            "t.jsonl:1: a row is not an object; write {\"key\": value, ...}");
  EXPECT_EQ(refused("t.jsonl", "\n"), "t.jsonl: no rows");
  EXPECT_EQ(refused("t.json", "", "{format: json}"), "t.json: is empty");
  EXPECT_EQ(refused("t.json", "[]"), "t.json: no rows");
  EXPECT_EQ(refused("t.json", "[\n[1]]"),
            "t.json:2: a row is not an object; write {\"key\": value, ...}");
  EXPECT_EQ(refused("t.json", "{\"text\": \"a\"}", "{format: json}"),
            "t.json:1: not a list of objects; format: jsonl reads one object on each line");
  EXPECT_EQ(refused("t.json", "[{\"text\": \"a\", \"label\": 1},\n\n{\"text\": \"a\""),
            "t.json:3: not valid JSON: '}' is missing after the last entry");
  EXPECT_EQ(refused("t.jsonl", "{\"text\": [\"a\"], \"label\": 1}"),
            "t.jsonl:1: key 'text' is a list; a string, a number or a boolean is expected");
  EXPECT_EQ(refused("t.jsonl", "{\"text\": {}, \"label\": 1}"),
            "t.jsonl:1: key 'text' is an object; a string, a number or a boolean is expected");
  EXPECT_EQ(refused("t.jsonl", "{\"text\": \"a\", \"text\": \"b\", \"label\": 1}"),
            "t.jsonl:1: duplicate key 'text'");
}

TEST(Table, IsReadOrRefusedInOneLineWhateverTheBytes) {
  const std::string whole[] = {"text,label\n\"a, b\"\"c\"\"\nd\",x\ne f,y\r\n\"z\",\"z\"\n",
                               "[{\"text\": \"a\\u00e9\", \"label\": 1.0},\n{\"label\": null}]"};
  for (uint64_t i = 0; i < 6000; ++i) {
    auto stream = Stream(3, "accident").at(i);
    auto text = whole[i % 2];
    for (int64_t n = stream.below(3); n >= 0; --n) {
      const auto at = static_cast<size_t>(stream.below(std::ssize(text)));
      if (stream.below(2))
        text[at] = text[static_cast<size_t>(stream.below(std::ssize(text)))];
      else
        text.erase(at, static_cast<size_t>(stream.below(4)));
    }
    const auto message = refused(i % 2 ? "t.json" : "t.csv", text, "{empty: keep}");
    ASSERT_EQ(message.find_first_of("\r\n"), std::string::npos) << message;
  }
}

TEST(Table, LeavesTheRecordsToTheirTaker) {
  auto file = TextFile::in_memory("text,label\na,x\nb,y\n", "t.csv");
  std::vector<Record> kept;
  read_table(file, {}, [&](Record&& record) { kept.push_back(std::move(record)); });
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].place().str(), "t.csv:2");
  EXPECT_EQ(shown(kept[1]), "b|y||@3");
}

TEST(Table, SpellsItsOptionsOut) {
  TableOptions options;
  options.classes = {"a", "b"};
  options.label_map = parse_yaml("{1: a, 2: b}", "run.yaml");
  const auto all = written(options);
  EXPECT_EQ(to_yaml(written(read<TableOptions>(all))), to_yaml(all));
}

// What the pages of public data sets say of their files.
using Histogram = std::map<std::string, int64_t>;

struct Summary {
  Histogram labels;
  ReadCounts counts;
};

Summary summary_of(const std::string& name, const std::string& options) {
  TextFile file(collected(name));
  Summary summary;
  summary.counts = read_table(file, options_of(options), [&](Record&& record) {
    const auto label =
        record.value ? std::to_string(static_cast<int>(*record.value)) : record.label;
    ++summary.labels[label];
  });
  return summary;
}

TEST(TableCollection, HasTheRowsAndLabelsOfKlue) {
  LONGBOW_NEEDS(collected("klue_ynat"));
  const auto train = summary_of("klue_ynat/ynat_train.json.xz", "{text: title, id: guid}");
  EXPECT_EQ(train.counts.records, 44931);
  EXPECT_EQ(train.labels, (Histogram{{"세계", 8200},
                                     {"스포츠", 7636},
                                     {"정치", 7263},
                                     {"경제", 6013},
                                     {"생활문화", 5658},
                                     {"IT과학", 5146},
                                     {"사회", 5015}}));
  EXPECT_EQ(summary_of("klue_ynat/ynat_dev.json.xz", "{text: title}").labels,
            (Histogram{{"사회", 3701},
                       {"생활문화", 1369},
                       {"경제", 1348},
                       {"세계", 835},
                       {"정치", 722},
                       {"스포츠", 578},
                       {"IT과학", 554}}));
  EXPECT_EQ(
      summary_of("klue_ynat/ynat_train_unlabelled.json", "{text: title, label: ''}").counts.records,
      747);
  const std::string nli = "{text: premise, second: hypothesis, label: gold_label, id: guid}";
  EXPECT_EQ(summary_of("klue_nli/klue-nli-v1.1_train.json.xz", nli).labels,
            (Histogram{{"entailment", 8561}, {"contradiction", 8489}, {"neutral", 7948}}));
  EXPECT_EQ(summary_of("klue_nli/klue-nli-v1.1_dev.json.xz", nli).labels,
            (Histogram{{"entailment", 1000}, {"contradiction", 1000}, {"neutral", 1000}}));
  const std::string sts = "text: sentence1, second: sentence2, id: guid";
  const auto score = "{" + sts + ", label: '', value: labels.label}";
  const auto binary = "{" + sts + ", label: labels.binary-label}";
  const std::string sts_train = "klue_sts/klue-sts-v1.1_train.reduced.json.xz";
  const std::string sts_dev = "klue_sts/klue-sts-v1.1_dev.json";
  EXPECT_EQ(summary_of(sts_train, score).labels,
            (Histogram{{"0", 4350}, {"1", 906}, {"2", 810}, {"3", 2852}, {"4", 2705}, {"5", 45}}));
  EXPECT_EQ(summary_of(sts_train, binary).labels, (Histogram{{"0", 6066}, {"1", 5602}}));
  EXPECT_EQ(summary_of(sts_dev, score).labels,
            (Histogram{{"0", 110}, {"1", 92}, {"2", 97}, {"3", 110}, {"4", 104}, {"5", 6}}));
  EXPECT_EQ(summary_of(sts_dev, binary).labels, (Histogram{{"0", 299}, {"1", 220}}));
}

TEST(TableCollection, HasTheRowsAndLabelsOfTablesWithTabs) {
  LONGBOW_NEEDS(collected("kornlu"));
  const std::string sts = "{text: sentence1, second: sentence2, label: '', value: score}";
  EXPECT_EQ(summary_of("kornlu/sts-train.tsv.xz", sts).counts.records, 5749);
  EXPECT_EQ(summary_of("kornlu/sts-dev.tsv", sts).counts.records, 1500);
  EXPECT_EQ(summary_of("kornlu/sts-test.tsv", sts).counts.records, 1379);
  const std::string nli = "{text: sentence1, second: sentence2, label: gold_label}";
  EXPECT_EQ(summary_of("kornlu/xnli.dev.ko.tsv", nli).labels,
            (Histogram{{"entailment", 830}, {"contradiction", 830}, {"neutral", 830}}));
  EXPECT_EQ(summary_of("kornlu/xnli.test.ko.tsv.xz", nli).labels,
            (Histogram{{"entailment", 1670}, {"contradiction", 1670}, {"neutral", 1670}}));
  const std::string nsmc = "{text: document, id: id}";
  EXPECT_EQ(summary_of("nsmc_rebuilt/train.tsv.xz", nsmc).labels,
            (Histogram{{"0", 75000}, {"1", 75000}}));
  EXPECT_EQ(summary_of("nsmc_rebuilt/test.tsv.xz", nsmc).labels,
            (Histogram{{"0", 25000}, {"1", 25000}}));
}

TEST(TableCollection, HasTheRowsAndLabelsOfAChatbot) {
  LONGBOW_NEEDS(collected("korean_chatbot"));
  EXPECT_EQ(summary_of("korean_chatbot/ChatbotData.csv", "{text: Q, second: A}").labels,
            (Histogram{{"0", 5290}, {"1", 3570}, {"2", 2963}}));
}

}  // namespace
}  // namespace longbow::corpus
