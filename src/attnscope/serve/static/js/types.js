// @ts-check
/**
 * The one legend of the browser side: what travels between state, data source, drawing and screens.
 *
 * Conventions, as everywhere in attnscope: a query is a row (y), a key is a column (x). Level 0 has
 * one cell per (query, key); a cell of level n is 2^n of each. A tile has 256 x 256 cells. A cell
 * averages over its queries and sums over its keys in `mean`; NaN is masked, 0 is a value.
 *
 * Not here: any code. This module exports nothing at run time.
 */

/** @typedef {"weight" | "arrived" | "weight-no-sink" | "arrived-no-sink" | "uniform"} Measure */
/** @typedef {"home" | "overview" | "map" | "flow"} ScreenName */
/** @typedef {"en" | "zh"} Language */

/**
 * One opened trace.
 * @typedef {object} TraceEntry
 * @property {string} id          stable within a session, safe in a URL
 * @property {string} name        what to show
 * @property {string} model
 * @property {number} tokens
 */

/**
 * One layer of a trace.
 * @typedef {object} LayerInfo
 * @property {number} index       the model's own number
 * @property {string} kind        "full", "sliding", "chunked", ...; "none" where there is no map
 * @property {string | null} reason  why there is none
 * @property {number | null} window
 * @property {number} query_heads
 * @property {number} kv_heads
 * @property {number} queries     T: rows of the map
 * @property {number} keys        S: columns; query r stands at key position S - T + r unless `cross`
 * @property {number} levels      how many; level levels-1 fits one tile
 * @property {boolean} causal
 * @property {boolean} cross
 * @property {boolean} arrived    whether the norms of projected values are known
 * @property {boolean} sink_logit whether the model has a learned sink logit: rows sum to less than 1
 */

/**
 * What `info` says.
 * @typedef {object} TraceInfo
 * @property {"attnscope.tiles/1"} schema
 * @property {{name: string, architecture: string, layers: number, query_heads: number, kv_heads: number, head_width: number}} model
 * @property {number} tile        256
 * @property {Measure[]} measures
 * @property {string[]} tracks    names of 1-D tracks: "received" runs along keys, the others along queries
 * @property {string[]} statistics  names of per-row statistics
 * @property {number} prompt_tokens tokens from here on were generated
 * @property {number} sink_keys   how many first keys count as the sink
 * @property {LayerInfo[]} layers
 */

/**
 * The tokens of a trace; columns of equal length.
 * @typedef {object} TokenTable
 * @property {string} text        the whole text
 * @property {number[]} ids
 * @property {number[]} start     byte offsets in the UTF-8 of `text`; pieces of one character share its span
 * @property {number[]} end
 * @property {string[]} labels    what to show: whole characters, never U+FFFD
 * @property {number[]} [own_start]  the token's own bytes, which may begin or end inside a character
 * @property {number[]} [own_end]
 */

/**
 * One head, the mean of each statistic over its rows.
 * @typedef {object} HeadRow
 * @property {number} layer
 * @property {number} head
 * @property {string} kind        "sink", "previous-token", "induction", "local", "uniform", "mixed"; "unknown" where the trace lacks the statistics that the rules need
 * @property {number} score       how clear the kind is
 * @property {Record<string, number>} statistics
 */

/**
 * @typedef {object} HeadRef
 * @property {string} trace
 * @property {number} layer
 * @property {number} head
 */

/**
 * @typedef {object} Tile
 * @property {"values" | "masked" | "missing"} state   masked: every cell is out of sight; missing: no such map
 * @property {number} level
 * @property {number} x           tile column
 * @property {number} y           tile row
 * @property {number} width       cells, at most 256; fewer at the right edge
 * @property {number} height
 * @property {Float32Array | null} mean    row after row, height x width
 * @property {Float32Array | null} max     at level 0 the same array as mean
 * @property {Int32Array | null} argmax    (row in the cell) * 2^level + (key in the cell); -1 where masked
 */

/**
 * A piece of a 1-D track: 256 cells of 2^level positions.
 * @typedef {object} TrackTile
 * @property {string} name
 * @property {number} level
 * @property {number} x
 * @property {Float32Array} mean
 * @property {Float32Array} max
 */

/**
 * One row (or the mean or sum of several), over all keys.
 * @typedef {object} RowAnswer
 * @property {Float32Array} weights
 * @property {Float32Array | null} arrived   weight times the norm of the projected value
 * @property {number} sink        the share of a learned sink logit, 0 where there is none
 */

/**
 * @typedef {object} CellAnswer
 * @property {number} weight      float64, exact
 * @property {number | null} arrived
 * @property {number | null} score   the scaled score, before the softmax; null where masked
 * @property {boolean} visible
 */

