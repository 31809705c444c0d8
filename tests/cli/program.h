#pragma once
// The program as a user meets it: a process of its own, in an empty folder of the running test's
// own.
#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "longbow/cli/commands.h"

namespace longbow::cli {

struct Outcome {
  int code = -1;  // of the exit, or minus the signal that ended the process
  std::string out = {}, err = {};
};

using Arguments = std::vector<std::string>;

// A program that is still running; the destructor ends it.
class Running {
 public:
  // Its output goes to a file of the folder, unless to another. `input` is a descriptor that
  // becomes its stdin; -1: the test's own.
  Running(const std::filesystem::path& folder, const Arguments& arguments,
          const std::filesystem::path& out = ".stdout", int input = -1);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // Waits until the condition holds; false when the program ended before.
  bool wait_until(const std::function<bool()>& condition);
  void signal(int number) const;
  pid_t child() const;  // a process that it has started; 0 = none
  Outcome finish();

 private:
  bool ended();
  std::filesystem::path out_, err_;
  pid_t process_ = -1;
  int status_ = 0;
};

// What a command prints, in this process: without the time that the program takes to start.
template <class Command>
std::string printed(const Command& command) {
  testing::internal::CaptureStdout();
  const int code = run(command);
  std::fflush(stdout);
  auto text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0) << text;
  return text;
}

class Workspace {
 public:
  Workspace();
  Outcome run(const Arguments& arguments, const std::filesystem::path& out = ".stdout") const;
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& contents) const;
  std::string read(const std::string& name) const;
  bool has(const std::string& name) const { return std::filesystem::exists(path(name)); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

std::vector<std::string> lines_of(const std::string& text);

// The words of `longbow train run.yaml --out OUT --progress off`, and more.
Arguments training(const std::string& out, const Arguments& more = {});
// Of the last whole line of metrics.jsonl in a run folder; 0 when there is none.
int last_step(const Workspace& here, const std::string& run);
// Every line of metrics.jsonl but for what depends on the clock, and the weights, byte for byte.
void expect_same_run(const Workspace& here, const std::string& run, const std::string& want);

// A key-value recall config that trains in about a second: one small layer, with dropout.
extern const std::string kTinyRecall;

// The text with its first `from` made `to`; the test fails when there is none.
std::string replaced(std::string text, const std::string& from, const std::string& to);

}  // namespace longbow::cli
