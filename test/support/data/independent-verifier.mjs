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
  `amount_micro_usd approval_id asserted chain_id conditions constraints_evaluated decision domain
external facts gate_id hold_expires_at id passport_id permission_key permit_token pii policy_hash
previous_attestation_hash proof reason refers_to request_hash resolution sequence shadow signing_key_id source
source_account state_age_ms test timestamp trust_level units user wallet_id wallet_path hash signature`.replaceAll(
    '\n',
    ' ',
  );
const chainMembers = 'chain_id first_sequence last_hash last_sequence previous_attestation_hash';
const members = (object) => Object.keys(object).join(' ');
const sha256 = (text, encoding) => createHash('sha256').update(text).digest(encoding);

function check(value, what) {
  if (value === false || value === undefined) throw new Error(what);
  return value;
}

const kinds = ['policy', 'catalog', 'passport', 'approval', 'condition'];
const isStop = (line) => line !== undefined && ['chain', 'end', ...kinds].some((name) => name in line);
const isAttached = (line) => kinds.some((name) => name in line);

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join()}}`;
}

function keyOf(jwks, kid, purpose) {
  const { x, nbf } = check(
    jwks.keys.find((each) => each.kid === kid && each.purpose === purpose),
    `unknown key ${kid}`,
  );
  check(sha256(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`, 'base64url') === kid, 'kid is no thumbprint');
  return { nbf, key: createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }) };
}

/** By its place in the file: the records that name it. */
function nameAll(record, named) {
  const { policy_hash, passport_id, approval_id, refers_to, chain_id } = record;
  const names = [policy_hash && `0 ${policy_hash}`, passport_id && `2 ${passport_id}`];
  const resolved = refers_to?.startsWith('appr_') ? refers_to : null;
  for (const id of new Set([approval_id, resolved])) names.push(id && `3 ${chain_id} ${id}`);
  for (const name of names.filter(Boolean)) {
    // Of passports and policies the records are not needed.
    if (!named.has(name)) named.set(name, []);
    if (name.startsWith('3')) named.get(name).push(record);
  }
}

function partsOf(kind, value) {
  if (kind === 'catalog') {
    const { content_hash: hash, signature, ...body } = value;
    return { name: hash, hash, body, kid: body.signing_key_id, signature };
  }
  const first = kind === 'policy' ? 'body policy_hash' : 'body hash';
  check(members(value) === `${first} signature signing_key_id`, kind);
  const { body, signature, signing_key_id: kid } = value;
  const hash = value.policy_hash ?? value.hash;
  const { passport_id, approval_id } = body;
  const approval = `${passport_id} ${approval_id}`;
  const names = { policy: hash, passport: passport_id, approval, condition: hash };
  return { name: names[kind], hash, body, kid, signature };
}

function checkApproval(approval, records, policies) {
  const { approval_id: id, request_hash, amount_micro_usd, removed, answers = [] } = approval;
  if (id.startsWith('sappr_') || removed === true) return;
  const isPermit = (each) => each.decision === 'PERMIT';
  const isOutcome = (each) => isPermit(each) && each.resolution !== null && each.resolution !== 'voided';
  const isSame = (each) =>
    each.request_hash === request_hash && (isOutcome(each) || each.amount_micro_usd === amount_micro_usd);
  check(records.every(isSame), `another request than that of ${id}`);
  const hashes = new Set(records.map((each) => each.policy_hash).filter(Boolean));
  check(hashes.size <= 1, `two policies of ${id}`);
  const [policy] = hashes;
  for (const { answer, assertion } of answers) {
    if (assertion === null) continue;
    check(policy === undefined || assertion.policy_hash === policy, `policy that an answer of ${id} signs`);
    checkAssertion({ amount_micro_usd, answer, approval_id: id, request_hash }, assertion);
  }
  const rule = policies.get(policy)?.constraints.approvals;
  if (rule?.passkey !== true) return;
  const people = (given) =>
    new Set(answers.filter(({ answer }) => answer === given).map((each) => each.user_id));
  const has = (resolution) => records.some((each) => each.resolution === resolution);
  check(
    answers.every(({ assertion }) => assertion !== null),
    `an answer of ${id} is not signed`,
  );
  const isApproved = has('approved') || records.some(isPermit);
  check(!isApproved || people('approved').size >= (rule.approvers?.count ?? 1), `answers of ${id}`);
  check(!has('denied') || people('denied').size >= 1, `answers of ${id}`);
}

/** docs/approvals.md, Proof. */
function checkAssertion(answered, { policy_hash, ...proof }) {
  const [data, client, signature] = ['authenticator_data', 'client_data_json', 'signature'].map((part) =>
    Buffer.from(proof[part], 'base64url'),
  );
  const said = JSON.parse(client.toString());
  check(said.type === 'webauthn.get' && said.origin === proof.origin && said.crossOrigin !== true, 'page');
  check(said.challenge === sha256(canonical({ ...answered, policy_hash }), 'base64url'), 'challenge');
  check(data.subarray(0, 32).equals(createHash('sha256').update(proof.rp_id).digest()), 'host');
  check(data.length >= 37 && (data[32] & 5) === 5, 'nobody unlocked the passkey');
  const message = Buffer.concat([data, createHash('sha256').update(client).digest()]);
  const key = createPublicKey({ key: proof.public_key, format: 'jwk' });
  const digest = proof.public_key.kty === 'OKP' ? null : 'sha256';
  check(verify(digest, message, key, signature), 'signature of a passkey');
}

