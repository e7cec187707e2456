"""What a tokenizer makes of a text (bench/tokens.h): tokens.py TOKENIZER.json TEXT prints one line in JSON: the
numbers of the tokens, the attention mask, the types, and the number that fills up. What is wrong is a line that starts with `error `."""
import json
import sys


def main(tokenizer, text):
    try:
        import tokenizers
    except ImportError:
        return "error needs the Python package tokenizers (TGRUN_PYTHON names the interpreter that has it)"
    try:
        t = tokenizers.Tokenizer.from_file(tokenizer)
        e = t.encode(text)
    except Exception as problem:
        return "error " + " ".join(str(problem).split())
    fill = t.padding["pad_id"] if t.padding else next(
        (k for k in map(t.token_to_id, ("[PAD]", "<pad>", "<|pad|>"))
         if k is not None), 0)
    return json.dumps([e.ids, e.attention_mask, e.type_ids, fill])


print(main(*sys.argv[1:]))
