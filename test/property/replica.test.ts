import fc from 'fast-check';
import { expect, it } from 'vitest';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { digestWordsOf, idDigest } from '../../shared/crypto/id-digest.ts';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import type { Change, ChangeEntry, Snapshot } from '../../shared/wire/sync/sync-schema.ts';
import { parseFeedMessage } from '../../shared/wire/sync/sync-schema.ts';
import { Replica } from '../../sidecar/replica/replica.ts';
import { runs } from '../support/base/runs.ts';
import {
  apiKeyBody,
  gateBody,
  ModelService,
  numbered,
  standing,
  standingIn,
} from '../support/data/model-service.ts';

const ed25519 = chooseEd25519();
const clock = { now: () => 1_000 as UnixMillis, monotonic: () => 0 as MonotonicMillis };
const newReplica = () => new Replica({ ed25519, clock, logger: silentLogger, pinnedKeys: [] });

/** Few of each, so that changes meet. */
const few = fc.integer({ min: 0, max: 4 });
const suspension = fc.constantFrom('active', 'suspended');

const accountChange: fc.Arbitrary<Change> = fc.oneof(
  fc
    .record({ n: few, version: fc.integer({ min: 1, max: 9 }) })
    .map(({ n, version }) => ({ kind: 'gate.put' as const, body: gateBody(n, version) })),
  few.map((n) => ({ kind: 'gate.delete' as const, body: { gate_id: numbered.gate(n) } })),
  few.map((n) => ({ kind: 'api_key.put' as const, body: apiKeyBody(n) })),
  few.map((n) => ({ kind: 'api_key.delete' as const, body: { key_id: numbered.key(n) } })),
);

const globalChange: fc.Arbitrary<Change> = fc.oneof(
  fc
    .record({ n: few, what: fc.constantFrom('active', 'suspended', 'revoked') })
    .map(({ n, what }) => standing(n, what)),
  fc.record({ n: few, what: suspension }).map(({ n, what }) => ({
    kind: 'issuer.standing' as const,
    body: { issuer: idDigest(numbered.issuer(n)), standing: what },
  })),
  fc.record({ n: few, what: suspension }).map(({ n, what }) => ({
    kind: 'account.standing' as const,
    body: { account: idDigest(numbered.account(n)), standing: what },
  })),
);

const change = fc.oneof(
  accountChange.map((each) => ({ feed: 'account' as const, change: each })),
  globalChange.map((each) => ({ feed: 'global' as const, change: each })),
);

/**
 * What a bus may do to what was published, and a pull now and then. `at` picks among the entries there are.
 */
const event = fc.oneof(
  fc.record({ kind: fc.constant('deliver'), at: fc.nat() }),
  fc.record({
    kind: fc.constant('corrupt'),
    at: fc.nat(),
    byte: fc.nat(),
    flip: fc.integer({ min: 1, max: 127 }),
  }),
  fc.record({ kind: fc.constant('renumber'), at: fc.nat() }),
  fc.record({ kind: fc.constant('pull'), count: fc.integer({ min: 1, max: 5 }) }),
);

/** Everything that a decision could ask, as the replica answers it. */
function askedOf(replica: Replica) {
  const numbers = [0, 1, 2, 3, 4];
  const passport = (n: number) =>
    ({
      ...{ passportId: numbered.passport(n), issuerId: numbered.issuer(n), accountId: numbered.account(n) },
      digests: digestWordsOf(numbered.passport(n), numbered.issuer(n), numbered.account(n)),
      keyId: 'k',
    }) as VerifiedPassport;
  return numbers.map((n) => {
    const { status, isIssuerSuspended, isAccountSuspended } = replica.standing(passport(n));
    const gate = replica.gate(numbered.gate(n));
    return {
      gate: gate === null ? null : { version: gate.version, mode: gate.mode },
      caller: replica.caller(numbered.keyHash(n), clock.now())?.keyId ?? null,
      standing: { status, isIssuerSuspended, isAccountSuspended },
    };
  });
}

