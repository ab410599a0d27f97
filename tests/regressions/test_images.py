# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""A tool asks for an image, and the user barges in before or after it arrives."""

import asyncio

from pipecat.frames.frames import UserImageRawFrame, UserImageRequestFrame

from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, Conversation, play
from pipecat_turn_acid.testing.judge import Fault, FaultKind
from pipecat_turn_acid.testing.script import Script
from pipecat_turn_acid.testing.sweep import sweep
from pipecat_turn_acid.testing.tools import Tool


def script():
    script = Script()
    script.on(user="see").say("Let me look.").call("look", {})
    script.on(user="hours").say("From nine to five.")
    script.on().say("I see a cat.")
    return script


async def give_it_a_camera(bot):
    (tool,) = bot.conversation.tools

    shots = set()

    async def look(params):
        run = bot.toolbox.begin(tool, params.tool_call_id, params.arguments)

        async def report(result):
            bot.toolbox.end(run, "reported")
            await params.result_callback(result)

        request = UserImageRequestFrame(
            "user", tool_call_id=params.tool_call_id, result_callback=report
        )

        async def shoot():
            await asyncio.sleep(0.8)
            image = UserImageRawFrame(
                user_id="user", image=b"\0" * 12, size=(2, 2), format="RGB", request=request
            )
            image.append_to_context = True
            await bot.transport.input().push_frame(image)
            await asyncio.sleep(0.5)
            if not run.ending:  # nobody has asked for it any more
                bot.toolbox.end(run, "cancelled")

        shots.add(asyncio.create_task(shoot()))

    bot.llm.register_function(tool.name, look)


photo = Conversation(
    name="photo",
    says=("What do you see?",),
    barge_in="Never mind, what are your hours?",
    script=script,
    tools=(Tool("look"),),
    prepare=give_it_a_camera,
)


def after_the_question(seconds):
    """An instant, counted from the first request."""
    return At(play(photo, TRANSACTIONAL).requests[0].at + seconds)


def shape(outcome):
    return [
        "image" if isinstance(message["content"], list) else message["content"]
        for message in outcome.history
        if message["role"] != "assistant" or "tool_calls" not in message
    ]


def test_an_image_that_comes_for_a_cut_call_is_not_remembered():
    """Nobody asked for a picture in the turn that it would land in."""
    outcome = play(photo, TRANSACTIONAL, after_the_question(0.7))

    assert shape(outcome) == [
        "What do you see?",
        "Never mind, what are your hours?",
        "From nine to five.",
    ]
    assert any("'result'" in e.detail for e in outcome.events if e.name == "on_stale_fenced")


def test_an_image_that_completed_its_round_survives_the_barge_in():
    """The history does not say that a picture was taken and hide the picture."""
    outcome = play(photo, TRANSACTIONAL, after_the_question(1.4))

    assert shape(outcome) == [
        "What do you see?",
        "Let me look.",
        "COMPLETED",
        "image",
        "Never mind, what are your hours?",
        "From nine to five.",
    ]


def test_an_image_is_in_the_history_exactly_when_its_round_is():
    """Whatever instant the user barges in at."""

    def judged(outcome, faults):
        expected = [f for f in faults if f.kind is not FaultKind.USER_WORDS]
        found = shape(outcome)
        kept = found.count("COMPLETED")
        if found.count("image") != kept:
            expected.append(Fault(FaultKind.LOST, f"{found.count('image')} images, {kept} rounds"))
        return expected

    report = sweep(photo.but(judged=judged, expects="From nine to five."), TRANSACTIONAL, sample=24)

    assert not report.damaged, str(report)
