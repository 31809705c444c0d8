#pragma once
// Folders of BERT models: Hugging Face's (config.json, model.safetensors, tokenizer files) and
// longbow's, which differs in the names of the weights and in what config.json says.
#include "longbow/models/bert/fine_tuned_bert.h"

namespace longbow {

// What became of a Hugging Face folder.
struct ImportedBert {
  BertConfig config = {};
  Node source = {};                        // its config.json
  Tensors weights = {};                    // every parameter and buffer of the model, by our names
  int64_t kept = 0;                        // of them, taken from the file
  std::vector<std::string> anew = {};      // our names of those that start anew
  std::vector<std::string> left_out = {};  // tensors of the file that the model has no place for
};

// Reads a Hugging Face folder. `attention` takes the place of softmax where it is given: queries,
// keys, values and outputs keep their weights, what else the mechanism has starts anew. Weights
// that are missing, unexpected or of another shape are one UserError that lists all of them.
ImportedBert import_bert(const std::string& folder, const Node& attention = {}, uint64_t seed = 1);

// Writes a longbow folder; the tokenizer files of `from` travel along unchanged.
void save_bert(const ImportedBert& bert, const std::string& from, const std::string& out);

// The config of either kind of folder, without a look at its weights, and those, by our names.
BertConfig read_bert_config(const std::string& folder);
Tensors read_bert_weights(const std::string& folder);

// The model of either kind of folder, in float32.
std::shared_ptr<Bert> load_bert(const std::string& folder);

// A longbow folder as Hugging Face's library reads it, its weights in files of at most
// `shard_bytes` (0: in one). UserError when it is no BERT of theirs.
void export_bert(const std::string& folder, const std::string& out, int64_t shard_bytes = 0);
// Writes such a folder of any model of theirs; the tokenizer files of `from` travel along.
void save_hugging_face(const HuggingFaceModel& model, const std::string& from,
                       const std::string& out, int64_t shard_bytes = 0);
// The config.json that Hugging Face wrote: of their folder, or of the one that was imported. Null
// where there is none.
Node hugging_face_config(const std::string& folder);

}  // namespace longbow
