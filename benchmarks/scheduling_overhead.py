"""Time to schedule against depth. (being written by the schedulers helper)"""
