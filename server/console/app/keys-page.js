import { KeyCreateDialog } from './key-create-dialog.js';
import { KeyRevokeDialog } from './key-revoke-dialog.js';
import { KeyRotateDialog } from './key-rotate-dialog.js';
import { Badge, Countdown, ErrorPanel, Loaded, PageHead, Skeleton, Table, Time, canDevelop, go, html, oneDay, say, span, t, usePages, usePlace, useState, withParams } from './kit.js';

const soon = 14 * oneDay;

/** @param {Key} key */
const isOver = (key) => !!key.revoked_at || (!!key.expires_at && Date.parse(key.expires_at) <= Date.now());

/** The fraction of a second. A rotation writes both times by one clock, so they have the same one. @param {string} at */
const fraction = (at) => /\.\d+/.exec(at)?.[0] ?? '';

/** Reports whether a rotation made one key of the other, and the old one still works. @param {Key} old @param {Key} young */
function replaces(old, young) {
  if (isOver(old) || !old.expires_at || old.name !== young.name || old.tier !== young.tier || old === young) return false;
  const overlap = Date.parse(old.expires_at) - Date.parse(young.created_at);
  return overlap > 0 && overlap <= oneDay && young.created_at > old.created_at && fraction(old.expires_at) === fraction(young.created_at);
}

/** Puts each replaced key below its successor, and the groups in which no key works last. @param {Key[]} keys */
function groupsOf(keys) {
  const pairs = keys.flatMap((old) => keys.filter((young) => replaces(old, young)).slice(0, 1).map((young) => ({ old, young })));
  const replaced = new Set(pairs.map(({ old }) => old));
  const groups = keys.filter((k) => !replaced.has(k)).map((young) => {
    const old = pairs.filter((pair) => pair.young === young).map((pair) => pair.old);
    return old.length ? { rows: [young, ...old], look: 'rotating', note: isOver(young) ? t.oldWorks : t.bothWork, replaced: old } : { rows: [young], replaced: old };
  });
  const works = (/** @type {{ rows: Key[] }} */ { rows }) => !rows.every(isOver);
  return [...groups.filter(works), ...groups.filter((group) => !works(group))];
}

/** @param {{ row: Key, replaced?: boolean }} props */
function State({ row, replaced }) {
  if (row.revoked_at) return html`<${Badge} shape="off">${say(t.revokedOn, { day: html`<${Time} at=${row.revoked_at} as="day" />` })}<//>`;
  if (isOver(row)) return html`<${Badge} shape="off">${t.expired}<//>`;
  if (replaced) return html`<${Badge} shape="rotating">${say(t.stopsIn, { time: html`<${Countdown} until=${row.expires_at} />` })}<//>`;
  const left = row.expires_at ? Date.parse(row.expires_at) - Date.now() : soon;
  return left < soon ? html`<${Badge} shape="warning">${say(t.expiresIn, { span: span(left) })}<//>` : html`<${Badge} shape="good">${t.active}<//>`;
}

/** @param {{ at?: string, as: string }} props */
const Moment = ({ at, as }) => (at ? html`<${Time} at=${at} as=${as} />` : t.never);

/** @param {(row: Key) => boolean} isReplaced @param {(row: Key) => unknown} actions @returns {Column[]} */
const columnsOf = (isReplaced, actions) => [
  { head: t.name, width: 180, bar: 55, cell: (row) => (isReplaced(row) ? html`<span class="quiet normal">${t.replacedKey}</span>` : html`<bdi>${row.name}</bdi>`) },
  { head: t.prefix, width: 184, bar: 80, look: 'mono', cell: (row) => row.key_prefix },
  { head: t.tier, width: 80, look: 'quiet', cell: (row) => html`<bdi>${row.tier}</bdi>` },
  { head: t.created, width: 124, bar: 64, look: 'quiet', cell: (row) => html`<${Time} at=${row.created_at} as="date" />` },
  { head: t.lastUsed, width: 104, look: 'quiet', cell: (row) => html`<${Moment} at=${row.last_used_at} as="ago" />` },
  { head: t.expires, width: 124, bar: 40, look: 'quiet', cell: (row) => html`<${Moment} at=${row.expires_at} as="moment" />` },
  { head: t.state, width: 172, bar: 50, cell: (row) => html`<${State} row=${row} replaced=${isReplaced(row)} />` },
  { head: t.actions, look: 'end', cell: actions },
];

