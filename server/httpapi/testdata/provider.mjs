// Runs a certified OpenID Connect provider for a test, until its standard input ends:
//
//	node provider.mjs PACKAGES ISSUER CLIENT_ID CLIENT_SECRET REDIRECT_URI
//
// PACKAGES is the directory that holds node_modules. It prints "port N". To each line that it reads it answers "done",
// having begun to sign with a new key that alone it publishes from then on.
//
// Anybody signs in, as whoever they say, on the provider's own development pages; PKCE is required. By the standard's
// default, which it keeps to, the e-mail address is told by UserInfo and not in the ID token.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [packages, issuer, clientID, clientSecret, redirectURI] = process.argv.slice(2);
const entry = createRequire(`${packages}/package.json`).resolve('oidc-provider');
const { Provider } = await import(pathToFileURL(entry));

function provider() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return new Provider(issuer, {
    clients: [{ client_id: clientID, client_secret: clientSecret, redirect_uris: [redirectURI] }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    cookies: { keys: ['test'] },
    findAccount: (_, sub) => ({
      accountId: sub,
      claims: () => ({ sub, email: `${sub}@example.org`, email_verified: !sub.startsWith('unverified') }),
    }),
    jwks: { keys: [privateKey.export({ format: 'jwk' })] },
    pkce: { required: () => true },
  });
}

let handle = provider().callback();
const server = createServer((request, response) => handle(request, response));
server.listen(0, '127.0.0.1', () => console.log(`port ${server.address().port}`));

const commands = createInterface({ input: process.stdin });
commands.on('line', () => {
  handle = provider().callback();
  console.log('done');
});
commands.on('close', () => process.exit());
