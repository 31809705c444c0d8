#pragma once
// Another process of this program: what ends it takes nothing else down.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace longbow {

struct ChildEnd {
  int code = 0;    // that it exited with
  int signal = 0;  // that ended it; 0 = none
};

// A process of the running program, with these words after its name. It has no stdin, its stdout
// goes nowhere, and its stderr is this process's or is added to a file. A terminal's signals do not
// reach it, and it dies with this process.
class Child {
 public:
  explicit Child(const std::vector<std::string>& words, const std::string& messages = "");
  ~Child();  // told to end, and waited for
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::optional<ChildEnd> poll();  // none while it runs
  void tell_to_end() const;        // once is enough: it saves what it has first

 private:
  pid_t process_ = -1;
  std::optional<ChildEnd> end_;
};

}  // namespace longbow
