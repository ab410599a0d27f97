# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Bots that show what pipecat-turn-acid does; each file says in its first lines how to run it."""
