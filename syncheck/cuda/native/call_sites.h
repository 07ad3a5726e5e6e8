// Call sites of operators. Included by recorder.cpp only.

#pragma once

#include "state.h"

#include <torch/csrc/dynamo/cpython_includes.h>

namespace {

// Return the call site of the running `backward()`; 0 if none is running.
int64_t backward_site() {
  static PyObject* const name = PyUnicode_InternFromString("backward_site");
  py::object reporter = state->reporter();
  py::object site = py::reinterpret_steal<py::object>(PyObject_GetAttr(reporter.ptr(), name));
  if (!site) {
    PyErr_Clear();  // the check is over
    return 0;
  }
  return PyLong_AsLongLong(site.ptr());
}

// Return the innermost frame of the calling thread, without frames that only enter the interpreter; null if there is none.
//
// This reads the interpreter's own frames. `PyFrame_GetBack` creates an object for each frame up to the user's, and makes
// each return from those frames slower: with ten frames of nn.Module in between, it was the largest cost of an operator.
//
// Source: CPython, Include/internal/pycore_frame.h; torch/csrc/dynamo/cpython_includes.h.
_PyInterpreterFrame* without_entries(_PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030E0000
  while (frame != nullptr && frame->owner >= FRAME_OWNED_BY_INTERPRETER) {
    frame = frame->previous;
  }
#elif PY_VERSION_HEX >= 0x030C0000
  while (frame != nullptr && frame->owner == FRAME_OWNED_BY_CSTACK) {
    frame = frame->previous;
  }
#endif
  return frame;
}

_PyInterpreterFrame* innermost_frame() {
#if PY_VERSION_HEX >= 0x030D0000
  return without_entries(PyThreadState_Get()->current_frame);
#else
  return without_entries(PyThreadState_Get()->cframe->current_frame);
#endif
}

// Return whether the calling thread runs no Python code, as one of the autograd engine between hooks.
bool is_without_python() {
  return innermost_frame() == nullptr;
}

// Return the call site of this thread's frames, by asking Python.
int64_t site_of_stack() {
  py::object innermost = py::reinterpret_steal<py::object>(
      reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  return state->callbacks.attr("site")(innermost).cast<int64_t>();
}

bool is_user_code(PyCodeObject* code) {
  auto known = state->codes.find(code);
  if (known == state->codes.end()) {
    py::handle object(reinterpret_cast<PyObject*>(code));
    known = state->codes.emplace(code, state->callbacks.attr("is_user_code")(object).cast<bool>()).first;
  }
  return known->second;
}

// Return the call site: the innermost frame of user code in this thread.
int64_t site_here() {
  _PyInterpreterFrame* frame = innermost_frame();
  if (frame == nullptr) {
    return backward_site();  // a thread of the autograd engine
  }
  while (frame != nullptr && !is_user_code(F_CODE(frame))) {
    frame = without_entries(frame->previous);
  }
  if (frame == nullptr) {
    return site_of_stack();  // library frames only: depends on all of them
  }
  std::pair<const void*, const void*> place(F_CODE(frame), PREV_INSTR(frame));
  auto site = state->sites.find(place);
  if (site == state->sites.end()) {
    site = state->sites.emplace(place, site_of_stack()).first;
  }
  return site->second;
}

}  // namespace
