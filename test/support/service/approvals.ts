import { approvalsLimits } from '../../../control-plane/approvals/limits.ts';
import {
  type NewApproval,
  type OpenedApproval,
  openApproval,
} from '../../../control-plane/approvals/open-approval.ts';
import { takeUnits } from '../../../control-plane/book/take-units.ts';
import type { Deps } from '../../../control-plane/deps.ts';
import { must } from '../../../shared/errors/assert.ts';
import type { AccountId, GateId, PassportId } from '../../../shared/model/ids.ts';
import type { Mode } from '../../../shared/model/mode.ts';
import { parseUsd } from '../../../shared/model/money.ts';
import { isRequestablePermission } from '../../../shared/model/permission.ts';
import { dayMs, minuteMs } from '../../../shared/model/time.ts';
import { counterKey } from '../../../shared/quota/counter.ts';
import { windowAt } from '../../../shared/quota/window.ts';
import type { Api, Reply } from './api.ts';

/**
 * One request that waits for a person, opened as the control plane opens it: with its money taken from the
 * day of the gate.
 */
interface AskedApproval {
  readonly passportId: string;
  readonly gateId: string;
  /** Default 25. */
  readonly amountUsd?: number;
  /** Default: a hash that no other call has. */
  readonly requestHash?: string;
  /** Default: none. */
  readonly display?: NewApproval['display'];
  /** Default: a key that no person made. */
  readonly askedBy?: NewApproval['askedBy'];
  /** Default 300 s. */
  readonly expiresInMs?: number;
  /** Default: one that is made here. */
  readonly approvalId?: OpenedApproval['approvalId'];
}

const dailyLimitUsd = 1_000;

/**
 * The first moment of tomorrow's noon (UTC): no day and no hour in which something is held or counted ends
 * while a test lets minutes pass.
 */
export function goToNoon(api: Api): void {
  const nowMs = api.deps.clock.now();
  api.advance(windowAt('day', nowMs).endsAtMs + dayMs / 2 - nowMs);
}

/**
 * To the first seconds of the next minute: what counts requests of one minute does not meet its end. Not to
 * its beginning, which clocks may differ about.
 */
export function goToNextMinute(api: Api): void {
  const nowMs = api.deps.clock.now();
  api.advance(windowAt('minute', nowMs).endsAtMs - nowMs + minuteMs / 10);
}

/** Far from the numbers that tests give their own hashes. */
let asked = 2 ** 32;

/** A passport and a gate of the account whose key is given, and an approval for them. */
export async function openAnApproval(
  api: Api,
  wanted: Partial<AskedApproval> & { readonly key?: string } = {},
): Promise<OpenedApproval & { readonly passportId: string; readonly gateId: string }> {
  const passportId = wanted.passportId ?? (await api.issuePassport({}, wanted.key)).passport_id;
  const gateId = wanted.gateId ?? (await api.createGate({}, wanted.key)).gate_id;
  return { ...(await askApproval(api.deps, { ...wanted, passportId, gateId })), passportId, gateId };
}

/** Opens it, or finds the earlier one, as a request that comes to the control plane does. */
export async function askApproval(deps: Deps, request: AskedApproval): Promise<OpenedApproval> {
  const wanted = await newApproval(deps, request);
  return deps.sql.begin(async (tx) => {
    const opened = must(await openApproval(tx, deps, wanted), 'few wait for the test');
    if (!opened.isNew || opened.isRepeat) return opened;
    const asks = wanted.holds.map(({ counter, window, units }) => [
      { counter, window, limit: dailyLimitUsd * 1e6, unitsMin: units, unitsMax: units },
    ]);
    const granted = await takeUnits(tx, asks, wanted.nowMs);
    if (granted.some(({ isGranted }) => !isGranted)) throw new Error('the limit of the test is used up');
    return opened;
  });
}

/**
 * As many requests of the passport wait at the gate as may, each for a cent; `waiting` of them did before.
 */
