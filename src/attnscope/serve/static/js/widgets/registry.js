// @ts-check
/** Every widget by the name that a lesson gives it; the same names as in Python (site/widgets.py). */

import { mountAngle } from "./angle.js";
import { mountBytes } from "./bytes.js";
import { mountExact } from "./exact.js";
import { mountFeeding } from "./feeding.js";
import { mountCensus } from "./census.js";
import { mountForms } from "./forms.js";
import { mountGroups } from "./groups.js";
import { mountGrowth } from "./growth.js";
import { mountJobs, mountNothing, mountWidths } from "./heads.js";
import { mountHide } from "./hide.js";
import { mountClipping, mountLid } from "./holds.js";
import { mountJacobian } from "./jacobian.js";
import { mountKept } from "./kept.js";
import { mountLookup } from "./lookup.js";
import { mountMemory } from "./memory.js";
import { mountMerge } from "./merge.js";
import { mountMix } from "./mix.js";
import { mountClocks, mountFar, mountMoved, mountOrder, mountTurn } from "./places.js";
import { mountProperties } from "./properties.js";
import { mountRoof } from "./roof.js";
import { mountRegroup } from "./regroup.js";
import { mountCircuit, mountReading } from "./reading.js";
import { mountRules } from "./rules.js";
import { mountRuns } from "./runs.js";
import { mountShare } from "./share.js";
import { mountSight } from "./sight.js";
import { mountSpread } from "./spread.js";
import { mountSqueeze } from "./squeeze.js";
import { mountStill } from "./still.js";
import { mountTemperature } from "./temperature.js";
import { mountCosine, mountGrid, mountMixture, mountPairs, mountWeights } from "./world.js";

/**
 * @typedef {(place: HTMLElement, options: Record<string, string>, data: any, t: import("./parts.js").Say) => {dispose: () => void}} Mount
 */

/** @type {Record<string, Mount>} */
export const WIDGETS = {
  angle: mountAngle,
  cosine: mountCosine,
  grid: mountGrid,
  pairs: mountPairs,
  bytes: mountBytes,
  rules: mountRules,
  properties: mountProperties,
  spread: mountSpread,
  jacobian: mountJacobian,
  temperature: mountTemperature,
  growth: mountGrowth,
  weights: mountWeights,
  hide: mountHide,
  mixture: mountMixture,
  mix: mountMix,
  squeeze: mountSqueeze,
  merge: mountMerge,
  forms: mountForms,
  kept: mountKept,
  order: mountOrder,
  turn: mountTurn,
  far: mountFar,
  clocks: mountClocks,
  moved: mountMoved,
  feeding: mountFeeding,
  still: mountStill,
  exact: mountExact,
  roof: mountRoof,
  runs: mountRuns,
  lid: mountLid,
  lookup: mountLookup,
  clipping: mountClipping,
  groups: mountGroups,
  share: mountShare,
  jobs: mountJobs,
  widths: mountWidths,
  nothing: mountNothing,
  regroup: mountRegroup,
  memory: mountMemory,
  sight: mountSight,
  census: mountCensus,
  circuit: mountCircuit,
  reading: mountReading,
};
