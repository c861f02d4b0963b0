import { createRequire } from 'node:module';
import { join } from 'node:path';
import { decide as decideOn } from '../../shared/decision/decide.ts';
import { noWindows, type PassportFacts, type RequestFacts } from '../../shared/decision/facts.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import {
  active,
  amountUsd,
  domain,
  gate,
  permission,
  perTransactionUsd,
  token,
  verifyUnknown,
} from '../harness/bench-facts.ts';
import { callsOf } from '../harness/calls.ts';
import { interleaved } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { leftOut, peerPackage } from '../peers/peer-packages.ts';

/** P13: a whole decision on a compiled gate, beside cedar-wasm on the same rule. */
export async function decide({ size, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 3, brief: 1 }[size];
  const secondsEach = { full: 1, quick: 0.2, brief: 0.02 }[size];
  const ours = callsOf('decide', ourDecision());
  const found = size === 'brief' ? leftOut : peerPackage('@cedar-policy/cedar-wasm', say);
  const cedar = typeof found === 'string' ? null : callsOf('cedar-wasm', cedarDecision(found.path));
  const sides = cedar === null ? [ours] : [ours, cedar];
  const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
  const lines = [
    {
      name: ours.name,
      does: 'times, revocation, issuer, trust level and mode of the passport, permission, domain, currency, limit per transaction; the list of checks and the reason',
      doesNot: 'check the signature; parse the request',
      target: null,
    },
    {
      name: 'cedar-wasm',
      does: 'permission, domain and limit per transaction, by a policy that was parsed before',
      doesNot: 'times, revocation, issuer, trust level, mode',
      target: wantedOf('P13'),
    },
  ];
  return {
    ...{ row: 'decide', title: 'Decisions in process on one rule', unit: 'decisions/s', rounds, secondsEach },
    lines: lines.slice(0, sides.length).map((line) => tableLine(line, figures, ours.name)),
    skipped: typeof found === 'string' ? [{ side: 'cedar-wasm', reason: found }] : [],
    notes: [
      'Both sides decide the same: a passport with one permission, an amount of 12.50 of at most 500 dollars, a domain that is on the list. Both answer yes, which is verified before, and no for an amount of 501.',
    ],
  };
}

function ourDecision(): () => unknown {
  const passport = must(verifyUnknown(token), 'the token is good');
  const nowMs = systemClock.now();
  const facts: PassportFacts = { kind: 'verified', passport, standing: active };
  const requestOf = (usd: number): RequestFacts => ({
    permissionKey: permission,
    amountMicroUsd: (usd * 1e6) as MicroUsd,
    ...{ currency: 'USD', domain, approvalId: null, approval: 'none', idempotencyKey: null },
    proof: { kind: 'none' },
    ...{ requestHash: `sha256:${'0a'.repeat(32)}`, hold: null, display: null, asked: {}, pii: null },
  });
  const ask = (request: RequestFacts) => decideOn(gate, facts, request, noWindows, nowMs);
  assert(ask(requestOf(perTransactionUsd + 1)).outcome === 'BLOCK', 'too much is blocked');
  const request = requestOf(amountUsd);
  assert(ask(request).outcome === 'PERMIT', 'the request is permitted');
  return () => ask(request);
}

/** What is used of the package, which is not among the dependencies of the project. */
interface Cedar {
  preparsePolicySet(id: string, policies: object): { readonly type: string };
  statefulIsAuthorized(call: object): {
    readonly type: string;
    readonly response?: { readonly decision: string };
  };
}

const policy = `
permit (principal is Agent, action == Action::"check", resource is Gate)
when {
  principal.permissions.contains(context.permission) &&
  resource.domains.contains(context.domain) &&
  context.amount_cents <= resource.per_transaction_cents
};`;

function cedarDecision(path: string): () => unknown {
  const cedar = createRequire(import.meta.url)(join(path, 'nodejs', 'cedar_wasm.js')) as Cedar;
  const parsed = cedar.preparsePolicySet('bench', { staticPolicies: policy });
  assert(parsed.type === 'success', 'the policy is one');
  const uid = (type: string, id: string) => ({ type, id });
  const callOf = (usd: number) => ({
    principal: uid('Agent', 'bench-agent'),
    action: uid('Action', 'check'),
    resource: uid('Gate', gate.gateId),
    context: { permission, domain, amount_cents: usd * 100 },
    preparsedPolicySetId: 'bench',
    entities: [
      { uid: uid('Agent', 'bench-agent'), attrs: { permissions: [permission] }, parents: [] },
      {
        uid: uid('Gate', gate.gateId),
        attrs: { domains: [domain], per_transaction_cents: perTransactionUsd * 100 },
        parents: [],
      },
    ],
  });
  const ask = (call: object) => cedar.statefulIsAuthorized(call).response?.decision;
  assert(ask(callOf(perTransactionUsd + 1)) === 'deny', 'too much is denied');
  const call = callOf(amountUsd);
  assert(ask(call) === 'allow', 'the request is allowed');
  return () => ask(call);
}
