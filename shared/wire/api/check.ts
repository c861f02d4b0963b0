import { type Static, type TSchema, Type } from 'typebox';
import { contentHash, textHash } from '../../crypto/content-hash.ts';
import { isJsonObject } from '../../crypto/json-object.ts';
import type { HoldAsk, PresentedProof, RequestFacts } from '../../decision/facts.ts';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import type { ApprovalDisplay } from '../../model/approval.ts';
import { type GateId, isId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import { amountUsdMax, type MicroUsd, parseUsd } from '../../model/money.ts';
import {
  isRequestablePermission,
  type PermissionKey,
  permissionCharsMax,
  requestablePermissionPattern,
} from '../../model/permission.ts';
import { refuseReceiptAsk } from '../evidence/decision-receipt.ts';
import { bodyReader } from './body.ts';
import { Display, parseDisplay } from './display.ts';
import { parseCalledHost, parseUrlHost, webUrlRule } from './domain.ts';
import { closed, FreeForm, nullable } from './fields.ts';
import { HoldAskBody, parseHoldAsk } from './hold.ts';
import { shapeReader, type Wire } from './shape.ts';

const orAbsent = <Schema extends TSchema>(schema: Schema) => Type.Optional(nullable(schema));
const Permission = orAbsent(
  Type.String({ maxLength: permissionCharsMax, pattern: requestablePermissionPattern.source }),
);
const Amount = orAbsent(Type.Number({ minimum: 0, maximum: amountUsdMax }));

/**
 * The members of a request that `parseRequestFacts` and `parseGateChoice` read, for the published document;
 * others are allowed. It describes and does not validate: the parser is stricter (synonyms must agree, hosts
 * must parse) and has better messages.
 */
export const RequestMembers = Type.Object(
  {
    permission_key: Permission,
    requested_action: Permission,
    action: Permission,
    amount: Amount,
    amount_usd: Amount,
    estimated_cost_usd: Amount,
    currency: orAbsent(Type.String()),
    domain: orAbsent(Type.String()),
    url: orAbsent(Type.String()),
    idempotency_key: orAbsent(
      Type.String({ minLength: 1, maxLength: limits.idempotencyKeyCharsMax, pattern: '^[^\\u0000]*$' }),
    ),
    approval_id: orAbsent(Type.String()),
    gate_id: orAbsent(Type.String()),
    proof: Type.Optional(Type.Unknown()),
    hold: orAbsent(HoldAskBody),
    display: orAbsent(Display),
    receipt: orAbsent(Type.Boolean()),
  },
  { additionalProperties: Type.Unknown() },
);

/**
 * `POST /gates/:id/check` and `POST /enforce`. A token that is too long is a BLOCK, not a 400: the body's own
 * limit bounds it.
 */
export const CheckBody = closed({ passport: Type.String(), request: RequestMembers });

/** `POST /gates/:id/test`. */
export const GateTestBody = closed({
  passport_token: Type.String(),
  requested_action: Type.Optional(Type.String()),
  context: Type.Optional(RequestMembers),
});

/**
 * A request as its caller wrote it: free-form except for the names that `parseRequestFacts` reads. Parsed by
 * wire/json.ts.
 */
export type RequestObject = Static<typeof FreeForm>;

/** `passport` is a bearer credential: never logged. */
const CheckCall = closed({ ...CheckBody.properties, request: FreeForm });
export type CheckCall = Wire<typeof CheckCall>;

/** Throws `invalid_request`, naming the field, for anything but a passport and a request. */
export const parseCheckBody = (body: unknown): CheckCall => (isCheckCall(body) ? body : readCheckBody(body));

const readCheckBody = shapeReader(CheckCall);

/** Equivalent to the schema, which would list every member of the free-form request. */
export function isCheckCall(body: unknown): body is CheckCall {
  if (!isJsonObject(body)) return false;
  const { passport, request } = body;
  if (typeof passport !== 'string' || !isJsonObject(request)) return false;
  let members = 0;
  // Parsed JSON has no inherited members.
  for (const _name in body) members++;
  return members === 2;
}

const readGateTest = bodyReader(closed({ ...GateTestBody.properties, context: Type.Optional(FreeForm) }));

/**
 * The same decision as a check of the context with the action in it. If both carry an action, the two must be
 * equal.
 */
export function parseGateTestBody(body: unknown): CheckCall {
  const { passport_token: passport, requested_action: action, context = {} } = readGateTest(body);
  if (action === undefined) return { passport, request: context };
  if (!isRequestablePermission(action)) {
    throw invalidRequest('requested_action', `requested_action ${permissionDemand}.`);
  }
  const inContext = context['requested_action'] ?? null;
  if (inContext !== null && inContext !== action) {
    throw differs('context', 'requested_action', 'the requested_action beside it');
  }
  return { passport, request: { ...context, requested_action: action } };
}

/**
 * The gate of an `/enforce` request; null if it names none. Throws 400 for a non-string and 404 for an
 * impossible gate id: a named gate that is not found must never become no gate.
 */
export function parseGateChoice(request: RequestObject): GateId | null {
  const gateId = request['gate_id'];
  if (gateId === undefined || gateId === null) return null;
  if (typeof gateId !== 'string')
    throw invalidRequest('request.gate_id', 'request.gate_id must be a string.');
  if (!isId('gate', gateId)) throw new ApiError('gate_not_found', { param: 'request.gate_id' });
  return gateId;
}

/**
 * Throws 400 if a request sent to one gate names another (contract §5): the caller's mapping of requests to
 * gates is wrong, so neither gate's decision would be right. `at` is the path of the request in the body.
 */
export function refuseOtherGate(request: RequestObject, gateId: string, at = 'request'): void {
  const named = request['gate_id'];
  if (named === undefined || named === null || named === gateId) return;
  throw invalidRequest(`${at}.gate_id`, `${at}.gate_id differs from the gate in the URL.`);
}

/**
 * Reads the context of contract §5 from a request; other members count for the hash only. A value must be of
 * its kind, or null for absent (contract §3), and synonyms must agree; else `invalid_request` naming the
 * field. `at` is the path of the request in the body. Reads no store and scans nothing: a presented
 * `approval` is `unasked`, or a `mismatch` if no approval could have its id, and `pii` is null. `canonical`:
 * the RFC 8785 form of the request, if the caller has it.
 */
export function parseRequestFacts(
  request: RequestObject,
  at = 'request',
  canonical: string | null = null,
): RequestFacts {
  refuseReceiptAsk(request['receipt'], at);
  const presented = readSynonyms(request, at, approvalIdNames);
  const approvalId = isId('appr', presented) ? presented : null;
  return {
    permissionKey: readSynonyms(request, at, permissionNames),
    amountMicroUsd: readSynonyms(request, at, amountNames),
    currency: readSynonyms(request, at, currencyNames),
    domain: readSynonyms(request, at, domainNames),
    approvalId,
    approval: presented === null ? 'none' : approvalId === null ? 'mismatch' : 'unasked',
    idempotencyKey: readSynonyms(request, at, idempotencyKeyNames),
    proof: readProof(request, at),
    hold: readHold(request, at),
    display: readDisplay(request, at),
    asked: request,
    requestHash: hashRequest(request, canonical),
    pii: null,
  };
}

const proofMembers: ReadonlySet<string> = new Set([
  ...['dpop', 'method', 'url', 'nonce', 'headers', 'content_digest'],
]);

/**
 * What its members hold is a matter of the decision: a proof of the wrong form is `proof_invalid`. Throws
 * `invalid_request` for a member that is none, which would be passed over.
 */
function readProof(request: RequestObject, at: string): PresentedProof {
  const proof = request['proof'] ?? null;
  if (isJsonObject(proof))
    for (const name of Object.keys(proof))
      if (!proofMembers.has(name))
        throw invalidRequest(`${at}.proof.${name}`, `${at}.proof.${name} is not a field.`);
  return proof === null ? noProof : unreadProof;
}

const noProof: PresentedProof = Object.freeze({ kind: 'none' });
const unreadProof: PresentedProof = Object.freeze({ kind: 'unread' });

/** A member name with its reader. A value for which `read` answers null is refused with `demand`. */
interface Reading<Value> {
  readonly name: string;
  readonly read: (value: unknown) => Value | null;
  readonly demand: string;
}

const readPermission = (value: unknown): PermissionKey | null =>
  isRequestablePermission(value) ? value : null;
const permissionDemand = `must be <area>:<action> in lower case, without *, at most ${permissionCharsMax} characters`;
const permissionNames: readonly Reading<PermissionKey>[] = [
  'permission_key',
  'requested_action',
  'action',
].map((name) => ({ name, read: readPermission, demand: permissionDemand }));

const amountDemand = 'must be a number of dollars from 0 to 1e9 with at most 6 decimals';
const amountNames: readonly Reading<MicroUsd>[] = ['amount', 'amount_usd', 'estimated_cost_usd'].map(
  (name) => ({
    name,
    read: parseUsd,
    demand: amountDemand,
  }),
);

/** Not validated: an unknown currency or approval is a BLOCK, not malformed (contract §5 and §8). */
const readText = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const currencyNames: readonly Reading<string>[] = [
  { name: 'currency', read: readText, demand: 'must be a string' },
];

const domainNames: readonly Reading<string>[] = [
  {
    name: 'domain',
    read: (value) => (typeof value === 'string' ? parseCalledHost(value) : null),
    demand: 'must be a host name, with ß, ς and joiners in Punycode',
  },
  {
    name: 'url',
    read: (value) => (typeof value === 'string' ? parseUrlHost(value) : null),
    demand: `must be ${webUrlRule}`,
  },
];

const approvalIdNames: readonly Reading<string>[] = [
  { name: 'approval_id', read: readText, demand: 'must be a string' },
];

const readIdempotencyKey = (value: unknown): string | null =>
  typeof value === 'string' &&
  value.length >= 1 &&
  value.length <= limits.idempotencyKeyCharsMax &&
  !value.includes('\0')
    ? value
    : null;
const idempotencyKeyNames: readonly Reading<string>[] = [
  {
    name: 'idempotency_key',
    read: readIdempotencyKey,
    demand: `must be a string of 1 to ${limits.idempotencyKeyCharsMax} characters, none of them NUL`,
  },
];

function readDisplay(request: RequestObject, at: string): ApprovalDisplay | null {
  const given = request['display'];
  return given === undefined || given === null ? null : parseDisplay(given, `${at}.display`);
}

function readHold(request: RequestObject, at: string): HoldAsk | null {
  const given = request['hold'];
  return given === undefined || given === null || given === false ? null : parseHoldAsk(given, `${at}.hold`);
}

/** Throws 400 for a hold without a gate, whose account would have to report its outcome. */
export function refuseHoldWithoutGate({ hold }: RequestFacts, gateId: string | null, at = 'request'): void {
  if (hold !== null && gateId === null)
    throw invalidRequest(`${at}.hold`, `${at}.hold needs a gate: name one in ${at}.gate_id.`);
}

/**
 * 400 for a member of the name under which conditions read the amount that counts: whoever sent it would
 * believe that they read this one. Null: it has none, or there are no conditions.
 */
export const sentAmount = ({ asked }: RequestFacts, hasConditions: boolean): ApiError | null =>
  hasConditions && (asked['amount_micro_usd'] ?? null) !== null
    ? invalidRequest(
        'request.amount_micro_usd',
        'request.amount_micro_usd is what conditions read of the amount: send request.amount, in dollars.',
      )
    : null;

function readSynonyms<Value extends string | number>(
  request: RequestObject,
  at: string,
  readings: readonly Reading<Value>[],
): Value | null {
  let agreed: Value | null = null;
  let agreedName = '';
  for (const { name, read, demand } of readings) {
    const given = request[name];
    if (given === undefined || given === null) continue;
    const value = read(given);
    if (value === null) throw invalidRequest(`${at}.${name}`, `${at}.${name} ${demand}.`);
    if (agreed !== null && value !== agreed) throw differs(at, name, `${at}.${agreedName}`);
    agreed = value;
    agreedName = name;
  }
  return agreed;
}

const differs = (at: string, name: string, other: string): ApiError =>
  invalidRequest(`${at}.${name}`, `${at}.${name} and ${other} mean the same and have different values.`);

/** Without `proof` and `approval_id`: a retry that adds them keeps its hash (contract §9). */
function hashRequest(request: RequestObject, canonical: string | null): string {
  if (request['proof'] === undefined && request['approval_id'] === undefined)
    return canonical === null ? contentHash(request) : textHash(canonical);
  const { proof: _proof, approval_id: _approvalId, ...rest } = request;
  return contentHash(rest);
}
