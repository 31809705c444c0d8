#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace longbow {

// The names of the files in the folder of a run. Nothing is made or read here.
class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::string path() const { return path_.string(); }
  std::string config() const { return in("config.yaml"); }  // with every default spelled out
  std::string card() const { return in("config.json"); }    // the model's type, sizes and labels
  std::string vocabulary() const { return in("vocabulary.json"); }  // what its texts are made of
  std::string tokenizer() const { return in("tokenizer.json"); }    // where they are plain text
  std::string target_tokenizer() const { return in("target_tokenizer.json"); }  // if another
  std::string request() const { return in("request.yaml"); }   // the config of an arena's cell
  std::string messages() const { return in("messages.txt"); }  // of a cell trained beside others
  std::string failure() const { return in("failure.json"); }   // why a cell has no result
  std::string metrics() const { return in("metrics.jsonl"); }
  std::string results() const { return in("results.json"); }
  std::string best() const { return in("best.safetensors"); }      // the best weights so far
  std::string weights() const { return in("model.safetensors"); }  // those of a finished run
  std::string checkpoints() const { return in("checkpoints"); }
  std::string checkpoint(int64_t step) const;  // a folder
  std::string draft() const;                   // of a checkpoint being written
  RunFolder pretraining() const { return RunFolder(path_ / "pretrain"); }

  bool is_run() const;       // finished or not
  bool is_begun() const;     // a training has written into it, before its first step too
  bool has_weights() const;  // finished
  // UserErrors that say what to do.
  void check_run() const;
  void check_weights() const;

 private:
  std::string in(const char* name) const { return (path_ / name).string(); }
  std::filesystem::path path_;
};

}  // namespace longbow
