#pragma once
#include <string>

namespace longbow {

// Holds a folder for one process, and makes it where it is missing; one that it made and that is
// still empty goes again with it. What a process that was killed while it wrote a file has left
// there is removed. A second holder is a UserError.
// The lock is one of the folder itself: no file is left, and the death of the process frees it.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::string made_;
  int descriptor_ = -1;
};

}  // namespace longbow
