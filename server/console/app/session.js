
/** The session as the last response showed it. Each page reads it when it draws. @type {Session | null} */
let current = null;

/** @param {Session | null} session */
export const setSession = (session) => void (current = session);

/** Returns the session; null until it is loaded. */
export const session = () => current;

/** Reports whether the person may change keys and webhooks. */
export const canDevelop = () => current?.role === 'developer' || current?.role === 'owner';

/** Reports whether the person may change members. */
export const isOwner = () => current?.role === 'owner';

/** Reports whether a sign-in made the account: then its name is the person's, perhaps with a number. @param {string} account */
export const isPersonal = (account) => !!current && account.startsWith(current.person) && /^(-\d+)?$/.test(account.slice(current.person.length));

/** The account's name for people. @param {string} account */
export const accountName = (account) => (isPersonal(account) && current?.email ? current.email + account.slice(current.person.length) : account);