/** @param {{ keys: Key[], more?: () => void, act: (what: string, key: Key, replaced?: Key) => void }} props */
function Keys({ keys, more, act }) {
  if (keys.length === 0) return html`<p class="quiet">${t.emptyKeys}</p>`;
  const groups = groupsOf(keys);
  const isReplaced = (/** @type {Key} */ row) => groups.some((g) => g.replaced.includes(row));
  const actions = (/** @type {Key} */ row) => canDevelop() && !isOver(row) && html`<span class="acts">
    ${!isReplaced(row) && html`<button type="button" class="word" onClick=${() => act('rotate', row)}>${t.rotate}<span class="sr"> ${row.name}</span></button>`}
    <button type="button" class="word" onClick=${() => act('revoke', row, groups.find((g) => g.rows[0] === row)?.replaced[0])}>${isReplaced(row) ? t.revokeNow : t.revoke}<span class="sr"> ${row.key_prefix}</span></button></span>`;
  const item = (/** @type {Key} */ row) => html`<div class="top"><strong>${columnsOf(isReplaced, actions)[0].cell(row)}</strong><${State} row=${row} replaced=${isReplaced(row)} /></div>
    <code>${row.key_prefix}</code>
    <p class="small quiet">${say(t.keyLine, { tier: row.tier, created: html`<${Time} at=${row.created_at} as="date" />`, used: html`<${Moment} at=${row.last_used_at} as="ago" />`, expires: html`<${Moment} at=${row.expires_at} as="moment" />` })}</p>${actions(row)}`;
  return html`<p class="quiet">${say(t.activeKeys, { n: keys.filter((k) => !isOver(k)).length })}</p>
    <${Table} label=${t.keys} look="keys" columns=${columnsOf(isReplaced, actions)} groups=${groups} keyOf=${(/** @type {Key} */ k) => k.key_prefix} item=${item}
      rowLook=${(/** @type {Key} */ row) => (isOver(row) ? 'over' : '')} />
    ${more && html`<p><button type="button" class="secondary" onClick=${more}>${t.showMore}</button></p>`}`;
}

/** Answers which keys work, and replaces or ends them. */
export function KeysPage() {
  const { first, rows, more, error } = usePages('keys?limit=100', 'keys', ({ keys }) => keys[keys.length - 1].key_prefix);
  const { params } = usePlace();
  const [open, setOpen] = useState(/** @type {{ what: string, key?: Key, replaced?: Key } | null} */ (null));
  const wanted = canDevelop() && rows?.find((/** @type {Key} */ k) => k.key_prefix === params.get('rotate') && !isOver(k));
  const dialog = open ?? (wanted && { what: 'rotate', key: wanted });
  const close = () => {
    setOpen(null);
    if (params.has('rotate')) go(withParams({ rotate: '' }), { replace: true });
  };
  const dialogs = { create: KeyCreateDialog, rotate: KeyRotateDialog, revoke: KeyRevokeDialog };
  return html`<${PageHead} title=${t.keys}>
      ${canDevelop() && html`<button type="button" class="primary" onClick=${() => setOpen({ what: 'create' })}>${t.createKey}</button>`}<//>
    <${Loaded} query=${first} failed=${t.keysFailed} skeleton=${html`<${Skeleton} label=${t.loadingKeys} look="keys" columns=${columnsOf(() => false, () => '')} />`}>
      ${() => html`<${Keys} keys=${rows} more=${more} act=${(/** @type {string} */ what, /** @type {Key} */ key, /** @type {Key | undefined} */ replaced) => setOpen({ what, key, replaced })} />`}<//>
    ${error && html`<${ErrorPanel} title=${t.keysFailed} query=${error} />`}
    ${dialog && html`<${dialogs[/** @type {keyof typeof dialogs} */ (dialog.what)]} of=${dialog.key} replaced=${dialog.replaced} onClose=${close} />`}`;
}
