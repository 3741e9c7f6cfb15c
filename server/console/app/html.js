/// <reference path="./types.d.ts" />
// The vendored modules, at one place: every other module imports them from here.
import { h } from './vendor/preact.js';
import htm from './vendor/htm.js';

export { Component, render } from './vendor/preact.js';
export { useEffect, useId, useLayoutEffect, useRef, useState } from './vendor/hooks.js';

/** Makes nodes from a template. Values become text or attributes, never markup. */
export const html = htm.bind(h);