/** The head that a tlog-proof shows to be in the tree of its checkpoint (docs/log.md, RFC 6962). */
function headInLog(proof, fault) {
  const [top, ...rest] = proof.split('\n\n');
  const [version, extra, place, ...path] = top.split('\n');
  const [, sizeText, root] = (rest[0] ?? '').split('\n');
  const head = JSON.parse(Buffer.from(extra.slice('extra '.length), 'base64'));
  const [index, size] = [Number(place.slice('index '.length)), Number(sizeText)];
  const hash = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest();
  const text = `agent-trust.log.v1\n${head.chain_id}\n${head.sequence}\n${head.hash}\n`;
  const rootOf = (at, count, hashes) => {
    if (count === 1) return check(hashes.length === 0, fault) && hash(Buffer.of(0), entry);
    const half = 2 ** Math.ceil(Math.log2(count) - 1);
    const sibling = Buffer.from(check(hashes.at(-1), fault), 'base64');
    const below = hashes.slice(0, -1);
    return at < half
      ? hash(Buffer.of(1), rootOf(at, half, below), sibling)
      : hash(Buffer.of(1), sibling, rootOf(at - half, count - half, below));
  };
  const entry = hash(Buffer.from(text));
  check(version === 'c2sp.org/tlog-proof@v1' && index < size, fault);
  check(rootOf(index, size, path).toString('base64') === root, fault);
  return head;
}

function commitmentOf({ path, salt, value, absent, hashed }) {
  const whole = canonical(value);
  const isLong = Buffer.byteLength(whole) > 1024;
  const form = absent ? '' : hashed ? value : isLong ? `sha256:${sha256(whole, 'hex')}` : whole;
  return `sha256:${sha256(`agent-trust.fact.v1:${salt}:${path}:${form}`, 'hex')}`;
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
  const keys = new Map(manifest.key_ids.map((kid) => [kid, keyOf(jwks, kid, 'attestation')]));
  let [lastId, chains, records] = ['', 0, 0];
  const [named, policies] = [new Map(), new Map()];
  while (values.length > 1 && !isAttached(values.at(-1))) {
    const { chain, ...other } = values.pop();
    check(members(other) === '', 'a chain should stand here');
    const { archived = { hash: null, through_sequence: 0 }, log_proof: proof, ...header } = chain;
    const logged = proof === undefined ? { sequence: 0 } : headInLog(proof, `proof of ${chain.chain_id}`);
    const isLogged = logged.chain_id === chain.chain_id && logged.sequence >= chain.first_sequence;
    check(proof === undefined || (isLogged && logged.sequence <= chain.last_sequence), 'proof of a chain');
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
      if (form === 2) nameAll(body, named);
      check(hash === `sha256:${sha256(canonical(body), 'hex')}`, fault);
      const { key, nbf } = check(keys.get(body.signing_key_id), fault);
      const bytes = Buffer.from(signature, 'base64url');
      check(verify(null, Buffer.from(`agent-trust.attestation.v1:${hash}`), key, bytes), fault);
      check(bytes.toString('base64url') === signature && nbf * 1000 <= createdMs + 60_000, fault);
      check(body.sequence === sequence && body.previous_attestation_hash === previous, fault);
      check(body.chain_id === chain.chain_id && signature.length === 86, fault);
      const mayBeOlder = sequence > chain.first_sequence || (sequence === start && start > 1);
      check(mayBeOlder || Date.parse(body.timestamp) >= sinceMs, fault);
      check(sequence !== logged.sequence || hash === logged.hash, fault);
      previous = hash;
      const closed = new Map((body.facts ?? []).map(({ path, commitment }) => [path, commitment]));
      if (body.user) closed.set('/user', body.user);
      while (values.at(-1) !== undefined && 'attestation_id' in values.at(-1)) {
        const { attestation_id, facts } = values.pop();
        check(attestation_id === body.id, fault);
        for (const fact of facts) {
          check(closed.get(fact.path) === fact.commitment && closed.delete(fact.path), fault);
          check(commitmentOf(fact) === fact.commitment, fault);
        }
      }
    }
    const isBroken = values[0].end?.broken !== undefined;
    check(
      previous === chain.last_hash || (isBroken && isStop(values.at(-1))),
      `end of chain ${chain.chain_id}`,
    );
    [lastId, chains] = [chain.chain_id, chains + 1];
  }
  const expressions = new Set();
  for (let last = ''; values.length > 1; ) {
    const [[kind, value], ...others] = Object.entries(values.pop());
    check(others.length === 0 && kinds.includes(kind) && form === 2, 'a policy should stand here');
    const { name, hash, body, kid, signature } = partsOf(kind, value);
    const place = `${kinds.indexOf(kind)} ${name}`;
    const isNamed = kind === 'condition' ? expressions.delete(body.require) : named.has(place);
    check(place > last && isNamed, `${kind} ${name}`);
    for (const { require } of body.constraints?.conditions ?? []) expressions.add(require);
    check(hash === `sha256:${sha256(canonical(body), 'hex')}`, `${kind} ${name}`);
    const key = kind === 'catalog' ? keyOf(jwks, kid, 'catalog') : check(keys.get(kid), `key of ${name}`);
    const bytes = Buffer.from(signature, 'base64url');
    check(verify(null, Buffer.from(`agent-trust.${kind}.v1:${hash}`), key.key, bytes), `${kind} ${name}`);
    check(bytes.toString('base64url') === signature, `${kind} ${name}`);
    if (kind === 'policy' && body.catalog_hash !== null) named.set(`1 ${body.catalog_hash}`, []);
    if (kind === 'policy') policies.set(hash, body);
    if (kind === 'approval') checkApproval(body, named.get(place), policies);
    named.delete(place);
    last = place;
  }
  check(named.size === 0, `${[...named.keys()][0]} is missing`);
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
