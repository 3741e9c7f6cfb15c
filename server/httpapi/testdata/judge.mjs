// Judges answers of the server by the contract with Ajv, a JSON Schema validator that shares no code with this project:
//
//     node judge.mjs PACKAGES openapi.json <answers
//
// PACKAGES is the directory that has node_modules. A line of the input is an answer as JSON: {operation, status, headers, body}.
// It prints each fault in a line, and last the number of answers.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const require = createRequire(`${process.argv[2]}/package.json`);
const Ajv = require('ajv/dist/2020').default;
const addFormats = require('ajv-formats').default;
const document = JSON.parse(readFileSync(process.argv[3], 'utf8'));
const ajv = new Ajv({ strict: false, allErrors: true });
addFormats(ajv);
ajv.addSchema({ $id: 'contract:', ...document });

const pointer = (...names) => '#' + names.map((name) => '/' + encodeURIComponent(String(name).replaceAll('~', '~0').replaceAll('/', '~1'))).join('');
const validators = new Map();
const validate = (at, value) => {
  if (!validators.has(at)) validators.set(at, ajv.compile({ $ref: `contract:${at}` }));
  const check = validators.get(at);
  return check(value) ? [] : check.errors.map((error) => `${error.instancePath} ${error.message}`);
};

// resolve returns an object and its place, after its reference.
const resolve = (object, at) => {
  if (!object?.$ref) return [object, at];
  const names = object.$ref.slice(2).split('/');
  return [names.reduce((node, name) => node[name], document), pointer(...names)];
};

const operations = new Map();
for (const [path, item] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(item)) {
    if (operation.operationId) operations.set(operation.operationId, [operation, pointer('paths', path, method)]);
  }
}

// ownHeaders are HTTP's; a contract does not list them.
const ownHeaders = new Set(['connection', 'content-length', 'content-type', 'date', 'transfer-encoding', 'keep-alive']);

const judge = ({ operation: id, status, headers, body }) => {
  const [operation, place] = operations.get(id);
  const status_ = operation.responses[status] ? status : 'default';
  const [response, at] = resolve(operation.responses[status_], `${place}/responses/${status_}`);
  if (status_ === 'default' && status < 400) return ['the status is not documented'];
  const faults = [];
  const described = new Map(Object.entries(response.headers ?? {}).map(([name, header]) => [name.toLowerCase(), [name, header]]));
  for (const [name, values] of Object.entries(headers)) {
    if (ownHeaders.has(name.toLowerCase())) continue;
    if (!described.has(name.toLowerCase())) faults.push(`the header ${name} is not documented`);
    else {
      const [written, reference] = described.get(name.toLowerCase());
      const [header, headerAt] = resolve(reference, `${at}/headers/${encodeURIComponent(written)}`);
      const [schema] = resolve(header.schema, '');
      for (const value of values) {
        const typed = schema.type === 'integer' ? Number(value) : value;
        faults.push(...validate(`${headerAt}/schema`, typed).map((fault) => `${name}: ${fault}`));
      }
    }
  }
  const given = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  for (const [name, [, reference]] of described) {
    if (resolve(reference, '')[0].required && !given.has(name)) faults.push(`the header ${name} is missing`);
  }
  if (response.content && status !== 304) {
    try {
      faults.push(...validate(`${at}/content/application~1json/schema`, JSON.parse(body)).map((fault) => `body: ${fault}`));
    } catch (error) {
      faults.push(`body: ${error.message}`);
    }
  } else if (body !== '') faults.push('the response has a body');
  return faults;
};

let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const answer = JSON.parse(line);
  count++;
  for (const fault of judge(answer)) console.log(`${answer.operation} ${answer.status}: ${fault}`);
}
console.log(`${count} answers`);
