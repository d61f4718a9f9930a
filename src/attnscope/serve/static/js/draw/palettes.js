// @ts-check
/**
 * Two palettes that colour-blind people can read, as tables of 256 colours.
 *
 * The idea: 52 published colours at equal steps, joined by a cubic through each of them (Catmull and
 * Rom), which stays within 2 of 255 of the published tables of 256 (a test says how near).
 *
 * Source: viridis by S. van der Walt and N. Smith (2015, CC0); cividis by J. Nuñez, C. Anderton and
 * R. Renslow (2018, doi 10.1371/journal.pone.0199239), both as matplotlib gives them.
 */

/** @typedef {"viridis" | "cividis"} PaletteName */

const ANCHORS = {
  viridis:
    "440154 46085c 471063 481769 481d6f 482475 472a7a 46307e 453781 433d84 414287 3f4889 3d4e8a " +
    "3a538b 38598c 355e8d 33638d 31688e 2e6d8e 2c718e 2a768e 297b8e 27808e 25848e 23898e 218e8d " +
    "20928c 1f978b 1e9c89 1fa188 21a585 24aa83 28ae80 2eb37c 35b779 3dbc74 46c06f 50c46a 5ac864 " +
    "65cb5e 70cf57 7cd250 89d548 95d840 a2da37 b0dd2f bddf26 cae11f d8e219 e5e419 f1e51d fde725",
  cividis:
    "00224e 002656 002a5f 002d68 003070 083370 163770 203a6f 273e6e 2e416d 34456c 3a486c 3f4c6c " +
    "444f6c 49536c 4e566c 535a6d 575d6d 5c616e 60646f 656870 696b71 6d6f72 727274 767676 7a7a78 " +
    "7e7d78 838179 888578 8d8878 928c78 969077 9b9476 a09875 a59c74 aaa073 afa471 b5a86f baac6d " +
    "bfb06b c4b468 c9b965 cfbd62 d4c15f dac65b dfca57 e5cf52 ead34c f0d846 f6dd3f fce236 fee838",
};

export const COLOURS = 256;

/**
 * @param {string} text
 * @returns {number[][]}
 */
function anchorsOf(text) {
  return text.split(" ").map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
}

/**
 * The cubic through b and c with the slopes of their neighbours.
 * @param {number[]} points   a, b, c, d
 * @param {number} t   0 at b, 1 at c
 * @returns {number}
 */
function cubic([a, b, c, d], t) {
  return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

/**
 * 256 colours of three bytes each.
 * @param {PaletteName} name
 * @returns {Uint8ClampedArray}
 */
export function paletteTable(name) {
  const anchors = anchorsOf(ANCHORS[name]);
  const last = anchors.length - 1;
  const table = new Uint8ClampedArray(3 * COLOURS);
  for (let i = 0; i < COLOURS; i++) {
    const place = (i / (COLOURS - 1)) * last;
    const k = Math.min(Math.floor(place), last - 1);
    for (let channel = 0; channel < 3; channel++) {
      const [b, c] = [anchors[k][channel], anchors[k + 1][channel]];
      // Beyond the ends the line goes straight on.
      const a = k > 0 ? anchors[k - 1][channel] : 2 * b - c;
      const d = k + 2 <= last ? anchors[k + 2][channel] : 2 * c - b;
      table[3 * i + channel] = Math.round(cubic([a, b, c, d], place - k));
    }
  }
  return table;
}

/**
 * How light a colour is to the eye: CIE L*, 0 to 100.
 * @param {number} red    0 to 255
 * @param {number} green
 * @param {number} blue
 * @returns {number}
 */
export function lightness(red, green, blue) {
  const linear = [red, green, blue].map((byte) => {
    const share = byte / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return y > 216 / 24389 ? 116 * Math.cbrt(y) - 16 : (24389 / 27) * y;
}

/**
 * One colour as css writes it.
 * @param {Uint8ClampedArray} table
 * @param {number} index
 * @returns {string}
 */
export function cssColour(table, index) {
  return `rgb(${table[3 * index]} ${table[3 * index + 1]} ${table[3 * index + 2]})`;
}
