"""Reproduces the paper's figures by timeline. (being written by the schedulers helper)"""
