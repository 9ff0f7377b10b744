"""Fine-tuned models the way Keras' users write them: compile and fit on text.

Encoder, tokenizer, rows and heads are those of `run_finetuning`.
"""
