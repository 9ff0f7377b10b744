"""What a pre-trained model knows: scores of text, and analyses of them."""
