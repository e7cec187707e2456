"""Operators on strings: each run's own strings give what Python gives, and what the same strings give as constants of
the model; no text is part of a program."""
import os
import re
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if "BUILD_DIR" in os.environ:
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun

TEXTS = [["Ein Satz, und noch EINER.", "", "a b  c"],
         ["Äpfel und Ölkännchen \U0001f600 x", "the THE The", "tab\tand\nline"], ["1, 2;3", "word", " lead trail "]]


def model(nodes, out_type, x=None, in_type=TensorProto.STRING, domain="", shape=("n",)):
    """Of input x [n], or of a constant where x is given."""
    imports = [
        helper.make_opsetid("", 21),
        helper.make_opsetid("ai.onnx.ml", 3),
        helper.make_opsetid("com.microsoft", 1)
    ]
    constants = [] if x is None else [numpy_helper.from_array(np.array(x), "x")]
    inputs = [helper.make_tensor_value_info("x", in_type, list(shape))] if x is None else []
    outputs = [
        helper.make_tensor_value_info(name, t, None)
        for name, t in zip(nodes[-1].output, out_type if isinstance(out_type, list) else [out_type])
    ]
    return helper.make_model(helper.make_graph(nodes, "text", inputs, outputs, constants),
                             opset_imports=imports).SerializeToString()


def ran(nodes, out_type, x, **more):
    """By a session's own run, and as a constant: both, which must be equal."""
    live = tgrun.InferenceSession(model(nodes, out_type, **more)).run(None, {"x": x})
    fixed = tgrun.InferenceSession(model(nodes, out_type, x)).run(None, {})
    for a, b in zip(live, fixed):
        np.testing.assert_array_equal(a, b)
    return live[0].tolist() if len(live) == 1 else [y.tolist() for y in live]


