import { html } from './html.js';
import { t } from './texts.js';

const figures = new Intl.NumberFormat('en');

/** Formats a count. @param {number} n */
export const figure = (n) => figures.format(n);

/**
 * Fills a text's names in braces with nodes. A value that is text can be of any script, so it is isolated in <bdi>.
 * @param {string} text @param {Record<string, unknown>} values
 */
export function say(text, values) {
  return text.split(/\{(\w+)\}/).map((part, i) => {
    if (i % 2 === 0) return part;
    const value = values[part];
    if (typeof value === 'number') return figure(value);
    return typeof value === 'string' ? html`<bdi>${value}</bdi>` : value;
  });
}

/** Fills a text's names in braces with text, for attributes and titles. @param {string} text @param {Record<string, string | number>} values */
export const plain = (text, values) =>
  text.replace(/\{(\w+)\}/g, (_, name) => (typeof values[name] === 'number' ? figure(values[name]) : `${values[name]}`));

/** Returns the text for one or for several. @param {string[]} texts @param {number} n */
export const many = ([one, others], n) => plain(n === 1 ? one : others, { n });

/** Names a role. @param {string | undefined} role */
export const roleName = (role) => t.roles[/** @type {keyof typeof t.roles} */ (role)] ?? role ?? '';

/** An id, shortened in the middle; hover shows the whole, and so does a copy. @param {{ id: string }} props */
export function ShortId({ id }) {
  const short = id.length > 14 ? `${id.slice(0, 6)}…${id.slice(-4)}` : id;
  /** @param {ClipboardEvent} event */
  const copy = (event) => {
    event.clipboardData?.setData('text/plain', id);
    event.preventDefault();
  };
  return html`<code class="id" title=${id} onCopy=${copy}><bdi>${short}</bdi></code>`;
}

/** A URL that wraps at its slashes. @param {{ url: string, bare?: boolean }} props */
export function LongUrl({ url, bare }) {
  const parts = (bare ? url.replace(/^https:\/\//i, '') : url).split(/(?<=[/?&])(?!\/)/);
  return html`<bdi class="url">${parts.map((part) => html`${part}<wbr />`)}</bdi>`;
}

/** A person: the address, or else the provider's name for the person. @param {{ person: string, email?: string }} props */
export function PersonName({ person, email }) {
  if (email) return html`<bdi>${email}</bdi>`;
  if (person === 'administrator') return t.administrator;
  return html`<bdi title=${person}>${person.slice(person.indexOf('#') + 1)}</bdi>`;
}
