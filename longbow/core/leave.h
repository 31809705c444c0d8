#pragma once
// The end of a program that has nothing left to do but to give its memory back.

namespace longbow {

// Ends the program at once: what was printed is written, the destructors of static objects do not
// run. Those of LibTorch, which take its tables of operators apart, are a third of the time of a
// program that does nothing. Where a sanitizer looks for leaks at the end, they run.
[[noreturn]] void leave(int status);

}  // namespace longbow
