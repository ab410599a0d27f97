# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A shop with orders to look up and a demo to book, in a SQLite database.

It is slow on purpose: there has to be time to talk over a tool that runs.
"""

import asyncio
import sqlite3
from typing import Any, Final

_ORDERS: Final = (
    ("4471", "delayed", "in two weeks"),
    ("4472", "out for delivery", "today"),
)


class Shop:
    """One caller's view of the shop."""

    def __init__(self, *, lookup_secs: float = 4.0, booking_secs: float = 4.0):
        """Open the shop.

        Args:
            lookup_secs: How long it takes to look something up.
            booking_secs: How long a booking takes to be confirmed, after it was written.
        """
        self._lookup_secs = lookup_secs
        self._booking_secs = booking_secs
        self._db = sqlite3.connect(":memory:")
        with self._db:
            self._db.execute("CREATE TABLE orders (number TEXT PRIMARY KEY, status, arrives)")
            self._db.executemany("INSERT INTO orders VALUES (?, ?, ?)", _ORDERS)
            self._db.execute("CREATE TABLE demo (time TEXT)")

    async def order(self, number: str) -> dict[str, Any]:
        """Look an order up.

        Args:
            number: Its number.

        Returns:
            What is known about it.
        """
        await asyncio.sleep(self._lookup_secs)
        query = "SELECT status, arrives FROM orders WHERE number = ?"
        found = self._db.execute(query, (number,)).fetchone()
        if found is None:
            return {"order": number, "status": "unknown"}
        return {"order": number, "status": found[0], "arrives": found[1]}

    async def book(self, time: str) -> dict[str, Any]:
        """Book the demo, or move it to another time.

        The booking is written at once and confirmed later. Who stops waiting in between has
        booked all the same.

        Args:
            time: When.

        Returns:
            The booking, and the time it was moved from.
        """
        before = self.booked
        with self._db:
            self._db.execute("DELETE FROM demo")
            self._db.execute("INSERT INTO demo VALUES (?)", (time,))
        await asyncio.sleep(self._booking_secs)
        return {"booked": time} | ({"moved_from": before} if before else {})

    async def booking(self) -> dict[str, Any]:
        """Look the booking up.

        Returns:
            The booked time, or None.
        """
        await asyncio.sleep(self._lookup_secs / 8)
        return {"booked": self.booked}

    @property
    def booked(self) -> str | None:
        """The time that the demo is booked for."""
        found = self._db.execute("SELECT time FROM demo").fetchone()
        return found[0] if found else None
