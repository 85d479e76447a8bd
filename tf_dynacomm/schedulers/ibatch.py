"""iBatch. (being written by the schedulers helper)"""
