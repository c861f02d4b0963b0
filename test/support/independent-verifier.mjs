// Verifies an export with nothing of this project: written from docs/verify.md alone, with what Node brings
// along. node independent-verifier.mjs export.jsonl jwks.json prints OK and exits 0, or the first fault and
// exits 5
import { createHash, createPublicKey, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const recordMembers =
  `amount_micro_usd chain_id constraints_evaluated decision gate_id id passport_id permission_key
pii previous_attestation_hash reason refers_to request_hash resolution sequence signing_key_id source source_account test
timestamp hash signature`.replaceAll('\n', ' ');
const earlierMembers = recordMembers.replace('refers_to ', '').replace('source_account ', '');
const record2Members =
  `amount_micro_usd approval_id asserted chain_id constraints_evaluated decision domain gate_id
hold_expires_at id passport_id permission_key pii policy_hash previous_attestation_hash proof reason refers_to
request_hash resolution sequence signing_key_id source source_account state_age_ms test timestamp trust_level wallet_id
hash signature`.replaceAll('\n', ' ');
const chainMembers = 'chain_id first_sequence last_hash last_sequence previous_attestation_hash';
const members = (object) => Object.keys(object).join(' ');
const sha256 = (text, encoding) => createHash('sha256').update(text).digest(encoding);

function check(value, what) {
  if (value === false || value === undefined) throw new Error(what);
  return value;
}

const isStop = (line) => line !== undefined && ('chain' in line || 'policy' in line || 'end' in line);

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join()}}`;
}

export function verifyExport(file, jwks) {
  const lines = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(file).split('\n');
  check(lines.pop() === '', 'the last line does not end');
  const values = lines.map((line) => JSON.parse(line)).reverse();
  check(canonical(values) === `[${lines.reverse().join()}]`, 'a line is not canonical');
  const { manifest, ...none } = values.pop();
  const manifests = ['created_at format generation key_ids since', 'created_at format key_ids since'];
  check(manifests.includes(members({ ...none, ...manifest })), 'no manifest');
  const form = ['agent-trust.attestations.v1', 'agent-trust.attestations.v2'].indexOf(manifest.format) + 1;
  check(form > 0, 'unknown format');
  const recordForms = [earlierMembers, recordMembers, record2Members].slice(0, form + 1);
  const [createdMs, sinceMs] = [Date.parse(manifest.created_at), Date.parse(manifest.since ?? '1970-01-01')];
  const keys = new Map();
  for (const kid of manifest.key_ids) {
    const jwk = jwks.keys.find((each) => each.kid === kid && each.purpose === 'attestation');
    const { x, nbf } = check(jwk, `unknown key ${kid}`);
    check(sha256(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`, 'base64url') === kid, 'kid is no thumbprint');
    keys.set(kid, { nbf, key: createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }) });
  }
  let [lastId, chains, records] = ['', 0, 0];
  const named = new Set();
  while (values.length > 1 && !('policy' in values.at(-1))) {
    const { chain, ...other } = values.pop();
    check(members(other) === '', 'a chain should stand here');
    const { archived = { hash: null, through_sequence: 0 }, ...header } = chain;
    check(members(header) === chainMembers && chain.chain_id > lastId, `chain after ${lastId}`);
    check(members(archived) === 'hash through_sequence', `archive of ${chain.chain_id}`);
    const start = archived.through_sequence + 1;
    check((chain.first_sequence === 1) === (chain.previous_attestation_hash === null), 'start of a chain');
    check(chain.first_sequence === start || manifest.since !== null, `a chain does not begin at ${start}`);
    const isJoined = chain.first_sequence !== start || chain.previous_attestation_hash === archived.hash;
    check(isJoined && chain.first_sequence >= start, `archive of ${chain.chain_id}`);
    let previous = chain.previous_attestation_hash;
    for (let sequence = chain.first_sequence; sequence <= chain.last_sequence; sequence++, records++) {
      const fault = `chain ${chain.chain_id}, sequence ${sequence}`;
      if (isStop(values.at(-1))) break;
      const { hash, signature, ...body } = check(values.pop(), fault);
      check(recordForms.includes(members({ ...body, hash, signature })), fault);
      if (typeof body.policy_hash === 'string') named.add(body.policy_hash);
      check(hash === `sha256:${sha256(canonical(body), 'hex')}`, fault);
      const { key, nbf } = check(keys.get(body.signing_key_id), fault);
      const bytes = Buffer.from(signature, 'base64url');
      check(verify(null, Buffer.from(`agent-trust.attestation.v1:${hash}`), key, bytes), fault);
      check(bytes.toString('base64url') === signature && nbf * 1000 <= createdMs + 60_000, fault);
      check(body.sequence === sequence && body.previous_attestation_hash === previous, fault);
      check(body.chain_id === chain.chain_id && signature.length === 86, fault);
      const mayBeOlder = sequence > chain.first_sequence || (sequence === start && start > 1);
      check(mayBeOlder || Date.parse(body.timestamp) >= sinceMs, fault);
      previous = hash;
    }
    const isBroken = values[0].end?.broken !== undefined;
    check(
      previous === chain.last_hash || (isBroken && isStop(values.at(-1))),
      `end of chain ${chain.chain_id}`,
    );
    [lastId, chains] = [chain.chain_id, chains + 1];
  }
  for (let last = ''; values.length > 1; ) {
    const { policy, ...other } = values.pop();
    check(members(other) === '' && form === 2, 'a policy should stand here');
    check(members(policy) === 'body policy_hash signature signing_key_id', 'policy');
    const { body, policy_hash: hash, signature, signing_key_id } = policy;
    check(hash > last && named.delete(hash), `policy ${hash}`);
    check(hash === `sha256:${sha256(canonical(body), 'hex')}`, `policy ${hash}`);
    const { key } = check(keys.get(signing_key_id), `policy ${hash}`);
    const bytes = Buffer.from(signature, 'base64url');
    check(verify(null, Buffer.from(`agent-trust.policy.v1:${hash}`), key, bytes), `policy ${hash}`);
    check(bytes.toString('base64url') === signature, `policy ${hash}`);
    last = hash;
  }
  check(named.size === 0, 'a policy is missing');
  const { broken = [], broken_unnamed: _, ...end } = values.pop().end;
  check(values.length === 0 && canonical(end) === canonical({ chains, records }), 'end');
  const [first] = broken;
  check(first === undefined, `chain ${first?.chain_id}, sequence ${first?.sequence}: ${first?.fault}`);
  return { chains, records };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    verifyExport(readFileSync(process.argv[2]), JSON.parse(readFileSync(process.argv[3], 'utf8')));
    console.log('OK');
  } catch (error) {
    console.log(`NOT OK: ${error.message}`);
    process.exitCode = 5;
  }
}