class Texts(unittest.TestCase):
    def test_normalizer(self):
        for how, fold in (("LOWER", str.lower), ("UPPER", str.upper), ("NONE", str)):
            for stop in ([], ["the", "WORD"]):
                for exact in (0, 1):
                    node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action=how,
                                            is_case_sensitive=exact, **({"stopwords": stop} if stop else {}))
                    for x in [s.split() for row in TEXTS for s in row if s.split()]:
                        stops = stop if exact else [s.lower() for s in stop]
                        want = [fold(s) for s in x if (s if exact else s.lower()) not in stops]
                        self.assertEqual(ran([node], TensorProto.STRING, np.array(x, object)), want or [""])

    def test_split(self):
        for attributes, pieces in (({}, str.split), ({"delimiter": ","}, lambda s: s.split(",")
                                                     if s else []), ({"delimiter": " ", "maxsplit":
                                                                      1}, lambda s: s.split(" ", 1) if s else [])):
            for x in TEXTS:
                rows = [pieces(s) for s in x]
                y, n = ran([helper.make_node("StringSplit", ["x"], ["y", "n"], **attributes)],
                           [TensorProto.STRING, TensorProto.INT64], np.array(x, object))
                self.assertEqual(n, [len(r) for r in rows])
                self.assertEqual(y, [r + [""] * (max(n) - len(r)) for r in rows])

    def test_tokens(self):
        for expression, pieces in ((r"\w+", lambda s: re.findall(r"\w+", s, re.A)),
                                   (r"[a-z]{2,}|[0-9]", lambda s: re.findall("[a-z]{2,}|[0-9]", s)),
                                   ("a|ab|abc", lambda s: re.findall("abc|ab|a", s))):
            for x in TEXTS + [["abcab", "xabx", "a"]]:
                rows = [pieces(s) for s in x]
                longest = max(map(len, rows))
                node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", tokenexp=expression,
                                        mincharnum=1, mark=0, pad_value="#")
                self.assertEqual(ran([node], TensorProto.STRING, np.array(x, object)),
                                 [r + ["#"] * (longest - len(r)) for r in rows])
        node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", separators=[""], mincharnum=1,
                                mark=1, pad_value="#")
        self.assertEqual(ran([node], TensorProto.STRING, np.array(["ä b"], object)), [["\x02", "ä", " ", "b", "\x03"]])
        node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", separators=[" ", ", "], mincharnum=2,
                                mark=0, pad_value="#")
        self.assertEqual(ran([node], TensorProto.STRING, np.array(["ab, c de", ""], object)),
                         [["ab", "de"], ["#", "#"]])

    def test_patterns(self):
        """RE2's escapes and classes."""
        for pattern, yes, no in ((r"\D+", "ab", "a1"), (r"\t", "\t", "t"), (r"\x41+", "AA", "x41"), (r"[a\]b]+", "a]b",
                                                                                                     "a]b\\"),
                                 (r"\d{2,3}", "123", "1234"), (r"(?i)straße", "STRASSE".replace("SS", "ß"), "strase"),
                                 (r"(\W+\d)?a(io)\w+", "?4aionic", "aix"), (r"[^@]+@[^@]+\.[a-z]{2,}", "a.b@c.de",
                                                                            "a@b"), (r"\pL+", "Äöü", "Ä1"),
                                 (r"a.c", "aäc", "a\nc"), ("a$", "a", "a\n"), (r"\Qa.b\E", "a.b", "axb")):
            node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
            self.assertEqual(ran([node], TensorProto.BOOL, np.array([yes, no], object)), [True, False], pattern)
        for pattern in (r"(?=a)b", r"(a)\1", r"(?<!a)b", r"a++", r"(?>a)", r"\Ka", r"(*ACCEPT)", "(a", "["):
            node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
            with self.assertRaises(tgrun.Unsupported, msg=pattern):
                tgrun.InferenceSession(model([node], TensorProto.BOOL)).run(None, {"x": np.array(["a"], object)})

    def test_a_pattern_that_backtracks_ends(self):
        node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="(a*)*b")
        session = tgrun.InferenceSession(model([node], TensorProto.BOOL))
        try:
            self.assertEqual(session.run(None, {"x": np.array(["a" * 5000], object)})[0].tolist(), [False])
        except tgrun.Error as e:
            self.assertIn("too many steps", str(e))

    def test_a_string_that_is_no_text(self):
        """A pattern with choices wants UTF-8: one line, where the string is a run's and where it is a constant whose
        first rows are done."""
        node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", tokenexp="a|ab", mincharnum=1,
                                mark=0, pad_value="#")
        x = np.array(["ab ab ab ab", "a\udcff", "b"], object)
        constant = helper.make_tensor("x", TensorProto.STRING, [3], [s.encode(errors="surrogateescape") for s in x])
        fixed = onnx.ModelProto.FromString(model([node], TensorProto.STRING, ["", "", ""]))
        fixed.graph.initializer[0].CopyFrom(constant)
        for data, feed in ((model([node], TensorProto.STRING), {"x": x}), (fixed.SerializeToString(), {})):
            with self.assertRaisesRegex(tgrun.Error, "not UTF-8"):
                tgrun.InferenceSession(data).run(None, feed)

    def test_numbers(self):
        x = np.array(["1", "-2.5", "1e3", " 7", "inf", "NaN"], object)
        got = ran([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], TensorProto.FLOAT, x)
        np.testing.assert_array_equal(got, [1, -2.5, 1000, 7, np.inf, np.nan])
        numbers = np.array([0, -3, 1 << 40])
        self.assertEqual(
            ran([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)], TensorProto.STRING, numbers,
                in_type=TensorProto.INT64), ["0", "-3", str(1 << 40)])
        halves = ran([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)], TensorProto.STRING,
                     np.array([0.5, -1.25], np.float32), in_type=TensorProto.FLOAT)
        self.assertEqual([float(s) for s in halves], [0.5, -1.25])

    def test_concat(self):
        nodes = [
            helper.make_node("StringConcat", ["x", "x"], ["z"]),
            helper.make_node("StringConcat", ["z", "x"], ["y"])
        ]
        self.assertEqual(ran(nodes, TensorProto.STRING, np.array(["a", "", "é"], object)), ["aaa", "", "ééé"])

    def test_grams(self):
        """Counts of one and two words, one between at most, with weights."""
        words = ["a", "b", "c", "a", "b", "b", "c", "a", "a"]                         # three unigrams, three bigrams
        for mode in ("TF", "IDF", "TFIDF"):
            node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=2,
                                    max_skip_count=1, ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4, 5],
                                    pool_strings=words, weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            x = "a b x a b c a a".split()
            grams = [[w] for w in x] + [[x[k], x[k + step]] for step in (1, 2) for k in range(len(x) - step)]
            count = np.array(
                [sum(g == want for g in grams) for want in (["a"], ["b"], ["c"], ["a", "b"], ["b", "c"], ["a", "a"])],
                np.float32)
            weight = np.arange(1, 7, dtype=np.float32)
            want = count if mode == "TF" else np.where(count > 0, weight, 0) if mode == "IDF" else count * weight
            self.assertEqual(ran([node], TensorProto.FLOAT, np.array(x, object)), want.tolist())

    def test_no_text_is_part_of_a_program(self):
        nodes = [
            helper.make_node("Tokenizer", ["x"], ["t"], domain="com.microsoft", tokenexp=r"\w+", mincharnum=1, mark=0,
                             pad_value="#"),
            helper.make_node("TfIdfVectorizer", ["t"], ["y"], mode="TF", min_gram_length=1, max_gram_length=1,
                             max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1], pool_strings=["yes", "no"])
        ]
        session = tgrun.InferenceSession(model(nodes, TensorProto.FLOAT))
        for k in range(30):
            x = np.array([f"yes{k} yes no {k}"] * 3, object)
            self.assertEqual(session.run(None, {"x": x})[0].tolist(), [[1, 1]] * 3)
        self.assertEqual(session.get_stats()["programs"], 1)
        # more than there was room for: a program with more room
        for pieces in (300, 5000, 20, 4096, 4097):
            self.assertEqual(
                session.run(None, {"x": np.array(["yes " * pieces, "no", ""], object)})[0].tolist(),
                [[pieces, 0], [0, 1], [0, 0]])
        self.assertLessEqual(session.get_stats()["programs"], 4)

    def test_each_program_gets_more_room(self):
        """One for a text alone, one for several: what the one has learned the other must not take for its own."""
        node = helper.make_node("StringSplit", ["x"], ["y", "n"], delimiter=" ")
        session = tgrun.InferenceSession(model([node], [TensorProto.STRING, TensorProto.INT64]))
        for n, pieces in ((1, 3), (2, 3), (1, 700), (2, 500), (3, 300), (1, 700), (2, 3000), (1, 2000)):
            _, count = session.run(None, {"x": np.array([" ".join("a" * pieces)] * n, object)})
            self.assertEqual(count.tolist(), [pieces] * n)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    print(
        f"{result.testsRun - len(result.failures) - len(result.errors)} of {result.testsRun} tests of strings are right"
    )
    sys.exit(not result.wasSuccessful())
