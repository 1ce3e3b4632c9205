/*!
 * \file prune_engine/start.h
 * \brief Starts Python inside a C++17 program, so that the functions of prune_engine.h are there.
 *
 * Needs Python.h, and libpython to link with: `python -m prune_engine.ffi --embed --cxxflags --ldflags` prints how.
 * A program that runs inside Python has no use for it: there `import prune_engine.ffi` does the same.
 */
#ifndef PRUNE_ENGINE_START_H_
#define PRUNE_ENGINE_START_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>  // before anything of the standard library, as Python asks for

#include <prune_engine/prune_engine.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>

namespace prune_engine {
namespace detail {

inline tvm::ffi::Error StartError(const std::string& message) {
  return tvm::ffi::Error("prune_engine.StartError", message, "");
}

/*! \brief The interpreter of an environment that is named by its folder, or by the interpreter itself. */
inline std::string InterpreterOf(std::string environment) {
  const char* source = "prune_engine::Start";
  if (environment.empty()) {
    for (const char* variable : {"PRUNE_ENGINE_PYTHON", "VIRTUAL_ENV"}) {
      const char* value = std::getenv(variable);
      if (value != nullptr && *value != '\0') {
        environment = value;
        source = variable;
        break;
      }
    }
  }
  if (environment.empty()) {
    throw StartError(
        "prune_engine::Start: in which Python environment prune-engine is installed is not known. Pass its folder, "
        "or set PRUNE_ENGINE_PYTHON or VIRTUAL_ENV.");
  }
  std::string inside = environment + "/bin/python";
  if (access(inside.c_str(), X_OK) == 0) return inside;
  bool is_folder = access((environment + "/.").c_str(), F_OK) == 0;
  if (!is_folder && access(environment.c_str(), X_OK) == 0) return environment;
  throw StartError(std::string(source) + ": no Python environment; got '" + environment +
                   "'; expected a folder with bin/python in it, or an interpreter.");
}

/*! \brief What Python raised, as text; clears it. */
inline std::string TakeRaised() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  std::string told = "an error that cannot be told";
  PyObject* name = type != nullptr ? PyObject_GetAttrString(type, "__name__") : nullptr;
  PyObject* text = value != nullptr ? PyObject_Str(value) : nullptr;
  const char* first = name != nullptr ? PyUnicode_AsUTF8(name) : nullptr;
  const char* second = text != nullptr ? PyUnicode_AsUTF8(text) : nullptr;
  if (first != nullptr) told = std::string(first) + (second != nullptr ? std::string(": ") + second : "");
  PyErr_Clear();
  for (PyObject* object : {name, text, type, value, trace}) Py_XDECREF(object);
  return told;
}

inline void InitialisePython(const std::string& interpreter) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;  // they are the program's
  config.parse_argv = 0;
  // The interpreter's path leads Python to pyvenv.cfg, and so to the environment's packages.
  PyStatus status = PyConfig_SetBytesString(&config, &config.executable, interpreter.c_str());
  if (!PyStatus_Exception(status)) {
    status = PyConfig_SetBytesString(&config, &config.program_name, interpreter.c_str());
  }
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) {
    throw StartError(std::string("prune_engine::Start: Python does not start with '") + interpreter + "': " +
                     (status.err_msg != nullptr ? status.err_msg : "no reason given") + ".");
  }
}

inline void ImportFunctions(const std::string& interpreter) {
  PyObject* module = PyImport_ImportModule("prune_engine.ffi");
  if (module != nullptr) {
    Py_DECREF(module);
    return;
  }
  std::string raised = TakeRaised();
  throw StartError("prune_engine::Start: prune_engine.ffi cannot be imported with '" + interpreter + "': " + raised +
                   ". The program is linked with Python " PY_VERSION
                   "; the environment must be of the same minor version and have prune-engine installed.");
}

/*! \brief Lets go of Python's lock, if this thread holds it, for as long as this lives. */
class Unlocked {
 public:
  Unlocked() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace detail

/*!
 * \brief Start Python, unless it runs already, and import the functions. Later calls do nothing.
 *
 * Python stays until the process ends; signals stay the program's. Any thread may call, whether it holds Python's lock
 * or not, and holds it afterwards only if it did before.
 *
 * \param environment The folder of the environment in which prune-engine is installed, or its interpreter; by
 *   default what PRUNE_ENGINE_PYTHON or VIRTUAL_ENV names. Without effect where Python runs already.
 * \throws tvm::ffi::Error of kind prune_engine.StartError or prune_engine.AbiError.
 */
inline void Start(const std::string& environment = "") {
  static std::mutex mutex;
  static bool is_started = false;
  detail::Unlocked unlocked;  // or one thread would wait for `mutex` with Python's lock, the other the other way round
  std::lock_guard<std::mutex> lock(mutex);
  if (is_started) return;
  std::string interpreter = "the running interpreter";
  if (!Py_IsInitialized()) {
    interpreter = detail::InterpreterOf(environment);
    detail::InitialisePython(interpreter);
    PyEval_SaveThread();  // so that any thread can take Python's lock, this one too
  }
  PyGILState_STATE state = PyGILState_Ensure();
  try {
    detail::ImportFunctions(interpreter);
  } catch (...) {
    PyGILState_Release(state);
    throw;
  }
  PyGILState_Release(state);
  detail::Checked("prune_engine.AbiVersion");
  is_started = true;
}

}  // namespace prune_engine

#endif  // PRUNE_ENGINE_START_H_
