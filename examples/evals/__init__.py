# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Scenarios for Pipecat's evals, and the ears that they listen with."""
