#include "tests/cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace longbow::cli {
namespace {

namespace fs = std::filesystem;

std::string contents_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

void redirect(int descriptor, const fs::path& file) {
  const int opened = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (opened < 0 || dup2(opened, descriptor) < 0) _exit(126);
  close(opened);
}

// Every line of metrics.jsonl without what depends on the clock.
std::vector<std::string> metrics(const Workspace& here, const std::string& run) {
  std::vector<std::string> rows;
  for (const auto& line : lines_of(here.read(run + "/metrics.jsonl"))) {
    auto row = nlohmann::json::parse(line);
    row.erase("seconds");
    row.erase("tokens_per_second");
    rows.push_back(row.dump());
  }
  return rows;
}

}  // namespace

const std::string kTinyRecall = R"(task: recall
data:
  recall: {train: 160, valid: 24, test: 24, keys: 8, values: 4, pairs: 4, queries: 4}
model:
  width: 16
  heads: 2
  layers: 1
  embedding_dropout: 0.1
  block: {feed_forward: 32, dropout: 0.1}
  attention: {name: linear}
train:
  max_steps: 240
  batch_size: 8
  bucket: 4
  learning_rate: 0.005
  warmup_steps: 10
  log_every: 1
  evaluate_every: 20
  checkpoint_every: 7
  threads: 2
seed: 5
)";

Running::Running(const fs::path& folder, const Arguments& arguments, const fs::path& out, int input)
    : out_(folder / out), err_(folder / ".stderr") {
  const auto program = fs::path(LONGBOW_BINARY_DIR) / "longbow";
  std::vector<std::string> words = {program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // Now, not in the child: who waits for lines must not read those of the program before.
  for (const auto& file : {out_, err_})
    if (fs::is_regular_file(file)) fs::remove(file);
  process_ = fork();
  if (process_ != 0) return;
  if (input >= 0 && dup2(input, STDIN_FILENO) < 0) _exit(126);
  redirect(STDOUT_FILENO, out_);
  redirect(STDERR_FILENO, err_);
  if (chdir(folder.c_str()) != 0) _exit(126);
  for (const int number : {SIGINT, SIGHUP, SIGPIPE})  // a shell or nohup may ignore them
    std::signal(number, SIG_DFL);
  setenv("OMP_NUM_THREADS", "1", 1);
  execv(program.c_str(), pointers.data());
  _exit(127);
}

Running::~Running() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, &status_, 0);
}

bool Running::ended() {
  if (process_ > 0 && waitpid(process_, &status_, WNOHANG) == process_) process_ = -1;
  return process_ <= 0;
}

bool Running::wait_until(const std::function<bool()>& condition) {
  while (!condition()) {
    if (ended()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void Running::signal(int number) const {
  if (process_ > 0) kill(process_, number);
}

pid_t Running::child() const {
  const auto own = std::to_string(process_);
  std::ifstream children("/proc/" + own + "/task/" + own + "/children");
  pid_t first = 0;
  children >> first;
  return first;
}

Outcome Running::finish() {
  if (process_ > 0) waitpid(process_, &status_, 0);
  process_ = -1;
  return {.code = WIFSIGNALED(status_) ? -WTERMSIG(status_) : WEXITSTATUS(status_),
          .out = fs::is_regular_file(out_) ? contents_of(out_) : "",  // a device has no end
          .err = contents_of(err_)};
}

Workspace::Workspace() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  folder_ = fs::path(testing::TempDir()) / "longbow" / test->test_suite_name() / test->name();
  fs::remove_all(folder_);
  fs::create_directories(folder_);
}

Outcome Workspace::run(const Arguments& arguments, const fs::path& out) const {
  return Running(folder_, arguments, out).finish();
}

void Workspace::write(const std::string& name, const std::string& contents) const {
  std::ofstream(path(name), std::ios::binary) << contents;
}

std::string Workspace::read(const std::string& name) const {
  return contents_of(path(name));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  if (place == std::string::npos) {
    ADD_FAILURE() << "nothing to replace: " << from;
    return text;
  }
  return text.replace(place, from.size(), to);
}

Arguments training(const std::string& out, const Arguments& more) {
  Arguments words = {"train", "run.yaml", "--out", out, "--progress", "off"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int last_step(const Workspace& here, const std::string& run) {
  const auto text = here.read(run + "/metrics.jsonl");
  const auto end = text.rfind('\n');
  if (end == std::string::npos) return 0;
  const auto start = text.rfind('\n', end - 1);
  return nlohmann::json::parse(text.substr(start + 1, end - start - 1)).at("step").get<int>();
}

void expect_same_run(const Workspace& here, const std::string& run, const std::string& want) {
  const auto got_rows = metrics(here, run), want_rows = metrics(here, want);
  ASSERT_EQ(got_rows.size(), want_rows.size());
  for (size_t i = 0; i < want_rows.size(); ++i) ASSERT_EQ(got_rows[i], want_rows[i]);
  EXPECT_TRUE(here.read(run + "/model.safetensors") == here.read(want + "/model.safetensors"));
  EXPECT_FALSE(here.read(want + "/model.safetensors").empty());
}

}  // namespace longbow::cli
