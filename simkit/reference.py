"""Hand a tuple of tables from kernel to kernel by its address.

A call copies each array of a tuple, seven words of it, to the stack: for a dozen tables that takes
longer than most helpers run, and makes them slow to compile. `by_reference` turns the tuple into
its address. Its fields are read as before, ``state.jobs``, and cannot be set.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, register_model

Tables = TypeVar("Tables")


class TablesReference(types.Type):
    """The address of a named tuple, which lives as long as the kernel that made it."""

    def __init__(self, named: Any) -> None:
        self.named = named
        super().__init__(name=f"TablesReference({named.name})")


@register_model(TablesReference)
class TablesReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
    """A pointer to the tuple as it is in memory."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, manager.lookup(kind.named).get_value_type().as_pointer())


@infer_getattr
class TablesReferenceAttributes(AttributeTemplate):  # type: ignore[misc]
    """The fields of the tuple."""

    key = TablesReference

    def generic_resolve(self, kind: Any, name: str) -> Any:
        """Return the type of a field; None: there is no such field."""
        if name not in kind.named.fields:
            return None
        return kind.named.types[kind.named.fields.index(name)]


@lower_getattr_generic(TablesReference)  # type: ignore[untyped-decorator]
def _read_field(context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    at = kind.named.fields.index(name)
    return _read(builder, cgutils.gep_inbounds(builder, address, 0, at))


def _read(builder: Any, address: Any) -> Any:
    """Read a value part by part, each of them marked as one that never changes.

    That lets a loop read it once although it writes to memory.
    """
    kind = address.type.pointee
    if isinstance(kind, ir.Aggregate):
        aggregate = ir.Constant(kind, ir.Undefined)
        for at in range(len(kind)):
            part = _read(builder, cgutils.gep_inbounds(builder, address, 0, at))
            aggregate = builder.insert_value(aggregate, part, at)
        return aggregate
    part = builder.load(address)
    part.set_metadata("invariant.load", builder.module.add_metadata([]))
    return part


def _by_reference(_: Any, named: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = cgutils.alloca_once(builder, context.get_value_type(named))
        builder.store(arguments[0], address)
        return address

    return TablesReference(named)(named), code


def _itself(named: Tables) -> Tables:
    return named


by_reference: Any = _itself if numba.config.DISABLE_JIT else intrinsic(_by_reference)
"""Return the address of a named tuple; only kernels may call it, and not in a loop."""
