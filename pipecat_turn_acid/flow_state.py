# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A flow's state, which can take back what one tool call wrote.

Only what is written to the mapping itself is known: ``state["size"] = "large"``,
``update``, ``pop`` and the like. An object that is kept in the state and changed in
place is nobody's business here, so sockets, clients and shared lists are safe.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one key.

    Parameters:
        number: Counts the changes of a state, in order.
        key: The key.
        before: What it held; a private mark when it was not there.
        after: What it holds since; the same mark when it was removed.
    """

    number: int
    key: str
    before: Any
    after: Any


class Writer(Protocol):
    """Somebody whose writes may have to be taken back."""

    def may_write(self, key: str) -> bool:
        """Whether a write is let through.

        Args:
            key: What is about to be written.
        """
        ...

    def keep(self, write: Write) -> None:
        """Remember a write, if it may have to be taken back.

        Args:
            write: The write.
        """
        ...


class FlowState(dict[str, Any]):
    """A dict that tells each writer what it has written."""

    def __init__(self, writer: Callable[[], Writer | None]):
        """Start empty.

        Args:
            writer: Says on whose behalf the running task writes; None for nobody
                in particular, whose writes stand.
        """
        super().__init__()
        self._writer = writer
        self._writes = 0

    def take_back(self, writes: Iterable[Write]) -> None:
        """Undo writes, the last one first.

        A key that somebody else has written since keeps that value.

        Args:
            writes: In any order.
        """
        for write in sorted(writes, key=lambda write: write.number, reverse=True):
            if self.get(write.key, _MISSING) is not write.after:
                continue
            if write.before is _MISSING:
                super().pop(write.key, None)
            else:
                super().__setitem__(write.key, write.before)

    def _change(self, key: str, after: Any) -> None:
        writer = self._writer()
        if writer is not None and not writer.may_write(key):
            return
        before = self.get(key, _MISSING)
        if after is _MISSING:
            super().__delitem__(key)
        else:
            super().__setitem__(key, after)
        if writer is not None:
            self._writes += 1
            writer.keep(Write(self._writes, key, before, after))

    def __setitem__(self, key: str, value: Any) -> None:
        self._change(key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._change(key, _MISSING)

    def __ior__(self, other: Any) -> "FlowState":  # pyright: ignore[reportIncompatibleMethodOverride]
        self.update(other)
        return self

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As in a dict.

        Args:
            *args: As in a dict.
            **kwargs: As in a dict.
        """
        for key, value in dict(*args, **kwargs).items():
            self._change(key, value)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As in a dict.

        Args:
            key: As in a dict.
            default: As in a dict.

        Returns:
            As in a dict.
        """
        if key not in self:
            self._change(key, default)
        return self.get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """As in a dict.

        Args:
            key: As in a dict.
            *default: As in a dict.

        Returns:
            As in a dict.
        """
        if key not in self:
            return super().pop(key, *default)
        value = self[key]
        self._change(key, _MISSING)
        return value

    def popitem(self) -> tuple[str, Any]:
        """As in a dict.

        Returns:
            As in a dict.
        """
        if not self:
            return super().popitem()
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        """As in a dict."""
        for key in list(self):
            self._change(key, _MISSING)

    def __reduce__(self):
        # A copy is a plain dict: it is nobody's state.
        return dict, (dict(self),)
