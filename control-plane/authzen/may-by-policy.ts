import { type CompiledGate, compileGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import type { PassportFacts, QuotaView, RequestFacts, WindowView } from '../../shared/decision/facts.ts';
import { type DrawnWindow, windowsOf } from '../../shared/decision/windows-of.ts';
import type { Gate } from '../../shared/model/gate.ts';
import { isRequestablePermission } from '../../shared/model/permission.ts';
import type { PiiScan } from '../../shared/model/pii.ts';
import { latestUnixMs, type UnixMillis } from '../../shared/model/time.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import { parseRequestFacts, type RequestObject } from '../../shared/wire/api/check.ts';

export type VerifiedFacts = Extract<PassportFacts, { kind: 'verified' }>;

/** What a search asks of each passport and gate. */
export interface Question {
  readonly asked: RequestObject;
  readonly request: RequestFacts;
  /** Scans of the request by the types that gates search for. */
  readonly scans: Map<string, PiiScan>;
}

/** Null: no request could ask for that. A search finds nothing then (AuthZEN 1.0 §8). */
export function questionOf(asked: RequestObject): Question | null {
  if (!isRequestablePermission(asked['permission_key'])) return null;
  const facts = parseRequestFacts(asked, 'context');
  // An approval, and a proof of possession, is for one request of one passport, and no policy.
  const request: RequestFacts = {
    ...facts,
    ...{ approvalId: null, approval: 'none', idempotencyKey: null, hold: null, proof: proven },
  };
  return { asked, request, scans: new Map() };
}

/** As if the passport's holder had proved it for the request. */
const proven: RequestFacts['proof'] = {
  kind: 'verified',
  scheme: 'dpop',
  fromMs: 0 as UnixMillis,
  untilMs: latestUnixMs,
  firstUse: 'exact',
};

export const compileForSearch = (gate: Gate): CompiledGate => compileGate(gate, gate.catalogTerms);

/**
 * Whether the policy permits it, with all limits unused, a good proof of possession and nobody asked: the
 * decision that a check would come to, but for counters, wallets and approvals. Takes and records nothing.
 */
export function mayByPolicy(
  gate: CompiledGate,
  facts: VerifiedFacts,
  question: Question,
  nowMs: UnixMillis,
): boolean {
  const drawn = windowsOf({ gate, passport: facts.passport });
  const quota: QuotaView = {
    spend: drawn.spend.map(unused),
    rate: drawn.rate.map(unused),
    standingApprovals: [],
    wallet: null,
  };
  const request =
    gate.pii === null ? question.request : { ...question.request, pii: scan(gate.pii, question) };
  return decide(gate, facts, request, quota, nowMs).outcome === 'PERMIT';
}

const unused = ({ limit }: DrawnWindow): WindowView => ({
  limit,
  available: limit,
  used: 0,
  isFinal: true,
  endsAtMs: null,
});

function scan({ types }: NonNullable<CompiledGate['pii']>, { asked, scans }: Question): PiiScan {
  const name = types.join();
  const known = scans.get(name) ?? scanPii(asked, types);
  scans.set(name, known);
  return known;
}
