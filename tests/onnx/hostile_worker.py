"""A process that runs models for test_hostile.py and may die of it: pickled (function's name, arguments) on standard
input, pickled results on standard output."""
import os
import pickle
import resource
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "differential"))
MEMORY_MAX, PEER_MEMORY_MAX = 1 << 30, 1 << 32


def ours(model, feed, device):
    """Outputs, or (status, message, node, op)."""
    import tgrun
    options = tgrun.SessionOptions()
    options.no_cache, options.intra_op_num_threads, options.max_memory_bytes = 1, 1, MEMORY_MAX
    try:
        return tgrun.InferenceSession(model, options, device=device).run(None, feed)
    except tgrun.Error as e:
        return e.status, str(e), e.node, e.op


def peer(model, feed, name):
    """Outputs, or None where it refuses."""
    import onnx
    import peers
    resource.setrlimit(resource.RLIMIT_AS, (PEER_MEMORY_MAX, PEER_MEMORY_MAX))
    return peers.PEERS[name](onnx.ModelProto.FromString(model), feed)


results = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)                           # what libraries print is no result
while True:
    try:
        name, *arguments = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    pickle.dump({"ours": ours, "peer": peer}[name](*arguments), results)
    results.flush()
