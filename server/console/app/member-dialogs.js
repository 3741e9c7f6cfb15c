/** @import { Member } from './types.js' */
import { call } from './api.js';
import { ActDialog } from './dialog.js';
import { Field, useAction } from './form.js';
import { html, useState } from './html.js';
import { refresh } from './query.js';
import { t } from './texts.js';
import { toast } from './toast.js';
import { plain, roleName, say } from './words.js';

/** @typedef {{ member: Member, onClose: () => void }} Props */

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
  const invite = useAction(async () => {
    await call('POST', 'members', { email: email.trim(), role });
    refresh('members');
    toast(say(t.isInvited, { email: email.trim(), role: roleName(role).toLowerCase() }));
    onClose();
  });
  return html`<${ActDialog} title=${t.inviteMember} lead=${t.inviteLead} act=${t.inviteMember} failed=${t.notInvited} action=${invite} disabled=${!email.trim()} onClose=${onClose}>
    <${Field} label=${t.email} name="email" type="email" maxlength="254" hint=${t.emailHint} action=${invite} value=${email} data-first="true"
      onInput=${(/** @type {any} */ e) => setEmail(e.target.value)} /><${Roles} value=${role} onChange=${setRole} /><//>`;
}

/** Gives a member another role. @param {Props} props */
export function RoleDialog({ member, onClose }) {
  const [role, setRole] = useState(/** @type {string} */ (member.role));
  const change = useAction(async () => {
    await call('PATCH', `members/${member.id}`, { role });
    refresh('members');
    toast(say(t.hasRole, { name: nameOf(member), role: roleName(role).toLowerCase() }));
    onClose();
  });
  return html`<${ActDialog} title=${plain(t.changeRoleOf, { name: nameOf(member) })} lead=${t.changeRoleLead} act=${t.changeRole} failed=${t.roleNotChanged} action=${change}
    disabled=${role === member.role} onClose=${onClose}><${Roles} first value=${role} onChange=${setRole} /><//>`;
}

/** Ends a membership. @param {Props} props */
export function RemoveDialog({ member, onClose }) {
  const remove = useAction(async () => {
    await call('DELETE', `members/${member.id}`);
    refresh('members');
    toast(say(t.isRemoved, { name: nameOf(member) }));
    onClose();
  });
  return html`<${ActDialog} danger title=${plain(t.removeTitle, { name: nameOf(member) })} lead=${t.removeLead} act=${t.removeMember} failed=${t.notRemoved} action=${remove} onClose=${onClose} />`;
}

/** Ends the person's own membership, and with it this session. @param {Props} props */
export function LeaveDialog({ member, onClose }) {
  const leave = useAction(async () => {
    await call('DELETE', `members/${member.id}`);
    location.assign('/console/signed-out');
  });
  return html`<${ActDialog} danger title=${t.leaveTitle} lead=${t.leaveLead} act=${t.leaveAccount} failed=${t.notLeft} action=${leave} onClose=${onClose} />`;
}
