#pragma once
#include <cstdint>
#include <string>

namespace longbow {

// The model of a finished run as Hugging Face's library reads it, its weights in files of at most
// `shard_bytes` (0: in one). What the BERT that it started from says besides, and the files of its
// tokenizer, travel along where its folder is still there. UserError when the model is not a BERT
// of theirs.
void export_run(const std::string& folder, const std::string& out, int64_t shard_bytes = 0);

}  // namespace longbow
