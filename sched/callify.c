/* Callify: the tensor graph as one stateless function of PARAMs: movement merged, and scales of constants moved into the constants that they multiply, so that rangeify sees
 * one reduce with an epilogue where an exporter wrote a convolution and a normalisation.
 */
#include "graph/rewrite.h"
#include "sched/rangeify.h"

TgStatus sched_callify(const UOp **out, Graph *g, const UOp *sink, const Target *t)
{
    (void)t;
    *out = graph_rewrite(g, sink, rules_movement(), 0, NULL);
    return graph_error(g);
}
