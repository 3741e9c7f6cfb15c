import { html, useEffect, useState } from './html.js';

const wide = matchMedia('(min-width: 800px)');

/** Reports whether the window has room for tables. */
export function useWide() {
  const [is, setIs] = useState(wide.matches);
  useEffect(() => {
    const change = () => setIs(wide.matches);
    wide.addEventListener('change', change);
    return () => wide.removeEventListener('change', change);
  }, []);
  return is;
}

/**
 * Rows as a table, or below 800 px as a list.
 * @param {{ label: string, columns: Column[], groups: Group[], keyOf: (row: any) => string, item: (row: any) => unknown,
 *   rowLook?: (row: any) => string, detail?: (row: any) => unknown, look?: string }} props
 */
export function Table({ label, columns, groups, keyOf, item, rowLook, detail, look = '' }) {
  if (!useWide()) {
    return html`<ul class="list" aria-label=${label}>${groups.map(({ rows, look: group, note }) => html`<li key=${keyOf(rows[0])} class=${group}>
      ${rows.map((row) => html`<div key=${keyOf(row)} class=${`item ${rowLook?.(row) ?? ''}`}>${item(row)}${detail?.(row)}</div>`)}
      ${note && html`<p class="quiet note">${note}</p>`}</li>`)}</ul>`;
  }
  return html`<table class=${look}><caption class="sr">${label}</caption><${Head} columns=${columns} />
    ${groups.map(({ rows, look: group, note }) => html`<tbody key=${keyOf(rows[0])} class=${group}>
      ${rows.map((row) => {
        const more = detail?.(row);
        return html`<tr key=${keyOf(row)} class=${`${rowLook?.(row) ?? ''}${more ? ' opened' : ''}`}>${columns.map((c, i) =>
          i === 0 ? html`<th scope="row" class=${c.look}>${c.cell(row)}</th>` : html`<td class=${c.look}>${c.cell(row)}</td>`)}</tr>
          ${more && html`<tr key=${`${keyOf(row)} detail`} class="detail"><td colspan=${columns.length}>${more}</td></tr>`}`;
      })}
      ${note && html`<tr class="note"><td colspan=${columns.length} class="quiet">${note}</td></tr>`}</tbody>`)}
  </table>`;
}

/** @param {{ columns: Column[] }} props */
const Head = ({ columns }) => html`<colgroup>${columns.map((c) => html`<col style=${c.width ? { width: `${c.width}px` } : {}} />`)}</colgroup>
  <thead><tr>${columns.map((c) => html`<th scope="col" class=${c.look}>${c.head}</th>`)}</tr></thead>`;

/** The same table without its data. @param {{ label: string, columns: Column[], rows?: number, look?: string }} props */
export function Skeleton({ label, columns, rows = 6, look = '' }) {
  const numbers = Array.from({ length: rows }, (_, i) => i);
  /** @param {number} percent @param {number} i */
  const bar = (percent, i) => html`<span class="bar" style=${{ width: `${percent - ((i * 7) % 20)}%` }}></span>`;
  const list = html`<ul class="list">${numbers.map((i) => html`<li><div class="item">
    <div class="top">${bar(40, i)}${bar(30, i)}</div>${bar(45, 0)}${bar(75, 0)}${bar(34, 0)}</div></li>`)}</ul>`;
  const table = html`<table class=${look}><${Head} columns=${columns} /><tbody>${numbers.map((i) => html`<tr>${columns.map((c, j) =>
    html`<td class=${c.look}>${bar(c.bar ?? 70, j === 0 ? i : 0)}</td>`)}</tr>`)}</tbody></table>`;
  return html`<div class="skeleton" aria-busy="true"><p class="quiet" role="status">${label}</p><div aria-hidden="true">${useWide() ? table : list}</div></div>`;
}

