# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Tools for testing bots: virtual time, a scripted model, and the judge of what they leave."""
