// @ts-check
/** The app on a page of the local server: all there is to do is to name the place and the source. */

import { start } from "./main.js";
import { createHttpSource } from "./source/http.js";

const place = document.getElementById("attnscope");
if (place) start(place, createHttpSource({ base: new URL("./", location.href).href }), { page: true });
