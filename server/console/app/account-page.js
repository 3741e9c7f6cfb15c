import { ActionButton, CodeBlock, Loaded, PageHead, PersonName, Problem, Shape, Skeleton, Table, Time, accountName, call, html, isOwner, isPersonal, many, roleName, say, session, span, t, useAction, useNow, useQuery, useState } from './kit.js';
import { InviteDialog, LeaveDialog, RemoveDialog, RoleDialog } from './member-dialogs.js';
import { signOut, signOutEverywhere } from './sign-out.js';

/** @param {{ invitation: Invitation, members: Member[] }} props */
function OpenInvitation({ invitation, members }) {
  const { id, email, role, created_by: by, expires_at: end } = invitation;
  const now = useNow(60_000);
  const withdraw = useAction(() => call('DELETE', `members/${id}`), { reread: ['members'], done: say(t.isWithdrawn, { email }) });
  const inviter = html`<${PersonName} person=${by} email=${members.find((m) => m.person === by)?.email} />`;
  return html`<div class="row start"><${Shape} shape="invited" /><div class="grow"><strong><bdi>${email}</bdi></strong>
      <p class="quiet">${say(t.invitedAs, { role: roleName(role).toLowerCase(), inviter, end: html`<${Time} at=${end} as="moment" />`, span: span(Date.parse(end) - now) })}</p>
      ${isOwner() && html`<p class="hand-on">${t.giveAddress}</p><${CodeBlock} code=${`${location.origin}/console/`} label=${t.copyAddress} />`}
      <${Problem} action=${withdraw} title=${t.notWithdrawn} /></div>
    ${isOwner() && html`<${ActionButton} look="word" action=${withdraw} label=${html`${t.withdraw}<span class="sr"> ${email}</span>`} />`}</div>`;
}

/** @param {(what: string, member: Member) => void} act @returns {Column[]} */
function memberColumns(act) {
  const mine = (/** @type {Member} */ m) => m.person === session()?.person;
  const button = (/** @type {string} */ what, /** @type {string} */ label, /** @type {Member} */ m) =>
    html`<button type="button" class="word" onClick=${() => act(what, m)}>${label}<span class="sr"> ${m.email ?? m.person}</span></button>`;
  return [
    { head: t.person, width: 366, cell: (m) => html`<${PersonName} ...${m} />${mine(m) && html`<span class="quiet normal"> ${t.you}</span>`}` },
    { head: t.role, width: 190, cell: (m) => roleName(m.role) },
    { head: t.joined, width: 190, look: 'quiet', cell: (m) => html`<${Time} at=${m.created_at} as="date" />` },
    { head: t.actions, look: 'end', cell: (m) => html`<span class="acts">${mine(m) ? button('leave', t.leaveAccount, m)
      : isOwner() && html`${button('role', t.changeRole, m)} ${button('remove', t.removeMember, m)}`}</span>` },
  ];
}

/** @param {{ data: { members: Member[], invitations: Invitation[] }, act: (what: string, member: Member) => void }} props */
function Members({ data: { members, invitations }, act }) {
  const columns = memberColumns(act);
  const item = (/** @type {Member} */ m) => html`<div class="top"><strong>${columns[0].cell(m)}</strong><span>${roleName(m.role)}</span></div>
    <p class="small quiet">${say(t.joinedOn, { at: html`<${Time} at=${m.created_at} as="date" />` })}</p>${columns[3].cell(m)}`;
  return html`${invitations.length > 0 && html`<section class="section" aria-label=${t.openInvitations}><h2>${t.openInvitations}</h2>
      <div class="panel">${invitations.map((i) => html`<${OpenInvitation} key=${i.id} invitation=${i} members=${members} />`)}</div></section>`}
    <section class="section" aria-label=${t.members}><div class="plot-head"><h2>${t.members}</h2>
      <p class="small quiet">${many(t.memberCount, members.length)}, ${many(t.invitationCount, invitations.length)}</p></div>
      <${Table} label=${t.members} columns=${columns} groups=${members.map((row) => ({ rows: [row] }))} keyOf=${(/** @type {Member} */ m) => m.id} item=${item} /></section>
    <section class="columns section" aria-label=${t.role}>${/** @type {const} */ (['owner', 'developer', 'viewer']).map((role) =>
      html`<div><h2>${t.roles[role]}</h2><p class="quiet">${t.roleMeanings[role]}</p></div>`)}</section>`;
}

/** @type {Column[]} */
const sessionColumns = [
  { head: t.account, width: 366, cell: (s) => html`<bdi>${s.account ? accountName(s.account) : t.noAccount}</bdi>${s.current && html`<span class="quiet normal"> ${t.thisSession}</span>`}` },
  { head: t.signedIn, width: 190, look: 'quiet', cell: (s) => html`<${Time} at=${s.created_at} as="date" />` },
  { head: t.lastUsed, look: 'quiet', cell: (s) => html`<${Time} at=${s.last_used_at} />` },
];

function Sessions() {
  const query = useQuery('sessions');
  const item = (/** @type {OpenSession} */ s) => html`<div class="top"><strong>${sessionColumns[0].cell(s)}</strong></div>
    <p class="small quiet">${say(t.sessionLine, { at: html`<${Time} at=${s.created_at} as="date" />`, used: html`<${Time} at=${s.last_used_at} />` })}</p>`;
  return html`<section class="section" aria-label=${t.sessions}><div class="plot-head"><h2>${t.sessions}</h2>
      <p class="small quiet">${t.signedInAs} <bdi>${session()?.email ?? session()?.person}</bdi></p></div>
    <${Loaded} query=${query} failed=${t.sessionsFailed} skeleton=${html`<${Skeleton} label=${t.loadingSessions} columns=${sessionColumns} rows=${2} />`}>
      ${(/** @type {{ sessions: OpenSession[] }} */ { sessions }) => html`<${Table} label=${t.sessions} columns=${sessionColumns} item=${item} keyOf=${(/** @type {OpenSession} */ s) => `${s.created_at} ${s.account}`}
        groups=${sessions.map((row) => ({ rows: [row] }))} />`}<//>
    <p class="pair below"><button type="button" class="secondary" onClick=${signOut}>${t.signOut}</button>
      <button type="button" class="secondary" onClick=${signOutEverywhere}>${t.signOutEverywhere}</button></p></section>`;
}

/** Answers who acts for the account, and where the person is signed in. */
export function AccountPage() {
  const query = useQuery('members');
  const [open, setOpen] = useState(/** @type {{ what: string, member?: Member } | null} */ (null));
  const dialogs = { invite: InviteDialog, role: RoleDialog, remove: RemoveDialog, leave: LeaveDialog };
  const { account } = session() ?? {};
  return html`<${PageHead} title=${t.account}>
      ${isOwner() && html`<button type="button" class="primary" onClick=${() => setOpen({ what: 'invite' })}>${t.inviteMember}</button>`}<//>
    <p>${account && html`<strong><bdi>${accountName(account)}</bdi></strong> <span class="quiet">${isPersonal(account) && t.madeBySignIn}</span>`}</p>
    <${Loaded} query=${query} failed=${t.membersFailed} skeleton=${html`<${Skeleton} label=${t.loadingMembers} columns=${memberColumns(() => {})} rows=${4} />`}>
      ${(/** @type {any} */ data) => html`<${Members} data=${data} act=${(/** @type {string} */ what, /** @type {Member} */ member) => setOpen({ what, member })} />`}<//>
    <${Sessions} />
    ${open && html`<${dialogs[/** @type {keyof typeof dialogs} */ (open.what)]} member=${open.member} onClose=${() => setOpen(null)} />`}`;
}
