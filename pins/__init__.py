"""The versions of the two stacks: how constraints-cpu.txt and constraints-gpu.txt are made and checked."""
