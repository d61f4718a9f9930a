// @ts-check
/**
 * Numbers as a reader sees them: shares as percent, entropies in nats, counts with thin groups.
 *
 * Every function gives a plain string of fixed precision, so that columns align (tabular numbers in
 * css); what is not a number is a dash.
 *
 * Not here: words and units in a language (text/).
 */

export const DASH = "–";
const MINUS = "−";

/**
 * A share of 1 as percent: "21.4 %", "100 %", "0.03 %", "<0.01 %".
 * @param {number | null | undefined} share
 * @returns {string}
 */
export function percent(share) {
  if (!isNumber(share)) return DASH;
  const value = share * 100;
  if (value === 0 || value === 100) return `${value} %`;
  const size = Math.abs(value);
  if (size < 0.005) return value < 0 ? `>${MINUS}0.01 %` : "<0.01 %";
  if (size < 1) return `${signed(value, 2)} %`;
  return `${signed(value, 1)} %`;
}

/**
 * A number to so many significant digits, never in exponents where a reader can do without:
 * "0.2134", "3.142", "1,024", "1.2e−7".
 * @param {number | null | undefined} value
 * @param {number} [digits]
 * @returns {string}
 */
export function significant(value, digits = 3) {
  if (!isNumber(value)) return DASH;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e9) return value.toExponential(digits - 1).replace("e+", "e").replace(/-/g, MINUS);
  const whole = Math.floor(Math.log10(size)) + 1;
  return signed(value, Math.max(0, digits - whole));
}

/**
 * A count with groups of three: "32,768".
 * @param {number | null | undefined} value
 * @returns {string}
 */
export function count(value) {
  return isNumber(value) ? signed(Math.round(value), 0) : DASH;
}

/**
 * A number with a fixed number of decimals and a real minus sign.
 * @param {number} value
 * @param {number} decimals
 * @returns {string}
 */
export function signed(value, decimals) {
  const text = Math.abs(value).toFixed(decimals);
  const [whole, part] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
  return value < 0 && Number(text) !== 0 ? MINUS + grouped : grouped;
}

const SHARES = /_mass$|^max_weight$|^weight$/;

/**
 * A statistic in its own unit: shares as percent, the others to three digits.
 * @param {string} name     as in the trace
 * @param {number | null | undefined} value
 * @returns {string}
 */
export function statisticText(name, value) {
  return SHARES.test(name) ? percent(value) : significant(value);
}

/**
 * @param {unknown} value
 * @returns {value is number}
 */
export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}
