#pragma once
#include <string>
#include <vector>

namespace longbow {

// Holds a folder for one process, and makes it where it is missing, with those above it; what it
// made and what is still empty goes again with it. What a process that was killed while it wrote a
// file has left there is removed. A second holder is a UserError. The lock is one of the folder
// itself: no file is left, and the death of the process frees it.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::vector<std::string> made_;  // the innermost first
  int descriptor_ = -1;
};

}  // namespace longbow