export async function askAsManyAsMay(
  deps: Deps,
  {
    passportId,
    gateId,
    waiting = 0,
  }: Pick<AskedApproval, 'passportId' | 'gateId'> & { readonly waiting?: number },
): Promise<void> {
  for (let count = waiting; count < approvalsLimits.approvalsPendingMax; count++) {
    await askApproval(deps, { passportId, gateId, amountUsd: 0.01 });
  }
}

async function newApproval(deps: Deps, request: AskedApproval): Promise<NewApproval> {
  asked += 1;
  const number = asked;
  const { sql } = deps;
  const [passport] = await sql<Owned<{ passportId: PassportId; agentId: string }>[]>`
    SELECT passport_id AS "passportId", agent_id AS "agentId", account_id AS "accountId", mode FROM passports
    WHERE passport_id = ${request.passportId}`;
  const [gate] = await sql<
    Owned<{ gateId: GateId; policyVersion: number; approvers: Readonly<Record<string, unknown>> | null }>[]
  >`
    SELECT gate_id AS "gateId", policy_version AS "policyVersion", account_id AS "accountId", mode,
      constraints #> '{approvals,approvers}' AS approvers
    FROM gates WHERE gate_id = ${request.gateId}`;
  const nowMs = deps.clock.now();
  const amountMicroUsd = must(parseUsd(request.amountUsd ?? 25), 'an amount');
  const permissionKey = 'orders:create';
  const { gateId, approvers, ...ofGate } = must(gate, 'a gate');
  return {
    approvalId: request.approvalId ?? deps.random.newId('appr', nowMs),
    passport: must(passport, 'a passport'),
    gate: {
      gateId,
      ...ofGate,
      namesAsker: approvers !== null && approvers['not_requester'] !== false,
      asksForOwner: approvers?.['not_owner'] === true,
      isIndependent: approvers?.['independent'] === true,
    },
    requestHash: request.requestHash ?? hashOf(number),
    permissionKey: isRequestablePermission(permissionKey) ? permissionKey : null,
    amountMicroUsd,
    display: request.display ?? null,
    owner: null,
    tokenUser: '',
    isAsserted: false,
    shadow: null,
    askedBy: request.askedBy === undefined ? 'key_of_the_test' : request.askedBy,
    constraintsEvaluated: ['passport', 'trust_level', 'issuer', 'permission', 'spend_limit', 'approval'],
    conditions: null,
    pii: [{ pointer: '/customer/email', type: 'email' }],
    expiresInMs: request.expiresInMs ?? 300_000,
    holds: [
      {
        counter: counterKey({ kind: 'gate_spend', gateId, passportId: null }),
        window: 'day',
        startsAtMs: windowAt('day', nowMs).startsAtMs,
        units: amountMicroUsd,
      },
    ],
    nowMs,
  };
}

type Owned<T> = T & { readonly accountId: AccountId; readonly mode: Mode };

/** An approval as lists and events have it, of what `GET /approvals/:id` answers. */
export const asListed = (detail: Reply['body']): Reply['body'] => {
  const {
    amount_micro_usd,
    resolved_by_name,
    answers_needed,
    answers_missing,
    passkey,
    policy_hash,
    you,
    ...listed
  } = detail;
  if (listed.answers === undefined) return listed;
  const answers = listed.answers.map(
    ({ name, invited_by, invited_by_name, counts, assertion, ...answer }: Reply['body']) => answer,
  );
  return { ...listed, answers };
};

export const hashOf = (number: number): string => `sha256:${number.toString(16).padStart(64, '0')}`;

/** What is given out of today at the gate, in USD: held or spent. */
export async function heldUsd(deps: Deps, gateId: string): Promise<number> {
  const rows = await deps.sql<{ leased: number }[]>`
    SELECT leased FROM quota_windows WHERE counter = ${`gate_spend:${gateId}`} AND window_name = 'day'`;
  return rows.reduce((sum, { leased }) => sum + leased, 0) / 1e6;
}
