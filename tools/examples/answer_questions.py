"""Answers questions with spans of a context, or with no answer.

python tools/examples/answer_questions.py --model=PATH
"""

import argparse
import itertools

import keras

import electra_tf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True, help="checkpoint of an encoder")
parser.add_argument("--epochs", type=int, default=3)


def built_in() -> tuple[list[tuple[str, str]], list[tuple[int, str] | None]]:
    """Returns questions with contexts, and answers with their offsets."""
    people, years = ("Ann", "Bob", "Eve"), ("1921", "1984", "2015")
    questions, answers = [], []
    for person, year in itertools.product(people, years):
        context = f"The film was made by {person} in {year}."
        for question, answer in (
            ("Who made the film?", person),
            ("When was the film made?", year),
        ):
            questions.append((question, context))
            answers.append((context.index(answer), answer))
        questions.append(("Who made the film?", f"It is from {year}."))
        answers.append(None)
    return questions, answers


def main() -> None:
    """Trains, evaluates as SQuAD 2.0 does, and answers a question."""
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    questions, answers = built_in()
    model = electra_tf.ElectraQA.from_checkpoint(args.model)
    model.compile()
    model.fit(questions, answers, batch_size=9, epochs=args.epochs, verbose=2)
    print(model.score(questions, answers))
    asked = ("When was the film made?", "The film was made by Eve in 1984.")
    print(model.answer([asked]))


if __name__ == "__main__":
    main()
