/**
 * All words of the console. A name in braces is filled in by say() and plain() of words.js; a pair of texts is for one and
 * for several. Sentences end with a full stop; labels, states and cells do not.
 */
export const t = {
  // Frame
  product: 'examprep', productConsole: 'examprep console', pageTitle: '{title} – examprep console',
  environment: 'Environment', sandbox: 'SANDBOX', production: 'PRODUCTION', notBilled: 'Requests are not billed.', separate: 'Keys and data are separate from production.',
  overview: 'Overview', keys: 'Keys', usage: 'Usage', webhooks: 'Webhooks', activity: 'Activity', account: 'Account', pages: 'Pages',
  menu: 'Menu', skip: 'Skip to content', documentation: 'Documentation', signIn: 'Sign in', signOut: 'Sign out', switch: 'Switch',
  youAre: { owner: 'You are an owner', developer: 'You are a developer', viewer: 'You are a viewer' }, yourAccount: 'Your account', failingCount: ['{n} failing', '{n} failing'],
  notFound: 'Page not found', notFoundLead: 'The console has no page at this address. Go to:',
  close: 'Close', open: 'Open', cancel: 'Cancel', dismiss: 'Dismiss', reload: 'Reload', tryAgain: 'Try again', more: 'More',
  copied: 'Copied', notCopied: 'Not copied; select the text', copyId: 'Copy delivery id', showMore: 'Show more keys', showOlder: 'Show older',
  switchedElsewhere: 'You switched to {account} in another tab. Nothing was changed here. Reload to work in {account}.',
  switchAccount: 'Switch account', switchLead: 'Each account has keys, webhooks and usage of its own.', current: 'current',
  worksIn: 'You work in {account} now.', notSwitched: 'The account was not switched', notSignedOut: 'You are still signed in: the API refused. Try again.',
  administrator: 'administrator', roles: { owner: 'Owner', developer: 'Developer', viewer: 'Viewer' },

  // Times and numbers
  months: ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'],
  weekdays: ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'],
  justNow: 'just now', minutesAgo: '{n} min ago', hoursAgo: '{n} h ago', today: 'today', plotToday: 'Today', todayAt: 'today, {clock}', dateAt: '{date}, {clock}',
  sinceToday: '{clock} today', utc: '{time} UTC', never: 'never', none: 'none', thousandOrMore: '1,000 or more',
  seconds: ['{n} second', '{n} seconds'], minutes: ['{n} minute', '{n} minutes'], hours: ['{n} hour', '{n} hours'], days: ['{n} day', '{n} days'],
  ms: '{n} ms', s: '{n} s', time: 'Time',

  // Errors
  apiReturned: 'The API returned {code}: {detail}.', apiReturnedCode: 'The API returned {code}.', apiUnreachable: 'The API cannot be reached. Check the network.',
  apiTimeout: 'The API did not respond within 30 s.', nothingChanged: 'Nothing was changed.', triesAgain: 'The console tries again in {n} s.',
  tryingAgain: 'The console tries again now.', possibleIn: 'The API accepts the next try in {n} s.', requestId: 'Request id',
  giveId: 'Give this id to support if it happens again.', sessionFailed: 'The session could not be loaded',

  // Overview
  loadingOverview: 'Loading overview…', overviewFailed: 'The overview could not be loaded', createKey: 'Create key', needsAttention: 'Needs attention',
  endpointFailing: 'Endpoint failing since {since}, for {span}', lastFailure: 'Last failure: {why}.', areWaiting: ['1 delivery is waiting.', '{n} deliveries are waiting.'],
  seeFailures: 'See failures', endpointDisabled: 'Endpoint disabled', seeEndpoint: 'See endpoint', rotateKey: 'Rotate key', seeKeys: 'See keys',
  keyExpires: 'Key expires in {span}, on {at}', keyUsed: '{prefix} ({name}), used {ago}.', keyNotUsed: '{prefix} ({name}), never used.',
  requests30: 'Requests, last 30 days', seeUsage: 'See usage', tooMuchUsage: 'Too many keys were used to sum their requests here.', peakOn: '{n} on {day}', todaySoFar: 'Today, so far',
  sparklineText: 'Requests a day. Peak: {peak}. Today so far: {today}.', numbers: 'Numbers', tier: 'Tier', requestsPer: 'Requests per {n} s', burst: 'Burst',
  counted: 'Counted', perKey: 'per key', tierUnknown: 'The tier cannot be read now.', active: 'Active', expiresSoon: 'Expires within 14 days',
  healthy: 'Healthy', failing: 'Failing', disabled: 'Disabled', baseURL: 'Base URL', copyURL: 'Copy URL',
  threeSteps: 'Three steps to your first result', noKeysYet: 'This account has no keys yet.', stepKey: 'Create a key',
  stepKeyLead: 'A key authenticates your server. It is shown once; store it where your server reads its secrets.', stepCall: 'Call the API',
  stepCallLead: 'This command lists the exams. It works as soon as the key exists; the dialog fills the key in for you.', copyCommand: 'Copy command',
  stepWebhook: 'Register a webhook', stepWebhookLead: 'Your HTTPS endpoint receives an event when an attempt is submitted or scored, or when an exam changes.',
  expecting: 'Expecting an invitation?', expectingLead: 'Sign in with the invited address. The console then asks whether you accept.',

  // Keys
  loadingKeys: 'Loading keys…', keysFailed: 'The keys could not be loaded', emptyKeys: 'This account has no keys yet. Create one to call the API.',
  activeKeys: '{n} active. Keep keys on servers, never in a browser or an app.', name: 'Name', prefix: 'Prefix', created: 'Created', lastUsed: 'Last used', expires: 'Expires', state: 'State', actions: 'Actions',
  replacedKey: 'replaced key', expired: 'Expired', revokedOn: 'Revoked {day}', stopsIn: 'Stops in {time}', expiresIn: 'Expires in {span}',
  rotate: 'Rotate', revoke: 'Revoke', revokeNow: 'Revoke now', keyLine: '{tier}, created {created}, used {used}, expires {expires}',
  oldWorks: 'Only the old key works, until it stops or you revoke it.', stillWorks: '{prefix}, which this key replaced, still works until {at}. Revoke it too.',
  bothWork: 'Both keys work until the old one stops. Attempts follow a rotation: the new key reads the old key’s attempts. A key that you create does not.',
  createKeyLead: 'The key is shown once, after it is created. Use a key of its own for each service.', nameHint: 'At most 200 characters, such as the name of the service.',
  expiresOptional: 'Expires (optional)', expiresHint: 'Your time. Without it the key does not expire.', inheritOptional: 'Reads the attempts of (optional)',
  inheritHint: 'The new key sees the attempts of that key and of its successors.', noKey: 'No other key', keyOption: '{name} ({prefix})',
  creating: 'Creating…', keyNotCreated: 'The key was not created', keyCreated: 'Key created', keyIsCreated: '{prefix} is created.',
  keyShown: 'The key is shown this one time. Store it now where your server reads its secrets.', copyKey: 'Copy key', notCopiedYet: 'Not copied yet',
  tierLine: '{tier}, {n} requests per {period} s', tryIt: 'Try it', copyCommandWithKey: 'Copy command with key', closingAsks: 'Until you copy it, closing asks first.',
  closeUncopiedKey: 'Close without copying? The key cannot be shown again; you would have to create another.', keepOpen: 'Keep open',
  rotateTitle: 'Rotate {name}', rotateLead: 'A new key with the same name, tier and expiry replaces this one.',
  sameExpiry: 'The new key expires on {at} too. For a later end, create a key that reads the attempts of this one.', overlap: 'How long {prefix} still works',
  overlaps: /** @type {[number, string][]} */ ([[86_400, '24 hours'], [3_600, '1 hour'], [0, 'Not at all: it stops at once']]),
  attemptsFollow: 'Attempts follow a rotation: the new key reads the old key’s attempts. A key that you create does not.', rotating: 'Rotating…',
  keyNotRotated: 'The key was not rotated', keyRotated: 'Key rotated', isReplaced: '{prefix} is replaced by {by}.',
  oldNotConfirmed: 'Not confirmed yet: some pods may still accept {prefix}. Revoke it to confirm.',
  revokeTitle: 'Revoke {name}', revokeLead: 'Requests with {prefix} are refused from now on. Type the prefix to confirm.', revokeKey: 'Revoke key', askAgain: 'Ask again',
  typePrefix: 'Prefix', typeThis: 'Type {prefix}.', waitingForPods: 'Waiting for all pods…', keyNotRevoked: 'The key was not revoked',
  notConfirmed: 'Not confirmed yet. Some pods may still accept the key.', isRevoked: '{prefix} is revoked. All pods have confirmed it.',

  // Usage
  loadingUsage: 'Loading usage…', usageFailed: 'The usage could not be loaded', downloadCSV: 'Download CSV', range: 'Range', from: 'From', to: 'to', key: 'Key', allKeys: 'All keys',
  requestsADay: 'Requests a day', dayReadout: '{day}: {allowed} allowed, {limited} limited', day: 'Day', daysByKey: ['{n} day by key', '{n} days by key'],
  allowed: 'Allowed', limited: 'Limited', total: 'Total', limitedNote: 'Limited: answered 429. On top of the bar, all keys together.', otherKeys: 'other keys',
  byDay: 'By day, newest first', daysInUTC: 'Days in UTC. A request is counted within a minute.', soFar: ', so far', nAllowed: '{n} allowed', nLimited: 'limited {n}',
  rangeOfAll: 'All keys together are shown for at most {n} days. Choose fewer days, or one key.', rangeOfKey: 'A key is shown for at most {n} days. Choose fewer days.',
  csvHead: ['day', 'key_prefix', 'name', 'allowed', 'limited', 'billable'],

  // Webhooks
  loadingWebhooks: 'Loading webhooks…', webhooksFailed: 'The webhooks could not be loaded', emptyWebhooks: 'This account has no endpoints yet. Add one to receive events.',
  endpointCount: ['1 endpoint of at most 50.', '{n} endpoints of at most 50.'], endpoint: 'Endpoint', health: 'Health', lastStatus: 'Last status', waiting: 'Waiting', lastSuccess: 'Last success',
  failingSince: 'Failing since {at}', nothingSentYet: 'Nothing sent yet', webhookLine: 'last status {status}, waiting {waiting}, last success {success}',
  addEndpoint: 'Add endpoint', addEndpointLead: 'Its signing secret is shown once, after it is added. Deliveries begin with the next event.', adding: 'Adding…',
  endpointNotAdded: 'The endpoint was not added', endpointAdded: 'Endpoint added', endpointIsAdded: '{url} is added.', url: 'URL', urlHint: 'An HTTPS URL on the public internet.',
  events: 'Events', eventKinds: { 'mock_attempt.submitted': 'a learner submits', 'mock_attempt.scored': 'a result is ready', 'exam.content_updated': 'an exam changes' },
  descriptionOptional: 'Description (optional)', descriptionHint: 'Your own words, at most 500 characters.', description: 'Description',
  secretShown: 'The signing secret is shown this one time. Your receiver verifies deliveries with it.', copySecret: 'Copy secret',
  closeUncopiedSecret: 'Close without copying? The secret cannot be shown again; you would have to rotate it.',
  loadingWebhook: 'Loading endpoint…', webhookFailed: 'The endpoint could not be loaded', deliveries: 'Deliveries', settings: 'Settings', verifySignatures: 'Verify signatures',
  failingTitle: 'Failing since {since}, for {span}', wasLastFailure: '{why} was the last failure.', retriesContinue: 'Retries continue.', waitingDeliveries: 'Waiting deliveries',
  oldest: '{n}, oldest {at}', failedSinceSuccess: 'Failed since last success', disabledIfNone: 'Disabled, if none succeeds', healthyLine: 'Healthy, last success {at}. Waiting: {n}.',
  disabledLead: 'Nothing is delivered. Fix the receiver, then enable the endpoint under Settings.',
  managedBy: 'This endpoint is declared in the cluster: namespace {namespace}, name {name}. It is changed only there.',
  failures: {
    status: 'returned {status}', redirect: 'redirected with {status}', timeout: 'timed out', dns: 'DNS: name not found', tls: 'TLS: no trusted certificate',
    connection: 'connection failed', refused_address: 'refused: private address', url: 'URL not usable', cancelled: 'interrupted by the service',
    worker_lost: 'interrupted; not counted', internal: 'error of the service',
  },
  help: {
    tls: 'Renew the certificate of {host}, then send a test event.', dns: 'Check the DNS records of {host}, then send a test event.',
    timeout: 'Make {host} respond within 10 s, then send a test event.', connection: 'Check that {host} accepts connections, then send a test event.',
    refused_address: 'Give {host} a public address, then send a test event.', redirect: 'Change the URL to the final address of {host}; redirects are not followed.',
    other: 'Make {host} return a 2xx status, then send a test event.',
  },
  timedOutAfter: 'timed out after {time}', statusIn: '{status} in {time}', returned: 'returned {status}', notSentYet: 'not sent yet',
  sendTest: 'Send test event', testNotSent: 'The test event was not sent', testEvent: 'Test event', testSent: 'Test event sent', testArrived: 'Test event arrived', testFailed: 'Test event failed',
  testWaiting: 'Waiting for the outcome…', nextAttemptAt: 'Next attempt at {at}', outcomeFailed: 'The outcome could not be loaded',

  // Deliveries
  loadingDeliveries: 'Loading deliveries…', deliveriesFailed: 'The deliveries could not be loaded', emptyDeliveries: 'Nothing was sent to this endpoint yet. Send a test event.',
  noDelivery: 'No delivery matches these filters. {clear}', clearFilters: 'Clear the filters', all: 'All', failed: 'Failed', succeeded: 'Succeeded', cancelled: 'Cancelled',
  waitingForRetry: 'Waiting for retry', waitingToSend: 'Waiting to be sent', allEvents: 'All events', since: 'Since', lastResult: 'Last result', event: 'Event', delivery: 'Delivery', attempts: 'Attempts',
  redeliver: 'Redeliver', isRedelivered: 'The event of {id} is sent again.', notRedelivered: 'The event was not sent again',
  loadingDelivery: 'Loading attempts…', deliveryFailed: 'The attempts could not be loaded', attempt: 'Attempt', sent: 'Sent', result: 'Result', firstBytes: 'Response, first bytes',
  nOf: '{n} of {most}', theLastOf: 'the last of {n}', nextAttemptIn: 'next attempt in {span}', nextAttemptDue: 'next attempt is due', noResponse: 'no response', emptyResponse: 'empty response',
  noResponseNotSent: 'no response; the request was not sent', noAttempts: 'No attempt has ended yet.', deliveryIds: 'Delivery {id}, event {event}.',
  recoverSince: 'Recover since…', recoverTitle: 'Recover deliveries', recoverLead: 'Every failed or cancelled delivery that ended since this time is sent again, oldest first.',
  startOfFailure: 'Start of failure', chooseTime: 'Choose a time within the last 30 days.', zoneHint: 'Your time, UTC{zone}. In UTC: {utc}.', counting: 'Counting…',
  countingDeliveries: 'Counting deliveries…', willBeSent: ['1 delivery will be sent.', '{n} deliveries will be sent.'], notCounted: 'The deliveries could not be counted',
  firstAreSent: ['', 'The first {n} deliveries will be sent. Recover again for the others.'], waitStill: ['1 more waits for its retry and is sent by itself. Redeliver sends it at once.', '{n} more wait for their retries and are sent by themselves. Redeliver sends one at once.'],
  stillFails: 'The endpoint still fails. Send a test event first, or these deliveries will fail again.', sendDeliveries: ['Send 1 delivery', 'Send {n} deliveries'],
  sending: 'Sending…', areSent: ['1 delivery is on its way.', '{n} deliveries are on their way.'], notRecovered: 'The deliveries were not sent',

  // Settings of an endpoint
  saveChanges: 'Save changes', saving: 'Saving…', changesSaved: 'The changes are saved.', notSaved: 'The changes were not saved',
  rotateSecret: {
    title: 'Rotate signing secret', short: 'The old secret also signs for 24 hours.', button: 'Rotate secret', failed: 'The secret was not rotated',
    lead: 'The new secret is shown once. For 24 hours the old one also signs, so that a receiver with either accepts deliveries.',
  },
  disable: {
    title: 'Disable endpoint', short: 'Pending deliveries are cancelled, and later events are not delivered.', button: 'Disable endpoint', failed: 'The endpoint was not disabled', done: '{url} is disabled.',
    lead: 'Pending deliveries to {url} are cancelled. Events that happen meanwhile are not delivered later, unless you recover them.',
  },
  enable: {
    title: 'Enable endpoint', short: 'Deliveries begin with the next event.', button: 'Enable endpoint', failed: 'The endpoint was not enabled', done: '{url} is enabled.',
    lead: 'Deliveries to {url} begin with the next event.',
  },
  remove: {
    title: 'Delete endpoint', short: 'Its deliveries and its signing secret are deleted with it.', button: 'Delete endpoint', failed: 'The endpoint was not deleted', done: '{url} is deleted.',
    lead: 'Pending deliveries to {url} are cancelled. An attempt in flight may still arrive.',
  },
  isRotated: 'The signing secret of {url} is rotated.', secretRotated: 'Secret rotated', secretRotatedLead: 'The signing secret is shown this one time. The old one also signs for 24 hours.',
  verifyLead: 'Verify each delivery over the raw body, before any parsing. One v1 must match; reject a time that is more than 300 s away.', language: 'Language',
  copyCode: 'Copy code', verifyMore: 'Signatures in the documentation',

  // Activity
  loadingActivity: 'Loading activity…', activityFailed: 'The activity could not be loaded', noActivity: 'Nothing was changed in this account yet.',
  noActivityFiltered: 'No entry has this action. Choose another.', allActions: 'All actions', action: 'Action', target: 'Target', person: 'Person',
  actionNames: {
    'key.create': 'Key created', 'key.rotate': 'Key rotated', 'key.revoke': 'Key revoked', 'key.set_tier': 'Tier of key set', 'webhook.create': 'Endpoint added',
    'webhook.update': 'Endpoint changed', 'webhook.rotate_secret': 'Signing secret rotated', 'webhook.test': 'Test event sent', 'webhook.redeliver': 'Event redelivered',
    'webhook.recover': 'Deliveries recovered', 'webhook.delete': 'Endpoint deleted', 'invitation.create': 'Person invited', 'invitation.accept': 'Invitation accepted',
    'invitation.decline': 'Invitation declined', 'invitation.withdraw': 'Invitation withdrawn', 'member.add': 'Member added', 'member.update': 'Role changed',
    'member.remove': 'Member removed', 'session.begin': 'Signed in', 'session.choose': 'Account chosen', 'session.end': 'Signed out', 'session.end_all': 'Signed out everywhere',
    'account.create': 'Account created', 'account.limit': 'Limit of keys set',
  },

  // Account
  loadingMembers: 'Loading members…', membersFailed: 'The members could not be loaded', members: 'Members', inviteMember: 'Invite member', madeBySignIn: 'Your account, made at your first sign-in',
  openInvitations: 'Open invitations', memberCount: ['1 member', '{n} members'], invitationCount: ['1 invitation; at most 100', '{n} invitations; at most 100'],
  invitedAs: 'Invited as {role} by {inviter}. Expires on {end}, in {span}.', giveAddress: 'No e-mail is sent. Give the person this address; after sign-in the console asks them to accept.',
  copyAddress: 'Copy address', withdraw: 'Withdraw', isWithdrawn: 'The invitation of {email} is withdrawn.', notWithdrawn: 'The invitation was not withdrawn',
  you: '(you)', role: 'Role', joined: 'Joined', joinedOn: 'joined {at}', changeRole: 'Change role', removeMember: 'Remove', leaveAccount: 'Leave account',
  roleMeanings: { owner: 'Everything, including members. An account keeps at least one owner.', developer: 'Creates, rotates and revokes keys, manages webhooks, reads everything.', viewer: 'Reads everything, changes nothing.' },
  inviteLead: 'The invitation is open for 14 days. No e-mail is sent: give the person the address of this console.', email: 'E-mail address',
  emailHint: 'The address that the person signs in with.', notInvited: 'The person was not invited', isInvited: '{email} is invited as {role}.',
  changeRoleOf: 'Role of {name}', changeRoleLead: 'The change holds from the member’s next request on.', roleNotChanged: 'The role was not changed', hasRole: '{name} is {role} now.',
  removal: {
    title: 'Remove {name}', button: 'Remove', failed: 'The member was not removed', done: '{name} is removed.',
    lead: 'The sessions of this person in this account end at once. Keys that the person created keep working.',
  },
  leaving: { title: 'Leave this account', button: 'Leave account', failed: 'You did not leave the account', lead: 'Your sessions in this account end. An owner can invite you again.' },
  sessions: 'Your sessions', loadingSessions: 'Loading sessions…', sessionsFailed: 'The sessions could not be loaded', signedIn: 'Signed in', thisSession: '(this session)', noAccount: 'No account yet',
  sessionLine: 'signed in {at}, used {used}', signedInAs: 'Signed in as', signOutEverywhere: 'Sign out everywhere',
  yourInvitations: 'Your invitations', invitesYou: '{account} invites you as {role}', invitedBy: 'Invited by {inviter}. Open until {end}.', accept: 'Accept', decline: 'Decline',
  declined: 'The invitation of {account} is declined.', notAccepted: 'The invitation was not accepted', notDeclined: 'The invitation was not declined',
  welcome: 'Welcome', noAccountYet: 'You are signed in and work in no account yet.', chooseAccount: 'Choose an account', ownAccount: 'An account of your own',
  ownAccountLead: 'You can also begin with an account of your own. Invitations stay open.', createAccount: 'Create account', accountNotCreated: 'The account was not created',

  // Signed out
  signedOut: 'Signed out', signedOutLead: 'Your session has ended. Sign in to work in the console again.', refused: 'Sign-in refused',
  refusedLead: 'The sign-in was not completed. Begin again; a sign-in must be completed within 10 minutes in the browser that began it.',
  refusals: {
    no_account: 'You are signed in at the provider, and no account has you as a member. An owner of an account can invite you.',
    expired: 'The sign-in took longer than 10 minutes, was used before, or began in another browser.', denied: 'The provider did not sign you in.', provider: 'The provider could not complete the sign-in. Try again later.',
    unavailable: 'A part of the service is not available. Try again in a minute.', internal: 'The service failed. Give the request id to the contact.',
  },
  askContact: 'Contact for access: {contact}',
};
