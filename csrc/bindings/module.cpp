// The core as a Python module: arrays come in as they are, nothing is converted, the GIL is released while kernels run.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "step/interface.h"
#include "step/sequence.h"
#include "support/parallel.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

// Any other number than a 32-bit one is named, not just refused.
int32_t narrow(const char* name, nb::handle value) {
  return int32_t(require_within(name, taken<int64_t>(value, name), INT32_MIN, INT32_MAX));
}

void make_sizes(SearchedShape* self, nb::handle rows, nb::handle width, nb::handle heads, nb::handle k,
                nb::handle similarity, nb::handle delta, nb::handle k_links, nb::handle link_gradients,
                nb::handle free_usage, nb::handle index, nb::handle erase) {
  SearchedShape s;
  s.rows = narrow("rows", rows);
  s.width = narrow("width", width);
  s.heads = narrow("heads", heads);
  s.k = narrow("k", k);
  s.similarity = taken<Similarity>(similarity, "similarity", "a Similarity");
  s.delta = taken<double>(delta, "delta");
  s.k_links = narrow("k_links", k_links);
  s.link_gradients = taken<bool>(link_gradients, "link_gradients");
  s.free_usage = taken<bool>(free_usage, "free_usage");
  s.erase = taken<bool>(erase, "erase");
  if (!index.is_none()) s.index = taken<std::shared_ptr<IndexSettings>>(index, "index", "an IndexSettings");
  require_valid(s);
  new (self) SearchedShape(std::move(s));
}

// The description of a memory, and the kinds of memories and controllers.
void bind_sizes(nb::module_& m) {
  nb::enum_<Similarity>(m, "Similarity")
      .value("cosine", Similarity::kCosine)
      .value("euclidean", Similarity::kEuclidean)
      .value("dot", Similarity::kDot);
  // The names that `forward` takes.
  nb::list memories, controllers;
  for (const MemoryTraits& memory : kMemories) memories.append(memory.name);
  for (const ControllerTraits& controller : kControllers) controllers.append(controller.name);
  m.attr("memories") = nb::tuple(memories);
  m.attr("controllers") = nb::tuple(controllers);
  nb::class_<SearchedShape>(m, "Sizes")
      .def("__init__", &make_sizes, "rows"_a.none(), "width"_a.none(), "heads"_a.none(), "k"_a.none(), "similarity"_a.none(), "delta"_a.none(), "k_links"_a.none() = 0,
           "link_gradients"_a.none() = false, "free_usage"_a.none() = false, "index"_a.none() = nb::none(),
           "erase"_a.none() = false)
      .def_ro("rows", &SearchedShape::rows)
      .def_ro("width", &SearchedShape::width)
      .def_ro("heads", &SearchedShape::heads)
      .def_ro("k", &SearchedShape::k)
      .def_ro("similarity", &SearchedShape::similarity)
      .def_ro("delta", &SearchedShape::delta)
      .def_ro("k_links", &SearchedShape::k_links)
      .def_ro("link_gradients", &SearchedShape::link_gradients)
      .def_ro("free_usage", &SearchedShape::free_usage)
      .def_ro("erase", &SearchedShape::erase)
      .def_prop_ro("index", [](const SearchedShape& s) { return std::const_pointer_cast<IndexSettings>(s.index); })
      .def_prop_ro("interface_size", [](const SearchedShape& s) { return InterfaceLayout(s).size; })
      .def("interface_fields", [](const SearchedShape& s) {
        std::vector<std::tuple<std::string, int32_t, int32_t>> out;
        for (const auto& field : interface_fields(s)) out.emplace_back(field.name, field.offset, field.size);
        return out;
      });
}

}  // namespace

NB_MODULE(_native, m) {
  // States and graphs that live until the interpreter ends are no leak.
  nb::set_leak_warnings(false);
  bind_indexes(m);
  bind_sizes(m);
  bind_versions(m);
  bind_sequences(m);
  bind_layer(m);
  m.def("use_tensors", &use_tensors, "type"_a.none(), "capsule"_a.none());
  m.def(
      "use_openmp_runtime", [](nb::handle path) { return use_openmp_runtime(taken<std::string>(path, "path")); },
      "path"_a.none());
  m.def("selected_isa", &selected_isa);
}

}  // namespace sparsam
