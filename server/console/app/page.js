import { html, useEffect, useRef } from './html.js';
import { usePlace } from './router.js';
import { t } from './texts.js';
import { plain } from './words.js';

/** A setting of the installation, as the document has it. @param {string} name @returns {string} */
export const setting = (name) => document.querySelector(`meta[name="${name}"]`)?.getAttribute('content') ?? '';

/**
 * The head of a page: title, way up, and its most frequent action. After a navigation the title takes the focus.
 * @param {{ title: string, heading?: unknown, crumb?: unknown, long?: boolean, children?: unknown }} props
 */
export function PageHead({ title, heading = title, crumb, long, children }) {
  const ref = useRef(/** @type {HTMLHeadingElement | null} */ (null));
  const { path, moved } = usePlace();
  useEffect(() => {
    if (moved) ref.current?.focus({ preventScroll: true });
  }, [path]);
  useEffect(() => {
    document.title = plain(t.pageTitle, { title });
  }, [title]);
  return html`<header class=${long ? 'head long' : 'head'}>
    <div>${crumb && html`<p class="crumb">${crumb}</p>`}<h1 ref=${ref} tabindex="-1">${heading}</h1></div>${children}
  </header>`;
}
