import { endSession } from './api.js';
import { t, toast } from './kit.js';

/** Ends this session, or all of the person. A failure becomes a toast, for the button stands on every page. @param {'session' | 'sessions'} which */
async function end(which) {
  if (!(await endSession(which))) toast(t.notSignedOut);
}

export const signOut = () => end('session');
export const signOutEverywhere = () => end('sessions');
