"""Telling customers' programs what happens: who wants to know, what is sent, and where it may go."""
