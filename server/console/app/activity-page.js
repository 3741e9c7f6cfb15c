import { ErrorPanel, Loaded, PageHead, PersonName, ShortId, Skeleton, Table, Time, go, html, session, t, usePages, usePlace, useQuery, withParams } from './kit.js';

/** An action in words, or as the API names it if it is a later one. @param {string} action */
const wordOf = (action) => t.actionNames[/** @type {keyof typeof t.actionNames} */ (action)] ?? action;

/** The thing that changed: a key by its prefix, a member by the address, an endpoint as a link. @param {{ row: AuditEntry, members: Member[] }} props */
function Target({ row: { action, target = '' }, members }) {
  const member = members.find((m) => m.id === target);
  if (member) return html`<${PersonName} person=${member.person} email=${member.email} />`;
  if (target.startsWith('service_')) return html`<code>${target}</code>`;
  const id = target && html`<${ShortId} id=${target} />`;
  return action.startsWith('webhook.') && action !== 'webhook.delete' ? html`<a href=${`/console/webhooks/${target}`}>${id}</a>` : id;
}

/** @param {Member[]} members @returns {Column[]} */
const columnsOf = (members) => [
  { head: t.action, width: 228, bar: 60, cell: (row) => html`<span title=${row.action}>${wordOf(row.action)}</span>` },
  { head: t.target, width: 184, cell: (row) => html`<${Target} row=${row} members=${members} />` },
  { head: t.person, cell: (row) => html`<${PersonName} person=${row.actor} email=${members.find((m) => m.person === row.actor)?.email ?? (row.actor === session()?.person ? session()?.email : undefined)} />` },
  { head: t.requestId, width: 152, look: 'quiet', cell: (row) => row.request_id && html`<${ShortId} id=${row.request_id} />` },
  { head: t.time, width: 168, look: 'end quiet', cell: (row) => html`<${Time} at=${row.at} as="clock" />` },
];

/** Answers who did what to the account's things. */
export function ActivityPage() {
  const { params } = usePlace();
  const action = params.get('action') ?? '';
  const { first, rows, more, error } = usePages(`audit?limit=50${action && `&action=${encodeURIComponent(action)}`}`, 'entries', ({ entries }) => entries[entries.length - 1].id);
  const columns = columnsOf(useQuery('members', { keep: true }).data?.members ?? []);
  const item = (/** @type {AuditEntry} */ row) => html`<div class="top"><strong>${columns[0].cell(row)}</strong><span class="small quiet"><${Time} at=${row.at} as="clock" /></span></div>
    <p>${columns[1].cell(row)}</p><p class="small quiet">${columns[2].cell(row)}${row.request_id && html`, <${ShortId} id=${row.request_id} />`}</p>`;
  return html`<${PageHead} title=${t.activity} />
    <div class="filters"><select aria-label=${t.action} value=${action} onChange=${(/** @type {any} */ e) => go(withParams({ action: e.target.value }))}>
      <option value="">${t.allActions}</option>${Object.entries(t.actionNames).map(([value, word]) => html`<option key=${value} value=${value}>${word}</option>`)}</select></div>
    <${Loaded} query=${first} failed=${t.activityFailed} skeleton=${html`<${Skeleton} label=${t.loadingActivity} columns=${columns} />`}>
      ${() => (rows.length === 0 ? html`<p class="quiet">${action ? t.noActivityFiltered : t.noActivity}</p>` : html`<${Table} label=${t.activity} columns=${columns} item=${item}
        keyOf=${(/** @type {AuditEntry} */ e) => e.id} groups=${rows.map((/** @type {AuditEntry} */ row) => ({ rows: [row] }))} />`)}<//>
    ${error && html`<${ErrorPanel} title=${t.activityFailed} query=${error} />`}
    ${more && html`<p><button type="button" class="secondary" onClick=${more}>${t.showOlder}</button></p>`}`;
}
