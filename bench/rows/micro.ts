import { isAscii } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { domainToASCII } from 'node:url';
import canonicalize from 'canonicalize';
import { Type } from 'typebox';
import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { digestWordsOf } from '../../shared/crypto/id-digest.ts';
import { numberText } from '../../shared/crypto/number-text.ts';
import { RequestWriter } from '../../shared/crypto/request-writer.ts';
import { check, listChecks } from '../../shared/decision/check-set.ts';
import { compileRateWindows, compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import type { Decision, VerifiedPassport } from '../../shared/decision/facts.ts';
import { must } from '../../shared/errors/assert.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { UnixMillis, UnixSeconds } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { counterOf } from '../../shared/quota/window-limit.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { parseCheckBody } from '../../shared/wire/api/check.ts';
import { decisionJson, renderDecision } from '../../shared/wire/api/decision.ts';
import { parseHost } from '../../shared/wire/api/domain.ts';
import { closed, FreeForm } from '../../shared/wire/api/fields.ts';
import { shapeReader } from '../../shared/wire/api/shape.ts';
import { renderRecordRow, renderRowHead } from '../../shared/wire/sync/spooled-record.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import type { HeldView } from '../../sidecar/quota/held-view.ts';
import type { HeldWindow } from '../../sidecar/quota/held-window.ts';
import { WindowTable } from '../../sidecar/quota/window-table.ts';
import { verifiedCache } from '../../sidecar/verify/verified-cache.ts';
import { callsOf } from '../harness/calls.ts';
import { interleaved } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';

/**
 * A trick of the hot path and its plain form, which is its oracle in the tests.
 */
interface Trick {
  readonly name: string;
  readonly run: () => unknown;
  readonly plain: { readonly name: string; readonly run: () => unknown };
}

/** A trick that is no faster than its plain form goes. Comments cite the tricks by name. */
export async function micro({ size, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 3, brief: 1 }[size];
  const secondsEach = { full: 0.5, quick: 0.1, brief: 0.01 }[size];
  const sides = tricks.flatMap(({ name, run, plain }) => [
    callsOf(name, run),
    callsOf(plain.name, plain.run),
  ]);
  const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
  const lines = tricks.flatMap(({ name, plain }) => [
    tableLine({ name, does: '', doesNot: '', target: null }, figures, name),
    tableLine(
      { name: plain.name, does: '', doesNot: '', target: { name: 'pays', wanted: 1 } },
      figures,
      name,
    ),
  ]);
  const notes = [
    'Each line with a ratio is the plain form of the line above it; the ratio is trick / plain form.',
    'By the quickest samples of 1,000 calls, on a core that other programs may use too.',
  ];
  const title = 'Tricks of the hot path and their plain forms';
  return {
    ...{ row: 'micro', title, unit: 'calls/s', rounds, secondsEach, lines, skipped: [], notes },
    ...{ isUncharted: true, isLoadFixed: true },
  };
}

const random = systemRandom();
const nowMs = Date.UTC(2026, 0, 1) as UnixMillis;
const request = {
  permission_key: 'orders:create',
  amount: 12.5,
  currency: 'USD',
  domain: 'api.example.com',
  order: { sku: 'A-1027', quantity: 3, note: 'leave at the door' },
};
const body = { passport: 'x'.repeat(600), request };
const readBody = shapeReader(closed({ passport: Type.String(), request: FreeForm }));
const decision: Decision = {
  outcome: 'PERMIT',
  reason: null,
  evaluated: listChecks(check.passport | check.trust_level | check.permission | check.domain_allowlist),
  amountMicroUsd: 12_500_000 as MicroUsd,
  charge: { moneyMicroUsd: 12_500_000 as MicroUsd, requests: 1 },
  standingApproval: null,
  limitMiss: null,
  unknown: null,
  pii: [],
  isRedacted: false,
  approvalExpiresInMs: null,
  hold: null,
  conditions: null,
  condition: null,
  detail: null,
};
const attestationId = random.newId('att', nowMs);
const answered = { attestationId, approval: null, redacted: null, nowMs };
const passportId = random.newId('pass', nowMs);
const record: SpooledRecord = {
  id: attestationId,
  chain_id: passportId,
  passport_id: passportId,
  gate_id: random.newId('gate', nowMs),
  decision: 'PERMIT',
  reason: null,
  request_hash: `sha256:${'0a'.repeat(32)}`,
  permission_key: 'orders:create',
  amount_micro_usd: 12_500_000,
  constraints_evaluated: decision.evaluated,
  pii: [],
  timestamp_ms: nowMs,
  token_hash: 'ab'.repeat(32),
  caller_mode: 'live',
};
const frame = Buffer.from(JSON.stringify(record));

/** A gate with five windows, and more units held than a run can take. */
const limitedGate = {
  gateId: random.newId('gate', nowMs),
  accountId: random.newId('acct', nowMs),
  rateWindows: compileRateWindows(
    { requestsPerMinute: 1e15, requestsPerHour: 1e15, requestsPerDay: 1e15, per: 'gate' },
    'gate',
  ),
  spendWindows: compileSpendWindows(
    {
      perTransactionMicroUsd: null,
      dailyMicroUsd: 1e15 as MicroUsd,
      monthlyMicroUsd: 1e15 as MicroUsd,
      per: 'gate',
      alertAt: 0.8,
      unpriced: 'block',
    },
    'gate',
  ),
  standingApprovals: [],
};
const holderPassport = {
  ...{ passportId, accountId: limitedGate.accountId, owner: null },
  ...{ tokenHash: record.token_hash ?? '', rateWindows: [], spendWindows: [] },
};
const book = new WindowTable(10);
const plainBook = new Map<string, HeldWindow>();
for (const window of [
  ...book.viewOf(limitedGate, holderPassport, 0).spendWindows,
  ...book.viewOf(limitedGate, holderPassport, 0).rateWindows,
]) {
  const times = { startsAtMs: nowMs, endsAtMs: (nowMs + 60_000) as UnixMillis, leftMs: 60_000, sentAtMs: 0 };
  window.lease.grant({ ...times, granted: 1e15, leased: 1e15, unitsNeeded: 1e15, unitsAhead: 0 }, 0);
  plainBook.set(`${window.name.kind}:${limitedGate.gateId} ${window.name.window}`, window);
}

const issuerId = random.newId('iss', nowMs);
const accountId = random.newId('acct', nowMs);
const passport: VerifiedPassport = {
  passportId,
  issuerId,
  accountId,
  agentId: 'bench-agent',
  mode: 'live',
  trustTier: 'L1',
  permissions: new Set(),
  notBeforeS: 0 as UnixSeconds,
  expiresAtS: null,
  allowedDomains: null,
  perTransactionMicroUsd: null,
  spendWindows: [],
  spendNeedsAmount: false,
  rateWindows: [],
  approvals: null,
  proof: 'off',
  conditions: [],
  foreignClaims: {},
  agentKey: 'bench-agent-key',
  hasWallet: false,
  keyId: 'bench-key',
  tokenHash: record.token_hash ?? '',
  digests: digestWordsOf(passportId, issuerId, accountId),
  owner: null,
  user: null,
  userKey: null,
  actors: [],
  source: null,
  among: '',
};
const tokenBytes = Buffer.from(randomBytes(450).toString('base64url'));
/** As each request brings it: the same text in a new string. */
const arrivedToken = (): string => tokenBytes.toString('latin1');
/** Of 64 connections at the peak. */
const rowsOfTurn = 48;
const turnBytes = Buffer.allocUnsafe(64 * 1024);
const leases = [3, 4];
const rowHead = (): string =>
  renderRowHead(record.id, record.request_hash, record.amount_micro_usd, record.timestamp_ms, leases);
const recordRow = (): string => renderRecordRow(rowHead(), 0, 1);
const writer = new RequestWriter();
const verified = verifiedCache(10);
verified.remember(arrivedToken(), passport);
const plainVerified = new Map([[arrivedToken(), passport]]);

function takeFromView(): HeldView {
  const view = book.viewOf(limitedGate, holderPassport, 0);
  for (const window of view.spendWindows) window.lease.take(1);
  for (const window of view.rateWindows) window.lease.take(1);
  return view;
}

function takeByName(): string {
  let last = '';
  for (const limit of [...limitedGate.spendWindows, ...limitedGate.rateWindows]) {
    last = counterKey(counterOf(limit, limitedGate.gateId, { passportId, userKey: null }));
    must(plainBook.get(`${last} ${limit.window}`), 'each window is in the book').lease.take(1);
  }
  return last;
}

const asciiOf = (bytes: Buffer): string | null => (isAscii(bytes) ? bytes.toString('latin1') : null);

export const tricks: readonly Trick[] = [
  {
    name: 'canonicalJson',
    run: () => canonicalJson(request),
    plain: { name: 'the package canonicalize', run: () => canonicalize(request) },
  },
  {
    name: 'writeCopy',
    run: () => writer.writeCopy(request, { depth: 1 }),
    plain: {
      name: 'a copy by JSON, and its canonical form',
      run: () => writer.write(JSON.parse(JSON.stringify(request)), { depth: 1, isUnescaped: false }),
    },
  },
  {
    name: 'numberText',
    run: () => numberText(nextPrice()),
    plain: { name: 'a price as the language writes it', run: () => `${nextPrice()}` },
  },
  {
    name: 'Random.newId',
    run: () => random.newId('att', nowMs),
    plain: { name: 'an id, character by character', run: () => plainId() },
  },
  {
    name: 'parseCheckBody',
    run: () => parseCheckBody(body),
    plain: { name: 'the compiled schema', run: () => readBody(body) },
  },
  {
    name: 'message kept as text',
    run: () => asciiOf(frame),
    plain: { name: 'message kept as bytes, and text later', run: () => asciiOf(Buffer.from(frame)) },
  },
  {
    name: 'parseHost',
    run: () => parseHost(request.domain),
    plain: { name: 'domainToASCII', run: () => domainToASCII(request.domain) },
  },
  {
    name: 'decisionJson',
    run: () => decisionJson(decision, answered),
    plain: {
      name: 'JSON.stringify of the answer',
      run: () => JSON.stringify(renderDecision(decision, answered)),
    },
  },
  {
    name: 'rows of a turn, one write',
    run: () => {
      let rows = '';
      for (let i = 0; i < rowsOfTurn; i++) rows += `${recordRow()},`;
      return turnBytes.write(rows, 0, 'latin1');
    },
    plain: {
      name: 'rows of a turn, a write for each',
      run: () => {
        let end = 0;
        for (let i = 0; i < rowsOfTurn; i++) end += turnBytes.write(`${recordRow()},`, end, 'latin1');
        return end;
      },
    },
  },
  {
    name: 'a unit of five windows, by the view of the gate',
    run: takeFromView,
    plain: { name: 'by the name of each window', run: takeByName },
  },
  {
    name: 'verifiedCache',
    run: () => verified.find(arrivedToken()),
    plain: { name: 'a map of whole tokens', run: () => plainVerified.get(arrivedToken()) },
  },
];

/** As many as a shop has. */
const prices = Array.from({ length: 1_000 }, (_, place) => ((place * 7_919) % 100_000) / 100);
let pricesAsked = 0;
const nextPrice = (): number => prices[pricesAsked++ % prices.length] ?? 0;

const chance = randomBytes(16);
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

function plainId(): string {
  const digits = [];
  for (let rest: number = nowMs; digits.length < 10; rest = Math.floor(rest / 32)) digits.unshift(rest % 32);
  let id = 'att_';
  for (const digit of digits) id += alphabet.charAt(digit);
  for (const byte of chance) id += alphabet.charAt(byte & 31);
  return id;
}
