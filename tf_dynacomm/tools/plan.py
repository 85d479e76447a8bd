"""`dynacomm-plan`. (being written by the schedulers helper)"""
