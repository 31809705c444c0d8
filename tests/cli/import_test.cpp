#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/models/hugging_face.h"

namespace longbow::cli {
namespace {

TEST(ImportCommand, ReadsAFolderAndExportGivesItBack) {
  const Workspace here;
  write_bert(here.path("theirs"), bert_tensors());
  auto outcome = here.run({"import", "theirs", "--out", "ours"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "kept 39 tensors\nours\n");
  EXPECT_EQ(here.read("ours/vocab.txt"), here.read("theirs/vocab.txt"));
  outcome = here.run({"export", "ours", "--out", "back"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "back\n");
  EXPECT_TRUE(here.read("back/model.safetensors") == here.read("theirs/model.safetensors"));
}

TEST(ImportCommand, ListsWhatStartsAnewAndWhatIsLeftOut) {
  const Workspace here;
  write_bert(here.path("theirs"), bert_tensors());
  const auto outcome =
      here.run({"import", "theirs", "--out", "ours", "--attention",
                "[{name: linformer, rank: 4, layers: 0}, {name: fnet, layers: 1}]"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "kept 31 tensors\n"
            "left out encoder.layer.1.attention.self.query.weight\n"
            "left out encoder.layer.1.attention.self.query.bias\n"
            "left out encoder.layer.1.attention.self.key.weight\n"
            "left out encoder.layer.1.attention.self.key.bias\n"
            "left out encoder.layer.1.attention.self.value.weight\n"
            "left out encoder.layer.1.attention.self.value.bias\n"
            "left out encoder.layer.1.attention.output.dense.weight\n"
            "left out encoder.layer.1.attention.output.dense.bias\n"
            "starts anew layers.0.mixer.e [4, 10]\n"
            "ours\n");
}

TEST(ImportCommand, MistakesAreOneLineAndWriteNothing) {
  const Workspace here;
  auto tensors = bert_tensors();
  write_bert(here.path("theirs"), tensors);
  tensors.erase("pooler.dense.bias");
  tensors["pooler.dense.more"] = at::zeros({1});
  write_bert(here.path("broken"), tensors);
  const auto refused = [&](const Arguments& arguments) {
    const auto outcome = here.run(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(here.has("ours"));
    return outcome.err;
  };
  EXPECT_EQ(refused({"import", "broken", "--out", "ours"}),
            "longbow: broken/model.safetensors: weights do not fit the model: missing "
            "pooler.dense.bias, unexpected pooler.dense.more\n");
  EXPECT_EQ(refused({"import", "nowhere", "--out", "ours"}),
            "longbow: nowhere: is no model folder: config.json is missing\n");
  EXPECT_EQ(refused({"import", "theirs", "--out", "ours", "--attention", "{name: linfromer}"}),
            "longbow: --attention: unknown mechanism 'linfromer'; did you mean 'linformer'?\n");
  EXPECT_EQ(refused({"export", "theirs", "--out", "ours"}),
            "longbow: theirs/config.json: the model is no BERT: model_type is not "
            "\"longbow_bert\"; `longbow import` makes such a folder\n");
}

}  // namespace
}  // namespace longbow::cli
