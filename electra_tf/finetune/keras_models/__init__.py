"""Fine-tuned models the way Keras' users write them: compile and fit on text.

They share encoder, tokenizer, rows and heads with `run_finetuning`.
"""
