"""A study of two arms, as the text of its file."""

TEXT = """
question = "Which?"
source = "none"
flagfile = "configs/studies/two_cores.cfg"
baseline = "mlm"
training_flops = 1e12
seeds = [0, 1]
learning_rates = [1e-3, 2e-3]
[arms]
mlm = ["--objective=mlm"]
electra = ["--flagfile=configs/ablations/electra.cfg"]
"""
