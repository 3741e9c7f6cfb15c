import { html } from './html.js';

/** @type {Record<ShapeName, unknown>} */
const shapes = {
  good: html`<circle cx="6" cy="6" r="6" class="full" /><path d="M3.4 6.2 5.3 8l3.4-3.9" class="mark" />`,
  bad: html`<rect width="12" height="12" rx="2" class="full" /><path d="m4 4 4 4m0-4-4 4" class="mark" />`,
  waiting: html`<circle cx="6" cy="6" r="5.2" class="ring" /><path d="M6 3.2V6l1.9 1.2" class="ring" />`,
  warning: html`<path d="M6 .9 11.6 11H.4Z" class="full" /><path d="M6 4.6v2.6m0 1.6v.2" class="mark" />`,
  rotating: html`<circle cx="6" cy="6" r="5.2" class="ring" /><path d="M6 1.5a4.5 4.5 0 0 1 0 9Z" class="full" />`,
  off: html`<circle cx="6" cy="6" r="5.2" class="ring" /><path d="m2.5 9.5 7-7" class="ring" />`,
  invited: html`<circle cx="6" cy="6" r="5.2" class="ring dashed" />`,
};

/** The shape of a state. A word always goes with it. @param {{ shape: ShapeName }} props */
export const Shape = ({ shape }) =>
  html`<svg class=${`shape ${shape}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">${shapes[shape]}</svg>`;

/** A state as shape and word. @param {{ shape: ShapeName, children?: unknown }} props */
export const Badge = ({ shape, children }) =>
  html`<span class=${`badge is-${shape}`}><${Shape} shape=${shape} /><span>${children}</span></span>`;
