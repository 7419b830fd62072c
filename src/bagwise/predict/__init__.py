"""Answers from features, posterior and rule: for instances, bags, counts and classes, all from one set of draws."""
