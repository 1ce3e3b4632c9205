// What the checks have in common: cases by name, and what is due of an error.
#ifndef CHECKS_H_
#define CHECKS_H_

#include <prune_engine/prune_engine.h>

#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>

inline void Check(bool is_true, const std::string& what) {
  if (!is_true) throw std::runtime_error(what);
}

// The error that a call ends with; `words` must all be in its message.
inline void Fails(const std::string& kind, std::initializer_list<const char*> words, const std::function<void()>& call) {
  try {
    call();
  } catch (const tvm::ffi::Error& error) {
    Check(error.kind() == kind, "kind is " + error.kind() + ": " + error.message());
    for (const char* word : words) {
      Check(error.message().find(word) != std::string::npos, std::string("no '") + word + "' in: " + error.message());
    }
    return;
  }
  throw std::runtime_error("no error where " + kind + " was due");
}

// Run one case and print its name with "ok", or what is wrong.
inline int Case(const char* name, const std::function<void()>& body) {
  try {
    body();
    std::cout << "ok " << name << std::endl;
    return 0;
  } catch (const tvm::ffi::Error& error) {
    std::cout << "FAILED " << name << " " << error.kind() << ": " << error.message() << std::endl;
  } catch (const std::exception& error) {
    std::cout << "FAILED " << name << " " << error.what() << std::endl;
  }
  return 1;
}

#endif  // CHECKS_H_
