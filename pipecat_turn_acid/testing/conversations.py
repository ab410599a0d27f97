# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The five conversations that the project is measured by.

The models look at the history that a request shows and at nothing else.
"""

import re

from pipecat_turn_acid.testing.conversation import Conversation
from pipecat_turn_acid.testing.script import ChatRequest, Script
from pipecat_turn_acid.testing.tools import Tool


def _number(request: ChatRequest) -> str:
    """The order the user named last."""
    return re.findall(r"44\d\d", request.user)[-1]


# --- order -------------------------------------------------------------------------------------


def _order_script() -> Script:
    script = Script()
    script.on(after_tool="get_order_status").say(
        lambda r: f"Order {r.result('get_order_status')['order_id']} has been shipped."
    )
    script.on(user=re.compile(r"44\d\d")).say(lambda r: f"Let me check {_number(r)} for you.").call(
        "get_order_status", lambda r: {"order_id": _number(r)}
    )
    script.on().say("Which order do you mean?")
    return script


order = Conversation(
    name="order",
    says=("What is the status of order 4471?",),
    barge_in="Sorry, I meant order 4472.",
    script=_order_script,
    tools=(
        Tool(
            "get_order_status",
            ("order_id",),
            seconds=0.8,
            result=lambda arguments: {"order_id": arguments["order_id"], "status": "shipped"},
        ),
    ),
    expects="Order 4472 has been shipped.",
    second_barge_in="No, order 4473.",
)
"""A sentence, a tool of 0.8 s, an answer; the user corrects the number."""


# --- parallel ----------------------------------------------------------------------------------

_CITIES = ("Paris", "London", "Rome", "Berlin", "Madrid", "Vienna")


def _cities(request: ChatRequest) -> list[str]:
    """The two cities the user named last."""
    return re.findall("|".join(_CITIES), request.user)[-2:]


def _weather(request: ChatRequest) -> str:
    return " ".join(
        f"It is {call.value['weather']} in {call.value['city']}." for call in request.recent
    )


def _parallel_script() -> Script:
    script = Script()
    script.on(after_tool="get_weather").say(_weather)
    script.on(user=re.compile("|".join(_CITIES))).call(
        "get_weather", lambda r: {"city": _cities(r)[0]}
    ).call("get_weather", lambda r: {"city": _cities(r)[1]})
    script.on().say("Which cities do you mean?")
    return script


parallel = Conversation(
    name="parallel",
    says=("What is the weather in Paris and London?",),
    barge_in="Sorry, I meant Rome and Berlin.",
    script=_parallel_script,
    tools=(
        Tool(
            "get_weather",
            ("city",),
            seconds=lambda arguments: 0.8 if arguments["city"] in _CITIES[::2] else 0.2,
            result=lambda arguments: {"city": arguments["city"], "weather": "sunny"},
        ),
    ),
    expects="It is sunny in Rome. It is sunny in Berlin.",
    second_barge_in="No, Madrid and Vienna.",
)
"""Two calls in one response, 0.8 s and 0.2 s, with no words before them."""


# --- chain -------------------------------------------------------------------------------------

_NAMES = ("Anna", "Ben", "Clara")


def _name(request: ChatRequest) -> str:
    """The customer the user named last."""
    return re.findall("|".join(_NAMES), request.user)[-1]


def _chain_script() -> Script:
    script = Script()
    script.on(after_tool="get_delivery").say(
        lambda r: f"The parcel for {r.result('get_delivery')['customer']} arrives on Friday."
    )
    script.on(after_tool="find_customer").say("Found the account, one moment.").call(
        "get_delivery", lambda r: {"customer": r.result("find_customer")["customer"]}
    )
    script.on(user=re.compile("|".join(_NAMES))).say(lambda r: f"Looking for {_name(r)}.").call(
        "find_customer", lambda r: {"name": _name(r)}
    )
    script.on().say("Whose parcel do you mean?")
    return script


chain = Conversation(
    name="chain",
    says=("When does the parcel for Anna arrive?",),
    barge_in="Sorry, I meant Ben.",
    script=_chain_script,
    tools=(
        Tool(
            "find_customer",
            ("name",),
            seconds=0.4,
            result=lambda arguments: {"customer": arguments["name"]},
        ),
        Tool(
            "get_delivery",
            ("customer",),
            seconds=0.6,
            result=lambda arguments: {"customer": arguments["customer"], "day": "Friday"},
        ),
    ),
    expects="The parcel for Ben arrives on Friday.",
    second_barge_in="No, for Clara.",
)
"""Two rounds of tools, words before each."""


# --- talk --------------------------------------------------------------------------------------


def _talk_script() -> Script:
    script = Script()
    script.on(user="hours").say("We are open from nine to five.")
    script.on(user="phone").say("Our number is on the website.")
    script.on(user="refunds").say(
        "Refunds take fourteen days. You get an email when the money is on its way."
    )
    script.on().say("What would you like to know?")
    return script


talk = Conversation(
    name="talk",
    says=("Tell me about refunds.",),
    barge_in="Never mind, what are your store hours?",
    script=_talk_script,
    expects="We are open from nine to five.",
    second_barge_in="And by phone?",
)
"""No tools."""


# --- correct -----------------------------------------------------------------------------------


def _hour(request: ChatRequest) -> str:
    """The hour the user named last."""
    return re.findall(r"\dpm", request.user)[-1]


def _correct_script() -> Script:
    script = Script()
    script.on(after_tool="book_demo").say(
        lambda r: f"Your demo is booked for {r.result('book_demo')['booked']}."
    )
    script.on(user=re.compile(r"\dpm")).say(lambda r: f"Booking the {_hour(r)} slot.").call(
        "book_demo", lambda r: {"time": _hour(r)}
    )
    script.on().say("What time would you like?")
    return script


correct = Conversation(
    name="correct",
    says=("Book the 3pm demo.",),
    barge_in="No wait, 4pm.",
    script=_correct_script,
    tools=(
        Tool(
            "book_demo",
            ("time",),
            seconds=0.5,
            result=lambda arguments: {"booked": arguments["time"]},
        ),
    ),
    expects="Your demo is booked for 4pm.",
    second_barge_in="Make that 5pm.",
)
"""A booking corrected while it is made."""


FIVE: tuple[Conversation, ...] = (order, parallel, chain, talk, correct)
"""All of them."""
