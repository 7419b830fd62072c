"""Rows that stay in their files and are read when they are asked for; nothing here knows of bags or models."""
