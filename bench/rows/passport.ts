import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { decide } from '../../shared/decision/decide.ts';
import { noWindows, type RequestFacts, type VerifiedPassport } from '../../shared/decision/facts.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { verifiedCache } from '../../sidecar/verify/verified-cache.ts';
import { active, amountUsd, domain, gate, permission, token, verifyUnknown } from '../harness/bench-facts.ts';
import { callsOf } from '../harness/calls.ts';
import { type Figures, interleaved, ratios, summary } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { leftOut, peerPackage } from '../peers/peer-packages.ts';

/** Each call takes a thousand times as long as one of ours. */
const peerCallsPerSample = 5;

/** P16: whether an agent may do what it asks for, from its token, in process. */
export async function passport({ size, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 3, brief: 1 }[size];
  const secondsEach = { full: 1, quick: 0.2, brief: 0.02 }[size];
  const known = callsOf('a passport seen before', knownPassport());
  const unknown = callsOf('a passport never seen', unknownPassport(), 100);
  const found = size === 'brief' ? leftOut : peerPackage('agent-passport-system', say);
  const peer =
    typeof found === 'string'
      ? null
      : callsOf('agent-passport-system', await passportSystem(found.path), peerCallsPerSample);
  const sides = [known, unknown, ...(peer === null ? [] : [peer])];
  const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
  const lines = [
    {
      name: known.name,
      does: 'compares all characters of the token with the one that verified, then decides: times, revocation, issuer, trust level, permission, domain, limit',
      doesNot:
        'check the signature again; sign the decision, which the control plane does when its record arrives',
      target: null,
    },
    {
      name: unknown.name,
      does: 'the signature, all claims, then the same decision',
      doesNot: 'sign the decision',
      target: { name: 'orientation', wanted: null },
    },
    {
      name: 'agent-passport-system',
      does: '`evaluateRequest`: signature, validity and scope of the passport, countersignature of a trusted issuer; `evaluateIntent`: signature of the intent, scope and spend, a signed decision',
      doesNot: 'keep what it has verified; domain, limits over time',
      target: wantedOf('P16'),
    },
  ];
  return {
    row: 'passport',
    title: 'Checks of a passport in process',
    ...{ unit: 'checks/s', rounds, secondsEach },
    lines: lines.slice(0, sides.length).map((line) => tableLine(line, figures, known.name)),
    skipped: typeof found === 'string' ? [{ side: 'agent-passport-system', reason: found }] : [],
    notes: [
      'Each side decides about one permitted request; the answer is verified before.',
      ...(peer === null ? [] : [neverSeenNote(unknown.name, peer.name, figures)]),
    ],
  };
}

/** The ratio for agents that come once. */
function neverSeenNote(unknown: string, peer: string, figures: Figures): string {
  const rates = (name: string) => (figures.get(name) ?? []).map(({ perSecond }) => perSecond);
  const { median, min, max } = summary(ratios(rates(unknown), rates(peer)));
  return `Where every passport is a new one, the ratio is ${median.toFixed(0)} (${min.toFixed(0)} to ${max.toFixed(0)}): the peer verifies each time, and this service once.`;
}

const request: RequestFacts = {
  permissionKey: permission,
  amountMicroUsd: (amountUsd * 1e6) as MicroUsd,
  ...{ currency: 'USD', domain, approvalId: null, approval: 'none', idempotencyKey: null },
  proof: { kind: 'none' },
  ...{ requestHash: `sha256:${'0a'.repeat(32)}`, hold: null, display: null, asked: {}, pii: null },
};

function decideAbout(verified: VerifiedPassport | undefined | null, nowMs: UnixMillis): string {
  if (verified === undefined || verified === null) return 'BLOCK';
  const facts = { kind: 'verified', passport: verified, standing: active } as const;
  return decide(gate, facts, request, noWindows, nowMs).outcome;
}

function knownPassport(): () => unknown {
  const nowMs = systemClock.now();
  const cache = verifiedCache(10);
  const bytes = Buffer.from(token);
  cache.remember(token, must(verifyUnknown(token), 'the token is good'));
  // As each request brings it: the same text in a new string.
  const run = () => decideAbout(cache.find(bytes.toString('latin1')), nowMs);
  assert(run() === 'PERMIT', 'the request is permitted');
  return run;
}

function unknownPassport(): () => unknown {
  const nowMs = systemClock.now();
  const run = () => decideAbout(verifyUnknown(token), nowMs);
  assert(run() === 'PERMIT', 'the request is permitted');
  return run;
}

interface KeyPair {
  readonly publicKey: string;
  readonly privateKey: string;
}

/** What is used of the package, which is not among the dependencies of the project. */
interface PassportSystem {
  generateKeyPair(): KeyPair;
  createPassport(options: object): { readonly signedPassport: object; readonly keyPair: KeyPair };
  countersignPassport(passport: object, issuerKey: string, issuerId: string): object;
  evaluateRequest(passport: object, options: object): { readonly admit: boolean };
  createActionIntent(options: object): object;
  evaluateIntent(options: object): { readonly verdict: string };
  readonly FloorValidatorV1: new () => object;
}

async function passportSystem(path: string): Promise<() => unknown> {
  const system: PassportSystem = await import(pathToFileURL(join(path, 'dist', 'src', 'index.js')).href);
  const [issuer, evaluator] = [system.generateKeyPair(), system.generateKeyPair()];
  const agentId = 'bench-agent';
  const { signedPassport, keyPair } = system.createPassport({
    ...{ agentId, agentName: agentId, ownerAlias: 'bench', mission: 'bench', capabilities: [permission] },
    runtime: { platform: 'node', models: [], toolsCount: 1, memoryType: 'none' },
  });
  const presented = system.countersignPassport(signedPassport, issuer.privateKey, 'bench-issuer');
  const intent = system.createActionIntent({
    ...{ agentId, agentPublicKey: keyPair.publicKey, privateKey: keyPair.privateKey, delegationId: 'bench' },
    action: {
      ...{ type: permission, target: domain, scopeRequired: permission },
      spend: { amount: amountUsd, currency: 'USD' },
    },
  });
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
  const evaluation = {
    ...{ intent, validator: new system.FloorValidatorV1(), evaluatorId: 'bench-evaluator' },
    ...{ evaluatorPublicKey: evaluator.publicKey, evaluatorPrivateKey: evaluator.privateKey },
    validationContext: {
      ...{ floorVersion: '1.0', floorPrinciples: [], agentRegistered: true, agentAttestationValid: true },
      delegation: {
        ...{ scope: [permission], spendLimit: 500, spentAmount: 0, expiresAt: inAnHour },
        ...{ revoked: false, currentDepth: 0, maxDepth: 1 },
      },
    },
  };
  const options = { trustedIssuers: [issuer.publicKey], requiredScopes: [permission] };
  const run = () =>
    system.evaluateRequest(presented, options).admit
      ? system.evaluateIntent(evaluation).verdict
      : 'not admitted';
  const verdict = run();
  if (verdict !== 'permit') throw new Error(`agent-passport-system answers ${verdict}`);
  return run;
}
