#include "longbow/core/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace longbow {
namespace {

constexpr const char* kThisProgram = "/proc/self/exe";
constexpr int kNotStarted = 127;  // exit code, as a shell has it

// Between fork and exec only what POSIX allows there: nothing allocates.
[[noreturn]] void become(char* const* words, const char* messages, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kNotStarted);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  if (*messages) {
    const int file = ::open(messages, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (file < 0) ::_exit(kNotStarted);
    ::dup2(file, STDERR_FILENO);
  }
  ::execv(kThisProgram, words);
  ::_exit(kNotStarted);
}

}  // namespace

Child::Child(const std::vector<std::string>& words, const std::string& messages) {
  std::vector<std::string> own = {"longbow"};
  own.insert(own.end(), words.begin(), words.end());
  std::vector<char*> list;
  for (auto& word : own) list.push_back(word.data());
  list.push_back(nullptr);
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process_ == 0) become(list.data(), messages.c_str(), parent);
}

Child::~Child() {
  if (poll()) return;
  tell_to_end();
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<ChildEnd> Child::poll() {
  if (end_) return end_;
  int status = 0;
  const pid_t found = ::waitpid(process_, &status, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return {};
  if (found < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
  if (WIFSIGNALED(status)) return end_ = ChildEnd{.signal = WTERMSIG(status)};
  return end_ = ChildEnd{.code = WEXITSTATUS(status)};
}

void Child::tell_to_end() const {
  if (!end_) ::kill(process_, SIGTERM);
}

}  // namespace longbow