/**
 * Where numbers come from: the local server, a notebook's channel, or what a stand-alone page holds.
 * Every call may reject with a SourceError; a signal that is aborted rejects with an AbortError.
 * @typedef {object} DataSource
 * @property {{capture: boolean, generate: boolean, export: boolean}} can
 * @property {() => Promise<TraceEntry[]>} traces
 * @property {(trace: string) => Promise<TraceInfo>} info
 * @property {(trace: string) => Promise<TokenTable>} tokens
 * @property {(trace: string) => Promise<HeadRow[]>} heads
 * @property {(want: HeadRef & {measure: Measure, level: number, at: [number, number][]}, signal?: AbortSignal) => Promise<Tile[]>} tiles   in the order of `at`
 * @property {(want: HeadRef & {names: string[], level: number, at: number[]}, signal?: AbortSignal) => Promise<TrackTile[]>} tracks
 * @property {(want: HeadRef & {queries: number[], how: "mean" | "sum"}, signal?: AbortSignal) => Promise<RowAnswer>} row
 * @property {(want: HeadRef & {keys: number[], how: "mean" | "sum"}, signal?: AbortSignal) => Promise<Float32Array>} column   who looks at these keys, over all queries
 * @property {(want: {trace: string, queries: number[], how: "mean" | "sum"}, signal?: AbortSignal) => Promise<{layers: number[], keys: number, weights: Float32Array, arrived: Float32Array | null}>} flow   by layer, [layers, keys]: the mean over heads of the weights, and the sum over heads of what arrived
 * @property {(want: HeadRef & {query: number, key: number}) => Promise<CellAnswer>} cell
 * @property {(want: HeadRef & {count: number}) => Promise<{layer: number, head: number, similarity: number}[]>} similar
 * @property {(want: HeadRef) => Promise<{cell: number, density: Float32Array}>} expected   mean weight per key at distance [d*cell, (d+1)*cell)
 * @property {(want: HeadRef & {measure: Measure, rows: [number, number], keys: [number, number], format: "csv" | "parquet"}) => Promise<Blob>} table
 * @property {((want: {text: string, model: string, generate: number}, onEvent: (event: CaptureEvent) => void, signal?: AbortSignal) => Promise<TraceEntry>) | null} capture   aborting the signal cancels it
 * @property {() => Promise<{name: string, installed: boolean, licence: string}[]>} models
 */

/**
 * @typedef {{kind: "progress", done: number, total: number, what: string}
 *   | {kind: "token", index: number, text: string}
 *   | {kind: "done", trace: TraceEntry}
 *   | {kind: "failed", message: string}
 *   | {kind: "cancelled"}} CaptureEvent
 */

/**
 * The whole view, one JSON object; it is what the URL holds.
 * @typedef {object} ViewState
 * @property {1} v                version of this object
 * @property {ScreenName} screen
 * @property {string | null} trace
 * @property {number | null} layer
 * @property {number | null} head
 * @property {[number, number] | null} queries   the chosen rows, first and last
 * @property {[number, number] | null} keys      the chosen columns, first and last
 * @property {boolean} locked     hovering changes nothing until Esc
 * @property {"mean" | "sum"} how how several chosen tokens are joined
 * @property {string} statistic   the overview's colour
 * @property {"layer" | "statistic" | "kind"} sort
 * @property {number | null} top  only the first so many heads
 * @property {Measure} measure
 * @property {"raw" | "log" | "uniform" | "expected"} scale
 * @property {"mean" | "max"} plane   map: a coarse cell shows its mean, or the largest pair in it
 * @property {[number, number] | null} range   map: the values at the ends of the colour bar; null: those of the scale
 * @property {"viridis" | "cividis"} palette
 * @property {{x: number, y: number, pixels: number} | null} view   map: the key and query in the middle, and CSS pixels per token; null fits all
 * @property {(HeadRef & {}) | null} compare     what the upper triangle shows
 * @property {number} mass        flow: keys are listed up to this share of the weight
 * @property {Language} language
 * @property {"auto" | "light" | "dark"} theme
 */

/**
 * Holds the state; `set` merges, writes the URL (replacing, or pushing when the screen changes) and tells all.
 * @typedef {object} Store
 * @property {() => ViewState} get
 * @property {(change: Partial<ViewState>, options?: {push?: boolean}) => void} set
 * @property {(listener: (now: ViewState, before: ViewState, linked: boolean) => void) => () => void} subscribe   linked: the change came from the URL; returns the way to stop
 */

/**
 * What a screen is given.
 * @typedef {object} App
 * @property {DataSource} source
 * @property {Store} store
 * @property {(key: string, values?: Record<string, string | number>) => string} t   a text in the current language; an unknown key throws
 * @property {(text: string) => void} say     speak through the live region
 * @property {(message: string) => void} fail show an error that the reader can read and close
 * @property {HTMLElement} root   the element the app lives in; never `document`, a notebook has many
 */

/**
 * A screen: made once when it is first shown, told of every change of state while it is shown.
 * @typedef {object} Screen
 * @property {(now: ViewState, before: ViewState | null) => void} update
 * @property {(event: KeyboardEvent) => boolean} key   true where the key was used
 * @property {() => void} dispose
 */

/**
 * One line of the help dialog. Each `screens/NAME/screen.js` exports `mountName` (a MountScreen) and
 * `nameKeys` (KeyHelp[]): mountMap and mapKeys, mountFlow and flowKeys, and so on.
 * @typedef {object} KeyHelp
 * @property {string[]} keys   as printed on the caps: ["←", "→"], ["Shift", "←"] is ["Shift+←"]
 * @property {string} text     the key of what it does, in text/
 */

/** @typedef {(place: HTMLElement, app: App) => Screen} MountScreen */

export {};
