import { ActDialog, ConfirmDialog, Field, call, html, plain, refresh, roleName, say, t, useAction, useState } from './kit.js';

const roles = /** @type {const} */ (['viewer', 'developer', 'owner']);

/** @param {{ value: string, first?: boolean, onChange: (role: string) => void }} props */
const Roles = ({ value, first, onChange }) => html`<fieldset><legend>${t.role}</legend>${roles.map((role) => html`<label class="radio" key=${role}>
  <input type="radio" name="role" value=${role} checked=${role === value} data-first=${first && role === value} onChange=${() => onChange(role)} />
  <span>${t.roles[role]} <span class="small quiet">${t.roleMeanings[role]}</span></span></label>`)}</fieldset>`;

/** @param {Member} member */
const nameOf = (member) => member.email ?? member.person.slice(member.person.indexOf('#') + 1);

/** Offers a role to an address. @param {{ onClose: () => void }} props */
export function InviteDialog({ onClose }) {
  const [email, setEmail] = useState('');
  const [role, setRole] = useState('developer');
  const done = say(t.isInvited, { email: email.trim(), role: roleName(role).toLowerCase() });
  const invite = useAction(() => call('POST', 'members', { email: email.trim(), role }), { reread: ['members'], then: onClose, done });
  return html`<${ActDialog} title=${t.inviteMember} lead=${t.inviteLead} act=${t.inviteMember} failed=${t.notInvited} action=${invite} disabled=${!email.trim()} onClose=${onClose}>
    <${Field} label=${t.email} name="email" type="email" maxlength="254" hint=${t.emailHint} action=${invite} value=${email} data-first="true"
      onInput=${(/** @type {any} */ e) => setEmail(e.target.value)} /><${Roles} value=${role} onChange=${setRole} /><//>`;
}

/** Gives a member another role. @param {OfMember} props */
export function RoleDialog({ member, onClose }) {
  const [role, setRole] = useState(/** @type {string} */ (member.role));
  const done = say(t.hasRole, { name: nameOf(member), role: roleName(role).toLowerCase() });
  const change = useAction(() => call('PATCH', `members/${member.id}`, { role }), { reread: ['members'], then: onClose, done });
  return html`<${ActDialog} title=${plain(t.changeRoleOf, { name: nameOf(member) })} lead=${t.changeRoleLead} act=${t.changeRole} failed=${t.roleNotChanged} action=${change}
    disabled=${role === member.role} onClose=${onClose}><${Roles} first value=${role} onChange=${setRole} /><//>`;
}

/** Ends a membership. @param {OfMember} props */
export const RemoveDialog = ({ member, onClose }) => html`<${ConfirmDialog} danger texts=${t.removal} values=${{ name: nameOf(member) }} onClose=${onClose}
  run=${() => call('DELETE', `members/${member.id}`).finally(() => refresh('members'))} />`;

/** Ends the person's own membership, and with it this session. @param {OfMember} props */
export const LeaveDialog = ({ member, onClose }) => html`<${ConfirmDialog} danger texts=${t.leaving} onClose=${onClose}
  run=${() => call('DELETE', `members/${member.id}`).then(() => location.assign('/console/signed-out'))} />`;
