import { describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../../../shared/crypto/choose-ed25519.ts';
import { digestWordsOf } from '../../../../shared/crypto/id-digest.ts';
import type { VerifiedPassport } from '../../../../shared/decision/facts.ts';
import { must } from '../../../../shared/errors/assert.ts';
import type { Scope } from '../../../../shared/model/scopes.ts';
import type { VerificationKey } from '../../../../shared/model/signing-key.ts';
import type { MonotonicMillis, UnixMillis } from '../../../../shared/model/time.ts';
import { silentLogger } from '../../../../shared/runtime/logger.ts';
import { globalFeed, syncVersion } from '../../../../shared/wire/sync/sync.ts';
import { Replica } from '../../../../sidecar/replica/replica.ts';
import {
  apiKeyBody,
  gateBody,
  ModelService,
  numbered,
  standing,
} from '../../../support/data/model-service.ts';

const ed25519 = chooseEd25519();
const unknownAge = { asOfMs: null, accountId: null };

function setUp(options: { pinnedKeys?: readonly VerificationKey[]; isLoaded?: boolean } = {}) {
  const time = { nowMs: 1_000, monotonicMs: 0 };
  const clock = { now: () => time.nowMs as UnixMillis, monotonic: () => time.monotonicMs as MonotonicMillis };
  const service = new ModelService(ed25519);
  const replica = new Replica({ ed25519, clock, logger: silentLogger, pinnedKeys: options.pinnedKeys ?? [] });
  if (options.isLoaded ?? true) expect(replica.install(service.snapshot(), unknownAge)).toBe('installed');
  return { time, service, replica };
}

const passport = (n: number, keyId = 'k') =>
  ({
    passportId: numbered.passport(n),
    issuerId: numbered.issuer(n),
    accountId: numbered.account(n),
    digests: digestWordsOf(numbered.passport(n), numbered.issuer(n), numbered.account(n)),
    keyId,
    owner: null,
    source: null,
  }) as VerifiedPassport;

it('knows PUBLIC_URL as of its snapshot, and none of a control plane of 0.2.0', () => {
  const { replica, service } = setUp();
  expect(replica.publicUrl).toBeNull();
  const public_url = 'https://trust.example.com';
  expect(replica.install(service.snapshot({ public_url }), unknownAge)).toBe('installed');
  expect(replica.publicUrl).toBe(public_url);
});

describe('a replica without a snapshot', () => {
  it('knows no caller, and would block every passport', () => {
    const { replica, service } = setUp({ isLoaded: false });
    expect(replica.accountId).toBeNull();
    expect(replica.gate(numbered.gate(1))).toBeNull();
    expect(replica.caller(numbered.keyHash(1), 0 as UnixMillis)).toBeNull();
    expect(replica.standing(passport(1))).toMatchObject({
      status: 'suspended',
      stateAgeMs: Number.POSITIVE_INFINITY,
    });
    expect(replica.keys.find('passport', 'k')).toBeNull();
    expect(replica.apply(service.change('global', standing(1, 'revoked')))).toBe('gap');
  });

  it('neither uses nor refuses a heartbeat, because its key is still unknown', () => {
    const { replica, service } = setUp({ isLoaded: false });
    expect(replica.isAuthentic(service.heartbeat('global', 1))).toBe(false);
    expect(replica.lastRefusal).toBeNull();
  });
});

describe('install', () => {
  it('refuses a snapshot with one changed character, and keeps the last good state', () => {
    const { replica, service } = setUp();
    service.change('account', { kind: 'gate.put', body: gateBody(1) });
    const signed = service.snapshot();
    const altered = { ...signed, snapshot: signed.snapshot.replace('"version":1', '"version":2') };
    expect(altered).not.toEqual(signed);
    expect(replica.install(altered, unknownAge)).toBe('refused');
    expect(replica.gate(numbered.gate(1))).toBeNull();
    expect(replica.lastRefusal).toContain('snapshot refused');
    expect(replica.install(signed, unknownAge)).toBe('installed');
    expect(replica.gate(numbered.gate(1))?.version).toBe(1);
    expect(replica.lastRefusal).toBeNull();
    expect(replica.refusedCount).toBe(1);
  });

  it('trusts the keys of the first snapshot, and later only what they vouched for', () => {
    const { replica } = setUp();
    const impostor = new ModelService(ed25519);
    impostor.signWith(impostor.makeKey('sync').kid);
    expect(replica.install(impostor.snapshot(), unknownAge)).toBe('refused');
  });

  it('trusts only the pinned keys where there are some', () => {
    const service = new ModelService(ed25519);
    const other = service.makeKey('sync');
    const pinnedKeys = service.keys.filter((key) => key.kid === other.kid);
    const { replica } = setUp({ pinnedKeys, isLoaded: false });
    expect(replica.install(service.snapshot(), unknownAge)).toBe('refused');
    service.signWith(other.kid);
    expect(replica.install(service.snapshot(), unknownAge)).toBe('installed');
    expect(replica.syncKeys.map((key) => key.kid)).toContain(other.kid);
    expect(replica.syncKeys.every((key) => key.purpose === 'sync')).toBe(true);
  });

  it('refuses a first snapshot that is not signed by one of its own sync keys', () => {
    const { replica, service } = setUp({ isLoaded: false });
    const passportKey = service.keys.find((key) => key.purpose === 'passport');
    service.signWith(passportKey?.kid ?? '');
    expect(replica.install(service.snapshot(), unknownAge)).toBe('refused');
    expect(replica.accountId).toBeNull();
  });

  it.each([
    ['of another account', { account_id: numbered.account(2) }],
    ['of another version', { sync_version: syncVersion + 1 }],
    [
      'with a list of revoked ones that cannot be read',
      { passport_standings: [{ standing: 'revoked', expired_by_day: null, passports: 'AAAA' }] as never },
    ],
    ['with a suspended issuer that cannot be read', { suspended_issuers: ['iss_1'] as never }],
    ['that lacks a field', { gates: undefined as never }],
    ['with the same key twice', { signing_keys: [] as VerificationKey[] }],
  ])('refuses one %s, whole', (_what, changed) => {
    const { replica, service } = setUp();
    const before = replica.globalRevision;
    service.change('global', standing(1, 'revoked'));
    const signed = service.snapshot(
      'signing_keys' in changed ? { signing_keys: [...service.keys, ...service.keys] } : changed,
    );
    expect(replica.install(signed, { asOfMs: null, accountId: service.accountId })).toBe('refused');
    expect(replica.globalRevision).toBe(before);
    expect(replica.standing(passport(1)).status).toBe('active');
  });

  it.each([
    ['gate', numbered.gate(2), { gates: [gateBody(1), gateBody(2, 1, numbered.account(2))] }, /own account/],
    [
      'gate',
      numbered.gate(2),
      { gates: [gateBody(1), { ...gateBody(2), constraints: { moon: 1 } }] },
      /moon/,
    ],
    [
      'gate',
      numbered.gate(2),
      { gates: [gateBody(1), { ...gateBody(2), trust_level: 'L4' }] },
      /\/trust_level/,
    ],
    [
      'api_key',
      numbered.key(2),
      { api_keys: [apiKeyBody(1), { ...apiKeyBody(2), key_hash: 'x' }] },
      /\/key_hash/,
    ],
  ])('leaves out a bad %s (%s), names it, and takes the others', (of, id, changed, reason) => {
    const { replica, service } = setUp();
    const rows = { gates: [gateBody(1)], api_keys: [apiKeyBody(1)], ...changed };
    service.change('global', standing(1, 'revoked'));
    expect(replica.install(service.snapshot(rows as never), unknownAge)).toBe('installed');
    expect(replica.badRows).toEqual([{ of, id, reason: expect.stringMatching(reason) }]);
    expect(replica.gate(numbered.gate(1))).not.toBeNull();
    expect(replica.gate(numbered.gate(2))).toBeNull();
    expect(replica.caller(numbered.keyHash(1), 0 as UnixMillis)).not.toBeNull();
    expect(replica.caller('x', 0 as UnixMillis)).toBeNull();
    expect(replica.standing(passport(1)).status).toBe('revoked');
  });

  it('has no bad rows any more once they are put right, or gone', () => {
    const { replica, service } = setUp();
    const bad = (n: number) => ({ ...gateBody(n), trust_level: 'L4' }) as never;
    const badKey = { ...apiKeyBody(1), key_hash: 'x' } as never;
    const signed = service.snapshot({ gates: [bad(1), bad(2)], api_keys: [badKey] });
    replica.install(signed, unknownAge);
    expect(replica.badRows).toHaveLength(3);
    replica.apply(service.change('account', { kind: 'gate.put', body: gateBody(1) }));
    expect(replica.gate(numbered.gate(1))).not.toBeNull();
    replica.apply(service.change('account', { kind: 'gate.delete', body: { gate_id: numbered.gate(2) } }));
    replica.apply(service.change('account', { kind: 'api_key.put', body: apiKeyBody(1) }));
    expect(replica.badRows).toEqual([]);
  });

  it('leaves out a signing key that is none, and believes no token by it', () => {
    const { replica, service } = setUp();
    const key = service.makeKey('passport');
    const keys = service.keys.map((each) => (each === key ? { ...key, publicKey: 'AAAA' } : each));
    expect(replica.install(service.snapshot({ signing_keys: keys }), unknownAge)).toBe('installed');
    expect(replica.badRows).toMatchObject([{ of: 'signing_key', id: key.kid }]);
    expect(replica.keys.find('passport', key.kid)).toBeNull();
  });

  it('may go back: a restored database knows less than the sidecar', () => {
    const { replica, service } = setUp();
    const old = service.snapshot();
    replica.apply(service.change('global', standing(1, 'revoked')));
    expect(replica.globalRevision).toBe(1);
    expect(replica.install(old, unknownAge)).toBe('installed');
    expect(replica.globalRevision).toBe(0);
    expect(replica.standing(passport(1)).status).toBe('active');
  });
});

describe('apply', () => {
  it('takes nothing of another history, though the number fits and the service signed it', () => {
    const { replica, service } = setUp();
    const other = new ModelService(ed25519);
    replica.apply(service.change('global', standing(1, 'revoked')));
    const lost = other.change('global', standing(2, 'revoked'));
    // The same change at the same place, but with another one before it.
    const second = standing(3, 'revoked');
    const [ours, theirs] = [service.change('global', second), other.change('global', second)];
    expect(theirs.signature).not.toBe(ours.signature);
    expect(replica.apply(lost)).toBe('gap');
    expect(replica.apply(theirs)).toBe('gap');
    expect(replica.standing(passport(3)).status).toBe('active');
    expect(replica.apply(ours)).toBe('applied');
    expect(replica.position.global).toEqual({ revision: 2, mark: ours.signature });
  });

  it('refuses a signed change that stands in the wrong feed', () => {
    const { replica, service } = setUp();
    expect(replica.apply(service.change('global', { kind: 'gate.put', body: gateBody(1) }))).toBe('refused');
    expect(replica.apply(service.change('account', standing(1, 'revoked')))).toBe('refused');
    expect(replica.gate(numbered.gate(1))).toBeNull();
  });

  it('refuses a gate that it cannot understand and keeps the version before', () => {
    const { replica, service } = setUp();
    replica.apply(service.change('account', { kind: 'gate.put', body: gateBody(1, 1) }));
    const body = { ...gateBody(1, 2), constraints: { moon: true } };
    expect(replica.apply(service.change('account', { kind: 'gate.put', body }))).toBe('refused');
    expect(replica.gate(numbered.gate(1))?.version).toBe(1);
    expect(replica.accountRevision).toBe(1);
  });

  it('replaces the key of a caller and forgets the hash of the old one', () => {
    const { replica, service } = setUp();
    const now = 0 as UnixMillis;
    replica.apply(service.change('account', { kind: 'api_key.put', body: apiKeyBody(1) }));
    const rolled = { ...apiKeyBody(1), key_hash: numbered.keyHash(9) };
    replica.apply(service.change('account', { kind: 'api_key.put', body: rolled }));
    expect(replica.caller(numbered.keyHash(1), now)).toBeNull();
    expect(replica.caller(numbered.keyHash(9), now)?.keyId).toBe(numbered.key(1));
    replica.apply(service.change('account', { kind: 'api_key.delete', body: { key_id: numbered.key(1) } }));
    expect(replica.caller(numbered.keyHash(9), now)).toBeNull();
  });

  it('lets a key end at the millisecond of its expiry', () => {
    const { replica, service } = setUp();
    replica.apply(service.change('account', { kind: 'api_key.put', body: apiKeyBody(1, 5_000) }));
    const callerAt = (nowMs: number) => replica.caller(numbered.keyHash(1), nowMs as UnixMillis);
    expect(callerAt(4_999)?.mode).toBe('live');
    expect(callerAt(5_000)).toBeNull();
  });

  it('ignores scopes that it does not know', () => {
    const { replica, service } = setUp();
    const scopes = ['enforcement:check', 'moon:walk'] as Scope[];
    const body = { ...apiKeyBody(1), scopes };
    replica.apply(service.change('account', { kind: 'api_key.put', body }));
    expect(replica.caller(numbered.keyHash(1), 0 as UnixMillis)?.scopes).toEqual(['enforcement:check']);
  });

  it('has another version after each change, and the same until then', () => {
    const { replica, service } = setUp();
    const versions = [replica.version];
    const changed = (change: () => unknown) => {
      change();
      versions.push(replica.version);
      expect(replica.version).toBe(versions.at(-1));
    };
    changed(() => replica.apply(service.change('account', { kind: 'api_key.put', body: apiKeyBody(1) })));
    changed(() =>
      replica.apply(service.change('account', { kind: 'api_key.delete', body: { key_id: numbered.key(1) } })),
    );
    changed(() => {
      replica.isRefusedAsSuspended = true;
    });
    expect(replica.isAccountSuspended).toBe(true);
    changed(() => {
      replica.isRefusedAsSuspended = false;
    });
    changed(() => replica.install(service.snapshot(), { asOfMs: null, accountId: null }));
    expect(new Set(versions).size).toBe(versions.length);
    // Nothing changes by what is said again, or is not applied.
    replica.isRefusedAsSuspended = false;
    replica.apply({
      ...service.change('account', { kind: 'api_key.put', body: apiKeyBody(1) }),
      signature: 'x',
    });
    expect(replica.version).toBe(versions.at(-1));
  });
});

describe('signing keys', () => {
  it('a new sync key vouches for later entries, and a compromised one for nothing', () => {
    const stranger = setUp();
    stranger.service.signWith(stranger.service.makeKey('sync').kid);
    expect(stranger.replica.apply(stranger.service.change('global', standing(1, 'revoked')))).toBe('refused');

    const { replica, service } = setUp();
    const oldKid = service.signing.kid;
    const put = (body: VerificationKey) =>
      replica.apply(service.change('global', { kind: 'signing_key.put', body }));
    const revoke = (n: number) => replica.apply(service.change('global', standing(n, 'revoked')));
    const key = service.makeKey('sync');
    expect(put(key)).toBe('applied');
    service.signWith(key.kid);
    expect(revoke(1)).toBe('applied');
    const old = must(
      service.keys.find((each) => each.kid === oldKid),
      'the first key is there',
    );
    expect(put({ ...old, compromised: true })).toBe('applied');
    service.signWith(oldKid);
    expect(revoke(2)).toBe('refused');
    expect(replica.isAuthentic(service.heartbeat('global', 1))).toBe(false);
  });

  it('shows the keys of a change at once, and that a passport key is compromised', () => {
    const { replica, service } = setUp();
    const key = service.makeKey('passport');
    const before = replica.keys;
    replica.apply(service.change('global', { kind: 'signing_key.put', body: key }));
    expect(replica.keys).not.toBe(before);
    expect(replica.keys.find('passport', key.kid)).not.toBeNull();
    expect(replica.standing(passport(1, key.kid)).isKeyCompromised).toBe(false);
    replica.apply(service.change('global', { kind: 'signing_key.put', body: { ...key, compromised: true } }));
    expect(replica.standing(passport(1, key.kid)).isKeyCompromised).toBe(true);
  });

  it('takes a key for compromised that the service does not know (any more)', () => {
    const { replica, service } = setUp();
    const key = service.makeKey('passport');
    replica.install(service.snapshot(), unknownAge);
    expect(replica.standing(passport(1, key.kid)).isKeyCompromised).toBe(false);
    service.keys.pop();
    replica.install(service.snapshot(), unknownAge);
    expect(replica.standing(passport(1, key.kid)).isKeyCompromised).toBe(true);
  });

  it('refuses a key that cannot be used, and keeps those it has', () => {
    const { replica, service } = setUp();
    const kid = service.keys[1]?.kid ?? '';
    const body = { ...service.makeKey('passport'), publicKey: 'AAAA' };
    service.keys.pop();
    expect(replica.apply(service.change('global', { kind: 'signing_key.put', body }))).toBe('refused');
    expect(replica.keys.find('passport', kid)).not.toBeNull();
  });
});

describe('age', () => {
  it('is unknown for a state from disk, and counts from the older of the two feeds', () => {
    const { replica, service, time } = setUp();
    expect(replica.stateAgeMs).toBe(Number.POSITIVE_INFINITY);
    time.monotonicMs = 10_000;
    replica.confirm(globalFeed, 0, 9_000 as MonotonicMillis);
    expect(replica.stateAgeMs).toBe(Number.POSITIVE_INFINITY);
    replica.confirm(service.accountId, 0, 7_000 as MonotonicMillis);
    expect(replica.stateAgeMs).toBe(3_000);
    time.monotonicMs = 12_000;
    expect(replica.standing(passport(1)).stateAgeMs).toBe(5_000);
  });

  it('does not count from a head that is not reached yet, nor from older evidence', () => {
    const { replica, service, time } = setUp();
    time.monotonicMs = 10_000;
    replica.confirm(service.accountId, 0, 10_000 as MonotonicMillis);
    expect(replica.confirm(globalFeed, 1, 10_000 as MonotonicMillis)).toBe(false);
    expect(replica.stateAgeMs).toBe(Number.POSITIVE_INFINITY);
    replica.apply(service.change('global', standing(1, 'revoked')));
    expect(replica.confirm(globalFeed, 1, 10_000 as MonotonicMillis)).toBe(true);
    expect(replica.confirm(globalFeed, 1, 4_000 as MonotonicMillis)).toBe(true);
    expect(replica.stateAgeMs).toBe(0);
  });

  it('believes only heartbeats of its own feeds that the service signed', () => {
    const { replica, service } = setUp();
    const beat = service.heartbeat('global', 5);
    expect(replica.isAuthentic(beat)).toBe(true);
    expect(replica.isAuthentic({ ...beat, head: beat.head + 1 })).toBe(false);
    expect(replica.isAuthentic({ ...beat, at_ms: 6 as UnixMillis })).toBe(false);
    expect(replica.isAuthentic(new ModelService(ed25519, numbered.account(2)).heartbeat('account', 5))).toBe(
      false,
    );
  });
});