/** The same, read from the sum of the feeds. */
function knownTo(state: Snapshot): ReturnType<typeof askedOf> {
  return [0, 1, 2, 3, 4].map((n) => {
    const gate = state.gates.find((each) => each.gate_id === numbered.gate(n));
    return {
      gate: gate === undefined ? null : { version: gate.version, mode: gate.mode },
      caller: state.api_keys.find((each) => each.key_id === numbered.key(n))?.key_id ?? null,
      standing: {
        status: standingIn(state, numbered.passport(n))?.standing ?? 'active',
        isIssuerSuspended: state.suspended_issuers.includes(idDigest(numbered.issuer(n))),
        isAccountSuspended: state.suspended_accounts.includes(idDigest(numbered.account(n))),
      },
    };
  });
}

function pull(replica: Replica, service: ModelService, countMax: number): void {
  const missing = [
    ...service.entries.account.slice(replica.accountRevision),
    ...service.entries.global.slice(replica.globalRevision),
  ];
  for (const entry of missing.slice(0, countMax)) expect(replica.apply(entry)).not.toBe('refused');
}

/** The text with one byte changed, if it still is a message at all. */
function corrupted(entry: ChangeEntry, byte: number, flip: number): ChangeEntry | null {
  const bytes = Buffer.from(JSON.stringify(entry));
  const at = byte % bytes.length;
  bytes[at] = (bytes[at] ?? 0) ^ flip;
  const message = parseFeedMessage(bytes.toString());
  return message === null || message.kind === 'heartbeat' ? null : message;
}

it('a replica follows the feeds despite lost, repeated, reordered and altered messages, once it has pulled', () => {
  fc.assert(
    fc.property(
      fc.array(change, { maxLength: 30 }),
      fc.array(change, { maxLength: 10 }),
      fc.array(event, { maxLength: 40 }),
      (later, earlier, events) => {
        const service = new ModelService(ed25519);
        for (const each of earlier) service.change(each.feed, each.change);
        const replica = newReplica();
        const expected = { asOfMs: null, accountId: service.accountId };
        expect(replica.install(service.snapshot(), expected)).toBe('installed');
        const pushed = later.map((each) => service.change(each.feed, each.change));
        for (const each of events) {
          const before = { ...askedOf(replica) };
          if (each.kind === 'pull') pull(replica, service, each.count);
          const entry = each.kind === 'pull' ? undefined : pushed[each.at % Math.max(pushed.length, 1)];
          if (entry === undefined) continue;
          if (each.kind === 'deliver') replica.apply(entry);
          if (each.kind === 'corrupt') {
            const bad = corrupted(entry, each.byte, each.flip);
            if (bad === null || JSON.stringify(bad) === JSON.stringify(entry)) continue;
            const outcome = replica.apply(bad);
            // A changed key id that still names the key, or a changed place, is a different question;
            // nothing altered may count.
            expect(outcome).not.toBe('applied');
            expect({ ...askedOf(replica) }).toEqual(before);
          }
          if (each.kind === 'renumber') {
            const revisions = { account: replica.accountRevision, global: replica.globalRevision };
            const next = (entry.feed_id === 'global' ? revisions.global : revisions.account) + 1;
            const outcome = replica.apply({ ...entry, revision: next });
            expect(outcome).toBe(entry.revision === next ? 'applied' : 'refused');
          }
        }
        pull(replica, service, Number.POSITIVE_INFINITY);
        expect(askedOf(replica)).toEqual(knownTo(service.state()));
        expect(replica.accountRevision).toBe(service.entries.account.length);
        expect(replica.globalRevision).toBe(service.entries.global.length);
        // And the way over a snapshot ends at the same place.
        const anew = newReplica();
        anew.install(service.snapshot(), expected);
        expect(askedOf(anew)).toEqual(askedOf(replica));
      },
    ),
    { numRuns: runs({ short: 40, long: 15_000 }) },
  );
});
