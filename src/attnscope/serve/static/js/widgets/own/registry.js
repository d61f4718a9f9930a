// @ts-check
/**
 * Which widgets run on the reader's own text, and what of it each needs.
 *
 * Those that are not here show no row, head or mask of attention (arrows, bytes, roofs, trainings),
 * or drawn vectors whose law is the point (spread, moved, merge). `circuit` reads what is
 * typed as it is. Values themselves are in no trace: what arrives is shown by its length or its weight.
 */

import { mountReading } from "../reading.js";
import { mountSight } from "../sight.js";
import { census } from "./census.js";
import { cosine, cosines } from "./embeddings.js";
import { jobs } from "./jobs.js";
import { far, order } from "./places.js";
import { regroup } from "./regroup.js";
import { growth, hide, jacobian, lid, mix, nothing, properties, rules, temperature } from "./rows.js";
import { grid, mixture, pairs, share, squeeze, still, weights } from "./squares.js";

/**
 * @typedef {import("./control.js").Own} Own
 * @typedef {import("./control.js").OwnMount} OwnMount
 */

/** @type {OwnMount} */
const sight = (place, options, { head }, t) => mountSight(place, options, { head }, t);

/**
 * The reader's heads in the place of the lesson's: all that were chosen of this text.
 * @type {OwnMount}
 */
const reading = (place, _options, { handout, head, row }, t) => mountReading(place, { head: `${head.layer}.${head.head}`, row: String(handout.start + row + 1) }, {
  tokens: handout.names,
  words: handout.words,
  start: handout.start,
  maps: handout.heads.map((one) => ({
    layer: one.layer,
    head: one.head,
    kind: one.kind,
    weights: one.weights.map((each, query) => (one.causal ? each.slice(0, query + 1) : each).map((weight) => weight ?? 0)),
    norms: one.norms ?? handout.names.map(() => NaN),
    outside: one.outside,
  })),
}, t);

const ROW = { row: true };

/** @type {Record<string, Own>} */
const OWN = {
  cosine: { mount: cosine, needs: { row: true, embeddings: true } },
  grid: { mount: grid, needs: ROW },
  pairs: { mount: pairs, needs: ROW },
  rules: { mount: rules, needs: { row: true, least: 2 } },
  properties: { mount: properties, needs: { row: true, least: 2 } },
  temperature: { mount: temperature, needs: ROW },
  jacobian: { mount: jacobian, needs: { row: true, least: 2 } },
  growth: { mount: growth, needs: ROW },
  weights: { mount: weights, needs: { row: true, hides: true } },
  hide: { mount: hide, needs: { row: true, hides: true } },
  mixture: { mount: mixture, needs: ROW },
  mix: { mount: mix, needs: { row: true, least: 3 } },
  order: { mount: order, needs: { row: true, rotary: true, near: 3 } },
  far: { mount: far, needs: { row: true, rotary: true } },
  jobs: { mount: jobs, needs: { row: true, two: true, apart: true, least: 2 } },
  regroup: { mount: regroup, needs: { row: true, rotary: true, least: 2 } },
  squeeze: { mount: squeeze, needs: ROW },
  still: { mount: still, needs: { row: false } },
  share: { mount: share, needs: { row: true, two: true } },
  nothing: { mount: nothing, needs: ROW },
  lid: { mount: lid, needs: { row: true, least: 2 } },
  sight: { mount: sight, needs: { row: false } },
  census: { mount: census, needs: { row: false } },
  reading: { mount: reading, needs: { row: false } },
};

/**
 * How a widget runs on the reader's text; null for one that does not.
 * @param {string} name
 * @param {Record<string, string>} options
 * @returns {Own | null}
 */
export function ownOf(name, options) {
  if (name === "grid" && options.of === "cosine") return { mount: cosines, needs: { row: true, embeddings: true } };
  if (name === "weights" && options.heads === "yes") return { mount: weights, needs: { row: true, two: true } };
  return OWN[name] ?? null;
}
