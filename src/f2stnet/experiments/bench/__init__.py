"""What things cost: the state-space layer beside its rivals, whole models, and how cost grows with T and N.

Every function here returns plain values, ready for JSON; `f2stnet bench` prints them.
"""
