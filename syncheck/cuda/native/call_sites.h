// Call sites of operators. Included by recorder.cpp only.

#pragma once

#include "state.h"

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

// Return whether the calling thread runs no Python code, as one of the autograd engine between hooks.
bool is_without_python() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  Py_XDECREF(reinterpret_cast<PyObject*>(frame));
  return frame == nullptr;
}

// Return the call site: the innermost frame of user code in this thread.
int64_t site_here() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  if (frame == nullptr) {
    return backward_site();  // a thread of the autograd engine
  }
  py::object innermost = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(frame));
  py::object current = innermost;
  while (current) {
    frame = reinterpret_cast<PyFrameObject*>(current.ptr());
    py::object code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    auto known = state->codes.find(code.ptr());
    if (known == state->codes.end()) {
      bool is_user_code = state->callbacks.attr("is_user_code")(code).cast<bool>();
      known = state->codes.emplace(code.ptr(), is_user_code).first;
    }
    if (known->second) {
      std::pair<const void*, int> place(code.ptr(), PyFrame_GetLasti(frame));
      auto site = state->sites.find(place);
      if (site == state->sites.end()) {
        int64_t found = state->callbacks.attr("site")(innermost).cast<int64_t>();
        site = state->sites.emplace(place, found).first;
      }
      return site->second;
    }
    current = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(frame)));
  }
  return state->callbacks.attr("site")(innermost).cast<int64_t>();  // library frames only: depends on all of them
}

}  // namespace
